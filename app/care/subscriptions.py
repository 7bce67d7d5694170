"""Subscriptions: events of the viewer's assignments after a position in the event log."""

from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from typing import NamedTuple

from app.care.assignments import NOT_WITHDRAWN
from app.care.context import Context, Role, Viewer
from app.care.errors import EventsExpired, NotFound
from app.care.sessions import get_my_sessions
from app.db.audit.records import EVENTS, SESSIONS
from app.db.event_log import OPEN_TRANSACTIONS, LoggedEvent, events_from, find_event, newest_event
from app.db.reader.access import reading_scope_values
from app.db.reader.reads import Row, get_rows
from app.db.reader.selection import AccessScope, Selection
from app.db.sql import DATABASE_KIND, Steps, Values
from app.db.statements.retention import FIND_NEWEST_MARK
from app.db.tables import MAX_ID, EventKind, Reminder

Kinds = tuple[EventKind, ...]


class AssignmentChangeKind(StrEnum):
    ASSIGNED = EventKind.ASSIGNED
    EXTENDED = EventKind.EXTENDED
    REMINDERS_SET = EventKind.REMINDERS_SET
    WITHDRAWN = EventKind.WITHDRAWN
    DRAFT_SAVED = EventKind.DRAFT_SAVED
    SUBMITTED = EventKind.SUBMITTED
    REOPENED = EventKind.REOPENED
    FEEDBACK_GIVEN = EventKind.FEEDBACK_GIVEN


CLIENT_CHANGES: Kinds = tuple(map(EventKind, AssignmentChangeKind))
# Only the client sees drafts.
CAREGIVER_CHANGES: Kinds = tuple(kind for kind in CLIENT_CHANGES if kind is not EventKind.DRAFT_SAVED)
CHANGES_BY_ROLE = {Role.CAREGIVER: CAREGIVER_CHANGES, Role.CLIENT: CLIENT_CHANGES}
DUE_REMINDERS: Kinds = (EventKind.REMINDER_DUE,)
KINDS_BY_ROLE = {Role.CAREGIVER: CAREGIVER_CHANGES, Role.CLIENT: CLIENT_CHANGES + DUE_REMINDERS}

# PostgreSQL assigns ids before it commits, so an event can be committed after others with a higher id. A
# position therefore remembers the events one by one until no open transaction can add one before them. Of
# events that are older than this, a new subscription assumes it; and so does Citus, whose open transactions
# are those of many servers.
OLD = timedelta(days=1)  # less than the shortest retention of events
# A change takes less than this, and so does a request: all earlier events are committed, and in its response.
RECENT = timedelta(minutes=1)
MAX_EVENTS = 100
NO_LIMIT = 2**31 - 1


@dataclass(frozen=True)
class EventFilter:
    """The kinds of events of a subscription, in one session or in all."""

    kinds: Kinds
    session_id: int | None = None


class NextFloor(NamedTuple):
    """An id up to which no event can follow once these transactions have ended."""

    id: int
    open_transactions: frozenset[str]


@dataclass(frozen=True)
class EventPosition:
    """A position in the event log: after every event up to the id `floor`, and after the events `seen`."""

    floor: int
    seen: frozenset[int] = frozenset()
    next_floor: NextFloor | None = None
    last_id: int = 0  # has all events up to this id that were committed
    complete_at: datetime | None = None  # had all events at this moment; None if more waited


async def filter_changes(ctx: Context, session_id: int | None, is_in_session: bool) -> EventFilter:
    kinds = CHANGES_BY_ROLE[ctx.signed_in().role]
    if not is_in_session:
        return EventFilter(kinds)
    ids = [] if session_id is None else [session_id]
    if not await get_my_sessions(ctx, ids, Selection(frozenset({"id"}))):
        rejection = NotFound("session", "sessionId")
        raise await ctx.rejected("assignmentChanged", rejection, {SESSIONS: ids} if ids else {})
    return EventFilter(kinds, session_id)


async def filter_reminders(ctx: Context) -> EventFilter:
    await ctx.require_role(Role.CLIENT, "reminderDue")
    return EventFilter(DUE_REMINDERS)


async def position_after(ctx: Context, event_id: int | None) -> EventPosition:
    """Returns the position after an event that the viewer may see."""
    kinds = KINDS_BY_ROLE[ctx.signed_in().role]
    if event_id is None or not await ctx.db.read(finding_event(ctx.access(), kinds, event_id)):
        ids = {} if event_id is None else {EVENTS: [event_id]}
        raise await ctx.rejected("event", NotFound("event", "after"), ids)
    return EventPosition(event_id)


async def get_last_event_id(ctx: Context) -> int:
    """Returns an id from which a subscription misses nothing that the response of this request does not show.
    Without an event of the viewer, that is the last removed one."""
    access = ctx.access()
    return await ctx.read("viewer", access, finding_last_event(access, KINDS_BY_ROLE[ctx.signed_in().role]))


async def current_position(ctx: Context, event_filter: EventFilter) -> EventPosition:
    """Returns the position after all visible events."""
    return await ctx.db.read(reading_current_position(ctx.access(), event_filter))


