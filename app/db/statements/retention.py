"""Removes old events, dead deliveries and drafts that can no longer be submitted.

Rows are found among all caregivers, in the order of their ids, and removed by statements that name one.
"""

from collections.abc import Callable
from datetime import datetime
from typing import Any

from sqlalchemy import and_, delete, exists, func, or_, select
from sqlalchemy.sql.elements import ClauseElement

from app.db.audit.records import DRAFTS, About, operator_record, recording
from app.db.reader.entities import is_final, known_moment, table_of
from app.db.sql import (
    INSERT,
    DatabaseKind,
    Operation,
    Statement,
    among,
    id_parameter,
    moment_parameter,
)
from app.db.statements.dispatch import MOST_FOUND, is_of_caregiver, is_state
from app.db.tables import (
    Answer,
    AnswerSet,
    Assignment,
    Delivery,
    DeliveryState,
    Event,
    EventKind,
    EventRemoval,
    Session,
)

EVENT, DELIVERY, REMOVAL = table_of(Event), table_of(Delivery), table_of(EventRemoval)
SET, ANSWER = table_of(AnswerSet), table_of(Answer)
ASSIGNMENT, SESSION = table_of(Assignment), table_of(Session)

# Caregivers and ids, and the id to continue after if there are more.
Found = tuple[list[tuple[int, int]], int | None]
Find = Callable[[int, datetime], Operation[Found]]

# --- events ---------------------------------------------------------------------------------------


def next_events(kind: DatabaseKind) -> ClauseElement:
    """Keeps events with a delivery, and CLIENT_ERASED events, which record the erased clients."""
    is_removable = and_(
        EVENT.c.hand_over_date.is_not(None),
        EVENT.c.kind != EventKind.CLIENT_ERASED.value,
        ~exists().where(DELIVERY.c.event_id == EVENT.c.id),
    )
    rows = select(EVENT.c.caregiver_id, EVENT.c.id, EVENT.c.moment, is_removable)
    return rows.where(EVENT.c.id > id_parameter("after")).order_by(EVENT.c.id).limit(MOST_FOUND)


def remove_events(kind: DatabaseKind) -> ClauseElement:
    its_delivery = and_(is_of_caregiver(DELIVERY), DELIVERY.c.event_id == EVENT.c.id)
    are_named = and_(is_of_caregiver(EVENT), among(EVENT.c.id, "ids", kind))
    return delete(EVENT).where(are_named, ~exists().where(its_delivery))


def mark_removed(kind: DatabaseKind) -> ClauseElement:
    row = {"last_event_id": id_parameter("last"), "moment": moment_parameter("now")}
    added: ClauseElement = INSERT[kind](REMOVAL).values(row).on_conflict_do_nothing()
    return added


def remove_older_marks(kind: DatabaseKind) -> ClauseElement:
    return delete(REMOVAL).where(REMOVAL.c.last_event_id < id_parameter("last"))


def find_newest_mark(kind: DatabaseKind) -> ClauseElement:
    return select(func.coalesce(func.max(REMOVAL.c.last_event_id), 0))


NEXT_EVENTS = Statement(next_events)
REMOVE_EVENTS = Statement(remove_events)
MARK_REMOVED = Statement(mark_removed)
REMOVE_OLDER_MARKS = Statement(remove_older_marks)
FIND_NEWEST_MARK = Statement(find_newest_mark)


def finding_events(after: int, before: datetime) -> Operation[Found]:
    """Ids and moments have the same order, so the search ends at the first younger event."""
    found: list[tuple[int, int]] = []
    rows = yield NEXT_EVENTS, {"after": after}
    for caregiver, id, moment, is_removable in rows:
        if known_moment(moment) >= before:
            return found, None
        if is_removable:
            found.append((caregiver, id))
    return found, rows[-1][1] if len(rows) == MOST_FOUND else None


def marking_removed(last: int, now: datetime) -> Operation[None]:
    """Runs before the removal: a subscription that resumes from `last` or earlier may miss events."""
    yield MARK_REMOVED, {"last": last, "now": now}
    yield REMOVE_OLDER_MARKS, {"last": last}


