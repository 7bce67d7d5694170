"""Sessions: their time state, reading them, changing and closing them."""

from collections import defaultdict
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from typing import TypeVar

from sqlalchemy import ColumnElement, FromClause, and_, false, true

from app.care.bounds import MAX_TEXT, MAX_TITLE, check_moment, check_required, check_text, length_of
from app.care.context import Context, Role, read_one
from app.care.errors import CLOSED, NotFound, NotRunning, WrongState
from app.db.audit.records import ASSIGNMENTS
from app.db.moments import as_moment, known_moment
from app.db.reader.reads import Page, Row, get_rows, list_rows
from app.db.reader.selection import AccessScope, Order, PageRequest, Selection, Where
from app.db.sql import Steps, Values, moment_parameter, repeatable
from app.db.statements.events import INSERT_SESSION_EVENTS
from app.db.statements.sessions import (
    CHANGE_SESSION,
    CLOSE_SESSION,
    FIND_PENDING,
    FIND_SCHEDULED_REMINDERS,
    LOCK_SESSION,
    MOVE_ASSIGNMENTS,
    MOVE_REMINDERS,
    SKIP_REMINDERS_OF_SESSION,
)
from app.db.tables import Actor, EventKind, ReminderState, Session, TimeState

# --- time state -----------------------------------------------------------------------------------


NOW = moment_parameter("now")
Moments = TypeVar("Moments", datetime, str)  # moments, or texts as SQLite stores them


def time_state(is_closed: bool, start_date: Moments, now: Moments) -> TimeState:
    """Computed from the moment of the request, never stored."""
    if is_closed:
        return TimeState.COMPLETED
    return TimeState.FUTURE if start_date > now else TimeState.RUNNING


def is_completed(session: FromClause) -> ColumnElement[bool]:
    return session.c.is_closed == true()


def is_future(session: FromClause) -> ColumnElement[bool]:
    return and_(session.c.is_closed == false(), session.c.start_date > NOW)


def is_running(session: FromClause) -> ColumnElement[bool]:
    return and_(session.c.is_closed == false(), session.c.start_date <= NOW)


# The same rule in SQL; tests/care/test_time_state.py compares both.
IN_TIME_STATE = {
    TimeState.COMPLETED: is_completed,
    TimeState.FUTURE: is_future,
    TimeState.RUNNING: is_running,
}


# --- reading --------------------------------------------------------------------------------------


class SessionOrder(StrEnum):
    NEWEST = "NEWEST"
    STARTS_SOONEST = "STARTS_SOONEST"


# Every other order is newest first.
ORDERS: dict[str | None, Order] = {
    SessionOrder.STARTS_SOONEST: Order(SessionOrder.STARTS_SOONEST, "start_date")
}


async def list_my_sessions(
    ctx: Context, state: TimeState | None, page_request: PageRequest, selection: Selection
) -> Page:
    where = () if state is None else (Where(IN_TIME_STATE[state]),)
    page_request, access = page_request._replace(where=where), ctx.access()
    return await ctx.read("sessions", access, list_rows(Session, access, page_request, selection))


async def get_my_sessions(ctx: Context, ids: list[int], selection: Selection) -> list[Row]:
    """Returns those sessions of `ids` that the viewer may see."""
    access = ctx.access()
    return await ctx.read("session", access, get_rows(Session, access, ids, selection))


# --- changes --------------------------------------------------------------------------------------


@dataclass(frozen=True)
class SessionChange:
    """A member that is None does not change."""

    session_id: int | None
    title: str | None = None
    description: str | None = None
    start_date: datetime | None = None


async def update_session(ctx: Context, change: SessionChange, selection: Selection | None) -> Row | None:
    access = ctx.access_as(Role.CAREGIVER)
    check_required(sessionId=change.session_id)
    if change.title is not None:
        check_required(title=change.title)
        check_text("title", change.title, MAX_TITLE)
    if change.description is not None:
        check_text("description", change.description, MAX_TEXT)
    if change.start_date is not None:
        check_moment("startDate", change.start_date)
    ctx.charge_stored(length_of(change.title, change.description))
    updated = await ctx.write("updateSession", updating(access, change))
    return await read_one(get_my_sessions, ctx, updated, selection)