async def read_events(
    ctx: Context, event_filter: EventFilter, position: EventPosition, account: Steps[Viewer]
) -> tuple[list[LoggedEvent], EventPosition]:
    """Returns the next events, MAX_EVENTS at most, and the position after them. `account` checks in the
    same snapshot that the viewer's account is still enabled."""

    def reading() -> Steps[tuple[list[LoggedEvent], EventPosition]]:
        yield from account
        return (yield from reading_events(ctx.access(), event_filter, position, MAX_EVENTS))

    return await ctx.db.read(reading())


async def get_my_reminders(ctx: Context, ids: list[int], selection: Selection) -> list[Row]:
    """Returns those reminders of `ids` that the viewer may see."""
    access = ctx.access()
    return await ctx.read("reminder", access, get_rows(Reminder, access, ids, selection, (NOT_WITHDRAWN,)))


def finding_last_event(access: AccessScope, kinds: Kinds) -> Steps[int]:
    [[last_removed]] = yield FIND_NEWEST_MARK, {}
    values = {**(yield from reading_scope_values(access)), "floor": last_removed, "top": MAX_ID}
    found = yield newest_event(access.role, True, kinds), {**values, "old": access.now - RECENT}
    return int(found[0][0]) if found else int(last_removed)


def finding_event(access: AccessScope, kinds: Kinds, event_id: int) -> Steps[bool]:
    """Raises EventsExpired for every id before the last removed event, visible to the viewer or not. Nothing
    is missing after the last removed one, whose id is 0 at first."""
    [[last_removed]] = yield FIND_NEWEST_MARK, {}
    if event_id < last_removed:
        raise EventsExpired
    if event_id == last_removed:
        return True
    values = {**(yield from reading_scope_values(access)), "event": event_id}
    return bool((yield find_event(access.role, kinds), values))


def reading_current_position(access: AccessScope, event_filter: EventFilter) -> Steps[EventPosition]:
    values = {**(yield from reading_scope_values(access)), "floor": 0, "top": MAX_ID}
    floor = yield from finding_newest(access, values, is_old=True)
    start = EventPosition(floor, complete_at=access.now)
    _, position = yield from reading_events(access, event_filter, start, NO_LIMIT)
    return position


def reading_events(
    access: AccessScope, event_filter: EventFilter, position: EventPosition, most: int
) -> Steps[tuple[list[LoggedEvent], EventPosition]]:
    limit = min(len(position.seen) + most, NO_LIMIT)
    values = {
        **(yield from reading_scope_values(access)),
        "floor": position.floor,
        "limit": limit,
        "watched": event_filter.session_id,
    }
    yield from rejecting_removed(position, access.now)
    find = events_from(access.role, event_filter.kinds, event_filter.session_id is not None)
    found = [LoggedEvent(*row) for row in (yield find, values)]
    is_complete = len(found) < limit
    values["top"] = MAX_ID if is_complete else found[-1].id
    floor, next_floor = yield from raising_floor(access, values, position.next_floor)
    new = [one for one in found if one.id not in position.seen]
    seen = frozenset([id for id in (*position.seen, *(one.id for one in found)) if id > floor])
    last_id = found[-1].id if found else position.floor
    return new, EventPosition(floor, seen, next_floor, last_id, access.now if is_complete else None)


def rejecting_removed(position: EventPosition, now: datetime) -> Steps[None]:
    """Raises EventsExpired if retention may have removed an event that a slow subscriber has not received."""
    if position.complete_at is None or now - position.complete_at > OLD:
        [[last_removed]] = yield FIND_NEWEST_MARK, {}
        if last_removed > max(position.floor, position.last_id):
            raise EventsExpired


def finding_newest(access: AccessScope, values: Values, is_old: bool) -> Steps[int]:
    """The id of the newest event of the viewer after the floor, or of the newest old one; or the floor."""
    found = yield newest_event(access.role, is_old), {**values, "old": access.now - OLD}
    return int(found[0][0]) if found else int(values["floor"])


def raising_floor(
    access: AccessScope, values: Values, next_floor: NextFloor | None
) -> Steps[tuple[int, NextFloor | None]]:
    """The floor after a read of events, and the next one.

    A change takes the id of its transaction before those of its events. So a transaction that adds an event
    before a visible one is among the open ones, or has ended in the meantime. The read after their end sees
    the events of all of them.
    """
    floor: int = values["floor"]
    [kind] = yield DATABASE_KIND
    newest = yield from finding_newest(access, values, is_old=kind == "citus")
    if kind != "postgresql":  # SQLite has one writer
        return newest, None
    if next_floor is not None and not next_floor.open_transactions:
        floor, next_floor = max(floor, min(next_floor.id, values["top"])), None
    if newest == floor:
        return floor, None
    open_transactions = frozenset([row[0] for row in (yield OPEN_TRANSACTIONS, {})])
    if next_floor is None:
        return floor, NextFloor(newest, open_transactions)
    return floor, NextFloor(next_floor.id, next_floor.open_transactions & open_transactions)
