"""Imports a recording: people, books, sessions, assignments and answers, in one transaction."""

from collections.abc import Iterator
from dataclasses import dataclass

import orjson

from app.db.admin.tombstones import people_in, reading_tombstones
from app.db.interchange.load import importing_numbered
from app.db.interchange.recorded import (
    FIND_CARE_IDS,
    Fingerprint,
    Key,
    StoredRow,
    reading_rows,
    saving_imported,
)
from app.db.sql import Steps
from app.db.tables import TombstoneState
from moving_over import LegacyMigrationError
from moving_over.extraction import Gap, Gaps, Recording
from moving_over.recorded_rows import erased_rows, recorded_rows
from moving_over.remaining_work import RemainingWork, Users, reading_remaining_work, reading_users


class RecordingIncomplete(LegacyMigrationError):
    """The recording has gaps, and --partial was not given."""

    def __init__(self, gaps: Gaps) -> None:
        super().__init__("the recording is incomplete; nothing was imported (--partial imports the rest)")
        self.gaps = gaps


@dataclass(frozen=True)
class ImportResult:
    counts: dict[str, int]
    remaining: RemainingWork


def importing_recording(recording: Recording, is_partial: bool) -> Steps[ImportResult]:
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
    if any(recording.gaps.values()) and not is_partial:
        raise RecordingIncomplete(recording.gaps)
    fingerprints: list[Fingerprint] = []

    def lines() -> Iterator[tuple[int, bytes]]:
        for row in recorded_rows(recording):
            if row.key in erased:
                continue
            fingerprints.append(row.fingerprint)
            if row.id not in stored.get(row.kind, ()):  # stored people, modules and books stay as they are
                for record in row.records:
                    yield row.line, orjson.dumps(record)

    counts = yield from importing_numbered(lines())
    yield from saving_imported(fingerprints)
    return ImportResult(counts, (yield from reading_remaining_work(recording)))


def compare_with_stored(
    recording: Recording, kind: str, stored: dict[int, StoredRow], users: Users, erased: set[Key]
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