async def close_session(ctx: Context, session_id: int | None, selection: Selection | None) -> Row | None:
    """Closes a session for good: it accepts no homework, no answers and no feedback."""
    access = ctx.access_as(Role.CAREGIVER)
    check_required(sessionId=session_id)
    closed = await ctx.write("closeSession", closing(access, session_id))
    return await read_one(get_my_sessions, ctx, closed, selection)


@dataclass(frozen=True)
class LockedSession:
    values: Values
    state: TimeState
    start_date: datetime
    title: str
    description: str


def locking_session(access: AccessScope, session_id: int | None) -> Steps[LockedSession]:
    """Locks the caregiver's open session until the transaction ends."""
    values: Values = {"caregiver": access.caregiver, "session": session_id, "now": access.now}
    found = yield LOCK_SESSION, values
    if not found:
        raise NotFound("session", "sessionId")
    client_id, is_closed, start, title, description = found[0]
    state = time_state(bool(is_closed), known_moment(start), access.now)
    if state is TimeState.COMPLETED:
        raise NotRunning("sessionId", message=CLOSED)
    values |= {"client": client_id, "sessions": [session_id], "actor": Actor.CAREGIVER}
    return LockedSession(values, state, known_moment(start), title, description)


@repeatable
def updating(access: AccessScope, change: SessionChange) -> Steps[int]:
    locked = yield from locking_session(access, change.session_id)
    start = locked.start_date if change.start_date is None else change.start_date
    if start != locked.start_date and locked.state is not TimeState.FUTURE:
        raise WrongState("the session has started", "startDate")
    title = locked.title if change.title is None else change.title
    description = locked.description if change.description is None else change.description
    session_id: int = locked.values["session"]
    if (title, description, start) == (locked.title, locked.description, locked.start_date):
        return session_id
    changed = {"title": title, "description": description, "session_start": start}
    yield CHANGE_SESSION, {**locked.values, **changed}
    moved_ids: list[int] = []
    if start != locked.start_date:
        moved_ids = yield from moving_homework(locked.values, start - locked.start_date)
    event = {"event": EventKind.SESSION_UPDATED, ASSIGNMENTS: moved_ids}
    yield INSERT_SESSION_EVENTS, {**locked.values, **event}
    return session_id


@repeatable
def closing(access: AccessScope, session_id: int | None) -> Steps[int]:
    locked = yield from locking_session(access, session_id)
    yield CLOSE_SESSION, locked.values
    yield SKIP_REMINDERS_OF_SESSION, locked.values
    yield INSERT_SESSION_EVENTS, {**locked.values, "event": EventKind.SESSION_CLOSED}
    closed: int = locked.values["session"]
    return closed


def moving_homework(values: Values, by: timedelta) -> Steps[list[int]]:
    """Moves windows and scheduled reminders by the same time. Otherwise homework could begin before its
    session, and would remind the client of assignments that do not accept answers yet. Returns the ids of
    the assignments."""
    windows: dict[tuple[datetime, datetime | None], list[int]] = defaultdict(list)
    pending = yield FIND_PENDING, values
    for number, start, end in pending:
        windows[known_moment(start), as_moment(end)].append(number)
    for (start, end), assignments in windows.items():
        window = {"start": moved(start, by), "end": None if end is None else moved(end, by)}
        yield MOVE_ASSIGNMENTS, {**values, **window, "assignments": assignments}
    reminders: dict[datetime, list[int]] = defaultdict(list)
    for number, moment in (yield FIND_SCHEDULED_REMINDERS, values):
        reminders[known_moment(moment)].append(number)
    for moment, numbers in reminders.items():
        to = moved(moment, by)
        state = ReminderState.SKIPPED if to < values["now"] else ReminderState.SCHEDULED
        yield MOVE_REMINDERS, {**values, "reminders": numbers, "remind": to, "state": state}
    return [row[0] for row in pending]


def moved(moment: datetime, by: timedelta) -> datetime:
    to = moment + by
    check_moment("startDate", to)
    return to
