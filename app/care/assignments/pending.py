"""Pending homework: extending and withdrawing it, and setting its reminders."""

from datetime import datetime

from app.care.assignments.homework import check_reminders
from app.care.assignments.locking import (
    LockedAssignment,
    emitting_event,
    locking_assignment,
    refuse_closed,
    refuse_unless_pending,
)
from app.care.assignments.reading import get_my_assignments
from app.care.bounds import check_moment
from app.care.context import Context, Role
from app.care.errors import Unreadable
from app.care.sessions.reading import changed_session
from app.db.moments import known_moment
from app.db.reader.reads import Row
from app.db.reader.selection import AccessScope, Selection
from app.db.sql import Operation
from app.db.statements.assignments import (
    ADD_REMINDERS,
    DROP_SCHEDULED_REMINDERS,
    EXTEND,
    FIND_REMINDERS,
    SKIP_REMINDERS,
    WITHDRAW,
)
from app.db.statements.sessions import RECOUNT
from app.db.tables import Actor, EventKind, ReminderState


async def extend_assignment(
    ctx: Context, assignment_id: int | None, end_date: datetime, wanted: Selection | None
) -> Row | None:
    access = ctx.access_as(Role.CAREGIVER)
    check_moment("endDate", end_date)
    extended = await ctx.write("extendAssignment", extending(access, assignment_id, end_date))
    return await changed_assignment(ctx, extended, wanted)


async def withdraw_assignment(
    ctx: Context, assignment_id: int | None, wanted: Selection | None
) -> Row | None:
    """Returns the session, whose counters no longer include the assignment."""
    access = ctx.access_as(Role.CAREGIVER)
    withdrawn = await ctx.write("withdrawAssignment", withdrawing(access, assignment_id))
    return await changed_session(ctx, withdrawn, wanted)


async def set_reminders(
    ctx: Context, assignment_id: int | None, moments: tuple[datetime, ...], wanted: Selection | None
) -> Row | None:
    """Replaces the reminders that are not due yet."""
    access = ctx.access_as(Role.CAREGIVER)
    changed = await ctx.write("setReminders", setting_reminders(access, assignment_id, moments))
    return await changed_assignment(ctx, changed, wanted)


async def changed_assignment(ctx: Context, assignment_id: int, wanted: Selection | None) -> Row | None:
    """Reads the assignment after its change. Returns None if another change withdrew it meanwhile."""
    if wanted is None:
        return None
    rows = await get_my_assignments(ctx, [assignment_id], wanted)
    return rows[0] if rows else None


def locking_pending(access: AccessScope, assignment_id: int | None) -> Operation[LockedAssignment]:
    locked = yield from locking_assignment(access, assignment_id)
    refuse_closed(locked)
    refuse_unless_pending(locked)
    return locked


def extending(access: AccessScope, assignment_id: int | None, end_date: datetime) -> Operation[int]:
    locked = yield from locking_pending(access, assignment_id)
    if end_date < (locked.end_date or locked.start_date):
        raise Unreadable("endDate", "is before the end there is")
    if end_date == locked.end_date:
        return int(locked.values["assignment"])
    yield EXTEND, {**locked.values, "end": end_date}
    return (yield from emitting_event(locked, EventKind.EXTENDED, Actor.CAREGIVER))


def withdrawing(access: AccessScope, assignment_id: int | None) -> Operation[int]:
    locked = yield from locking_pending(access, assignment_id)
    yield WITHDRAW, locked.values
    yield SKIP_REMINDERS, locked.values
    yield RECOUNT, locked.values
    yield from emitting_event(locked, EventKind.WITHDRAWN, Actor.CAREGIVER)
    return int(locked.values["session"])


def setting_reminders(
    access: AccessScope, assignment_id: int | None, moments: tuple[datetime, ...]
) -> Operation[int]:
    """Keeps reminders that were sent or whose moment has passed, and does not plan those moments again. Keeps
    scheduled reminders that are given again, since one may be due just now. Plans skipped future moments
    again, because submitting skips them."""
    locked = yield from locking_pending(access, assignment_id)
    check_reminders(moments, locked.start_date, locked.end_date)
    existing = [
        (number, known_moment(moment), state)
        for number, moment, state in (yield FIND_REMINDERS, locked.values)
    ]
    dropped = [
        number
        for number, moment, state in existing
        if state == ReminderState.SCHEDULED and moment not in moments
    ]
    planned = {
        moment for _, moment, state in existing if state != ReminderState.SKIPPED or moment < locked.now
    }
    new = [moment for moment in dict.fromkeys(moments) if moment not in planned]
    if not dropped and not new:
        return int(locked.values["assignment"])
    if dropped:
        yield DROP_SCHEDULED_REMINDERS, {**locked.values, "reminders": dropped}
    if new:
        yield ADD_REMINDERS, {**locked.values, "moments": new}
    return (yield from emitting_event(locked, EventKind.REMINDERS_SET, Actor.CAREGIVER))
