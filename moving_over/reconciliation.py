"""Compares a recording with the database: counts, ids missing on either side, members that differ."""

from collections import Counter
from dataclasses import dataclass, field
from zoneinfo import ZoneInfo

from app.db.interchange.load import reading_users
from app.db.interchange.recorded import (
    BATCH,
    FIND_CARE_IDS,
    FOREIGN,
    KEPT,
    REMOVED,
    Key,
    Members,
    StoredRow,
    different_members,
    in_batches,
    reading_imported,
    reading_rows,
)
from app.db.session_counters import Difference, differences
from app.db.sql import Steps
from moving_over.extraction import Recording
from moving_over.recorded_rows import RemainingWork, reading_erased, reading_remaining_work, recorded_rows

Counts = Counter[tuple[int, str]]  # by caregiver and kind; 0: of all


@dataclass
class Reconciliation:
    recorded: Counts = field(default_factory=Counter)
    stored: Counts = field(default_factory=Counter)
    missing_here: list[Key] = field(default_factory=list)
    only_here: list[Key] = field(default_factory=list)
    different: dict[Key, list[str]] = field(default_factory=dict)  # the names of the members
    counters: list[Difference] = field(default_factory=list)  # what `verify` finds
    aside: list[Key] = field(default_factory=list)  # invalid rows of the recording, which are not compared
    erased: int = 0  # rows of erased clients, which are not compared
    kept: int = 0  # rows that differ by a decision of the operator
    imported: dict[Key, str] = field(default_factory=dict)  # fingerprints
    remaining: RemainingWork = field(init=False)

    @property
    def total(self) -> int:
        listed = (self.missing_here, self.only_here, self.different, self.aside, self.counters)
        return sum(map(len, listed))


def reconciling(recording: Recording) -> Steps[Reconciliation]:
    found = Reconciliation(aside=sorted(recording.aside), counters=(yield from differences()))
    imported = found.imported = yield from reading_imported()
    erased = yield from reading_erased(recording, imported)
    left_out = {key for key, found in imported.items() if found.startswith(REMOVED) or found == KEPT}
    caregivers = {number: row["caregiverId"] for number, row in recording.facts["session"].items()}
    seen: set[Key] = set()
    users = yield from reading_users()
    for kind, batch in in_batches(recorded_rows(recording)):
        stored = yield from reading_rows(kind, [row.id for row in batch], recording.zone)
        for row in batch:
            seen.add(row.key)
            if row.key in erased:
                found.erased += 1
                continue
            if imported.get(row.key) in (KEPT + row.fingerprint[3], FOREIGN + row.fingerprint[3]):
                found.kept += 1
                continue
            caregiver = row.members.get("caregiverId") or caregivers.get(row.members.get("sessionId", 0))
            count(kind, row.members, caregiver, found.recorded)
            here = stored.get(row.id)
            if here is None or here.is_withdrawn:
                found.missing_here.append(row.key)
                continue
            count(kind, here.members, caregiver_of(here), found.stored)
            different = different_members(row.members, here.members)
            user = row.records[0].get("userName")
            if user is not None and user != users[row.key]:
                different.append("userName")
            if different:
                found.different[row.key] = different
    for kind in FIND_CARE_IDS:
        yield from finding_more(found, kind, {*seen, *erased, *left_out, *recording.aside}, recording.zone)
    found.remaining = yield from reading_remaining_work(recording)
    return found


def finding_more(found: Reconciliation, kind: str, known: set[Key], zone: ZoneInfo) -> Steps[None]:
    """Rows of the database that the recording lacks. It never has people without sessions or unused books."""
    more = sorted(row[0] for row in (yield FIND_CARE_IDS[kind], {}) if (kind, row[0]) not in known)
    found.only_here += [(kind, number) for number in more]
    for start in range(0, len(more), BATCH):
        stored = yield from reading_rows(kind, more[start : start + BATCH], zone)
        for row in stored.values():
            count(kind, row.members, caregiver_of(row), found.stored)


def caregiver_of(row: StoredRow) -> int | None:
    return row.caregiver or row.members.get("caregiverId")


def count(kind: str, members: Members, caregiver: int | None, counts: Counts) -> None:
    kinds = [kind, "answer_set"] if kind == "assignment" and members["answers"] is not None else [kind]
    counts.update((0, each) for each in kinds)
    if caregiver is not None:
        counts.update((caregiver, each) for each in kinds)
