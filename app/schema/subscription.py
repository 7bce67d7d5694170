"""What can be listened to: a table of contents, one field each."""

from collections.abc import AsyncGenerator
from datetime import datetime
from enum import StrEnum
from typing import Annotated, Any

import strawberry

from app.care import subscriptions
from app.care.assignments.reading import get_my_assignments
from app.care.context import Context
from app.care.sessions.reading import get_my_sessions
from app.db.event_log import LoggedEvent
from app.db.reader.plans import Row
from app.db.reader.selection import Selection
from app.db.tables import Assignment, Event, EventKind, Reminder, Session
from app.schema.selection import Info, wanted_under
from app.schema.transport.subscriptions import LiveContext, tell
from app.schema.types import assignments as assignment_types
from app.schema.types import sessions as session_types
from app.schema.types.node import global_id, read_id


class AssignmentChangeKind(StrEnum):
    ASSIGNED = EventKind.ASSIGNED
    EXTENDED = EventKind.EXTENDED
    REMINDERS_SET = EventKind.REMINDERS_SET
    WITHDRAWN = EventKind.WITHDRAWN
    DRAFT_SAVED = EventKind.DRAFT_SAVED
    SUBMITTED = EventKind.SUBMITTED
    REOPENED = EventKind.REOPENED
    FEEDBACK_GIVEN = EventKind.FEEDBACK_GIVEN


After = Annotated[
    strawberry.ID | None,
    strawberry.argument(
        description="The id of an event that was told: begin with what happened since. Null begins with now."
    ),
]


@strawberry.type(description="Something that happened to an assignment.")
class AssignmentChange:
    id: strawberry.ID = strawberry.field(
        description="Id of the event: keep that of the last one, and go on from it with `after`."
    )
    what: AssignmentChangeKind = strawberry.field(description="What happened.")
    moment: datetime = strawberry.field(description="When it happened.")
    assignment_id: strawberry.ID = strawberry.field(
        description="Global id of the assignment, also once it is withdrawn."
    )
    session_id: strawberry.ID = strawberry.field(description="Global id of its session.")
    assignment: assignment_types.Assignment | None = strawberry.field(
        description="The assignment as it is by now; null once it is withdrawn."
    )
    session: session_types.Session | None = strawberry.field(description="Its session as it is by now.")


@strawberry.type(description="A reminder that has fallen due.")
class ReminderDue:
    id: strawberry.ID = strawberry.field(
        description="Id of the event: keep that of the last one, and go on from it with `after`."
    )
    moment: datetime = strawberry.field(description="When it fell due.")
    reminder: assignment_types.Reminder | None = strawberry.field(
        description="The reminder; null once others were set in its place."
    )
    assignment: assignment_types.Assignment | None = strawberry.field(
        description="The assignment as it is by now; null once it is withdrawn."
    )


@strawberry.type(description="What can be listened to, by event stream or by websocket.")
class Subscription:
    @strawberry.subscription(
        description="What happens to the viewer's assignments, from now on or from an event on."
    )
    async def assignment_changed(
        self,
        info: Info,
        session_id: Annotated[
            strawberry.ID | None, strawberry.argument(description="Only what happens in this session.")
        ] = None,
        after: After = None,
    ) -> AsyncGenerator[AssignmentChange, None]:
        ctx = live(info)
        number = None if session_id is None else read_id(session_id, Session)
        event_filter = await subscriptions.filter_changes(ctx, number, session_id is not None)
        position = await start_position(ctx, event_filter, after)
        return tell(ctx, event_filter, position, WantedOfEvent(info).change)

    @strawberry.subscription(
        description="For clients: reminders as they fall due, from now on or from an event on."
    )
    async def reminder_due(self, info: Info, after: After = None) -> AsyncGenerator[ReminderDue, None]:
        ctx = live(info)
        event_filter = await subscriptions.filter_reminders(ctx)
        position = await start_position(ctx, event_filter, after)
        return tell(ctx, event_filter, position, WantedOfEvent(info).reminder_due)


def live(info: Info) -> LiveContext:
    assert isinstance(info.context, LiveContext), "subscriptions are run by those who can keep them"
    return info.context


async def start_position(
    ctx: Context, event_filter: subscriptions.EventFilter, after: strawberry.ID | None
) -> subscriptions.EventPosition:
    if after is None:
        return await subscriptions.current_position(ctx, event_filter)
    return await subscriptions.position_after(ctx, read_id(after, Event))


class WantedOfEvent:
    """What is selected of an event, worked out once, and read anew for each: rows stand for objects."""

    def __init__(self, info: Info) -> None:
        self.assignment = wanted_under(info, "assignment", Assignment)
        self.session = wanted_under(info, "session", Session)
        self.reminder = wanted_under(info, "reminder", Reminder)

    async def change(self, ctx: Context, event: LoggedEvent) -> AssignmentChange:
        assert event.assignment_id is not None
        return AssignmentChange(
            id=event_id(event),
            what=AssignmentChangeKind(event.kind),
            moment=event.moment,
            assignment_id=strawberry.ID(global_id("Assignment", event.assignment_id)),
            session_id=strawberry.ID(global_id("Session", event.session_id)),
            assignment=await one(get_my_assignments, ctx, event.assignment_id, self.assignment),
            session=await one(get_my_sessions, ctx, event.session_id, self.session),
        )

    async def reminder_due(self, ctx: Context, event: LoggedEvent) -> ReminderDue:
        return ReminderDue(
            id=event_id(event),
            moment=event.moment,
            reminder=await one(subscriptions.get_my_reminders, ctx, event.reminder_id, self.reminder),
            assignment=await one(get_my_assignments, ctx, event.assignment_id, self.assignment),
        )


def event_id(event: LoggedEvent) -> strawberry.ID:
    return strawberry.ID(global_id("Event", event.id))


async def one(get: Any, ctx: Context, number: int | None, wanted: Selection | None) -> Any:
    if wanted is None or number is None:
        return None
    rows: list[Row] = await get(ctx, [number], wanted)
    return rows[0] if rows else None
