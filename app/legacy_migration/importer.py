"""Imports a recording: people, books, sessions, assignments and answers, in one transaction."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from zoneinfo import ZoneInfo

import orjson
from sqlalchemy import select

from app.care.context import Role
from app.db.admin.import_rows import TABLES
from app.db.admin.imported import COLUMNS, FIND_CARE_IDS, Fingerprint, Members, saving_imported
from app.db.admin.importing import importing_numbered
from app.db.sql import Operation, Statement
from app.db.tables import table_of
from app.legacy_migration import LegacyMigrationError
from app.legacy_migration.extraction import Gap, Gaps, Recording
from app.legacy_migration.recorded_calls import Call
from app.legacy_migration.recorded_rows import NEEDED, recorded_rows

StoredRows = dict[str, dict[int, Members]]  # by kind and id


class RecordingIncomplete(LegacyMigrationError):
    """The recording has gaps, and --partial was not given."""

    def __init__(self, gaps: Gaps) -> None:
        super().__init__("the recording is incomplete; nothing was imported (--partial imports the rest)")
        self.gaps = gaps


@dataclass(frozen=True)
class ImportResult:
    counts: dict[str, int]
    gaps: Gaps
    people_without_account: list[tuple[Role, int]]
    users_without_person: list[tuple[Role, str]]
    books_without_questions: list[int]


USER_NAME = {"userName": "user_name"}
STORED = {
    "caregiver": COLUMNS["caregiver"] | USER_NAME,
    "client": COLUMNS["client"] | USER_NAME,
    "module": COLUMNS["module"],
    "book": COLUMNS["book"],
}
FIND_STORED = {
    kind: Statement(select(*table_of(TABLES[kind]).c["id", *columns.values()]))
    for kind, columns in STORED.items()
}


def importing_recording(
    recording: Recording, calls: Callable[[], Iterable[Call]], zone: ZoneInfo, is_partial: bool
) -> Operation[ImportResult]:
    """`calls` reads the recording from its beginning again, so that answers are not held in memory."""
    if known := {row[0] for row in (yield FIND_CARE_IDS["session"], {})} & recording.facts["session"].keys():
        raise LegacyMigrationError(
            f"session {min(known)} is in the database already: was this recording imported before? "
            "Nothing was imported"
        )
    for role in Role:
        for number, user in recording.user_names(role).items():
            recording.facts[role.lower()][number]["userName"] = user
    stored: StoredRows = {}
    for kind, statement in FIND_STORED.items():
        rows = yield statement, {}
        stored[kind] = {number: dict(zip(STORED[kind], values, strict=True)) for number, *values in rows}
        compare_with_stored(recording, kind, stored[kind])
    if any(recording.gaps.values()) and not is_partial:
        raise RecordingIncomplete(recording.gaps)
    fingerprints: list[Fingerprint] = []

    def lines() -> Iterator[tuple[int, bytes]]:
        for row in recorded_rows(recording, calls, zone):
            fingerprints.append(row.fingerprint)
            if row.id not in stored.get(row.kind, ()):  # stored people, modules and books stay as they are
                for record in row.records:
                    yield row.line, orjson.dumps(record)

    counts = yield from importing_numbered(lines())
    yield from saving_imported(fingerprints)
    return ImportResult(
        counts,
        recording.gaps,
        people_without_account(recording, stored),
        users_without_person(recording, stored),
        sorted(recording.facts["book"].keys() - stored["book"].keys()),
    )


def compare_with_stored(recording: Recording, kind: str, stored: dict[int, Members]) -> None:
    """Stored values are kept. `account link` adds a missing account, the import does not."""
    for number in stored.keys() & recording.facts[kind].keys():
        for name, value in recording.facts[kind][number].items():
            found = stored[number].get(name)
            if found != value and not (name == "userName" and found is None):
                text = f"{kind} {number}: {name} is different in the database, which keeps its value"
                recording.report(Gap.CONTRADICTION, text)


def people_without_account(recording: Recording, stored: StoredRows) -> list[tuple[Role, int]]:
    found = []
    for role in Role:
        kind = role.lower()
        for number, facts in sorted(recording.facts[kind].items()):
            exists = number in stored[kind] or NEEDED[kind] in facts
            if exists and stored[kind].get(number, facts).get("userName") is None:
                found.append((role, number))
    return found


def users_without_person(recording: Recording, stored: StoredRows) -> list[tuple[Role, str]]:
    stored_users = {role: {row["userName"] for row in stored[role.lower()].values()} for role in Role}
    return [
        (role, user)
        for role in Role
        for user, ids in recording.users[role].items()
        if len(ids) != 1 and user not in stored_users[role]
    ]
