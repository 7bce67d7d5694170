"""The chain over the records: sealed behind them, verified from its beginning."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from datetime import datetime
from hashlib import sha256
from typing import Any, NamedTuple

import orjson
from sqlalchemy import Select, Text, bindparam, func, insert, literal, select, text, tuple_
from sqlalchemy.sql.elements import ClauseElement

from app.db.audit.records import DRAFTS
from app.db.entities import table_of
from app.db.statements import (
    DatabaseKind,
    Operation,
    Statement,
    Values,
    count_parameter,
    id_parameter,
    moment_parameter,
    text_parameter,
)
from app.db.tables import AuditEntry, AuditRecord, AuditSeal, moment_as_text

MOST_SEALED = 250  # records in one transaction: nobody else writes meanwhile
MOST_READ = 1000
NO_HASH = ""  # before the first seal

ABOUT = 7  # where a record holds it

Entry = tuple[int, int, int]  # a caregiver, a client, and a record about both

RECORD, SEAL, ENTRY = table_of(AuditRecord), table_of(AuditSeal), table_of(AuditEntry)


# --- statements -----------------------------------------------------------------------------------


def hold_records(kind: DatabaseKind) -> ClauseElement:
    """Until the end of the transaction nobody adds a record. Without that PostgreSQL may still be about to
    commit one with a smaller number, which the chain would pass over. SQLite has one writer anyway."""
    if kind == "sqlite":
        return select(literal(1))
    return text("LOCK TABLE audit_record IN SHARE ROW EXCLUSIVE MODE")


def wait_shortly(kind: DatabaseKind) -> ClauseElement:
    """Whoever records queues up behind the lock, so that nobody must wait for it long."""
    return select(literal(1)) if kind == "sqlite" else text("SET LOCAL lock_timeout = '200ms'")


def seals() -> Select[Any]:
    return select(SEAL.c.id, SEAL.c.last_record_id, SEAL.c.record_count, SEAL.c.hash)


def find_last_seal(kind: DatabaseKind) -> ClauseElement:
    return seals().order_by(SEAL.c.id.desc()).limit(1)


def find_records(kind: DatabaseKind) -> ClauseElement:
    records = select(RECORD).where(RECORD.c.id > id_parameter("after"))
    return records.order_by(RECORD.c.id).limit(count_parameter("most"))


def add_seal(kind: DatabaseKind) -> ClauseElement:
    return insert(SEAL).values(
        last_record_id=id_parameter("last"),
        record_count=count_parameter("count"),
        moment=moment_parameter("now"),
        hash=text_parameter("hash"),
    )


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
    return entries.order_by(*key).limit(count_parameter("most"))


def add_entries(kind: DatabaseKind) -> ClauseElement:
    return text(ADD[kind]).bindparams(bindparam("entries", type_=Text))


ADD: dict[DatabaseKind, str] = {
    "sqlite": "INSERT INTO audit_entry (caregiver_id, client_id, record_id)"
    " SELECT value->>0, value->>1, value->>2 FROM json_each(:entries)",
    "postgresql": "INSERT INTO audit_entry (caregiver_id, client_id, record_id)"
    " SELECT CAST(value->>0 AS bigint), CAST(value->>1 AS bigint), CAST(value->>2 AS bigint)"
    " FROM json_array_elements(CAST(:entries AS json)) AS one (value)",
}
ADD_ENTRIES = Statement(add_entries)
HOLD_RECORDS = Statement(hold_records)
WAIT_SHORTLY = Statement(wait_shortly)
FIND_LAST_SEAL = Statement(find_last_seal)
FIND_RECORDS = Statement(find_records)
ADD_SEAL = Statement(add_seal)
FIND_SEALED = Statement(find_sealed)
COUNT_RECORDS = Statement(count_records)
FIND_SEALS = Statement(find_seals)
FIND_ENTRIES = Statement(find_entries)


# --- sealing --------------------------------------------------------------------------------------


class Seal(NamedTuple):
    id: int = 0
    last_record_id: int = 0
    record_count: int = 0
    hash: str = NO_HASH


BEFORE_ALL = Seal()


def is_unsealed() -> Operation[bool]:
    last = yield FIND_LAST_SEAL, {}
    after = last[0][1] if last else BEFORE_ALL.last_record_id
    return bool((yield FIND_RECORDS, {"after": after, "most": 1}))


def sealing(now: datetime) -> Operation[bool]:
    """Seals some of the records that came since the last seal. Are there more?"""
    yield WAIT_SHORTLY, {}
    yield HOLD_RECORDS, {}
    found = yield FIND_LAST_SEAL, {}
    last = Seal(*found[0]) if found else BEFORE_ALL
    records = yield FIND_RECORDS, {"after": last.last_record_id, "most": MOST_SEALED}
    if records:
        entries = sorted(entries_of(records))
        if entries:
            yield ADD_ENTRIES, {"entries": orjson.dumps(entries).decode()}
        hash = chained(last.hash, records)
        yield ADD_SEAL, {"last": records[-1][0], "count": len(records), "now": now, "hash": hash}
    return len(records) == MOST_SEALED


def entries_of(records: Iterable[Any]) -> Iterator[Entry]:
    """Whom a record leads to; of drafts no caregiver learns, not even that there are any."""
    for record in records:
        for caregiver, client, rows in orjson.loads(record[ABOUT]):
            if caregiver is not None and client is not None and list(rows) != [DRAFTS]:
                yield caregiver, client, record[0]


def chained(before: str, records: Iterable[Any]) -> str:
    """The hash over the one before and these records. The length of each stands before it, so that no two
    series of records are the same bytes."""
    digest = sha256(before.encode())
    for id, moment, *others in records:
        said = orjson.dumps([id, moment if isinstance(moment, str) else moment_as_text(moment), *others])
        digest.update(b"%d:%b" % (len(said), said))
    return digest.hexdigest()


# --- verifying ------------------------------------------------------------------------------------


@dataclass
class Entries:
    """Some entries, whatever their order: two of these are equal if the entries are."""

    count: int = 0
    sum: int = 0  # of their hashes

    def add(self, entries: Iterable[Entry]) -> None:
        for entry in entries:
            self.count += 1
            self.sum += int.from_bytes(sha256(b"%d %d %d" % entry).digest())


@dataclass
class Verdict:
    """What verifying the chain found."""

    last: Seal = BEFORE_ALL
    seals: int = 0
    records: int = 0
    unsealed: int = 0
    entries: Entries = field(default_factory=Entries)  # that should be there
    faults: list[str] = field(default_factory=list)


def verifying(noted: dict[int, str]) -> Operation[Verdict]:
    """From the first record to the last; `noted` are hashes of seals that were kept elsewhere."""
    verdict = Verdict()
    left = dict(noted)
    while seals := (yield FIND_SEALS, {"after": verdict.last.id, "most": MOST_READ}):
        for seal in (Seal(*one) for one in seals):
            if left.pop(seal.id, seal.hash) != seal.hash:
                verdict.faults.append(f"seal {seal.id} is not the one that was noted")
            yield from verifying_seal(verdict, seal)
    verdict.faults += [f"seal {id} is not there" for id in left]
    verdict.unsealed = (yield COUNT_RECORDS, {"after": verdict.last.last_record_id})[0][0]
    there = yield from all_entries()
    if there.count != verdict.entries.count:
        verdict.faults.append(f"{there.count} entries lead to the records, should be {verdict.entries.count}")
    elif there != verdict.entries:
        verdict.faults.append("the entries lead to other records than they should")
    return verdict


def after_entry(last: Entry) -> Values:
    caregiver, client, record = last
    return {"caregiver": caregiver, "client": client, "record": record, "most": MOST_READ}


def all_entries() -> Operation[Entries]:
    there = Entries()
    last: Entry = (0, 0, 0)
    while found := (yield FIND_ENTRIES, after_entry(last)):
        entries = [(caregiver, client, record) for caregiver, client, record in found]
        there.add(entries)
        last = entries[-1]
    return there


def verifying_seal(verdict: Verdict, seal: Seal) -> Operation[None]:
    records = yield FIND_SEALED, {"after": verdict.last.last_record_id, "last": seal.last_record_id}
    if len(records) != seal.record_count:
        verdict.faults.append(f"seal {seal.id} is over {seal.record_count} records, there are {len(records)}")
    elif chained(verdict.last.hash, records) != seal.hash:
        verdict.faults.append(f"the records of seal {seal.id} are not those that were sealed")
    verdict.last = seal
    verdict.seals += 1
    verdict.records += len(records)
    verdict.entries.add(entries_of(records))
