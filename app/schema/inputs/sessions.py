"""Inputs and payloads of what is done to sessions."""

from datetime import datetime

import strawberry

from app.schema.errors import TO_MEND, UserError
from app.schema.types.sessions import Session


@strawberry.input(description="Books for a session that is only being opened, and their window.")
class SessionHomeworkInput:
    book_ids: list[strawberry.ID] = strawberry.field(
        description="1 to 50 books of the catalogue; one that is named twice is assigned once."
    )
    start_date: datetime = strawberry.field(
        description="From when on it can be answered; not before the session's start."
    )
    end_date: datetime = strawberry.field(description="Until when it is in time; not before startDate.")
    remind_dates: list[datetime] | None = strawberry.field(
        default=None,
        description="When the client is reminded: up to 50 moments between startDate and endDate.",
    )


@strawberry.input(description="Sessions at the same wall time in the service zone, every so many days.")
class RepeatInput:
    count: int = strawberry.field(description="How many sessions in all, 1 to 52.")
    every_days: int = strawberry.field(description="How many days from one to the next, 1 to 366.")


@strawberry.input(description="With whom, about what and from when; the client by exactly one of two ids.")
class CreateSessionInput:
    client_oppt_id: str | None = strawberry.field(
        default=None, description="The client's identifier outside this service; it opens the first session."
    )
    client_id: strawberry.ID | None = strawberry.field(
        default=None, description="A client that the caregiver has or had a session with."
    )
    title: str = strawberry.field(description="What it is called, up to 200 characters.")
    description: str | None = strawberry.field(
        default="", description="What it is about, up to 10,000 characters; null means empty."
    )
    start_date: datetime = strawberry.field(description="From when on it runs; may have passed.")
    homework: SessionHomeworkInput | None = strawberry.field(
        default=None,
        description="Homework to begin with; repeated sessions get it at the same distance from their start.",
    )
    repeat: RepeatInput | None = strawberry.field(
        default=None, description="Opens several such sessions instead of one."
    )


@strawberry.type(description="The outcome of opening sessions: new sessions, or what to mend.")
class CreateSessionPayload:
    sessions: list[Session] = strawberry.field(
        description="The new sessions in order; empty when none was opened."
    )
    user_errors: list[UserError] = strawberry.field(description=TO_MEND)


@strawberry.input(description="What to change of a session; what is left out or null stays as it is.")
class UpdateSessionInput:
    session_id: strawberry.ID = strawberry.field(description="A session that is not closed.")
    title: str | None = strawberry.field(default=None, description="What it is called, up to 200 characters.")
    description: str | None = strawberry.field(
        default=None, description="What it is about, up to 10,000 characters."
    )
    start_date: datetime | None = strawberry.field(
        default=None,
        description="From when on it runs; can be moved until then. Its pending homework and scheduled "
        "reminders move by the same time.",
    )


@strawberry.type(description="The outcome of changing a session.")
class UpdateSessionPayload:
    session: Session | None = strawberry.field(description="The session as it is now.")
    user_errors: list[UserError] = strawberry.field(description=TO_MEND)


@strawberry.input(description="Which session ends for good.")
class CloseSessionInput:
    session_id: strawberry.ID = strawberry.field(description="A session that is not closed.")


@strawberry.type(description="The outcome of closing a session.")
class CloseSessionPayload:
    session: Session | None = strawberry.field(description="The session, closed.")
    user_errors: list[UserError] = strawberry.field(description=TO_MEND)
