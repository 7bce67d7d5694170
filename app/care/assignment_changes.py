"""Changes of assignments by the caregiver: extend, withdraw, set reminders, reopen."""

from datetime import datetime

from app.care.assignments import (
    LockedAssignment,
    emitting_event,
    get_my_assignments,
    locking_assignment,
    reject_closed,
    reject_unless_complete,
    reject_unless_pending,
    reject_unless_running,
)
from app.care.bounds import REMINDER_BYTES, check_moment, check_required
from app.care.context import Context, Role, read_one
from app.care.errors import InvalidValue
from app.care.homework import check_reminders
from app.care.sessions import get_my_sessions
from app.db.moments import known_moment
from app.db.reader.reads import Row
from app.db.reader.selection import AccessScope, Selection
from app.db.sql import Steps, Together, repeatable
from app.db.statements.assignments import (
    ADD_REMINDERS,
    DROP_SCHEDULED_REMINDERS,
    EXTEND,
    FIND_REMINDERS,
    REOPEN,
    SKIP_REMINDERS,
    WITHDRAW,
)
from app.db.statements.sessions import RECOUNT
from app.db.tables import Actor, EventKind, ReminderState


async def extend_assignment(
    ctx: Context, assignment_id: int | None, end_date: datetime, selection: Selection | None
) -> Row | None:
    access = ctx.access_as(Role.CAREGIVER)
    check_required(assignmentId=assignment_id)
    check_moment("endDate", end_date)
    extended = await ctx.write("extendAssignment", extending(access, assignment_id, end_date))
    return await read_one(get_my_assignments, ctx, extended, selection)


async def withdraw_assignment(
    ctx: Context, assignment_id: int | None, selection: Selection | None
) -> Row | None:
    """Returns the session, whose counters no longer include the assignment."""
    access = ctx.access_as(Role.CAREGIVER)
    check_required(assignmentId=assignment_id)
    withdrawn = await ctx.write("withdrawAssignment", withdrawing(access, assignment_id))
    return await read_one(get_my_sessions, ctx, withdrawn, selection)


async def set_reminders(
    ctx: Context, assignment_id: int | None, moments: tuple[datetime, ...], selection: Selection | None
) -> Row | None:
    """Replaces the reminders that are not due yet."""
    access = ctx.access_as(Role.CAREGIVER)
    check_required(assignmentId=assignment_id)
    ctx.charge_stored(len(moments) * REMINDER_BYTES)
    changed = await ctx.write("setReminders", setting_reminders(access, assignment_id, moments))
    return await read_one(get_my_assignments, ctx, changed, selection)


async def reopen_assignment(
    ctx: Context, assignment_id: int | None, selection: Selection | None
) -> Row | None:
    """Makes a submitted assignment pending again. Earlier submissions stay readable."""
    access = ctx.access_as(Role.CAREGIVER)
    check_required(assignmentId=assignment_id)
    reopened = await ctx.write("reopenAssignment", reopening(access, assignment_id))
    return await read_one(get_my_assignments, ctx, reopened, selection)


def locking_pending(access: AccessScope, assignment_id: int | None) -> Steps[LockedAssignment]:
    locked = yield from locking_assignment(access, assignment_id)
    reject_closed(locked)
    reject_unless_pending(locked)
    return locked


@repeatable
def extending(access: AccessScope, assignment_id: int | None, end_date: datetime) -> Steps[int]:
    locked = yield from locking_pending(access, assignment_id)
    if end_date < (locked.end_date or locked.start_date):
        raise InvalidValue("endDate", "is before the current end")
    if end_date == locked.end_date:
        return locked.id
    extended = (EXTEND, {**locked.values, "end": end_date})
    return (yield from emitting_event(locked, EventKind.EXTENDED, Actor.CAREGIVER, extended))


@repeatable
def withdrawing(access: AccessScope, assignment_id: int | None) -> Steps[int]:
    locked = yield from locking_pending(access, assignment_id)
    yield Together(((WITHDRAW, locked.values), (SKIP_REMINDERS, locked.values)))
    yield from emitting_event(locked, EventKind.WITHDRAWN, Actor.CAREGIVER, (RECOUNT, locked.values))
    return int(locked.values["session"])


@repeatable
def setting_reminders(
    access: AccessScope, assignment_id: int | None, moments: tuple[datetime, ...]
) -> Steps[int]:
    """Keeps reminders that were sent or whose moment has passed, and does not plan those moments again. Keeps
    scheduled reminders that are given again, since one may be due just now. Plans skipped future moments
    again, because submitting skips them."""
    locked = yield from locking_pending(access, assignment_id)
    check_reminders(moments, locked.start_date, locked.end_date)
    found = yield FIND_REMINDERS, locked.values
    existing = [(id, known_moment(moment), state) for id, moment, state in found]
    scheduled, skipped = ReminderState.SCHEDULED, ReminderState.SKIPPED
    dropped = [id for id, moment, state in existing if state == scheduled and moment not in moments]
    kept = {moment for _, moment, state in existing if state != skipped or moment < locked.now}
    new = [moment for moment in dict.fromkeys(moments) if moment not in kept]
    if not dropped and not new:
        return locked.id
    changes = []
    if dropped:
        changes.append((DROP_SCHEDULED_REMINDERS, {**locked.values, "reminders": dropped}))
    if new:
        changes.append((ADD_REMINDERS, {**locked.values, "moments": new}))
    return (yield from emitting_event(locked, EventKind.REMINDERS_SET, Actor.CAREGIVER, *changes))


@repeatable
def reopening(access: AccessScope, assignment_id: int | None) -> Steps[int]:
    locked = yield from locking_assignment(access, assignment_id)
    reject_unless_running(locked)
    reject_unless_complete(locked)
    yield REOPEN, locked.values
    recounted = (RECOUNT, locked.values)
    return (yield from emitting_event(locked, EventKind.REOPENED, Actor.CAREGIVER, recounted))
