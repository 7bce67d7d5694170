"""Imports a recording: people, books, sessions, assignments and answers, in one transaction."""

from collections.abc import Iterable, Iterator

import orjson

from app.db.admin.tombstones import people_in, reading_tombstones
from app.db.interchange.load import importing_numbered, reading_users
from app.db.interchange.recorded import (
    FIND_CARE_IDS,
    MOMENT,
    Fingerprint,
    Key,
    StoredRow,
    reading_imported,
    reading_rows,
    saving_imported,
)
from app.db.sql import Steps
from app.db.tables import TombstoneState
from moving_over import LegacyMigrationError
from moving_over.extraction import Gap, Gaps, Recording
from moving_over.recorded_rows import erased_rows, recorded_rows
from moving_over.remaining_work import RemainingWork, reading_remaining_work


class RecordingIncomplete(LegacyMigrationError):
    """The recording has gaps, and --partial was not given."""

    def __init__(self, gaps: Gaps) -> None:
        super().__init__("the recording is incomplete; nothing was imported (--partial imports the rest)")
        self.gaps = gaps


def importing_recording(
    recording: Recording, is_partial: bool
) -> Steps[tuple[dict[str, int], RemainingWork]]:
    if known := {row[0] for row in (yield FIND_CARE_IDS["session"], {})} & recording.facts["session"].keys():
        raise LegacyMigrationError(
            f"session {min(known)} is in the database already: was this recording imported before? "
            "Nothing was imported"
        )
    stored: dict[str, dict[int, StoredRow]] = {}
    users = yield from reading_users()
    clients = people_in((yield from reading_tombstones()), TombstoneState.ERASED)
    erased = erased_rows(recording, clients)
    for kind in ("caregiver", "client", "module", "book"):
        stored[kind] = yield from reading_rows(kind, recording.facts[kind], recording.zone)
        compare_with_stored(recording, kind, stored[kind], users, erased)
    if recording.is_incomplete and not is_partial:
        raise RecordingIncomplete(recording.gaps)
    fingerprints, older = moment_rows(recording, (yield from reading_imported()))

    def lines() -> Iterator[tuple[int, bytes]]:
        for row in recorded_rows(recording):
            if row.key in erased:
                continue
            fingerprints.append(row.fingerprint)
            if row.id not in stored.get(row.kind, ()):  # stored people, modules and books stay as they are
                for record in row.records:
                    yield row.line, orjson.dumps(record)

    counts = yield from importing_numbered(lines())
    yield from saving_imported(fingerprints, older)
    return counts, (yield from reading_remaining_work(recording))


def moment_rows(recording: Recording, base: Iterable[Key]) -> tuple[list[Fingerprint], list[Key]]:
    """The row that keeps the moment of the newest recording, and the rows that it replaces.

    Rejects a recording that began before the newest one ended: it would undo later changes.
    """
    known = [key for key in base if key[0] == MOMENT]
    if not recording.moments:
        return [], []
    first, last = (int(each.timestamp()) for each in recording.moments)
    if any(first < moment != last for _, moment in known):
        start = f"{recording.moments[0]:%Y-%m-%d %H:%M:%S} UTC"
        raise LegacyMigrationError(
            f"this recording began {start}, before the end of one that was imported already; "
            "nothing was imported. Record again"
        )
    return [(MOMENT, last, None, MOMENT)], known


def compare_with_stored(
    recording: Recording,
    kind: str,
    stored: dict[int, StoredRow],
    users: dict[Key, str | None],
    erased: set[Key],
) -> None:
    """Stored values are kept. `account link` adds a missing account, the import does not."""
    for number, row in sorted(stored.items()):
        if (kind, number) in erased:
            continue
        user = users.get((kind, number))
        here = row.members if user is None else {**row.members, "userName": user}
        for name, value in recording.facts[kind][number].items():
            if name in here and here[name] != value:
                text = f"{kind} {number}: {name} is different in the database, which keeps its value"
                recording.report(Gap.CONTRADICTION, text)
