"""What waits in the database: events, deliveries, and records that are not sealed. Asked by who watches;
nothing is counted beyond `MOST_COUNTED`, so that a long backlog does not make watching dear."""

from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import Select, func, literal, select
from sqlalchemy.sql.elements import ClauseElement

from app.db.audit.sealing import BEFORE_ALL, FIND_LAST_SEAL, RECORD
from app.db.reader.entities import known_moment, table_of
from app.db.sql import DatabaseKind, Operation, Statement, id_parameter
from app.db.statements.dispatch import is_state
from app.db.tables import Delivery, DeliveryState, Event

MOST_COUNTED = 10_000
MOST_LOOKED_AT = 100  # of the deliveries that are next, to find the event that waits longest

EVENT, DELIVERY = table_of(Event), table_of(Delivery)


def counted(rows: Select[Any]) -> ClauseElement:
    return select(func.count()).select_from(rows.limit(MOST_COUNTED).subquery())


def waiting_events(kind: DatabaseKind) -> ClauseElement:
    return counted(select(literal(1)).where(EVENT.c.hand_over_date.is_(None)))


def oldest_waiting_event(kind: DatabaseKind) -> ClauseElement:
    waiting = select(EVENT.c.moment).where(EVENT.c.hand_over_date.is_(None))
    return waiting.order_by(EVENT.c.moment).limit(1)


def waiting_deliveries(kind: DatabaseKind) -> ClauseElement:
    return counted(select(literal(1)).where(is_state(DELIVERY, DeliveryState.WAITING)))


def retried_deliveries(kind: DatabaseKind) -> ClauseElement:
    again = select(literal(1)).where(is_state(DELIVERY, DeliveryState.WAITING), DELIVERY.c.attempts > 0)
    return counted(again)


def dead_deliveries(kind: DatabaseKind) -> ClauseElement:
    return counted(select(literal(1)).where(is_state(DELIVERY, DeliveryState.DEAD)))


def oldest_waiting_delivery(kind: DatabaseKind) -> ClauseElement:
    """As far as can be seen from those that are next."""
    waiting = select(DELIVERY.c.event_id).where(is_state(DELIVERY, DeliveryState.WAITING))
    nearest = waiting.order_by(DELIVERY.c.next_date).limit(MOST_LOOKED_AT).subquery()
    return (
        select(EVENT.c.moment).where(EVENT.c.id.in_(select(nearest.c.event_id))).order_by(EVENT.c.id).limit(1)
    )


def unsealed_records(kind: DatabaseKind) -> ClauseElement:
    return counted(select(literal(1)).where(RECORD.c.id > id_parameter("after")))


def oldest_unsealed_record(kind: DatabaseKind) -> ClauseElement:
    return select(RECORD.c.moment).where(RECORD.c.id > id_parameter("after")).order_by(RECORD.c.id).limit(1)


WAITING_EVENTS = Statement(waiting_events)
OLDEST_WAITING_EVENT = Statement(oldest_waiting_event)
WAITING_DELIVERIES = Statement(waiting_deliveries)
RETRIED_DELIVERIES = Statement(retried_deliveries)
DEAD_DELIVERIES = Statement(dead_deliveries)
OLDEST_WAITING_DELIVERY = Statement(oldest_waiting_delivery)
UNSEALED_RECORDS = Statement(unsealed_records)
OLDEST_UNSEALED_RECORD = Statement(oldest_unsealed_record)


@dataclass(frozen=True)
class Backlog:
    """Since when something waits is None where nothing does."""

    events: int
    events_since: datetime | None
    deliveries: int
    retried: int  # of them: the webhook did not take them yet
    dead: int  # given up
    deliveries_since: datetime | None
    unsealed: int
    unsealed_since: datetime | None


def looking_at_backlog() -> Operation[Backlog]:
    last = yield FIND_LAST_SEAL, {}
    after = {"after": last[0][1] if last else BEFORE_ALL.last_record_id}
    return Backlog(
        (yield WAITING_EVENTS, {})[0][0],
        moment_in((yield OLDEST_WAITING_EVENT, {})),
        (yield WAITING_DELIVERIES, {})[0][0],
        (yield RETRIED_DELIVERIES, {})[0][0],
        (yield DEAD_DELIVERIES, {})[0][0],
        moment_in((yield OLDEST_WAITING_DELIVERY, {})),
        (yield UNSEALED_RECORDS, after)[0][0],
        moment_in((yield OLDEST_UNSEALED_RECORD, after)),
    )


def moment_in(rows: list[tuple[datetime | str]]) -> datetime | None:
    return known_moment(rows[0][0]) if rows else None
