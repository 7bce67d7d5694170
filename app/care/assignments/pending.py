"""Pending homework: extending, withdrawing and reminding of it."""

from datetime import datetime

from app.care.assignments.homework import check_reminders
from app.care.assignments.locking import LockedAssignment, holding, refuse_closed, refuse_unless_pending
from app.care.assignments.reading import get_my_assignments
from app.care.bounds import check_moment
from app.care.context import Context, Role
from app.care.errors import Unreadable
from app.care.sessions.opening import changed_session
from app.db.reader.entities import known_moment
from app.db.reader.reads import Row
from app.db.reader.selection import AccessScope, Selection
from app.db.sql import Operation
from app.db.statements.assignments import (
    DROP_SCHEDULED_REMINDERS,
    EXTEND,
    FIND_REMINDERS,
    SKIP_REMINDERS,
    WITHDRAW,
)
from app.db.statements.events import INSERT_ASSIGNMENT_EVENTS
from app.db.statements.homework import ADD_REMINDERS
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
    """Returns the session, which counts it no more."""
    access = ctx.access_as(Role.CAREGIVER)
    withdrawn = await ctx.write("withdrawAssignment", withdrawing(access, assignment_id))
    return await changed_session(ctx, withdrawn, wanted)


async def set_reminders(
    ctx: Context, assignment_id: int | None, moments: tuple[datetime, ...], wanted: Selection | None
) -> Row | None:
    """These instead of what was still to come."""
    access = ctx.access_as(Role.CAREGIVER)
    changed = await ctx.write("setReminders", setting_reminders(access, assignment_id, moments))
    return await changed_assignment(ctx, changed, wanted)


async def changed_assignment(ctx: Context, assignment_id: int, wanted: Selection | None) -> Row | None:
    """As it is when it is read: None where it was withdrawn as soon as it was changed."""
    if wanted is None:
        return None
    rows = await get_my_assignments(ctx, [assignment_id], wanted)
    return rows[0] if rows else None


def holding_pending(access: AccessScope, assignment_id: int | None) -> Operation[LockedAssignment]:
    held = yield from holding(access, assignment_id)
    refuse_closed(held)
    refuse_unless_pending(held)
    return held


def telling(held: LockedAssignment, event: EventKind, actor: Actor) -> Operation[int]:
    """Returns the id of the assignment that it tells of."""
    yield INSERT_ASSIGNMENT_EVENTS, {**held.values, "event": event, "actor": actor}
    changed: int = held.values["assignment"]
    return changed


def extending(access: AccessScope, assignment_id: int | None, end_date: datetime) -> Operation[int]:
    held = yield from holding_pending(access, assignment_id)
    if end_date < (held.end_date or held.start_date):
        raise Unreadable("endDate", "is before the end there is")
    if end_date == held.end_date:
        return int(held.values["assignment"])
    yield EXTEND, {**held.values, "end": end_date}
    return (yield from telling(held, EventKind.EXTENDED, Actor.CAREGIVER))


def withdrawing(access: AccessScope, assignment_id: int | None) -> Operation[int]:
    held = yield from holding_pending(access, assignment_id)
    yield WITHDRAW, held.values
    yield SKIP_REMINDERS, held.values
    yield RECOUNT, held.values
    yield from telling(held, EventKind.WITHDRAWN, Actor.CAREGIVER)
    return int(held.values["session"])


def setting_reminders(
    access: AccessScope, assignment_id: int | None, moments: tuple[datetime, ...]
) -> Operation[int]:
    """What was sent or has passed stays, and is not planned a second time. So does what is said again: it may
    be due this very moment. What was skipped before its time, as submitting does, is planned anew."""
    held = yield from holding_pending(access, assignment_id)
    check_reminders(moments, held.start_date, held.end_date)
    there = [
        (number, known_moment(moment), state) for number, moment, state in (yield FIND_REMINDERS, held.values)
    ]
    dropped = [
        number
        for number, moment, state in there
        if state == ReminderState.SCHEDULED and moment not in moments
    ]
    planned = {moment for _, moment, state in there if state != ReminderState.SKIPPED or moment < held.now}
    new = [moment for moment in dict.fromkeys(moments) if moment not in planned]
    if not dropped and not new:
        return int(held.values["assignment"])
    if dropped:
        yield DROP_SCHEDULED_REMINDERS, {**held.values, "reminders": dropped}
    if new:
        yield ADD_REMINDERS, {**held.values, "moments": new}
    return (yield from telling(held, EventKind.REMINDERS_SET, Actor.CAREGIVER))
