"""Compares a recording with the database: counts, ids missing on either side, members that differ."""

from collections import Counter
from dataclasses import dataclass, field
from zoneinfo import ZoneInfo

from app.db.admin.tombstones import people_in, reading_tombstones
from app.db.interchange.load import reading_users
from app.db.interchange.recorded import (
    ERASED,
    FIND_CARE_IDS,
    REMOVED,
    Key,
    Members,
    different_members,
    reading_imported,
    reading_rows,
)
from app.db.session_counters import Difference, differences
from app.db.sql import Steps
from app.db.tables import TombstoneState
from moving_over.extraction import Recording
from moving_over.recorded_rows import BATCH, erased_rows, in_batches, recorded_rows
from moving_over.remaining_work import RemainingWork, reading_remaining_work

Counts = Counter[tuple[int, str]]  # by caregiver and kind


@dataclass
class Reconciliation:
    recorded: Counter[str] = field(default_factory=Counter)  # rows by kind
    stored: Counter[str] = field(default_factory=Counter)
    recorded_of_caregiver: Counts = field(default_factory=Counter)
    stored_of_caregiver: Counts = field(default_factory=Counter)
    missing_here: list[Key] = field(default_factory=list)
    only_here: list[Key] = field(default_factory=list)
    different: dict[Key, list[str]] = field(default_factory=dict)  # the names of the members
    counters: list[Difference] = field(default_factory=list)  # what `verify` finds
    aside: list[Key] = field(default_factory=list)  # invalid rows of the recording, which are not compared
    erased: int = 0  # rows of erased clients, which are not compared
    remaining: RemainingWork = field(init=False)

    @property
    def is_equal(self) -> bool:
        return not (self.missing_here or self.only_here or self.different or self.counters or self.aside)


def reconciling(recording: Recording) -> Steps[Reconciliation]:
    found = Reconciliation(aside=sorted(recording.aside), counters=(yield from differences()))
    clients = people_in((yield from reading_tombstones()), TombstoneState.ERASED)
    erased = erased_rows(recording, clients)
    imported = yield from reading_imported()
    erased |= {key for key, fingerprint in imported.items() if fingerprint == ERASED}
    removed = {key for key, fingerprint in imported.items() if fingerprint.startswith(REMOVED)}
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
            count(kind, row.members, caregivers, found.recorded, found.recorded_of_caregiver)
            here = stored.get(row.id)
            if here is None or here.is_withdrawn:
                found.missing_here.append(row.key)
                continue
            count(kind, here.members, caregivers, found.stored, found.stored_of_caregiver)
            different = different_members(row.members, here.members)
            user = row.records[0].get("userName")
            if user is not None and user != users[row.key]:
                different.append("userName")
            if different:
                found.different[row.key] = different
    for kind in FIND_CARE_IDS:
        yield from finding_more(
            found, kind, {*seen, *erased, *removed, *recording.aside}, caregivers, recording.zone
        )
    found.remaining = yield from reading_remaining_work(recording)
    return found


def finding_more(
    found: Reconciliation, kind: str, known: set[Key], caregivers: dict[int, int], zone: ZoneInfo
) -> Steps[None]:
    """Rows of the database that the recording lacks. It never has people without sessions or unused books."""
    more = sorted(row[0] for row in (yield FIND_CARE_IDS[kind], {}) if (kind, row[0]) not in known)
    found.only_here += [(kind, number) for number in more]
    for start in range(0, len(more), BATCH):
        stored = yield from reading_rows(kind, more[start : start + BATCH], zone)
        for number, row in stored.items():
            if kind == "session":
                caregivers[number] = row.members["caregiverId"]
            count(kind, row.members, caregivers, found.stored, found.stored_of_caregiver)


def count(
    kind: str, members: Members, caregivers: dict[int, int], by_kind: Counter[str], by_caregiver: Counts
) -> None:
    kinds = [kind, "answer_set"] if kind == "assignment" and members["answers"] is not None else [kind]
    by_kind.update(kinds)
    if kind == "session":
        by_caregiver[members["caregiverId"], kind] += 1
    elif kind == "assignment":
        by_caregiver.update((caregivers[members["sessionId"]], each) for each in kinds)
