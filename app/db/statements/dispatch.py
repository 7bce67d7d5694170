"""Statements of the dispatcher, for due reminders and waiting events.

The dispatcher finds rows of all caregivers and takes them by statements that name one caregiver. To take a
row is to lock it: another dispatcher skips it on PostgreSQL, and on SQLite writes later and finds nothing.
"""

from typing import Any

from sqlalchemy import (
    ColumnElement,
    FromClause,
    and_,
    insert,
    literal,
    literal_column,
    select,
    true,
    update,
)
from sqlalchemy.sql.elements import ClauseElement

from app.db.reader.entities import table_of
from app.db.sql import (
    DatabaseKind,
    Statement,
    among,
    id_parameter,
    moment_parameter,
    text_parameter,
)
from app.db.statements.events import insert_events
from app.db.tables import (
    Actor,
    Assignment,
    AssignmentStatus,
    Delivery,
    DeliveryState,
    Event,
    EventKind,
    Reminder,
    ReminderState,
    Session,
)

MOST_FOUND = 500

REMINDER = table_of(Reminder)
ASSIGNMENT = table_of(Assignment)
SESSION = table_of(Session)
EVENT = table_of(Event)


def is_of_caregiver(row: FromClause) -> ColumnElement[bool]:
    return row.c.caregiver_id == id_parameter("caregiver")


def is_state(row: FromClause, state: str) -> ColumnElement[bool]:
    """A literal, because a database matches a partial index before it knows the parameters."""
    return row.c.state == literal_column(f"'{state}'")


# --- reminders that are due -----------------------------------------------------------------------


def is_due() -> ColumnElement[bool]:
    return and_(
        is_state(REMINDER, ReminderState.SCHEDULED), REMINDER.c.remind_date <= moment_parameter("now")
    )


def find_due_reminders(kind: DatabaseKind) -> ClauseElement:
    due = select(REMINDER.c.caregiver_id, REMINDER.c.id).where(is_due())
    return due.order_by(REMINDER.c.remind_date, REMINDER.c.caregiver_id).limit(MOST_FOUND)


def its_assignment() -> ColumnElement[bool]:
    return and_(ASSIGNMENT.c.id == REMINDER.c.assignment_id, is_of_caregiver(ASSIGNMENT))


def take_reminders(kind: DatabaseKind) -> ClauseElement:
    """Locks the `reminders` that are still due; each with whether its assignment can still be answered.

    A change that submits, withdraws or closes skips the reminders itself. It waits for the rows locked here,
    or this statement skips the rows that it has locked: either the reminder is sent first, or it is skipped.
    """
    its_session = and_(SESSION.c.id == ASSIGNMENT.c.session_id, is_of_caregiver(SESSION))
    is_open = and_(
        ASSIGNMENT.c.status == AssignmentStatus.PENDING.value,
        ASSIGNMENT.c.withdraw_date.is_(None),
        SESSION.c.is_closed != true(),
    )
    rows = REMINDER.outerjoin(ASSIGNMENT, its_assignment()).outerjoin(SESSION, its_session)
    return (
        select(REMINDER.c.id, is_open)
        .select_from(rows)
        .where(is_of_caregiver(REMINDER), among(REMINDER.c.id, "reminders", kind), is_due())
        .order_by(REMINDER.c.remind_date, REMINDER.c.id)
        .with_for_update(of=REMINDER, skip_locked=True)
    )


def mark_reminders(kind: DatabaseKind) -> ClauseElement:
    return (
        update(REMINDER)
        .where(is_of_caregiver(REMINDER), among(REMINDER.c.id, "reminders", kind))
        .values(state=text_parameter("to"))
    )


def insert_reminder_events(kind: DatabaseKind) -> ClauseElement:
    """One event for each of `reminders`."""
    columns: dict[str, Any] = {
        "caregiver_id": id_parameter("caregiver"),
        "client_id": REMINDER.c.client_id,
        "kind": literal(EventKind.REMINDER_DUE.value),
        "actor": literal(Actor.SERVICE.value),
        "session_id": ASSIGNMENT.c.session_id,
        "assignment_id": REMINDER.c.assignment_id,
        "reminder_id": REMINDER.c.id,
        "moment": moment_parameter("now"),
    }
    rows = (
        select(*columns.values())
        .select_from(REMINDER.join(ASSIGNMENT, its_assignment()))
        .where(is_of_caregiver(REMINDER), among(REMINDER.c.id, "reminders", kind))
        .order_by(REMINDER.c.remind_date, REMINDER.c.id)
    )
    return insert_events(kind, rows, list(columns))


FIND_DUE_REMINDERS = Statement(find_due_reminders)
TAKE_REMINDERS = Statement(take_reminders)
MARK_REMINDERS = Statement(mark_reminders)
INSERT_REMINDER_EVENTS = Statement(insert_reminder_events)

# --- events that wait -----------------------------------------------------------------------------


def find_waiting_events(kind: DatabaseKind) -> ClauseElement:
    waiting = select(EVENT.c.caregiver_id, EVENT.c.id).where(
        EVENT.c.hand_over_date.is_(None), EVENT.c.moment <= moment_parameter("until")
    )
    return waiting.order_by(EVENT.c.moment, EVENT.c.caregiver_id).limit(MOST_FOUND)


def take_events(kind: DatabaseKind) -> ClauseElement:
    """Locks the `events` that still wait."""
    return (
        select(EVENT.c.id)
        .where(is_of_caregiver(EVENT), among(EVENT.c.id, "events", kind), EVENT.c.hand_over_date.is_(None))
        .order_by(EVENT.c.id)
        .with_for_update(skip_locked=True)
    )


def mark_events_queued(kind: DatabaseKind) -> ClauseElement:
    return (
        update(EVENT)
        .where(is_of_caregiver(EVENT), among(EVENT.c.id, "events", kind))
        .values(hand_over_date=moment_parameter("now"))
    )


def add_deliveries(kind: DatabaseKind) -> ClauseElement:
    """Adds a delivery for each of `events` except saved drafts, which only the client may see."""
    columns: dict[str, Any] = {
        "caregiver_id": id_parameter("caregiver"),
        "client_id": EVENT.c.client_id,
        "event_id": EVENT.c.id,
        "state": literal(DeliveryState.WAITING.value),
        "attempts": literal(0),
        "next_date": moment_parameter("now"),
    }
    rows = select(*columns.values()).where(
        is_of_caregiver(EVENT),
        among(EVENT.c.id, "events", kind),
        EVENT.c.kind != EventKind.DRAFT_SAVED.value,
    )
    return insert(table_of(Delivery)).from_select(list(columns), rows)


FIND_WAITING_EVENTS = Statement(find_waiting_events)
TAKE_EVENTS = Statement(take_events)
MARK_EVENTS_QUEUED = Statement(mark_events_queued)
ADD_DELIVERIES = Statement(add_deliveries)
