"""The number and the age of waiting events, deliveries and unsealed audit records, for doctor and metrics."""

from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import ColumnElement, Select, func, literal, select

from app.db.moments import as_moment
from app.db.sql import Statement, Steps
from app.db.statements.dispatch import has_state
from app.db.tables import AUDIT_RECORD, AUDIT_SEAL, DELIVERY, EVENT, DeliveryState

MAX_COUNTED = 10_000  # so that a long backlog does not make monitoring slow
MAX_SEARCHED = 100  # of the next deliveries, to find the oldest event


@dataclass(frozen=True)
class Backlog:
    """The moments are None where nothing waits."""

    events: int
    events_since: datetime | None
    deliveries: int
    retried: int  # deliveries with a failed attempt
    dead: int
    deliveries_since: datetime | None
    unsealed: int
    unsealed_since: datetime | None


def count(*conditions: ColumnElement[bool]) -> ColumnElement[int]:
    rows = select(literal(1)).where(*conditions).limit(MAX_COUNTED)
    return select(func.count()).select_from(rows.subquery()).scalar_subquery()


def first(rows: Select[Any]) -> ColumnElement[Any]:
    return rows.limit(1).scalar_subquery()


def count_backlog() -> Select[Any]:
    is_new = EVENT.c.hand_over_date.is_(None)
    is_waiting = has_state(DELIVERY, DeliveryState.WAITING)
    next_deliveries = select(DELIVERY.c.event_id).where(is_waiting).order_by(DELIVERY.c.next_date)
    next_events = select(next_deliveries.limit(MAX_SEARCHED).subquery().c.event_id)
    last_sealed = select(AUDIT_SEAL.c.last_record_id).order_by(AUDIT_SEAL.c.id.desc())
    is_unsealed = AUDIT_RECORD.c.id > func.coalesce(first(last_sealed), 0)
    return select(
        count(is_new),
        first(select(EVENT.c.moment).where(is_new).order_by(EVENT.c.moment)),
        count(is_waiting),
        count(is_waiting, DELIVERY.c.attempts > 0),
        count(has_state(DELIVERY, DeliveryState.DEAD)),
        first(select(EVENT.c.moment).where(EVENT.c.id.in_(next_events)).order_by(EVENT.c.id)),
        count(is_unsealed),
        first(select(AUDIT_RECORD.c.moment).where(is_unsealed).order_by(AUDIT_RECORD.c.id)),
    )


COUNT_BACKLOG = Statement(count_backlog())


def reading_backlog() -> Steps[Backlog]:
    [[events, event, deliveries, retried, dead, delivery, unsealed, record]] = yield COUNT_BACKLOG, {}
    return Backlog(
        events, as_moment(event), deliveries, retried, dead, as_moment(delivery), unsealed, as_moment(record)
    )
