"""Assignments: the viewer's own, and assigning homework."""

from dataclasses import dataclass, replace
from datetime import datetime
from enum import StrEnum

from sqlalchemy import ColumnElement, FromClause, String, bindparam

from app.care.context import Context, Role
from app.care.errors import Incomplete, NotFound, NotRunning, Unreadable
from app.care.sessions import IN_TIME_STATE, time_state
from app.db.entities import as_moment
from app.db.reads import CountedBy, Page, Row, get_rows, list_rows
from app.db.selection import Viewpoint, Wanted, Where, Window
from app.db.statements import Operation, id_parameter
from app.db.tables import Assignment, AssignmentStatus, Session, TimeState, is_storable
from app.db.writes import (
    ADD_ASSIGNMENTS,
    ADD_REMINDERS,
    COUNT_NEW_ASSIGNMENTS,
    FIND_BOOKS,
    LOCK_SESSION,
    TELL_ASSIGNED,
)

MOST_BOOKS = 50
MOST_REMINDERS = 50


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


# --- assigning homework ---------------------------------------------------------------------------


@dataclass(frozen=True)
class Homework:
    """What a caregiver asks to assign. An id that can name nothing is None."""

    session_id: int | None
    book_ids: tuple[int | None, ...]
    start_date: datetime
    end_date: datetime
    remind_dates: tuple[datetime, ...] = ()


async def assign_homework(ctx: Context, homework: Homework, wanted: Wanted | None) -> list[Row]:
    """One assignment per book, all or none; the new assignments as far as `wanted` asks for them.

    They are read when the change is done: how much a caller selects must not decide how long writers wait.
    """
    caregiver_id = ctx.signed_in_as(Role.CAREGIVER)
    check_homework(homework)
    viewpoint = Viewpoint(ctx.now, caregiver=caregiver_id)
    added = await ctx.db.write(assigning(viewpoint, homework))
    return [] if wanted is None else await ctx.db.read(get_rows(Assignment, viewpoint, added, wanted))


def check_homework(homework: Homework) -> None:
    if not homework.book_ids:
        raise Incomplete("bookIds")
    if len(homework.book_ids) > MOST_BOOKS:
        raise Unreadable("bookIds", f"may hold at most {MOST_BOOKS} books")
    for member, moment in (("startDate", homework.start_date), ("endDate", homework.end_date)):
        if not is_storable(moment):
            raise Unreadable(member, "must lie between the years 1900 and 2999")
    if homework.end_date < homework.start_date:
        raise Unreadable("endDate", "is before startDate")
    if len(homework.remind_dates) > MOST_REMINDERS:
        raise Unreadable("remindDates", f"may hold at most {MOST_REMINDERS} moments")
    for moment in homework.remind_dates:
        if not homework.start_date <= moment <= homework.end_date:
            raise Unreadable("remindDates", "must lie between startDate and endDate")


def assigning(viewpoint: Viewpoint, homework: Homework) -> Operation[list[int]]:
    """The whole change in one transaction: rows, reminders, counters and the event. Returns the new ids."""
    books = list(dict.fromkeys(homework.book_ids))
    values = {
        "caregiver": viewpoint.caregiver,
        "session": homework.session_id,
        "books": books,
        "now": viewpoint.now,
        "start": homework.start_date,
        "end": homework.end_date,
        "moments": list(dict.fromkeys(homework.remind_dates)),
    }
    found = yield LOCK_SESSION, values
    if not found:
        raise NotFound("session", "sessionId")
    client_id, is_closed, start_date = found[0]
    if None in books or len((yield FIND_BOOKS, values)) < len(books):
        raise NotFound("book", "bookIds")
    session_start = as_moment(start_date)
    assert session_start is not None
    if time_state(bool(is_closed), session_start, viewpoint.now) is not TimeState.RUNNING:
        raise NotRunning("sessionId")

    values["client"] = client_id
    added = sorted(row[0] for row in (yield ADD_ASSIGNMENTS, values))
    values |= {"assignments": added, "added": len(added), "latest": added[-1]}
    if values["moments"]:
        yield ADD_REMINDERS, values
    yield COUNT_NEW_ASSIGNMENTS, values
    yield TELL_ASSIGNED, values
    return added
