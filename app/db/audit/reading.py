"""Reads the audit log: one relationship for its caregiver, all records for the operator."""

from datetime import datetime
from typing import Any, NamedTuple

import orjson
from sqlalchemy import and_, func, select

from app.db.audit.chain import FIND_RECORDS
from app.db.audit.records import About
from app.db.moments import known_moment
from app.db.reader.levels import page_of
from app.db.reader.reads import Page
from app.db.reader.selection import PageRequest
from app.db.sql import Statement, Steps, Values, count_parameter, id_parameter
from app.db.tables import AUDIT_ENTRY, AUDIT_RECORD, AuditActor, AuditRecord, Contract, Table


class StoredRecord(NamedTuple):
    """A stored audit record."""

    id: int
    moment: datetime
    actor: AuditActor
    actor_id: int | None
    contract: Contract
    operation: str
    outcome: str
    about: About
    request_id: str

    @property
    def table(self) -> Table:
        return AuditRecord

    def ids_of(self, kind: str) -> list[int]:
        """The rows of a kind that the record names."""
        return [id for *_, rows in self.about for id in rows.get(kind, ())]


def stored_record_of(row: Any) -> StoredRecord:
    id, moment, actor, actor_id, contract, operation, outcome, about, request_id = row
    read = known_moment(moment), AuditActor(actor), actor_id, Contract(contract)
    return StoredRecord(id, *read, operation, outcome, orjson.loads(about), request_id)


# --- for a caregiver ------------------------------------------------------------------------------

IS_OF_RELATIONSHIP = and_(
    AUDIT_ENTRY.c.caregiver_id == id_parameter("caregiver"), AUDIT_ENTRY.c.client_id == id_parameter("client")
)
FIND_EVENTS = Statement(
    select(AUDIT_RECORD)
    .join(AUDIT_ENTRY, AUDIT_ENTRY.c.record_id == AUDIT_RECORD.c.id)
    .where(IS_OF_RELATIONSHIP, AUDIT_ENTRY.c.record_id < id_parameter("before"))
    .order_by(AUDIT_ENTRY.c.record_id.desc())
    .limit(count_parameter("limit"))
)
COUNT_EVENTS = Statement(select(func.count()).select_from(AUDIT_ENTRY).where(IS_OF_RELATIONSHIP))


def listing_events(caregiver: int, client: int, request: PageRequest) -> Steps[Page]:
    values: Values = {"caregiver": caregiver, "client": client}
    total = (yield COUNT_EVENTS, values)[0][0] if request.with_total else None
    rows: list[Any] = []
    if request.with_rows:
        rows = yield FIND_EVENTS, {**values, "before": request.before, "limit": request.first + 1}
    events: Any = [only_about(stored_record_of(row), caregiver, client) for row in rows]
    return page_of(events, request, total)


def only_about(record: StoredRecord, caregiver: int, client: int) -> StoredRecord:
    """The record without what it says about other relationships."""
    rows = next(rows for *parties, rows in record.about if parties == [caregiver, client])
    return record._replace(about=[(caregiver, client, rows)])


# --- for the operator -----------------------------------------------------------------------------


def listing_records(after: int, most: int) -> Steps[list[StoredRecord]]:
    """The records after the id `after`, oldest first, sealed or not."""
    return [stored_record_of(row) for row in (yield FIND_RECORDS, {"after": after, "limit": most})]
