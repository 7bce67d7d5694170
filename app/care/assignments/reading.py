"""Assignments: the viewer's own, and how late they are."""

from dataclasses import dataclass, replace
from datetime import datetime
from enum import StrEnum

from sqlalchemy import ColumnElement, FromClause, and_, literal_column

from app.care.context import Context
from app.care.sessions.reading import IN_TIME_STATE, NOW, Moments, is_running
from app.db.reader.entities import due_of, is_due
from app.db.reader.reads import CountedBy, Page, Row, get_rows, list_rows
from app.db.reader.selection import Order, PageRequest, Selection, Where
from app.db.sql import id_parameter, moment_parameter, text_parameter
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
    """At its end an assignment is still on time."""
    return end_date is not None and end_date < moment


def lateness(end_date: datetime | None, submit_date: datetime | None, now: datetime) -> Lateness:
    """LATE: submitted after the end. OVERDUE: the end has passed and nothing is submitted."""
    measured = submit_date or now
    if end_date is None or not is_past(end_date, measured):
        return Lateness(LatenessState.ON_TIME, 0)
    state = LatenessState.OVERDUE if submit_date is None else LatenessState.LATE
    return Lateness(state, int((measured - end_date).total_seconds()))


def is_overdue(status: str, end_date: Moments | None, now: Moments, state_of_session: TimeState) -> bool:
    """What a caregiver can still wait for: a session that is not running takes no answers any more."""
    is_pending = status == AssignmentStatus.PENDING
    return is_pending and is_past(end_date, now) and state_of_session is TimeState.RUNNING


# The same rule for the database; a test walks both. It is never null, so that its opposite is right too.
def is_among_overdue(assignment: FromClause, session: FromClause) -> ColumnElement[bool]:
    has_ended = and_(assignment.c.end_date.is_not(None), assignment.c.end_date < NOW)
    return and_(has_ended, assignment.c.status == AssignmentStatus.PENDING.value, is_running(session))


def is_first_among_due(assignment: FromClause, session: FromClause) -> ColumnElement[bool]:
    """The same in the form in which the indexes by due date find it: pending is part of being due."""
    return and_(due_of(assignment) < NOW, is_running(session))


def is_not_among_overdue(assignment: FromClause, session: FromClause) -> ColumnElement[bool]:
    return ~is_among_overdue(assignment, session)


# --- the viewer's own -----------------------------------------------------------------------------


class AssignmentOrder(StrEnum):
    NEWEST = "NEWEST"
    DUE_SOONEST = "DUE_SOONEST"


DUE_SOONEST = Order(AssignmentOrder.DUE_SOONEST, "due")
ORDERS: dict[str | None, Order] = {AssignmentOrder.DUE_SOONEST: DUE_SOONEST}  # the others are newest first


@dataclass(frozen=True)
class AssignmentFilter:
    time_state: TimeState | None = None
    status: AssignmentStatus | None = None
    session_id: int | None = None
    client_id: int | None = None
    is_overdue: bool | None = None
    submitted_since: datetime | None = None


def has_status(assignment: FromClause) -> ColumnElement[bool]:
    return assignment.c.status == text_parameter("status")


def is_in_session(assignment: FromClause) -> ColumnElement[bool]:
    return assignment.c.session_id == id_parameter("in_session")


def is_of_client(row: FromClause) -> ColumnElement[bool]:
    return row.c.client_id == id_parameter("of_client")


def is_of_book(assignment: FromClause) -> ColumnElement[bool]:
    # Plus nothing: they are found by their session or client, not among all assignments of a popular book.
    return assignment.c.book_id + literal_column("0") == id_parameter("of_book")


def is_submitted_since(row: FromClause) -> ColumnElement[bool]:
    return row.c.submit_date >= moment_parameter("since")


def is_session(session: FromClause) -> ColumnElement[bool]:
    return session.c.id == id_parameter("in_session")


def all_of_session(session: FromClause) -> ColumnElement[int]:
    return session.c.assignment_count


def completed_of_session(session: FromClause) -> ColumnElement[int]:
    return session.c.completed_assignment_count


def pending_of_session(session: FromClause) -> ColumnElement[int]:
    return session.c.assignment_count - session.c.completed_assignment_count


def of_status(status: AssignmentStatus | None) -> tuple[tuple[Where, ...], dict[str, object]]:
    """The condition of a session's own list of assignments, and what it compares with."""
    return ((Where(has_status),), {"status": status.value}) if status is not None else ((), {})


COUNTS = {
    None: all_of_session,
    AssignmentStatus.COMPLETE: completed_of_session,
    AssignmentStatus.PENDING: pending_of_session,
}


async def list_my_assignments(
    ctx: Context, asked: AssignmentFilter, window: PageRequest, wanted: Selection
) -> Page:
    """An assignment's time state is that of its session. The total is the sum of what the sessions count,
    where they keep count of what is asked."""
    of_rows: list[Where] = []
    of_sessions: list[Where] = []
    if asked.time_state is not None:
        of_rows.append(Where(IN_TIME_STATE[asked.time_state], via="session"))
        of_sessions.append(Where(IN_TIME_STATE[asked.time_state]))
    if asked.status is not None:
        of_rows.append(Where(has_status))
    by_due_date = window.order is DUE_SOONEST
    if by_due_date and asked.status is AssignmentStatus.PENDING:
        of_rows.append(Where(is_due))  # or submitted ones would be walked as well
    if asked.session_id is not None:
        of_rows.append(Where(is_in_session, narrows=True))
        of_sessions.append(Where(is_session, narrows=True))
    if asked.client_id is not None:
        is_in_one = asked.session_id is not None  # whose rows are found by the session, not by the client
        of_rows.append(Where(is_of_client, "session") if is_in_one else Where(is_of_client, narrows=True))
        of_sessions.append(Where(is_of_client, narrows=True))
    values = {
        "status": asked.status,
        "in_session": asked.session_id,
        "of_client": asked.client_id,
        "since": asked.submitted_since,
    }
    counted_by: CountedBy | None = CountedBy(Session, COUNTS[asked.status], tuple(of_sessions))
    if asked.is_overdue is not None:
        says = is_among_overdue if asked.is_overdue else is_not_among_overdue
        if by_due_date and asked.is_overdue:
            says = is_first_among_due
        of_rows.append(Where(says, via="session", beside=True))
        counted_by = None
    if asked.submitted_since is not None:
        of_rows.append(Where(is_submitted_since))
        counted_by = None
    window = replace(window, where=tuple(of_rows), values=values)
    access = ctx.access()
    operation = list_rows(Assignment, access, window, wanted, counted_by)
    return await ctx.read("assignments", access, operation)


async def get_my_assignments(ctx: Context, ids: list[int], wanted: Selection) -> list[Row]:
    """Those of the assignments that are the viewer's."""
    access = ctx.access()
    return await ctx.read("assignment", access, get_rows(Assignment, access, ids, wanted))
