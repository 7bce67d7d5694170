"""The subscriptions, one field each."""

from collections.abc import AsyncGenerator, Awaitable, Callable
from datetime import datetime
from typing import Annotated, Any

import strawberry
from strawberry import ID, argument, field

from app.care import subscriptions
from app.care.assignments import get_my_assignments
from app.care.context import Context, read_one
from app.care.sessions import get_my_sessions
from app.care.subscriptions import AssignmentChangeKind
from app.db.event_log import LoggedEvent
from app.db.tables import Assignment, Event, Reminder, Session
from app.schema.selection import Info, selected_member
from app.schema.transport.subscriptions import SubscriptionContext, deliver_events
from app.schema.types import assignments as assignment_types
from app.schema.types import sessions as session_types
from app.schema.types.scalars import global_id, read_id

read_row: Callable[..., Awaitable[Any]] = read_one  # a row stands for an object of the GraphQL type
After = Annotated[ID | None, argument(description="Resume after this event id; null starts from now.")]


@strawberry.type(description="A change to an assignment.")
class AssignmentChange:
    id: ID = field(description="Id of the event. Pass the last one received as `after` to resume.")
    what: AssignmentChangeKind = field(description="Kind of change.")
    moment: datetime = field(description="Time of the change.")
    assignment_id: ID = field(description="Global id of the assignment, even if it was withdrawn.")
    session_id: ID = field(description="Global id of the assignment's session.")
    assignment: assignment_types.Assignment | None = field(
        description="The assignment in its current state; null if it was withdrawn."
    )
    session: session_types.Session | None = field(
        description="The assignment's session in its current state."
    )


@strawberry.type(description="A reminder that is due.")
class ReminderDue:
    id: ID = field(description="Id of the event. Pass the last one received as `after` to resume.")
    moment: datetime = field(
        description="Time of the event: soon after `remindDate`, or later if the dispatcher was stopped."
    )
    reminder: assignment_types.Reminder | None = field(
        description="The reminder; null if it was replaced or its assignment withdrawn."
    )
    assignment: assignment_types.Assignment | None = field(
        description="The assignment in its current state; null if it was withdrawn."
    )


@strawberry.type(description="All subscriptions, over server-sent events or websockets.")
class Subscription:
    @strawberry.subscription(description="Changes to the viewer's assignments.")
    async def assignment_changed(
        self,
        info: Info,
        session_id: Annotated[ID | None, argument(description="Filter by session.")] = None,
        after: After = None,
    ) -> AsyncGenerator[AssignmentChange, None]:
        ctx = subscription_context(info)
        number = None if session_id is None else read_id(session_id, Session)
        event_filter = await subscriptions.filter_changes(ctx, number, session_id is not None)
        position = await start_position(ctx, event_filter, after)
        assignment = selected_member(info, "assignment", Assignment)
        session = selected_member(info, "session", Session)

        async def load(ctx: Context, event: LoggedEvent) -> AssignmentChange:
            assert event.assignment_id is not None
            return AssignmentChange(
                id=event_id(event),
                what=AssignmentChangeKind(event.kind),
                moment=event.moment,
                assignment_id=ID(global_id("Assignment", event.assignment_id)),
                session_id=ID(global_id("Session", event.session_id)),
                assignment=await read_row(get_my_assignments, ctx, event.assignment_id, assignment),
                session=await read_row(get_my_sessions, ctx, event.session_id, session),
            )

        return deliver_events(ctx, event_filter, position, load)

    @strawberry.subscription(description="Reminders as they become due. Clients only.")
    async def reminder_due(self, info: Info, after: After = None) -> AsyncGenerator[ReminderDue, None]:
        ctx = subscription_context(info)
        event_filter = await subscriptions.filter_reminders(ctx)
        position = await start_position(ctx, event_filter, after)
        assignment = selected_member(info, "assignment", Assignment)
        reminder = selected_member(info, "reminder", Reminder)

        async def load(ctx: Context, event: LoggedEvent) -> ReminderDue:
            return ReminderDue(
                id=event_id(event),
                moment=event.moment,
                reminder=await read_row(subscriptions.get_my_reminders, ctx, event.reminder_id, reminder),
                assignment=await read_row(get_my_assignments, ctx, event.assignment_id, assignment),
            )

        return deliver_events(ctx, event_filter, position, load)


def subscription_context(info: Info) -> SubscriptionContext:
    assert isinstance(info.context, SubscriptionContext), (
        "subscriptions run only over event streams and websockets"
    )
    return info.context


async def start_position(
    ctx: Context, event_filter: subscriptions.EventFilter, after: ID | None
) -> subscriptions.EventPosition:
    if after is None:
        return await subscriptions.current_position(ctx, event_filter)
    return await subscriptions.position_after(ctx, read_id(after, Event))


def event_id(event: LoggedEvent) -> ID:
    return ID(global_id("Event", event.id))
