"""Subscriptions: events of the viewer's assignments after a position in the event log."""

from collections.abc import Collection
from dataclasses import dataclass
from datetime import timedelta

from app.care.assignments import NOT_WITHDRAWN
from app.care.context import Context, Role, Viewer
from app.care.errors import EventsExpired, NotFound
from app.care.sessions import get_my_sessions
from app.db.audit.records import EVENTS, SESSIONS
from app.db.event_log import LoggedEvent, events_from, find_event, newest_stable_event
from app.db.reader.access import reading_scope_values
from app.db.reader.reads import Row, get_rows
from app.db.reader.selection import AccessScope, Selection
from app.db.sql import Operation
from app.db.statements.retention import FIND_NEWEST_MARK
from app.db.tables import MAX_ID, EventKind, Reminder

Kinds = tuple[EventKind, ...]

CAREGIVER_CHANGES: Kinds = (
    EventKind.ASSIGNED,
    EventKind.EXTENDED,
    EventKind.REMINDERS_SET,
    EventKind.WITHDRAWN,
    EventKind.SUBMITTED,
    EventKind.REOPENED,
    EventKind.FEEDBACK_GIVEN,
)
CLIENT_CHANGES: Kinds = (*CAREGIVER_CHANGES, EventKind.DRAFT_SAVED)  # only the client sees drafts
CHANGES_BY_ROLE = {Role.CAREGIVER: CAREGIVER_CHANGES, Role.CLIENT: CLIENT_CHANGES}
DUE_REMINDERS: Kinds = (EventKind.REMINDER_DUE,)
KINDS_BY_ROLE = {Role.CAREGIVER: CAREGIVER_CHANGES, Role.CLIENT: CLIENT_CHANGES + DUE_REMINDERS}

# PostgreSQL assigns ids before it commits, so an event can be committed after others with a higher id. A
# position therefore remembers the ids of events that are younger than this one by one.
STABLE_AGE = timedelta(seconds=60)
MAX_EVENTS = 100
NO_LIMIT = 2**31 - 1


@dataclass(frozen=True)
class EventFilter:
    """The kinds of events of a subscription, in one session or in all."""

    kinds: Kinds
    session_id: int | None = None


@dataclass(frozen=True)
class EventPosition:
    """A position in the event log: after every event up to the id `floor`, and after the events `seen`."""

    floor: int
    seen: Collection[int] = ()


async def filter_changes(ctx: Context, session_id: int | None, is_in_session: bool) -> EventFilter:
    kinds = CHANGES_BY_ROLE[ctx.signed_in().role]
    if not is_in_session:
        return EventFilter(kinds)
    ids = [] if session_id is None else [session_id]
    if not await get_my_sessions(ctx, ids, Selection(frozenset({"id"}))):
        refusal = NotFound("session", "sessionId")
        raise await ctx.refused("assignmentChanged", refusal, {SESSIONS: ids} if ids else {})
    return EventFilter(kinds, session_id)


async def filter_reminders(ctx: Context) -> EventFilter:
    await ctx.require_role(Role.CLIENT, "reminderDue")
    return EventFilter(DUE_REMINDERS)


async def position_after(ctx: Context, event_id: int | None) -> EventPosition:
    """Returns the position after an event that the viewer may see."""
    kinds = KINDS_BY_ROLE[ctx.signed_in().role]
    if event_id is None or not await ctx.db.read(finding_event(ctx.access(), kinds, event_id)):
        ids = {} if event_id is None else {EVENTS: [event_id]}
        raise await ctx.refused("event", NotFound("event", "after"), ids)
    return EventPosition(event_id)


async def current_position(ctx: Context, event_filter: EventFilter) -> EventPosition:
    """Returns the position after all visible events."""
    return await ctx.db.read(reading_current_position(ctx.access(), event_filter))


async def read_events(
    ctx: Context, event_filter: EventFilter, position: EventPosition, account: Operation[Viewer]
) -> tuple[list[LoggedEvent], EventPosition]:
    """Returns the next events, MAX_EVENTS at most, and the position after them. `account` checks in the
    same snapshot that the viewer's account is still enabled."""

    def reading() -> Operation[tuple[list[LoggedEvent], EventPosition]]:
        yield from account
        return (yield from reading_events(ctx.access(), event_filter, position, MAX_EVENTS))

    return await ctx.db.read(reading())


async def get_my_reminders(ctx: Context, ids: list[int], selection: Selection) -> list[Row]:
    """Returns those reminders of `ids` that the viewer may see."""
    access = ctx.access()
    return await ctx.read("reminder", access, get_rows(Reminder, access, ids, selection, (NOT_WITHDRAWN,)))


def finding_event(access: AccessScope, kinds: Kinds, event_id: int) -> Operation[bool]:
    """Raises EventsExpired for every id up to the last removed event, visible to the viewer or not."""
    if event_id <= (yield FIND_NEWEST_MARK, {})[0][0]:
        raise EventsExpired
    values = {**(yield from reading_scope_values(access)), "event": event_id}
    return bool((yield find_event(access.role, kinds), values))


def reading_current_position(access: AccessScope, event_filter: EventFilter) -> Operation[EventPosition]:
    values = {
        **(yield from reading_scope_values(access)),
        "stable_before": access.now - STABLE_AGE,
        "floor": 0,
        "top": MAX_ID,
    }
    stable = yield newest_stable_event(access.role), values
    floor = stable[0][0] if stable else 0
    _, position = yield from reading_events(access, event_filter, EventPosition(floor), NO_LIMIT)
    return position


def reading_events(
    access: AccessScope, event_filter: EventFilter, position: EventPosition, most: int
) -> Operation[tuple[list[LoggedEvent], EventPosition]]:
    limit = min(len(position.seen) + most, NO_LIMIT)
    values = {
        **(yield from reading_scope_values(access)),
        "stable_before": access.now - STABLE_AGE,
        "floor": position.floor,
        "limit": limit,
        "watched": event_filter.session_id,
    }
    find = events_from(access.role, event_filter.kinds, event_filter.session_id is not None)
    found = [LoggedEvent(*row) for row in (yield find, values)]
    values["top"] = found[-1].id if len(found) == limit else MAX_ID
    stable = yield newest_stable_event(access.role), values
    floor = stable[0][0] if stable else position.floor
    new = [one for one in found if one.id not in position.seen]
    return new, EventPosition(floor, frozenset(one.id for one in found if one.id > floor))
