"""Homework: what a caregiver asks to assign, and assigning it."""

from dataclasses import dataclass
from datetime import datetime

from app.care.context import Context, Role
from app.care.errors import Incomplete, NotFound, NotRunning, Unreadable
from app.care.sessions import time_state
from app.db.entities import as_moment
from app.db.reads import Row, get_rows
from app.db.selection import Viewpoint, Wanted
from app.db.statements import Operation
from app.db.tables import Actor, Assignment, EventKind, TimeState, is_storable
from app.db.writes.events import TELL_OF_ASSIGNMENTS
from app.db.writes.homework import (
    ADD_ASSIGNMENTS,
    ADD_REMINDERS,
    COUNT_NEW_ASSIGNMENTS,
    FIND_BOOKS,
    LOCK_SESSION,
)

MOST_BOOKS = 50
MOST_REMINDERS = 50


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
    added = await ctx.write(assigning(viewpoint, homework))
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
    yield TELL_OF_ASSIGNMENTS, {**values, "event": EventKind.ASSIGNED, "actor": Actor.CAREGIVER}
    return added
