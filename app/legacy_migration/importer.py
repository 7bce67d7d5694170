"""Imports a recording: people, books, sessions, assignments and answers, in one transaction."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from zoneinfo import ZoneInfo

import orjson
from sqlalchemy import select

from app.db.admin.import_rows import TABLES
from app.db.admin.imported import COLUMNS, FIND_CARE_IDS, Fingerprint, Key, Members, saving_imported
from app.db.admin.importing import importing_numbered
from app.db.admin.tombstones import people_in, reading_tombstones
from app.db.sql import Operation, Statement
from app.db.tables import TombstoneState, table_of
from app.legacy_migration import LegacyMigrationError
from app.legacy_migration.extraction import Gap, Gaps, Recording
from app.legacy_migration.recorded_calls import Call
from app.legacy_migration.recorded_rows import erased_rows, recorded_rows
from app.legacy_migration.remaining_work import RemainingWork, reading_remaining_work

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
    remaining: RemainingWork


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
    stored: StoredRows = {}
    clients = people_in((yield from reading_tombstones()), TombstoneState.ERASED)
    erased = erased_rows(recording, clients)
    for kind, statement in FIND_STORED.items():
        rows = yield statement, {}
        stored[kind] = {number: dict(zip(STORED[kind], values, strict=True)) for number, *values in rows}
        compare_with_stored(recording, kind, stored[kind], erased)
    if any(recording.gaps.values()) and not is_partial:
        raise RecordingIncomplete(recording.gaps)
    fingerprints: list[Fingerprint] = []

    def lines() -> Iterator[tuple[int, bytes]]:
        for row in recorded_rows(recording, calls, zone):
            if row.key in erased:
                continue
            fingerprints.append(row.fingerprint)
            if row.id not in stored.get(row.kind, ()):  # stored people, modules and books stay as they are
                for record in row.records:
                    yield row.line, orjson.dumps(record)

    counts = yield from importing_numbered(lines())
    yield from saving_imported(fingerprints)
    return ImportResult(counts, recording.gaps, (yield from reading_remaining_work(recording)))


def compare_with_stored(
    recording: Recording, kind: str, stored: dict[int, Members], erased: set[Key]
) -> None:
    """Stored values are kept. `account link` adds a missing account, the import does not."""
    for number in stored.keys() & recording.facts[kind].keys():
        if (kind, number) in erased:
            continue
        for name, value in recording.facts[kind][number].items():
            found = stored[number].get(name)
            if found != value and not (name == "userName" and found is None):
                text = f"{kind} {number}: {name} is different in the database, which keeps its value"
                recording.report(Gap.CONTRADICTION, text)
