"""Reading the viewer's assignments, and how late they are."""

from dataclasses import dataclass, replace
from datetime import datetime
from enum import StrEnum

from sqlalchemy import ColumnElement, FromClause, and_

from app.care.context import Context
from app.care.sessions.reading import IN_TIME_STATE, NOW, Moments, is_running
from app.db.reader.entities import due_of, is_due
from app.db.reader.reads import CountedBy, Page, Row, get_rows, list_rows
from app.db.reader.selection import Order, PageRequest, Selection, Where
from app.db.statements.conditions import (
    all_of_session,
    completed_of_session,
    has_status,
    is_in_session,
    is_of_client,
    is_session,
    is_submitted_since,
    pending_of_session,
)
from app.db.tables import Assignment, AssignmentStatus, Session, TimeState

# --- how late -------------------------------------------------------------------------------------


class LatenessState(StrEnum):
    ON_TIME = "ON_TIME"
    LATE = "LATE"
    OVERDUE = "OVERDUE"


@dataclass(frozen=True)
class Lateness:
    state: LatenessState
    seconds: int


def is_past(end_date: Moments | None, moment: Moments) -> bool:
    """At its end date an assignment is still on time."""
    return end_date is not None and end_date < moment


def lateness(end_date: datetime | None, submit_date: datetime | None, now: datetime) -> Lateness:
    """LATE: submitted after the end date. OVERDUE: not submitted, and the end date has passed."""
    measured = submit_date or now
    if end_date is None or not is_past(end_date, measured):
        return Lateness(LatenessState.ON_TIME, 0)
    state = LatenessState.OVERDUE if submit_date is None else LatenessState.LATE
    return Lateness(state, int((measured - end_date).total_seconds()))


def is_overdue(status: str, end_date: Moments | None, now: Moments, state_of_session: TimeState) -> bool:
    """Only in a running session, since no other session accepts answers."""
    is_pending = status == AssignmentStatus.PENDING
    return is_pending and is_past(end_date, now) and state_of_session is TimeState.RUNNING


# The same rule in SQL; a test compares both. It is never null, so that its negation is correct too.
def is_among_overdue(assignment: FromClause, session: FromClause) -> ColumnElement[bool]:
    has_ended = and_(assignment.c.end_date.is_not(None), assignment.c.end_date < NOW)
    return and_(has_ended, assignment.c.status == AssignmentStatus.PENDING.value, is_running(session))


def is_first_among_due(assignment: FromClause, session: FromClause) -> ColumnElement[bool]:
    """The same rule in a form that can use the indexes by due date: only pending assignments are due."""
    return and_(due_of(assignment) < NOW, is_running(session))


def is_not_among_overdue(assignment: FromClause, session: FromClause) -> ColumnElement[bool]:
    return ~is_among_overdue(assignment, session)


# --- lists ----------------------------------------------------------------------------------------


class AssignmentOrder(StrEnum):
    NEWEST = "NEWEST"
    DUE_SOONEST = "DUE_SOONEST"


DUE_SOONEST = Order(AssignmentOrder.DUE_SOONEST, "due")
# Every other order is newest first.
ORDERS: dict[str | None, Order] = {AssignmentOrder.DUE_SOONEST: DUE_SOONEST}


@dataclass(frozen=True)
class AssignmentFilter:
    time_state: TimeState | None = None
    status: AssignmentStatus | None = None
    session_id: int | None = None
    client_id: int | None = None
    is_overdue: bool | None = None
    submitted_since: datetime | None = None


def of_status(status: AssignmentStatus | None) -> tuple[tuple[Where, ...], dict[str, object]]:
    """The condition of the assignments of one session, and its parameters."""
    return ((Where(has_status),), {"status": status.value}) if status is not None else ((), {})


COUNTS = {
    None: all_of_session,
    AssignmentStatus.COMPLETE: completed_of_session,
    AssignmentStatus.PENDING: pending_of_session,
}


async def list_my_assignments(
    ctx: Context, filter: AssignmentFilter, window: PageRequest, wanted: Selection
) -> Page:
    """An assignment has the time state of its session. The total is the sum of the sessions' counters, unless
    a filter needs the assignments themselves."""
    of_rows: list[Where] = []
    of_sessions: list[Where] = []
    if filter.time_state is not None:
        of_rows.append(Where(IN_TIME_STATE[filter.time_state], via="session"))
        of_sessions.append(Where(IN_TIME_STATE[filter.time_state]))
    if filter.status is not None:
        of_rows.append(Where(has_status))
    by_due_date = window.order is DUE_SOONEST
    if by_due_date and filter.status is AssignmentStatus.PENDING:
        of_rows.append(Where(is_due))  # else the index scan also reads submitted assignments
    if filter.session_id is not None:
        of_rows.append(Where(is_in_session, narrows=True))
        of_sessions.append(Where(is_session, narrows=True))
    if filter.client_id is not None:
        is_in_one = filter.session_id is not None  # then the session index finds the rows
        of_rows.append(Where(is_of_client, "session") if is_in_one else Where(is_of_client, narrows=True))
        of_sessions.append(Where(is_of_client, narrows=True))
    values = {
        "status": filter.status,
        "in_session": filter.session_id,
        "of_client": filter.client_id,
        "since": filter.submitted_since,
    }
    counted_by: CountedBy | None = CountedBy(Session, COUNTS[filter.status], tuple(of_sessions))
    if filter.is_overdue is not None:
        condition = is_among_overdue if filter.is_overdue else is_not_among_overdue
        if by_due_date and filter.is_overdue:
            condition = is_first_among_due
        of_rows.append(Where(condition, via="session", beside=True))
        counted_by = None
    if filter.submitted_since is not None:
        of_rows.append(Where(is_submitted_since))
        counted_by = None
    window = replace(window, where=tuple(of_rows), values=values)
    access = ctx.access()
    operation = list_rows(Assignment, access, window, wanted, counted_by)
    return await ctx.read("assignments", access, operation)


async def get_my_assignments(ctx: Context, ids: list[int], wanted: Selection) -> list[Row]:
    """Returns those assignments of `ids` that the viewer may see."""
    access = ctx.access()
    return await ctx.read("assignment", access, get_rows(Assignment, access, ids, wanted))
