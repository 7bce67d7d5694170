"""Watching: what happens to the viewer's assignments, told from a place in the trail on."""

from collections.abc import Collection
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from app.care.answers.reading import is_joined
from app.care.context import Context, Role, Viewer
from app.care.errors import EventsExpired, NotFound
from app.care.sessions.reading import get_my_sessions
from app.db.audit.records import EVENTS, SESSIONS
from app.db.event_log import LoggedEvent, event_itself, events_from, last_settled
from app.db.reader.reads import Row, get_rows, seen_from
from app.db.reader.selection import NEWEST, AccessScope, Selection, Where
from app.db.sql import Operation
from app.db.statements.retention import FIND_NEWEST_MARK
from app.db.tables import EventKind, Reminder

Kinds = tuple[EventKind, ...]

CHANGES: Kinds = (
    EventKind.ASSIGNED,
    EventKind.EXTENDED,
    EventKind.REMINDERS_SET,
    EventKind.WITHDRAWN,
    EventKind.SUBMITTED,
    EventKind.REOPENED,
    EventKind.FEEDBACK_GIVEN,
)
# Drafts are the client's alone, and so is that one was saved.
CHANGES_TOLD: dict[Role, Kinds] = {
    Role.CAREGIVER: CHANGES,
    Role.CLIENT: (*CHANGES, EventKind.DRAFT_SAVED),
}
DUE: Kinds = (EventKind.REMINDER_DUE,)
ALL_TOLD: dict[Role, Kinds] = {
    Role.CAREGIVER: CHANGES,
    Role.CLIENT: (*CHANGES_TOLD[Role.CLIENT], *DUE),
}

# PostgreSQL gives ids before it commits: an event may turn up after others with a higher id, so those of the
# last moments are remembered one by one.
SETTLES_WITHIN = timedelta(seconds=60)
MOST_AT_ONCE = 100
ALL_THERE_ARE = 2**31 - 1


@dataclass(frozen=True)
class Watch:
    """What is watched for, in one session or in all."""

    kinds: Kinds
    session_id: int | None = None


@dataclass(frozen=True)
class Place:
    """How far somebody has come in the trail: everything to `floor` is behind them, and those `seen`."""

    floor: int
    seen: Collection[int] = ()


async def watch_changes(ctx: Context, session_id: int | None, is_in_session: bool) -> Watch:
    kinds = CHANGES_TOLD[ctx.signed_in().role]
    if not is_in_session:
        return Watch(kinds)
    asked = [] if session_id is None else [session_id]
    if not await get_my_sessions(ctx, asked, Selection(frozenset({"id"}))):
        refusal = NotFound("session", "sessionId")
        raise await ctx.refused("assignmentChanged", refusal, {SESSIONS: asked} if asked else {})
    return Watch(kinds, session_id)


async def watch_reminders(ctx: Context) -> Watch:
    await ctx.require_role(Role.CLIENT, "reminderDue")
    return Watch(DUE)


async def place_after(ctx: Context, event_id: int | None) -> Place:
    """Behind an event that the viewer was told of."""
    kinds = ALL_TOLD[ctx.signed_in().role]
    if event_id is None or not await ctx.db.read(finding(ctx.access(), kinds, event_id)):
        named = {} if event_id is None else {EVENTS: [event_id]}
        raise await ctx.refused("event", NotFound("event", "after"), named)
    return Place(event_id)


async def place_now(ctx: Context, watch: Watch) -> Place:
    """Behind all that can be seen by now."""
    return await ctx.db.read(arriving(ctx.access(), watch))


async def look(
    ctx: Context, watch: Watch, place: Place, account: Operation[Viewer]
) -> tuple[list[LoggedEvent], Place]:
    """What happened since, or the first of it; and the place behind it. `account` checks in the same snapshot
    that the viewer's account is still enabled."""
    return await ctx.db.read(looking_as(account, ctx.access(), watch, place, MOST_AT_ONCE))


async def get_my_reminders(ctx: Context, ids: list[int], wanted: Selection) -> list[Row]:
    """Those of the reminders that are the viewer's."""
    where = (Where(is_joined, via="assignment"),)
    access = ctx.access()
    return await ctx.read("reminder", access, get_rows(Reminder, access, ids, wanted, where))


def finding(access: AccessScope, kinds: Kinds, event_id: int) -> Operation[bool]:
    """Raises EventsExpired for every id up to the last removed event, own and foreign alike."""
    if event_id <= (yield FIND_NEWEST_MARK, {})[0][0]:
        raise EventsExpired
    values = {**(yield from seen_from(access)), "event": event_id}
    return bool((yield event_itself(access.role, kinds), values))


def arriving(access: AccessScope, watch: Watch) -> Operation[Place]:
    values = {**(yield from seen_from(access)), **settling(access), "floor": 0, "top": NEWEST}
    settled = yield last_settled(access.role), values
    floor = settled[0][0] if settled else 0
    _, place = yield from looking(access, watch, Place(floor), ALL_THERE_ARE)
    return place


def looking_as(
    account: Operation[Viewer], access: AccessScope, watch: Watch, place: Place, most: int
) -> Operation[tuple[list[LoggedEvent], Place]]:
    yield from account
    return (yield from looking(access, watch, place, most))


def looking(
    access: AccessScope, watch: Watch, place: Place, most: int
) -> Operation[tuple[list[LoggedEvent], Place]]:
    limit = min(len(place.seen) + most, ALL_THERE_ARE)
    values = {
        **(yield from seen_from(access)),
        **settling(access),
        "floor": place.floor,
        "limit": limit,
        "watched": watch.session_id,
    }
    find = events_from(access.role, watch.kinds, watch.session_id is not None)
    found = [LoggedEvent(*row) for row in (yield find, values)]
    values["top"] = found[-1].id if len(found) == limit else NEWEST
    settled = yield last_settled(access.role), values
    floor = settled[0][0] if settled else place.floor
    new = [one for one in found if one.id not in place.seen]
    return new, Place(floor, frozenset(one.id for one in found if one.id > floor))


def settling(access: AccessScope) -> dict[str, Any]:
    return {"settled": access.now - SETTLES_WITHIN}
