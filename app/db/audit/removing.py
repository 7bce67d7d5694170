"""Removes the oldest audit records. A checkpoint stores the seal up to which they were removed and has an
audit record itself (docs/decisions/0026); verifying.py starts after it."""

from datetime import datetime
from typing import Any, NamedTuple

import orjson
from sqlalchemy import Select, delete, func, insert, select
from sqlalchemy import Table as SqlTable

from app.db.audit.chain import LIMIT_LOCK_WAIT, LOCK_SEALS, MAX_SEALED, SELECT_SEALS, Seal, entries_of
from app.db.audit.records import About, as_text, operator_record, recording
from app.db.moments import known_moment
from app.db.sql import Statement, Steps, count_parameter, id_parameter, parameters_of, statement_of_text
from app.db.tables import AUDIT_CHECKPOINT, AUDIT_RECORD, AUDIT_SEAL, AuditActor

OPERATION = "retention audit"  # the operation in the audit record of the removal


class Checkpoint(NamedTuple):
    """The last removed seal, and the number of records and seals that this removal removes."""

    seal_id: int
    last_record_id: int
    hash: str
    record_count: int
    seal_count: int
    seal_date: datetime

    @property
    def seal(self) -> Seal:
        return Seal(self.seal_id, self.last_record_id, self.record_count, self.hash)

    @property
    def about(self) -> About:
        """The content of its audit record."""
        return [(None, None, {"seals": [self.seal_id], "records": [self.last_record_id]})]

    def is_record_of(self, record: Any) -> bool:
        _, _, actor, _, _, operation, _, about, _ = record
        is_removal = operation == OPERATION and actor == AuditActor.OPERATOR
        return bool(is_removal and about == as_text(self.about))


def find_oldest(rows: Select[Any], table: SqlTable) -> Statement:
    oldest = rows.where(table.c.id <= id_parameter("last")).order_by(table.c.id)
    return Statement(oldest.limit(count_parameter("limit")))


# Without the newest seal: the next seal needs its hash, and SQLite continues the ids of its records.
FIND_NEXT_SEALS = Statement(
    SELECT_SEALS.add_columns(AUDIT_SEAL.c.moment)
    .where(
        AUDIT_SEAL.c.id > id_parameter("after"),
        AUDIT_SEAL.c.id < select(func.max(AUDIT_SEAL.c.id)).scalar_subquery(),
    )
    .order_by(AUDIT_SEAL.c.id)
    .limit(count_parameter("limit"))
)
FIND_CHECKPOINTS = Statement(
    select(*AUDIT_CHECKPOINT.c[Checkpoint._fields]).order_by(AUDIT_CHECKPOINT.c.seal_id)
)
ADD_CHECKPOINT = Statement(
    insert(AUDIT_CHECKPOINT).values(parameters_of(AUDIT_CHECKPOINT, (*Checkpoint._fields, "moment")))
)
FIND_OLDEST_RECORDS = find_oldest(select(AUDIT_RECORD), AUDIT_RECORD)
FIND_OLDEST_SEALS = find_oldest(SELECT_SEALS, AUDIT_SEAL)
REMOVE_ENTRIES = statement_of_text(
    "DELETE FROM audit_entry WHERE (caregiver_id, client_id, record_id) IN"
    " (SELECT value->>0, value->>1, value->>2 FROM json_each(:entries))",
    "DELETE FROM audit_entry WHERE (caregiver_id, client_id, record_id) IN"
    " (SELECT CAST(value->>0 AS bigint), CAST(value->>1 AS bigint), CAST(value->>2 AS bigint)"
    " FROM json_array_elements(CAST(:entries AS json)) AS one (value))",
    "entries",
)
REMOVE_RECORDS = Statement(delete(AUDIT_RECORD).where(AUDIT_RECORD.c.id <= id_parameter("last")))
REMOVE_SEALS = Statement(delete(AUDIT_SEAL).where(AUDIT_SEAL.c.id <= id_parameter("last")))


def finding_checkpoints() -> Steps[list[Checkpoint]]:
    """Oldest first."""
    rows = yield FIND_CHECKPOINTS, {}
    return [Checkpoint._make((*columns, known_moment(seal_date))) for *columns, seal_date in rows]


def adding_checkpoint(due: Checkpoint, now: datetime) -> Steps[bool]:
    """Stores the checkpoint and its audit record; False if another process has stored it or a later one."""
    yield LIMIT_LOCK_WAIT, {}
    yield LOCK_SEALS, {}
    found = yield from finding_checkpoints()
    if found and found[-1].seal_id >= due.seal_id:
        return False
    yield from recording([operator_record(now, OPERATION, due.about)])
    yield ADD_CHECKPOINT, {**due._asdict(), "moment": now}
    return True


def finding_leftovers() -> Steps[bool]:
    """Are there records up to the newest checkpoint, as after an interrupted removal? Seals are removed with
    their last records."""
    found = yield from finding_checkpoints()
    return bool(found and (yield FIND_OLDEST_RECORDS, {"last": found[-1].last_record_id, "limit": 1}))


def removing_records() -> Steps[int]:
    """Removes some records up to the newest checkpoint, with entries and seals; returns their number."""
    found = yield from finding_checkpoints()
    if not found:
        return 0
    checkpoint = found[-1]
    records = yield FIND_OLDEST_RECORDS, {"last": checkpoint.last_record_id, "limit": MAX_SEALED}
    last = records[-1][0] if len(records) == MAX_SEALED else checkpoint.last_record_id
    if entries := sorted(entries_of(records)):
        yield REMOVE_ENTRIES, {"entries": orjson.dumps(entries).decode()}
    yield REMOVE_RECORDS, {"last": last}
    seals = yield FIND_OLDEST_SEALS, {"last": checkpoint.seal_id, "limit": MAX_SEALED + 1}
    if done := [seal_id for seal_id, last_record, *_ in seals if last_record <= last]:
        yield REMOVE_SEALS, {"last": done[-1]}
    return len(records)
