"""Opening sessions, changing one, closing it."""

from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from uuid import uuid4
from zoneinfo import ZoneInfo

from app.care.assignments.homework import (
    Homework,
    adding_homework,
    check_homework,
    choosing_books,
    values_of,
)
from app.care.assignments.locking import CLOSED
from app.care.bounds import LONGEST_TEXT, LONGEST_TITLE, check_moment, check_text
from app.care.context import Context, Role
from app.care.errors import Incomplete, NotFound, NotRunning, Unreadable, WrongState
from app.care.sessions.identifiers import IdentifierTries
from app.care.sessions.reading import get_my_sessions, time_state
from app.care.sessions.rescheduling import moving_homework
from app.db.reader.entities import known_moment
from app.db.reader.reads import Row
from app.db.reader.selection import AccessScope, Selection
from app.db.sql import Operation, Values
from app.db.statements.events import INSERT_SESSION_EVENTS
from app.db.statements.homework import FIND_BOOKS
from app.db.statements.sessions import (
    ADD_SESSION,
    CHANGE_SESSION,
    CLOSE_SESSION,
    FIND_CLIENT,
    FIND_MY_CLIENT,
    LOCK_WHOLE_SESSION,
    RELATE,
    SKIP_REMINDERS_OF_SESSION,
)
from app.db.tables import Actor, EventKind, TimeState

MOST_SESSIONS = 52
MOST_DAYS = 366
MOST_PLANNED = 200  # assignments in all


@dataclass(frozen=True)
class Repeat:
    count: int  # of the sessions in all
    every_days: int


@dataclass(frozen=True)
class NewSession:
    """What a caregiver asks to open: for a client of theirs, or for the one whose identifier they know."""

    client_id: int | None
    oppt_id: str | None
    title: str
    description: str
    start_date: datetime
    homework: Homework | None = None
    repeat: Repeat = Repeat(1, 1)


# --- opening --------------------------------------------------------------------------------------


async def create_session(ctx: Context, asked: NewSession, wanted: Selection | None) -> list[Row]:
    """The new sessions, the first one first."""
    access = ctx.access_as(Role.CAREGIVER)
    check_session(asked)
    planned = repeated(asked, ZoneInfo(ctx.time_zone))
    for one in planned[1:]:
        check_window(one)
    opened = await ctx.write("createSession", opening(access, planned, ctx.tries))
    return [] if wanted is None else await get_my_sessions(ctx, opened, wanted)


def check_session(asked: NewSession) -> None:
    if asked.client_id is None and not (asked.oppt_id or "").strip():
        raise Incomplete("clientOpptId")
    if asked.oppt_id is not None and asked.client_id is not None:
        raise Unreadable("clientId", "cannot be combined with clientOpptId")
    check_text("title", asked.title, LONGEST_TITLE)
    check_text("description", asked.description, LONGEST_TEXT, is_required=False)
    check_moment("startDate", asked.start_date)
    if not 1 <= asked.repeat.count <= MOST_SESSIONS:
        raise Unreadable("repeat.count", f"must lie between 1 and {MOST_SESSIONS}")
    if not 1 <= asked.repeat.every_days <= MOST_DAYS:
        raise Unreadable("repeat.everyDays", f"must lie between 1 and {MOST_DAYS}")
    check_window(asked)
    if asked.homework is not None and len(asked.homework.book_ids) * asked.repeat.count > MOST_PLANNED:
        raise Unreadable("homework.bookIds", f"may plan at most {MOST_PLANNED} assignments at once")


def check_window(asked: NewSession) -> None:
    """Also of what is repeated: what began and ended in the hour that a clock change repeats is not in order
    on other days."""
    if asked.homework is None:
        return
    check_homework(asked.homework, "homework.")
    if asked.homework.start_date < asked.start_date:
        raise Unreadable("homework.startDate", "is before the session's")


def repeated(asked: NewSession, zone: ZoneInfo) -> list[NewSession]:
    """At the same wall time every so many days, whatever the clocks do meanwhile; homework goes along."""
    return [
        replace(
            asked,
            start_date=later(asked.start_date, days, zone),
            homework=None if asked.homework is None else homework_later(asked.homework, days, zone),
        )
        for days in range(0, asked.repeat.count * asked.repeat.every_days, asked.repeat.every_days)
    ]


def homework_later(homework: Homework, days: int, zone: ZoneInfo) -> Homework:
    return replace(
        homework,
        start_date=later(homework.start_date, days, zone),
        end_date=later(homework.end_date, days, zone),
        remind_dates=tuple(later(moment, days, zone) for moment in homework.remind_dates),
    )


def later(moment: datetime, days: int, zone: ZoneInfo) -> datetime:
    """The same wall time some days later; of two that a clock change makes, the first."""
    if days == 0:
        return moment
    local = moment.astimezone(zone)
    there = (local.replace(tzinfo=None) + timedelta(days=days)).replace(tzinfo=zone, fold=0)
    found = there.astimezone(UTC)
    if found.astimezone(zone).replace(tzinfo=None) != there.replace(tzinfo=None):
        raise Unreadable("repeat", "meets a time of day that a clock change skips")
    check_moment("repeat", found)
    return found


