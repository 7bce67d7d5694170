"""What waits in the database: events, deliveries and unsealed audit records. A row of BACKLOG declares each
metric with its queries. doctor reads the same values."""

from typing import Any

from sqlalchemy import ColumnElement, Select, func, literal, select

from app.db.moments import as_moment
from app.db.sql import Statement, Steps
from app.db.statements.dispatch import has_state
from app.db.tables import AUDIT_RECORD, AUDIT_SEAL, DELIVERY, EVENT, DeliveryState

MAX_COUNTED = 10_000  # so that a long backlog does not make monitoring slow
MAX_SEARCHED = 100  # of the next deliveries, to find the oldest event


def count(*conditions: ColumnElement[bool]) -> ColumnElement[int]:
    rows = select(literal(1)).where(*conditions).limit(MAX_COUNTED)
    return select(func.count()).select_from(rows.subquery()).scalar_subquery()


def first(rows: Select[Any]) -> ColumnElement[Any]:
    return rows.limit(1).scalar_subquery()


is_new = EVENT.c.hand_over_date.is_(None)
oldest_event = first(select(EVENT.c.moment).where(is_new).order_by(EVENT.c.moment))
is_waiting = has_state(DELIVERY, DeliveryState.WAITING)
retried = count(is_waiting, DELIVERY.c.attempts > 0)
dead = count(has_state(DELIVERY, DeliveryState.DEAD))
next_deliveries = select(DELIVERY.c.event_id).where(is_waiting).order_by(DELIVERY.c.next_date)
next_events = select(next_deliveries.limit(MAX_SEARCHED).subquery().c.event_id)
oldest_delivery = first(select(EVENT.c.moment).where(EVENT.c.id.in_(next_events)).order_by(EVENT.c.id))
last_sealed = select(AUDIT_SEAL.c.last_record_id).order_by(AUDIT_SEAL.c.id.desc())
is_unsealed = AUDIT_RECORD.c.id > func.coalesce(first(last_sealed), 0)
oldest_record = first(select(AUDIT_RECORD.c.moment).where(is_unsealed).order_by(AUDIT_RECORD.c.id))

# Name, text, queries by the name of their value, and with several values their label. A name that ends with
# `_since` is of a moment: the metric is its age in seconds.
BACKLOG: list[tuple[str, str, dict[str, ColumnElement[Any]], *tuple[str, ...]]] = [
    (
        "care_outbox_events_waiting",
        "Events that the dispatcher has not processed, counted up to 10000.",
        {"events": count(is_new)},
    ),
    (
        "care_outbox_oldest_seconds",
        "Age in seconds of the oldest event that the dispatcher has not processed.",
        {"events_since": oldest_event},
    ),
    (
        "care_deliveries",
        "Webhook deliveries that are not accepted, counted up to 10000.",
        {"new": count(is_waiting) - retried, "retried": retried, "dead": dead},
        "state",
    ),
    (
        "care_delivery_oldest_seconds",
        "Age in seconds of the oldest webhook delivery that is new or retried.",
        {"deliveries_since": oldest_delivery},
    ),
    (
        "care_audit_records_unsealed",
        "Audit records without a seal, counted up to 10000.",
        {"unsealed": count(is_unsealed)},
    ),
    (
        "care_audit_oldest_unsealed_seconds",
        "Age in seconds of the oldest audit record without a seal.",
        {"unsealed_since": oldest_record},
    ),
]
QUERIES = {name: query for _, _, queries, *_ in BACKLOG for name, query in queries.items()}
READ_BACKLOG = Statement(select(*QUERIES.values()))


def is_moment(name: str) -> bool:
    return name.endswith("_since")


def reading_backlog() -> Steps[dict[str, Any]]:
    """Reads all values. A moment is None where nothing waits."""
    [row] = yield READ_BACKLOG, {}
    values = zip(QUERIES, row, strict=True)
    return {name: as_moment(value) if is_moment(name) else value for name, value in values}
