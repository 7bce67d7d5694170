"""Inputs and payloads of what is done to sessions."""

from datetime import datetime

import strawberry

from app.schema.errors import UserError
from app.schema.types.sessions import Session


@strawberry.input(description="Books for a session that is only being opened, and their window.")
class SessionHomeworkInput:
    book_ids: list[strawberry.ID] = strawberry.field(description="1 to 50.")
    start_date: datetime = strawberry.field(description="Not before the session's.")
    end_date: datetime = strawberry.field(description="Not before startDate.")
    remind_dates: list[datetime] | None = strawberry.field(
        default=None, description="Up to 50 moments between startDate and endDate."
    )


@strawberry.input(description="Sessions at the same wall time in the service zone, every so many days.")
class RepeatInput:
    count: int = strawberry.field(description="Of the sessions in all, 1 to 52.")
    every_days: int = strawberry.field(description="1 to 366.")


@strawberry.input(description="With whom, about what and from when; the client by exactly one of two ids.")
class CreateSessionInput:
    client_oppt_id: str | None = strawberry.field(
        default=None, description="The client's identifier outside this service; it opens the first session."
    )
    client_id: strawberry.ID | None = strawberry.field(
        default=None, description="A client that the caregiver has or had a session with."
    )
    title: str = strawberry.field(description="Up to 200 characters.")
    description: str = strawberry.field(default="", description="Up to 10,000 characters.")
    start_date: datetime
    homework: SessionHomeworkInput | None = strawberry.field(
        default=None, description="Repeated sessions get it at the same distance from their own start."
    )
    repeat: RepeatInput | None = None


@strawberry.type(description="The outcome of opening sessions: new sessions, or what to mend.")
class CreateSessionPayload:
    sessions: list[Session] = strawberry.field(description="The first one first.")
    user_errors: list[UserError]


@strawberry.input(description="What is left out or null stays as it is.")
class UpdateSessionInput:
    session_id: strawberry.ID
    title: str | None = strawberry.field(default=None, description="Up to 200 characters.")
    description: str | None = strawberry.field(default=None, description="Up to 10,000 characters.")
    start_date: datetime | None = strawberry.field(
        default=None, description="Can be moved until the session has started."
    )


@strawberry.type(description="The outcome of changing a session.")
class UpdateSessionPayload:
    session: Session | None
    user_errors: list[UserError]


@strawberry.input(description="Which session ends for good.")
class CloseSessionInput:
    session_id: strawberry.ID


@strawberry.type(description="The outcome of closing a session.")
class CloseSessionPayload:
    session: Session | None
    user_errors: list[UserError]