def opening(
    access: AccessScope, planned: list[NewSession], tries: IdentifierTries | None = None
) -> Operation[list[int]]:
    """Sessions, their homework, their counters and events, in one transaction. Returns the new ids."""
    first = planned[0]
    values: Values = {"caregiver": access.caregiver, "now": access.now}
    if first.oppt_id is not None:
        values["client"] = yield from finding_by_identifier(first.oppt_id, values, tries)
    else:
        values["client"] = yield from finding_my_client(first.client_id, values)
    if first.homework is not None:
        asked = values_of(first.homework)
        yield from choosing_books(asked, (yield FIND_BOOKS, asked), "homework.")
    yield RELATE, values
    made = []
    for one in planned:
        own = {
            **values,
            "title": one.title,
            "description": one.description,
            "chat": f"chat-{uuid4().hex}",
            "session_start": one.start_date,
        }
        made.append({**values, "session": (yield ADD_SESSION, own)[0][0]})
    opened = [own["session"] for own in made]
    told = {"sessions": opened, "event": EventKind.SESSION_CREATED, "actor": Actor.CAREGIVER}
    yield INSERT_SESSION_EVENTS, {**values, **told}
    for own, one in zip(made, planned, strict=True):
        if one.homework is not None:
            yield from adding_homework(values_of(one.homework) | own)
    return opened


def finding_by_identifier(oppt_id: str, values: Values, tries: IdentifierTries | None) -> Operation[int]:
    """Any caregiver who has the identifier may open a session, which is why tries are limited."""
    # PostgreSQL takes no text with a zero character, not even to look for it.
    found = [] if "\0" in oppt_id else (yield FIND_CLIENT, {**values, "oppt_id": oppt_id})
    is_known = bool(found and found[0][1])
    if tries is not None and not is_known:
        tries.count(values["caregiver"])
    if not found:
        raise NotFound("client", "clientOpptId")
    return int(found[0][0])


def finding_my_client(client_id: int | None, values: Values) -> Operation[int]:
    found = yield FIND_MY_CLIENT, {**values, "of_client": client_id}
    if not found:
        raise NotFound("client", "clientId")
    return int(found[0][0])


# --- changing and closing -------------------------------------------------------------------------


@dataclass(frozen=True)
class SessionChange:
    """What is None stays as it is."""

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
    """For good: a closed session takes no homework, no answers, no feedback."""
    access = ctx.access_as(Role.CAREGIVER)
    return await changed_session(ctx, await ctx.write("closeSession", closing(access, session_id)), wanted)


async def changed_session(ctx: Context, session_id: int, wanted: Selection | None) -> Row | None:
    if wanted is None:
        return None
    rows = await get_my_sessions(ctx, [session_id], wanted)
    return rows[0] if rows else None


@dataclass(frozen=True)
class HeldSession:
    values: Values
    state: TimeState
    start_date: datetime
    title: str
    description: str


def holding_session(access: AccessScope, session_id: int | None) -> Operation[HeldSession]:
    """The caregiver's session, open, until the transaction ends."""
    values: Values = {"caregiver": access.caregiver, "session": session_id, "now": access.now}
    found = yield LOCK_WHOLE_SESSION, values
    if not found:
        raise NotFound("session", "sessionId")
    client_id, is_closed, start, title, description = found[0]
    state = time_state(bool(is_closed), known_moment(start), access.now)
    if state is TimeState.COMPLETED:
        raise NotRunning("sessionId", message=CLOSED)
    values |= {"client": client_id, "sessions": [session_id], "actor": Actor.CAREGIVER}
    return HeldSession(values, state, known_moment(start), title, description)


def updating(access: AccessScope, change: SessionChange) -> Operation[int]:
    held = yield from holding_session(access, change.session_id)
    start = held.start_date if change.start_date is None else change.start_date
    if start != held.start_date and held.state is not TimeState.FUTURE:
        raise WrongState("the session has started", "startDate")
    title = held.title if change.title is None else change.title
    description = held.description if change.description is None else change.description
    session_id: int = held.values["session"]
    if (title, description, start) == (held.title, held.description, held.start_date):
        return session_id
    changed = {"title": title, "description": description, "session_start": start}
    yield CHANGE_SESSION, {**held.values, **changed}
    if start != held.start_date:
        yield from moving_homework(held.values, start - held.start_date)
    yield INSERT_SESSION_EVENTS, {**held.values, "event": EventKind.SESSION_UPDATED}
    return session_id


def closing(access: AccessScope, session_id: int | None) -> Operation[int]:
    held = yield from holding_session(access, session_id)
    yield CLOSE_SESSION, held.values
    yield SKIP_REMINDERS_OF_SESSION, held.values
    yield INSERT_SESSION_EVENTS, {**held.values, "event": EventKind.SESSION_CLOSED}
    closed: int = held.values["session"]
    return closed
