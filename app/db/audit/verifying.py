"""Verifies the audit log: the chain of seals, and the index entries of the records."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime
from hashlib import sha256

from sqlalchemy import func, select, tuple_

from app.db.audit.chain import FIND_LAST_SEALS, NO_SEAL, SELECT_SEALS, Entry, Seal, chain_hash, entries_of
from app.db.audit.removing import FIND_NEXT_SEALS, Checkpoint, finding_checkpoints
from app.db.moments import known_moment
from app.db.sql import Statement, Steps, count_parameter, id_parameter
from app.db.tables import AUDIT_ENTRY, AUDIT_RECORD, AUDIT_SEAL
from app.telemetry.wording import counted

PAGE_SIZE = 1000  # seals or entries in one read

ENTRY_KEY = (AUDIT_ENTRY.c.caregiver_id, AUDIT_ENTRY.c.client_id, AUDIT_ENTRY.c.record_id)
LAST_ENTRY = (id_parameter("caregiver"), id_parameter("client"), id_parameter("record"))

FIND_NEWEST_MOMENT = Statement(select(AUDIT_RECORD.c.moment).order_by(AUDIT_RECORD.c.id.desc()).limit(1))
COUNT_RECORDS = Statement(
    select(func.count()).select_from(AUDIT_RECORD).where(AUDIT_RECORD.c.id > id_parameter("after"))
)
FIND_RECORDS_OF_SEAL = Statement(
    select(AUDIT_RECORD)
    .where(AUDIT_RECORD.c.id > id_parameter("after"), AUDIT_RECORD.c.id <= id_parameter("last"))
    .order_by(AUDIT_RECORD.c.id)
)
FIND_SEALS = Statement(
    SELECT_SEALS.where(AUDIT_SEAL.c.id > id_parameter("after"))
    .order_by(AUDIT_SEAL.c.id)
    .limit(count_parameter("limit"))
)
FIND_ENTRIES = Statement(
    select(*ENTRY_KEY)
    .where(tuple_(*ENTRY_KEY) > tuple_(*LAST_ENTRY), AUDIT_ENTRY.c.record_id > id_parameter("removed"))
    .order_by(*ENTRY_KEY)
    .limit(count_parameter("limit"))
)


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

    last: Seal = NO_SEAL
    seals: int = 0
    records: int = 0
    unsealed: int = 0
    entries: Entries = field(default_factory=Entries)  # expected entries
    faults: list[str] = field(default_factory=list)
    removed: list[Checkpoint] = field(default_factory=list)  # oldest first
    is_removal_on_record: bool = False  # of the newest checkpoint


def verifying(noted: dict[int, str]) -> Steps[Verdict]:
    """Verifies all records; `noted` has hashes of seals that were stored elsewhere.

    After a removal of old records it begins after the newest checkpoint. The checkpoint is genuine if the
    next seal follows from its hash, and authorized if a sealed record names it.
    """
    verdict = Verdict(removed=(yield from finding_checkpoints()))
    remaining = dict(noted)
    if verdict.removed:
        verdict.last = verdict.removed[-1].seal
        verdict.faults += faults_of_removed_seals(remaining, verdict.removed)
    first_record = verdict.last.last_record_id
    while found := (yield FIND_SEALS, {"after": verdict.last.id, "limit": PAGE_SIZE}):
        for seal in (Seal(*row) for row in found):
            if remaining.pop(seal.id, seal.hash) != seal.hash:
                verdict.faults.append(f"seal {seal.id} differs from the noted hash")
            yield from verifying_seal(verdict, seal)
    if verdict.removed and not verdict.is_removal_on_record:
        newest = verdict.removed[-1].seal_id
        verdict.faults.append(f"no sealed record shows that the records up to seal {newest} were removed")
    verdict.faults += [f"seal {id} is missing" for id in remaining]
    verdict.unsealed = (yield COUNT_RECORDS, {"after": verdict.last.last_record_id})[0][0]
    entries = yield from reading_entries(first_record)
    if entries.count != verdict.entries.count:
        stored = counted(entries.count, "entry", "entries")
        verdict.faults.append(f"the index of the records has {stored}, should be {verdict.entries.count:,}")
    elif entries != verdict.entries:
        verdict.faults.append("the index of the records has entries that do not match the records")
    return verdict


def faults_of_removed_seals(noted: dict[int, str], removed: list[Checkpoint]) -> list[str]:
    """Deletes the removed seals from `noted`. Only the last seal of each removal can be compared."""
    faults = []
    known = {checkpoint.seal_id: checkpoint.hash for checkpoint in removed}
    newest = removed[-1]
    for id in sorted(id for id in noted if id <= newest.seal_id):
        hash = noted.pop(id)
        if id not in known:
            faults.append(
                f"seal {id} cannot be compared: it was removed with the records up to seal {newest.seal_id}; "
                f"note {newest.seal_id}:{newest.hash} instead"
            )
        elif known[id] != hash:
            faults.append(f"seal {id} differs from the noted hash")
    return faults


def verifying_next(verdict: Verdict, before: datetime, most: int) -> Steps[Checkpoint | None]:
    """Verifies the next seals older than `before`; returns the checkpoint for their removal."""
    checkpoint = None
    records, seals = verdict.records, verdict.seals
    for *columns, moment in (yield FIND_NEXT_SEALS, {"after": verdict.last.id, "limit": most}):
        seal, seal_date = Seal(*columns), known_moment(moment)
        if seal_date >= before:
            break
        yield from verifying_seal(verdict, seal)
        counts = verdict.records - records, verdict.seals - seals
        checkpoint = Checkpoint(seal.id, seal.last_record_id, seal.hash, *counts, seal_date)
    return checkpoint


def verifying_tail() -> Steps[Verdict]:
    """Verifies the newest seal only: a quick check, not a proof."""
    verdict = Verdict()
    found = [Seal(*row) for row in (yield FIND_LAST_SEALS, {})]
    if found:
        removed = yield from finding_checkpoints()
        verdict.last = found[1] if len(found) > 1 else removed[-1].seal if removed else NO_SEAL
        yield from verifying_seal(verdict, found[0])
    return verdict


def finding_newest_moment() -> Steps[datetime | None]:
    rows = yield FIND_NEWEST_MOMENT, {}
    return known_moment(rows[0][0]) if rows else None


def verifying_seal(verdict: Verdict, seal: Seal) -> Steps[None]:
    records = yield FIND_RECORDS_OF_SEAL, {"after": verdict.last.last_record_id, "last": seal.last_record_id}
    if len(records) != seal.record_count:
        covered = counted(seal.record_count, "record")
        verdict.faults.append(f"seal {seal.id} covers {covered}, but the table has {len(records):,}")
    elif chain_hash(verdict.last.hash, records) != seal.hash:
        verdict.faults.append(f"the records of seal {seal.id} were changed after it was made")
    verdict.last = seal
    verdict.seals += 1
    verdict.records += len(records)
    verdict.entries.add(entries_of(records))
    if verdict.removed and any(map(verdict.removed[-1].is_record_of, records)):
        verdict.is_removal_on_record = True


def reading_entries(after_record: int) -> Steps[Entries]:
    """The entries of the records with a higher id than `after_record`."""
    entries = Entries()
    last = {"caregiver": 0, "client": 0, "record": 0}
    while found := (yield FIND_ENTRIES, {**last, "removed": after_record, "limit": PAGE_SIZE}):
        entries.add((caregiver, client, record) for caregiver, client, record in found)
        last = dict(zip(last, found[-1], strict=True))
    return entries
