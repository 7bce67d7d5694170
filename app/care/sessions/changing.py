"""Changing and closing a session."""

from dataclasses import dataclass
from datetime import datetime

from app.care.bounds import LONGEST_TEXT, LONGEST_TITLE, check_moment, check_text
from app.care.context import Context, Role
from app.care.errors import CLOSED, NotFound, NotRunning, WrongState
from app.care.sessions.reading import changed_session, time_state
from app.care.sessions.rescheduling import moving_homework
from app.db.moments import known_moment
from app.db.reader.reads import Row
from app.db.reader.selection import AccessScope, Selection
from app.db.sql import Operation, Values
from app.db.statements.events import INSERT_SESSION_EVENTS
from app.db.statements.sessions import (
    CHANGE_SESSION,
    CLOSE_SESSION,
    LOCK_SESSION,
    SKIP_REMINDERS_OF_SESSION,
)
from app.db.tables import Actor, EventKind, TimeState


@dataclass(frozen=True)
class SessionChange:
    """A member that is None does not change."""

    session_id: int | None
    title: str | None = None
    description: str | None = None
    start_date: datetime | None = None


async def update_session(ctx: Context, change: SessionChange, wanted: Selection | None) -> Row | None:
    access = ctx.access_as(Role.CAREGIVER)
    if change.title is not None:
        check_text("title", change.title, LONGEST_TITLE)
    if change.description is not None:
        check_text("description", change.description, LONGEST_TEXT, is_required=False)
    if change.start_date is not None:
        check_moment("startDate", change.start_date)
    return await changed_session(ctx, await ctx.write("updateSession", updating(access, change)), wanted)


async def close_session(ctx: Context, session_id: int | None, wanted: Selection | None) -> Row | None:
    """Closes a session for good: it accepts no homework, no answers and no feedback."""
    access = ctx.access_as(Role.CAREGIVER)
    return await changed_session(ctx, await ctx.write("closeSession", closing(access, session_id)), wanted)


@dataclass(frozen=True)
class LockedSession:
    values: Values
    state: TimeState
    start_date: datetime
    title: str
    description: str


def locking_session(access: AccessScope, session_id: int | None) -> Operation[LockedSession]:
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


def updating(access: AccessScope, change: SessionChange) -> Operation[int]:
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
    if start != locked.start_date:
        yield from moving_homework(locked.values, start - locked.start_date)
    yield INSERT_SESSION_EVENTS, {**locked.values, "event": EventKind.SESSION_UPDATED}
    return session_id


def closing(access: AccessScope, session_id: int | None) -> Operation[int]:
    locked = yield from locking_session(access, session_id)
    yield CLOSE_SESSION, locked.values
    yield SKIP_REMINDERS_OF_SESSION, locked.values
    yield INSERT_SESSION_EVENTS, {**locked.values, "event": EventKind.SESSION_CLOSED}
    closed: int = locked.values["session"]
    return closed
