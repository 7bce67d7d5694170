"""Inputs and payloads of the mutations on sessions."""

from datetime import datetime

import strawberry

from app.schema.errors import USER_ERRORS, UserError
from app.schema.types.sessions import Session


@strawberry.input(description="Homework of a new session.")
class SessionHomeworkInput:
    book_ids: list[strawberry.ID] = strawberry.field(
        description="Ids of 1 to 50 books of the catalogue. Duplicates are ignored."
    )
    start_date: datetime = strawberry.field(
        description="Start of the period in which the homework can be answered, not before the session."
    )
    end_date: datetime = strawberry.field(description="Due date, not before `startDate`.")
    remind_dates: list[datetime] | None = strawberry.field(
        default=None,
        description="Times of reminders to the client: up to 50, between `startDate` and `endDate`.",
    )


@strawberry.input(
    description="Repetition of a session at the same local time in the time zone of the service."
)
class RepeatInput:
    count: int = strawberry.field(description="Total number of sessions, 1 to 52.")
    every_days: int = strawberry.field(description="Interval between sessions in days, 1 to 366.")


@strawberry.input(
    description="Input for creating sessions. Exactly one of `clientOpptId` and `clientId` is required."
)
class CreateSessionInput:
    client_oppt_id: str | None = strawberry.field(
        default=None,
        description="External identifier of the client. Required for the first session with a client.",
    )
    client_id: strawberry.ID | None = strawberry.field(
        default=None, description="Id of a client with whom the caregiver has or had a session."
    )
    title: str = strawberry.field(description="Title, up to 200 characters.")
    description: str | None = strawberry.field(
        default="", description="Description, up to 10,000 characters; null means empty."
    )
    start_date: datetime = strawberry.field(description="Start date; may be in the past.")
    homework: SessionHomeworkInput | None = strawberry.field(
        default=None,
        description="Homework to assign. Repeated sessions get it at the same offset from their start.",
    )
    repeat: RepeatInput | None = strawberry.field(
        default=None, description="Creates several sessions instead of one."
    )


@strawberry.type(description="Result of `createSession`.")
class CreateSessionPayload:
    sessions: list[Session] = strawberry.field(
        description="The new sessions, in order; empty if none was created."
    )
    user_errors: list[UserError] = strawberry.field(description=USER_ERRORS)


@strawberry.input(description="Input for updating a session. Omitted and null fields are not changed.")
class UpdateSessionInput:
    session_id: strawberry.ID = strawberry.field(description="Id of a session that is not closed.")
    title: str | None = strawberry.field(default=None, description="Title, up to 200 characters.")
    description: str | None = strawberry.field(
        default=None, description="Description, up to 10,000 characters."
    )
    start_date: datetime | None = strawberry.field(
        default=None,
        description="Start date; can be changed until the session starts. Pending homework and scheduled "
        "reminders move by the same amount of time.",
    )


@strawberry.type(description="Result of `updateSession`.")
class UpdateSessionPayload:
    session: Session | None = strawberry.field(
        description="The updated session; null if nothing was changed."
    )
    user_errors: list[UserError] = strawberry.field(description=USER_ERRORS)


@strawberry.input(description="Input for closing a session.")
class CloseSessionInput:
    session_id: strawberry.ID = strawberry.field(description="Id of a session that is not closed.")


@strawberry.type(description="Result of `closeSession`.")
class CloseSessionPayload:
    session: Session | None = strawberry.field(description="The closed session; null if nothing was changed.")
    user_errors: list[UserError] = strawberry.field(description=USER_ERRORS)
