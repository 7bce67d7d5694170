"""Statements for webhook deliveries: due deliveries, outcomes, retries and removal."""

from functools import partial

from sqlalchemy import ColumnElement, Select, Text, and_, bindparam, delete, select, tuple_, update
from sqlalchemy.sql.elements import ClauseElement

from app.db.reader.entities import table_of
from app.db.sql import (
    DatabaseKind,
    Statement,
    among,
    count_parameter,
    id_parameter,
    moment_parameter,
    text_parameter,
)
from app.db.statements.dispatch import MOST_FOUND, is_of_caregiver, is_state
from app.db.tables import Delivery, DeliveryState, Event, IdempotencyKey

DELIVERY = table_of(Delivery)
EVENT = table_of(Event)
KEY = table_of(IdempotencyKey)


def are_named(kind: DatabaseKind) -> ColumnElement[bool]:
    return is_of_caregiver(DELIVERY) & among(DELIVERY.c.event_id, "events", kind)


def is_on_its_way() -> ColumnElement[bool]:
    return and_(is_state(DELIVERY, DeliveryState.WAITING), DELIVERY.c.next_date <= moment_parameter("now"))


# --- delivering -----------------------------------------------------------------------------------


def find_due_deliveries(kind: DatabaseKind) -> ClauseElement:
    due = select(DELIVERY.c.caregiver_id, DELIVERY.c.event_id).where(is_on_its_way())
    due = due.order_by(DELIVERY.c.next_date, DELIVERY.c.caregiver_id)
    return due.limit(count_parameter("most"))


def take_deliveries(kind: DatabaseKind) -> ClauseElement:
    """Locks the deliveries of `events` that are still due, and reads the content of their events."""
    its_event = (EVENT.c.id == DELIVERY.c.event_id) & is_of_caregiver(EVENT)
    return (
        select(
            DELIVERY.c.event_id,
            DELIVERY.c.attempts,
            EVENT.c.kind,
            EVENT.c.moment,
            EVENT.c.client_id,
            EVENT.c.session_id,
            EVENT.c.assignment_id,
            EVENT.c.reminder_id,
        )
        .select_from(DELIVERY.join(EVENT, its_event))
        .where(are_named(kind), is_on_its_way())
        .order_by(DELIVERY.c.event_id)
        .with_for_update(of=DELIVERY, skip_locked=True)
    )


def count_attempts(kind: DatabaseKind) -> ClauseElement:
    """Makes the deliveries due again at `until`, in case no outcome is stored."""
    values = {"attempts": DELIVERY.c.attempts + 1, "next_date": moment_parameter("until")}
    return update(DELIVERY).where(are_named(kind)).values(values)


def store_outcome(kind: DatabaseKind) -> ClauseElement:
    """Stores the outcome of an attempt, unless a later attempt has begun."""
    return (
        update(DELIVERY)
        .where(
            is_of_caregiver(DELIVERY),
            DELIVERY.c.event_id == id_parameter("event"),
            DELIVERY.c.attempts == count_parameter("attempt"),
        )
        .values(
            state=text_parameter("to"),
            next_date=moment_parameter("next"),
            last_answer=bindparam("outcome", type_=Text),
        )
    )


FIND_DUE_DELIVERIES = Statement(find_due_deliveries)
TAKE_DELIVERIES = Statement(take_deliveries)
COUNT_ATTEMPTS = Statement(count_attempts)
STORE_OUTCOME = Statement(store_outcome)

# --- for the operator -----------------------------------------------------------------------------


def list_deliveries(state: DeliveryState | None, kind: DatabaseKind) -> ClauseElement:
    listed = DELIVERY.c
    rows = select(
        listed.event_id, EVENT.c.kind, listed.state, listed.attempts, listed.next_date, listed.last_answer
    )
    rows = rows.select_from(DELIVERY.join(EVENT, EVENT.c.id == listed.event_id))
    if state is not None:
        rows = rows.where(is_state(DELIVERY, state))
    rows = rows.where(listed.event_id > id_parameter("after"))
    return rows.order_by(listed.event_id).limit(MOST_FOUND)


def keys_of_deliveries() -> Select[tuple[int, int]]:
    return select(DELIVERY.c.caregiver_id, DELIVERY.c.event_id)


def find_delivery(kind: DatabaseKind) -> ClauseElement:
    return keys_of_deliveries().where(
        DELIVERY.c.event_id == id_parameter("event"), DELIVERY.c.state != DeliveryState.DELIVERED.value
    )


def find_dead_deliveries(kind: DatabaseKind) -> ClauseElement:
    return keys_of_deliveries().where(is_state(DELIVERY, DeliveryState.DEAD)).limit(MOST_FOUND)


def retry_deliveries(kind: DatabaseKind) -> ClauseElement:
    return (
        update(DELIVERY)
        .where(are_named(kind), DELIVERY.c.state != DeliveryState.DELIVERED.value)
        .values(state=DeliveryState.WAITING.value, attempts=0, next_date=moment_parameter("now"))
    )


LIST_DELIVERIES = {state: Statement(partial(list_deliveries, state)) for state in (None, *DeliveryState)}
FIND_DELIVERY = Statement(find_delivery)
FIND_DEAD_DELIVERIES = Statement(find_dead_deliveries)
RETRY_DELIVERIES = Statement(retry_deliveries)

# --- removal --------------------------------------------------------------------------------------


def find_old_deliveries(kind: DatabaseKind) -> ClauseElement:
    is_old = DELIVERY.c.next_date <= moment_parameter("now")
    return keys_of_deliveries().where(is_state(DELIVERY, DeliveryState.DELIVERED), is_old).limit(MOST_FOUND)


def remove_deliveries(kind: DatabaseKind) -> ClauseElement:
    return delete(DELIVERY).where(are_named(kind), is_state(DELIVERY, DeliveryState.DELIVERED))


def remove_idempotency_keys(kind: DatabaseKind) -> ClauseElement:
    """Removes some of the keys that were claimed before `before`; returns their moments."""
    own = tuple_(*KEY.primary_key)
    old = select(*KEY.primary_key).where(KEY.c.moment < moment_parameter("before"))
    old = old.order_by(KEY.c.moment).limit(MOST_FOUND)
    return delete(KEY).where(own.in_(old)).returning(KEY.c.moment)


FIND_OLD_DELIVERIES = Statement(find_old_deliveries)
REMOVE_DELIVERIES = Statement(remove_deliveries)
REMOVE_IDEMPOTENCY_KEYS = Statement(remove_idempotency_keys)
