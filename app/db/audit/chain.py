"""The hash chain of audit records: each seal is a hash over the previous seal and the records since."""

from collections.abc import Iterable, Iterator
from datetime import datetime
from hashlib import sha256
from typing import Any, NamedTuple

import orjson
from sqlalchemy import func, insert, select

from app.db.audit.records import DRAFTS
from app.db.moments import moment_as_text
from app.db.sql import (
    DATABASE_KIND,
    Statement,
    Steps,
    count_parameter,
    id_parameter,
    moment_parameter,
    only_on_postgresql,
    statement_of_text,
    text_parameter,
)
from app.db.tables import AUDIT_RECORD, AUDIT_SEAL

MAX_SEALED = 250  # records in one transaction, which blocks other writes
SEALING_LOCK = 4_207_190_212  # an advisory lock
ABOUT = 7  # the index of the column `about` in a record

Entry = tuple[int, int, int]  # a caregiver, a client, and a record about both


class Seal(NamedTuple):
    id: int = 0
    last_record_id: int = 0
    record_count: int = 0
    hash: str = ""


NO_SEAL = Seal()  # before the first seal


# --- statements -----------------------------------------------------------------------------------

SELECT_SEALS = select(*AUDIT_SEAL.c[Seal._fields])
ADD_ENTRIES = statement_of_text(
    "INSERT INTO audit_entry (caregiver_id, client_id, record_id)"
    " SELECT value->>0, value->>1, value->>2 FROM json_each(:entries)",
    "INSERT INTO audit_entry (caregiver_id, client_id, record_id)"
    " SELECT CAST(value->>0 AS bigint), CAST(value->>1 AS bigint), CAST(value->>2 AS bigint)"
    " FROM json_array_elements(CAST(:entries AS json)) AS one (value)",
    "entries",
)
# Transactions that may add a record: each locks the table from before it assigns the id of its record until
# its end. A table lock of the sealer would delay new records and conflict with VACUUM.
FIND_WRITERS = only_on_postgresql(
    "SELECT virtualtransaction FROM pg_locks WHERE locktype = 'relation' AND granted"
    " AND relation = CAST('audit_record' AS regclass) AND mode = 'RowExclusiveLock'"
    " AND database = (SELECT oid FROM pg_database WHERE datname = current_database())"
)
# Lets one transaction at a time add a seal.
LOCK_SEALS = only_on_postgresql(f"SELECT pg_advisory_xact_lock({SEALING_LOCK})")
LIMIT_LOCK_WAIT = only_on_postgresql("SET LOCAL lock_timeout = '200ms'")
FIND_LAST_SEALS = Statement(SELECT_SEALS.order_by(AUDIT_SEAL.c.id.desc()).limit(2))
FIND_RECORDS = Statement(
    select(AUDIT_RECORD)
    .where(AUDIT_RECORD.c.id > id_parameter("after"))
    .order_by(AUDIT_RECORD.c.id)
    .limit(count_parameter("limit"))
)
FIND_NEWEST = Statement(select(func.coalesce(func.max(AUDIT_RECORD.c.id), 0)))
ADD_SEAL = Statement(
    insert(AUDIT_SEAL).values(
        last_record_id=id_parameter("last"),
        record_count=count_parameter("count"),
        moment=moment_parameter("now"),
        hash=text_parameter("hash"),
    )
)


# --- sealing --------------------------------------------------------------------------------------


def finding_last_seal() -> Steps[Seal]:
    found = yield FIND_LAST_SEALS, {}
    return Seal(*found[0]) if found else NO_SEAL


def is_unsealed() -> Steps[bool]:
    """Are there records after the last seal?"""
    last = yield from finding_last_seal()
    return bool((yield FIND_RECORDS, {"after": last.last_record_id, "limit": 1}))


def finding_newest() -> Steps[tuple[int, set[str]]]:
    """The id of the newest record, and the transactions that may still commit a record with a smaller id."""
    [[newest]] = yield FIND_NEWEST, {}
    return newest, (yield from finding_writers())


def finding_writers() -> Steps[set[str]]:
    """The transactions that may have added a record. SQLite has one writer."""
    [kind] = yield DATABASE_KIND
    return set() if kind == "sqlite" else {row[0] for row in (yield FIND_WRITERS, {})}


def sealing(newest: int, now: datetime) -> Steps[bool]:
    """Seals some of the records since the last seal, up to the newest; returns whether there may be more."""
    yield LIMIT_LOCK_WAIT, {}
    yield LOCK_SEALS, {}
    last = yield from finding_last_seal()
    found = yield FIND_RECORDS, {"after": last.last_record_id, "limit": MAX_SEALED}
    records = [record for record in found if record[0] <= newest]
    if records:
        if entries := sorted(entries_of(records)):
            yield ADD_ENTRIES, {"entries": orjson.dumps(entries).decode()}
        hash = chain_hash(last.hash, records)
        yield ADD_SEAL, {"last": records[-1][0], "count": len(records), "now": now, "hash": hash}
    return len(found) == MAX_SEALED


def entries_of(records: Iterable[Any]) -> Iterator[Entry]:
    """The index entries of the records. Records about drafts have none: caregivers must not see them."""
    for record in records:
        for caregiver, client, rows in orjson.loads(record[ABOUT]):
            if caregiver is not None and client is not None and list(rows) != [DRAFTS]:
                yield caregiver, client, record[0]


def chain_hash(previous: str, records: Iterable[Any]) -> str:
    """The hash over the previous hash and these records. Each record is preceded by its length, so that two
    different lists of records are never the same bytes."""
    digest = sha256(previous.encode())
    for id, moment, *others in records:
        line = orjson.dumps([id, moment if isinstance(moment, str) else moment_as_text(moment), *others])
        digest.update(b"%d:%b" % (len(line), line))
    return digest.hexdigest()
