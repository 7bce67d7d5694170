"""Verifies the audit log: the chain of seals, and the index entries of the records."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime
from hashlib import sha256

from sqlalchemy import func, select, tuple_
from sqlalchemy.sql.elements import ClauseElement

from app.db.audit.removing import FIND_NEXT_SEALS, Checkpoint, finding_checkpoints
from app.db.audit.sealing import BEFORE_ALL, ENTRY, RECORD, SEAL, Entry, Seal, chained, entries_of, seals
from app.db.moments import known_moment
from app.db.sql import (
    DatabaseKind,
    Operation,
    Statement,
    Values,
    count_parameter,
    id_parameter,
)
from app.telemetry.wording import counted

MOST_READ = 1000


def find_sealed(kind: DatabaseKind) -> ClauseElement:
    records = select(RECORD).where(RECORD.c.id > id_parameter("after"), RECORD.c.id <= id_parameter("last"))
    return records.order_by(RECORD.c.id)


def count_records(kind: DatabaseKind) -> ClauseElement:
    return select(func.count()).select_from(RECORD).where(RECORD.c.id > id_parameter("after"))


def find_seals(kind: DatabaseKind) -> ClauseElement:
    later = seals().where(SEAL.c.id > id_parameter("after"))
    return later.order_by(SEAL.c.id).limit(count_parameter("most"))


def find_entries(kind: DatabaseKind) -> ClauseElement:
    key = tuple_(ENTRY.c.caregiver_id, ENTRY.c.client_id, ENTRY.c.record_id)
    after = tuple_(id_parameter("caregiver"), id_parameter("client"), id_parameter("record"))
    entries = select(ENTRY.c.caregiver_id, ENTRY.c.client_id, ENTRY.c.record_id).where(key > after)
    entries = entries.where(ENTRY.c.record_id > id_parameter("removed"))
    return entries.order_by(*key).limit(count_parameter("most"))


def find_last_seals(kind: DatabaseKind) -> ClauseElement:
    return seals().order_by(SEAL.c.id.desc()).limit(2)


def find_newest_moment(kind: DatabaseKind) -> ClauseElement:
    return select(RECORD.c.moment).order_by(RECORD.c.id.desc()).limit(1)


FIND_LAST_SEALS = Statement(find_last_seals)
FIND_NEWEST_MOMENT = Statement(find_newest_moment)
FIND_SEALED = Statement(find_sealed)
COUNT_RECORDS = Statement(count_records)
FIND_SEALS = Statement(find_seals)
FIND_ENTRIES = Statement(find_entries)


@dataclass
class Entries:
    """The number and a hash of entries in any order, to compare two sets of entries."""

    count: int = 0
    sum: int = 0  # of their hashes

    def add(self, entries: Iterable[Entry]) -> None:
        for entry in entries:
            self.count += 1
            self.sum += int.from_bytes(sha256(b"%d %d %d" % entry).digest())


@dataclass
class Verdict:
    """The result of verifying the chain."""

    last: Seal = BEFORE_ALL
    seals: int = 0
    records: int = 0
    unsealed: int = 0
    entries: Entries = field(default_factory=Entries)  # expected entries
    faults: list[str] = field(default_factory=list)
    removed: list[Checkpoint] = field(default_factory=list)  # oldest first
    is_removal_on_record: bool = False  # of the newest checkpoint


def verifying(noted: dict[int, str]) -> Operation[Verdict]:
    """Verifies all records; `noted` has hashes of seals that were stored elsewhere.

    After a removal of old records it begins after the newest checkpoint. The checkpoint is genuine if the
    next seal follows from its hash, and authorized if a sealed record names it.
    """
    verdict = Verdict(removed=(yield from finding_checkpoints()))
    left = dict(noted)
    if verdict.removed:
        verdict.last = verdict.removed[-1].seal
        verdict.faults += faults_of_removed(left, verdict.removed)
    removed = verdict.last.last_record_id
    while found := (yield FIND_SEALS, {"after": verdict.last.id, "most": MOST_READ}):
        for seal in (Seal(*one) for one in found):
            if left.pop(seal.id, seal.hash) != seal.hash:
                verdict.faults.append(f"seal {seal.id} is not the one that was noted")
            yield from verifying_seal(verdict, seal)
    if verdict.removed and not verdict.is_removal_on_record:
        verdict.faults.append(
            f"no sealed record says that the records up to seal {removed_seal(verdict)} were removed"
        )
    verdict.faults += [f"seal {id} is not there" for id in left]
    verdict.unsealed = (yield COUNT_RECORDS, {"after": verdict.last.last_record_id})[0][0]
    there = yield from finding_entries(removed)
    if there.count != verdict.entries.count:
        entries = counted(there.count, "entry", "entries")
        verdict.faults.append(f"the table has {entries} of the records, should be {verdict.entries.count:,}")
    elif there != verdict.entries:
        verdict.faults.append("the entries lead to other records than they should")
    return verdict


def removed_seal(verdict: Verdict) -> int:
    return verdict.removed[-1].seal_id


def faults_of_removed(left: dict[int, str], removed: list[Checkpoint]) -> list[str]:
    """Removes the removed seals from `left`; only the last seal of each removal can be compared."""
    faults = []
    kept = {one.seal_id: one.hash for one in removed}
    newest = removed[-1].seal
    for id in sorted(id for id in left if id <= newest.id):
        hash = left.pop(id)
        if id not in kept:
            faults.append(
                f"seal {id} cannot be compared: it was removed with the records up to seal {newest.id}; "
                f"note {newest.id}:{newest.hash} instead"
            )
        elif kept[id] != hash:
            faults.append(f"seal {id} is not the one that was noted")
    return faults


def verifying_next(verdict: Verdict, before: datetime, most: int) -> Operation[Checkpoint | None]:
    """Verifies the next seals older than `before`; returns the checkpoint for their removal."""
    found = yield FIND_NEXT_SEALS, {"after": verdict.last.id, "most": most}
    due = None
    records, number = verdict.records, verdict.seals
    for *columns, stored in found:
        if (sealed := known_moment(stored)) >= before:
            break
        seal = Seal(*columns)
        yield from verifying_seal(verdict, seal)
        count, seal_count = verdict.records - records, verdict.seals - number
        due = Checkpoint(seal.id, seal.last_record_id, seal.hash, count, seal_count, sealed)
    return due


def verifying_tail() -> Operation[Verdict]:
    """Verifies the newest seal only: a quick check, not a proof."""
    verdict = Verdict()
    found = [Seal(*one) for one in (yield FIND_LAST_SEALS, {})]
    if found:
        removed = yield from finding_checkpoints()
        verdict.last = found[1] if len(found) > 1 else removed[-1].seal if removed else BEFORE_ALL
        yield from verifying_seal(verdict, found[0])
    return verdict


def finding_newest_moment() -> Operation[datetime | None]:
    rows = yield FIND_NEWEST_MOMENT, {}
    return known_moment(rows[0][0]) if rows else None


def verifying_seal(verdict: Verdict, seal: Seal) -> Operation[None]:
    records = yield FIND_SEALED, {"after": verdict.last.last_record_id, "last": seal.last_record_id}
    if len(records) != seal.record_count:
        covered = counted(seal.record_count, "record")
        verdict.faults.append(f"seal {seal.id} covers {covered}, but the table has {len(records):,}")
    elif chained(verdict.last.hash, records) != seal.hash:
        verdict.faults.append(f"the records of seal {seal.id} are not those that were sealed")
    verdict.last = seal
    verdict.seals += 1
    verdict.records += len(records)
    verdict.entries.add(entries_of(records))
    if verdict.removed and any(map(verdict.removed[-1].is_record_of, records)):
        verdict.is_removal_on_record = True


def after_entry(last: Entry, removed: int) -> Values:
    caregiver, client, record = last
    return {
        "caregiver": caregiver, "client": client, "record": record, "removed": removed, "most": MOST_READ,
    }  # fmt: skip


def finding_entries(removed: int) -> Operation[Entries]:
    """The entries of the records after `removed`."""
    there = Entries()
    last: Entry = (0, 0, 0)
    while found := (yield FIND_ENTRIES, after_entry(last, removed)):
        entries = [(caregiver, client, record) for caregiver, client, record in found]
        there.add(entries)
        last = entries[-1]
    return there
