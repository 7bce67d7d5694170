"""Assignments: the viewer's own, and how late they are."""

from dataclasses import dataclass, replace
from datetime import datetime
from enum import StrEnum

from sqlalchemy import ColumnElement, FromClause, String, bindparam

from app.care.context import Context
from app.care.sessions import IN_TIME_STATE
from app.db.reads import CountedBy, Page, Row, get_rows, list_rows
from app.db.selection import Wanted, Where, Window
from app.db.statements import id_parameter
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


def lateness(end_date: datetime | None, submit_date: datetime | None, now: datetime) -> Lateness:
    """LATE: submitted after the end. OVERDUE: the end has passed and nothing is submitted."""
    measured = submit_date or now
    if end_date is None or measured <= end_date:
        return Lateness(LatenessState.ON_TIME, 0)
    state = LatenessState.OVERDUE if submit_date is None else LatenessState.LATE
    return Lateness(state, int((measured - end_date).total_seconds()))


# --- the viewer's own -----------------------------------------------------------------------------


@dataclass(frozen=True)
class AssignmentFilter:
    time_state: TimeState | None = None
    status: AssignmentStatus | None = None
    session_id: int | None = None
    client_id: int | None = None


def has_status(assignment: FromClause) -> ColumnElement[bool]:
    return assignment.c.status == bindparam("status", type_=String)


def is_in_session(assignment: FromClause) -> ColumnElement[bool]:
    return assignment.c.session_id == id_parameter("in_session")


def is_of_client(row: FromClause) -> ColumnElement[bool]:
    return row.c.client_id == id_parameter("of_client")


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


async def list_my_assignments(ctx: Context, asked: AssignmentFilter, window: Window, wanted: Wanted) -> Page:
    """An assignment's time state is that of its session. The total is the sum of what the sessions count."""
    of_rows: list[Where] = []
    of_sessions: list[Where] = []
    if asked.time_state is not None:
        of_rows.append(Where(IN_TIME_STATE[asked.time_state], via="session"))
        of_sessions.append(Where(IN_TIME_STATE[asked.time_state]))
    if asked.status is not None:
        of_rows.append(Where(has_status))
    if asked.session_id is not None:
        of_rows.append(Where(is_in_session, narrows=True))
        of_sessions.append(Where(is_session, narrows=True))
    if asked.client_id is not None:
        of_rows.append(Where(is_of_client, narrows=True))
        of_sessions.append(Where(is_of_client, narrows=True))
    values = {"status": asked.status, "in_session": asked.session_id, "of_client": asked.client_id}
    counted_by = CountedBy(Session, COUNTS[asked.status], tuple(of_sessions))
    window = replace(window, where=tuple(of_rows), values=values)
    return await ctx.db.read(list_rows(Assignment, ctx.viewpoint(), window, wanted, counted_by))


async def get_my_assignments(ctx: Context, ids: list[int], wanted: Wanted) -> list[Row]:
    """Those of the assignments that are the viewer's."""
    return await ctx.db.read(get_rows(Assignment, ctx.viewpoint(), ids, wanted))
