"""Opening sessions, each with its first homework."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from functools import cache, partial
from uuid import uuid4
from zoneinfo import ZoneInfo

from app.care.bounds import (
    MAX_TEXT,
    MAX_TITLE,
    ROW_BYTES,
    check_moment,
    check_required,
    check_text,
    length_of,
)
from app.care.context import Context, Role
from app.care.errors import InvalidValue, NotFound
from app.care.homework import (
    Homework,
    adding_homework,
    check_homework,
    choosing_books,
    stored_length_of_homework,
    values_of,
)
from app.care.sessions import get_my_sessions
from app.db.reader.reads import Row
from app.db.reader.selection import AccessScope, Selection
from app.db.sql import Steps, Values, repeatable
from app.db.statements.assignments import FIND_BOOKS, TAKE_NEW_IDS
from app.db.statements.events import INSERT_SESSION_EVENTS
from app.db.statements.sessions import ADD_SESSION, FIND_CLIENT, FIND_MY_CLIENT, RELATE
from app.db.tables import Actor, EventKind

MAX_SESSIONS = 52
MAX_DAYS = 366
MAX_PLANNED = 200  # assignments in all


@dataclass(frozen=True)
class Repeat:
    count: int  # of sessions, with the first
    every_days: int


@dataclass(frozen=True)
class NewSession:
    """One session, or a series of them, for a client of the caregiver or for any client by identifier."""

    client_id: int | None
    oppt_id: str | None  # the client's external identifier, `clientOpptId` on the legacy paths
    title: str
    description: str
    start_date: datetime
    homework: Homework | None = None
    repeat: Repeat = Repeat(1, 1)


async def create_session(ctx: Context, new: NewSession, selection: Selection | None) -> list[Row]:
    """Returns the new sessions in order."""
    access = ctx.access_as(Role.CAREGIVER)
    check_session(new)
    planned = plan_sessions(new, ZoneInfo(ctx.time_zone))
    for one in planned[1:]:
        check_window(one)
    ctx.charge_stored(len(planned) * stored_length(new))
    limiter = ctx.identifier_limiter
    # Counts once, however often the database makes the driver repeat the change.
    count_try = cache(partial(limiter.count, ctx.signed_in().id)) if limiter else None
    opened = await ctx.write("createSession", opening(access, planned, count_try))
    return [] if selection is None else await get_my_sessions(ctx, opened, selection)


def stored_length(new: NewSession) -> int:
    """Of one session with its homework."""
    homework = 0 if new.homework is None else stored_length_of_homework(new.homework)
    return length_of(new.title, new.description) + ROW_BYTES + homework


def check_session(new: NewSession) -> None:
    client = {"clientOpptId": new.oppt_id or ""} if new.client_id is None else {"clientId": new.client_id}
    homework = {} if new.homework is None else {"homework.bookIds": new.homework.book_ids}
    check_required(**client, title=new.title, **homework)
    if new.oppt_id is not None and new.client_id is not None:
        raise InvalidValue("clientId", "cannot be combined with clientOpptId")
    check_text("title", new.title, MAX_TITLE)
    check_text("description", new.description, MAX_TEXT)
    check_moment("startDate", new.start_date)
    if not 1 <= new.repeat.count <= MAX_SESSIONS:
        raise InvalidValue("repeat.count", f"must lie between 1 and {MAX_SESSIONS}")
    if not 1 <= new.repeat.every_days <= MAX_DAYS:
        raise InvalidValue("repeat.everyDays", f"must lie between 1 and {MAX_DAYS}")
    check_window(new)
    if new.homework is not None and len(set(new.homework.book_ids)) * new.repeat.count > MAX_PLANNED:
        raise InvalidValue("homework.bookIds", f"may plan at most {MAX_PLANNED} assignments at once")


def check_window(new: NewSession) -> None:
    """Also for each repetition: when clocks go back, the first 02:50 comes before the second 02:10, but on
    other days 02:10 comes before 02:50."""
    if new.homework is None:
        return
    check_homework(new.homework, "homework.")
    if new.homework.start_date < new.start_date:
        raise InvalidValue("homework.startDate", "is before the session's")


def plan_sessions(new: NewSession, zone: ZoneInfo) -> list[NewSession]:
    """Plans each session and its homework at the same local time, also after clocks have changed."""
    return [
        replace(
            new,
            start_date=shift(new.start_date, days, zone),
            homework=None if new.homework is None else shift_homework(new.homework, days, zone),
        )
        for days in range(0, new.repeat.count * new.repeat.every_days, new.repeat.every_days)
    ]


def shift_homework(homework: Homework, days: int, zone: ZoneInfo) -> Homework:
    return replace(
        homework,
        start_date=shift(homework.start_date, days, zone),
        end_date=shift(homework.end_date, days, zone),
        remind_dates=tuple(shift(moment, days, zone) for moment in homework.remind_dates),
    )


def shift(moment: datetime, days: int, zone: ZoneInfo) -> datetime:
    """The same local time some days later. Returns the first of two if clocks go back on that day."""
    if days == 0:
        return moment
    shifted = moment.astimezone(zone) + timedelta(days=days)  # in local time, with fold=0
    found = shifted.astimezone(UTC)
    # A local time that does not exist is converted to another one.
    if found.astimezone(zone).replace(tzinfo=None) != shifted.replace(tzinfo=None):
        raise InvalidValue("repeat", "includes a local time that a clock change skips")
    check_moment("repeat", found)
    return found


@repeatable
def opening(
    access: AccessScope, planned: list[NewSession], count_try: Callable[[], None] | None = None
) -> Steps[list[int]]:
    """Adds sessions, their homework, counters and events in one transaction. Returns the new ids."""
    first = planned[0]
    values: Values = {"caregiver": access.caregiver, "now": access.now}
    if first.oppt_id is not None:
        values["client"] = yield from finding_by_identifier(first.oppt_id, values, count_try)
    else:
        values["client"] = yield from finding_my_client(first.client_id, values)
    if first.homework is not None:
        homework = values_of(first.homework)
        found = yield FIND_BOOKS, homework
        yield from choosing_books(first.homework, homework, found, "homework.")
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
    created = {"sessions": opened, "event": EventKind.SESSION_CREATED, "actor": Actor.CAREGIVER}
    yield INSERT_SESSION_EVENTS, {**values, **created}
    for own, one in zip(made, planned, strict=True):
        if one.homework is not None:
            homework = values_of(one.homework)
            new_ids = [row[0] for row in (yield TAKE_NEW_IDS, homework)]
            yield from adding_homework(homework | own, new_ids)
    return opened


def finding_by_identifier(oppt_id: str, values: Values, count_try: Callable[[], None] | None) -> Steps[int]:
    """Any caregiver who knows the identifier may open a session, so guesses are limited."""
    # PostgreSQL rejects NUL, also in a condition.
    found = [] if "\0" in oppt_id else (yield FIND_CLIENT, {**values, "oppt_id": oppt_id})
    is_known = bool(found and found[0][1])
    if count_try is not None and not is_known:
        count_try()
    if not found:
        raise NotFound("client", "clientOpptId")
    return int(found[0][0])


def finding_my_client(client_id: int | None, values: Values) -> Steps[int]:
    found = yield FIND_MY_CLIENT, {**values, "of_client": client_id}
    if not found:
        raise NotFound("client", "clientId")
    return int(found[0][0])