def removing_events(now: datetime, caregiver: int, events: list[int]) -> Operation[list[int]]:
    yield REMOVE_EVENTS, {"caregiver": caregiver, "ids": events}
    return events


# --- dead deliveries ------------------------------------------------------------------------------


def find_dead(kind: DatabaseKind) -> ClauseElement:
    rows = select(DELIVERY.c.caregiver_id, DELIVERY.c.event_id)
    rows = rows.where(
        is_state(DELIVERY, DeliveryState.DEAD),
        DELIVERY.c.next_date < moment_parameter("before"),  # the time at which a dead delivery failed
        DELIVERY.c.event_id > id_parameter("after"),
    )
    return rows.order_by(DELIVERY.c.event_id).limit(MOST_FOUND)


def remove_dead(kind: DatabaseKind) -> ClauseElement:
    """Skips deliveries that an operator has requeued since they were found."""
    are_named = and_(is_of_caregiver(DELIVERY), among(DELIVERY.c.event_id, "ids", kind))
    return delete(DELIVERY).where(are_named, is_state(DELIVERY, DeliveryState.DEAD))


FIND_DEAD = Statement(find_dead)
REMOVE_DEAD = Statement(remove_dead)


def finding_dead(after: int, before: datetime) -> Operation[Found]:
    return found_in((yield FIND_DEAD, {"after": after, "before": before}))


def removing_dead(now: datetime, caregiver: int, events: list[int]) -> Operation[list[int]]:
    yield REMOVE_DEAD, {"caregiver": caregiver, "ids": events}
    return events


# --- drafts ---------------------------------------------------------------------------------------


def find_drafts(kind: DatabaseKind) -> ClauseElement:
    """Drafts that can no longer be submitted: withdrawn or the session closed before `before`."""
    is_withdrawn = ASSIGNMENT.c.withdraw_date < moment_parameter("before")
    is_closed = SESSION.c.close_date < moment_parameter("before")
    rows = SET.join(ASSIGNMENT, ASSIGNMENT.c.id == SET.c.assignment_id)
    rows = rows.join(SESSION, SESSION.c.id == ASSIGNMENT.c.session_id)
    drafts = select(SET.c.caregiver_id, SET.c.id).select_from(rows)
    drafts = drafts.where(SET.c.id > id_parameter("after"), ~is_final(SET), or_(is_withdrawn, is_closed))
    return drafts.order_by(SET.c.id).limit(MOST_FOUND)


def remove_answers(kind: DatabaseKind) -> ClauseElement:
    return delete(ANSWER).where(is_of_caregiver(ANSWER), among(ANSWER.c.answer_set_id, "ids", kind))


def remove_drafts(kind: DatabaseKind) -> ClauseElement:
    drafts = and_(is_of_caregiver(SET), among(SET.c.id, "ids", kind), ~is_final(SET))
    return delete(SET).where(drafts).returning(SET.c.client_id, SET.c.id)


FIND_DRAFTS = Statement(find_drafts)
REMOVE_ANSWERS = Statement(remove_answers)
REMOVE_DRAFTS = Statement(remove_drafts)


def finding_drafts(after: int, before: datetime) -> Operation[Found]:
    return found_in((yield FIND_DRAFTS, {"after": after, "before": before}))


def removing_drafts(now: datetime, caregiver: int, drafts: list[int]) -> Operation[list[int]]:
    """Writes an audit record too, because drafts are texts of a client."""
    values = {"caregiver": caregiver, "ids": drafts}
    yield REMOVE_ANSWERS, values
    removed: dict[int, list[int]] = {}
    for client, draft in (yield REMOVE_DRAFTS, values):
        removed.setdefault(client, []).append(draft)
    about: About = [(caregiver, client, {DRAFTS: sorted(ids)}) for client, ids in sorted(removed.items())]
    if about:
        yield from recording([operator_record(now, "retention drafts", about)])
    return drafts


def found_in(rows: list[Any]) -> Found:
    return [(row[0], row[1]) for row in rows], rows[-1][1] if len(rows) == MOST_FOUND else None
