"""Removes old events, dead deliveries and drafts that can no longer be submitted.

Rows are found among all caregivers, in the order of their ids, and removed by statements that name one.
"""

from collections.abc import Callable
from datetime import datetime

from sqlalchemy import and_, delete, exists, func, or_, select

from app.db.audit.records import DRAFTS, About, operator_record, recording
from app.db.moments import known_moment
from app.db.reader.access import has_caregiver_of, is_final, is_of_caregiver
from app.db.sql import Statement, Steps, among, id_parameter, insert_if_absent, moment_parameter
from app.db.statements.dispatch import SEARCH_LIMIT, has_state
from app.db.tables import (
    ANSWER_SET,
    ASSIGNMENT,
    DELIVERY,
    EVENT,
    EVENT_REMOVAL,
    SESSION,
    DeliveryState,
    EventKind,
)

# Caregivers and ids, and the id to continue after if there are more.
Found = tuple[list[tuple[int, int]], int | None]
Find = Callable[[int, datetime], Steps[Found]]


def finding(statement: Statement, after: int, before: datetime) -> Steps[Found]:
    rows = yield statement, {"after": after, "before": before}
    return [(row[0], row[1]) for row in rows], rows[-1][1] if len(rows) == SEARCH_LIMIT else None


# --- events ---------------------------------------------------------------------------------------

# Keeps events with a delivery, and CLIENT_ERASED events, which record the erased clients.
IS_REMOVABLE = and_(
    EVENT.c.hand_over_date.is_not(None),
    EVENT.c.kind != EventKind.CLIENT_ERASED.value,
    ~exists().where(DELIVERY.c.event_id == EVENT.c.id, has_caregiver_of(DELIVERY, EVENT)),
)
ITS_DELIVERY = and_(is_of_caregiver(DELIVERY), DELIVERY.c.event_id == EVENT.c.id)

NEXT_EVENTS = Statement(
    select(*EVENT.c["caregiver_id", "id", "moment"], IS_REMOVABLE)
    .where(EVENT.c.id > id_parameter("after"))
    .order_by(EVENT.c.id)
    .limit(SEARCH_LIMIT)
)
REMOVE_EVENTS = Statement(
    delete(EVENT).where(is_of_caregiver(EVENT), among(EVENT.c.id, "events"), ~exists().where(ITS_DELIVERY))
)
MARK_REMOVED = insert_if_absent(
    EVENT_REMOVAL, {"last_event_id": id_parameter("last"), "moment": moment_parameter("now")}
)
REMOVE_OLDER_MARKS = Statement(
    delete(EVENT_REMOVAL).where(EVENT_REMOVAL.c.last_event_id < id_parameter("last"))
)
FIND_NEWEST_MARK = Statement(select(func.coalesce(func.max(EVENT_REMOVAL.c.last_event_id), 0)))


def finding_events(after: int, before: datetime) -> Steps[Found]:
    """The search ends when the last event of a page is younger. Ids and moments have the same order, except
    for events that a process with a wrong clock added."""
    rows = yield NEXT_EVENTS, {"after": after}
    older = [row for row in rows if known_moment(row[2]) < before]
    found = [(caregiver, id) for caregiver, id, _, is_removable in older if is_removable]
    has_more = len(rows) == SEARCH_LIMIT and older and older[-1] is rows[-1]
    return found, rows[-1][1] if has_more else None


def marking_removed(last: int, now: datetime) -> Steps[None]:
    """Runs before the removal: a subscription that resumes from `last` or earlier may miss events."""
    yield MARK_REMOVED, {"last": last, "now": now}
    yield REMOVE_OLDER_MARKS, {"last": last}


# --- dead deliveries ------------------------------------------------------------------------------

IS_DEAD = has_state(DELIVERY, DeliveryState.DEAD)

FIND_DEAD = Statement(
    select(DELIVERY.c.caregiver_id, DELIVERY.c.event_id)
    .where(
        IS_DEAD,
        DELIVERY.c.next_date < moment_parameter("before"),  # the time at which a dead delivery failed
        DELIVERY.c.event_id > id_parameter("after"),
    )
    .order_by(DELIVERY.c.event_id)
    .limit(SEARCH_LIMIT)
)
# Leaves out deliveries that an operator has requeued since they were found.
REMOVE_DEAD = Statement(
    delete(DELIVERY).where(is_of_caregiver(DELIVERY), among(DELIVERY.c.event_id, "events"), IS_DEAD)
)

# --- drafts ---------------------------------------------------------------------------------------

# Drafts that can no longer be submitted: withdrawn or the session closed before `before`. An imported session
# can be closed without a date.
FIND_DRAFTS = Statement(
    select(ANSWER_SET.c.caregiver_id, ANSWER_SET.c.id)
    .select_from(
        ANSWER_SET.join(
            ASSIGNMENT,
            and_(ASSIGNMENT.c.id == ANSWER_SET.c.assignment_id, has_caregiver_of(ASSIGNMENT, ANSWER_SET)),
        ).join(SESSION, and_(SESSION.c.id == ASSIGNMENT.c.session_id, has_caregiver_of(SESSION, ASSIGNMENT)))
    )
    .where(
        ANSWER_SET.c.id > id_parameter("after"),
        ~is_final(ANSWER_SET),
        or_(
            ASSIGNMENT.c.withdraw_date < moment_parameter("before"),
            and_(
                SESSION.c.is_closed,
                func.coalesce(SESSION.c.close_date, SESSION.c.start_date) < moment_parameter("before"),
            ),
        ),
    )
    .order_by(ANSWER_SET.c.id)
    .limit(SEARCH_LIMIT)
)
REMOVE_DRAFTS = Statement(
    delete(ANSWER_SET)
    .where(is_of_caregiver(ANSWER_SET), among(ANSWER_SET.c.id, "ids"), ~is_final(ANSWER_SET))
    .returning(ANSWER_SET.c.client_id, ANSWER_SET.c.id)
)


def removing_drafts(now: datetime, caregiver: int, drafts: list[int]) -> Steps[list[int]]:
    """Writes an audit record too, because drafts are texts of a client."""
    removed: dict[int, list[int]] = {}
    for client, draft in (yield REMOVE_DRAFTS, {"caregiver": caregiver, "ids": drafts}):
        removed.setdefault(client, []).append(draft)
    about: About = [(caregiver, client, {DRAFTS: sorted(ids)}) for client, ids in sorted(removed.items())]
    if about:
        yield from recording([operator_record(now, "retention drafts", about)])
    return drafts
