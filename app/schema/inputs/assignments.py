"""Inputs and payloads of what is done to homework."""

from datetime import datetime

import strawberry

from app.schema.errors import TO_MEND, UserError
from app.schema.types.answers import Feedback
from app.schema.types.assignments import Assignment
from app.schema.types.sessions import Session


@strawberry.input(description="Which books a client shall answer, from when to when.")
class AssignHomeworkInput:
    session_id: strawberry.ID = strawberry.field(description="A running session.")
    book_ids: list[strawberry.ID] = strawberry.field(
        description="1 to 50 books of the catalogue; one that is named twice is assigned once."
    )
    start_date: datetime = strawberry.field(description="From when on it can be answered.")
    end_date: datetime = strawberry.field(description="Until when it is in time; not before startDate.")
    remind_dates: list[datetime] | None = strawberry.field(
        default=None,
        description="When the client is reminded: up to 50 moments between startDate and endDate.",
    )


@strawberry.type(description="The outcome of assigning homework: new assignments, or what to mend.")
class AssignHomeworkPayload:
    assignments: list[Assignment] = strawberry.field(
        description="One for each book, in their order; empty when nothing was assigned."
    )
    message: str | None = strawberry.field(
        description="Says that the homework was assigned; null when it was not."
    )
    user_errors: list[UserError] = strawberry.field(description=TO_MEND)


@strawberry.input(description="Until when a pending assignment may be answered in time.")
class ExtendAssignmentInput:
    assignment_id: strawberry.ID = strawberry.field(description="A pending assignment.")
    end_date: datetime = strawberry.field(description="The new end, not before the present one.")


@strawberry.type(description="The outcome of extending an assignment.")
class ExtendAssignmentPayload:
    assignment: Assignment | None = strawberry.field(description="With its new end.")
    user_errors: list[UserError] = strawberry.field(description=TO_MEND)


@strawberry.input(description="Which pending assignment is taken back.")
class WithdrawAssignmentInput:
    assignment_id: strawberry.ID = strawberry.field(description="A pending assignment.")


@strawberry.type(description="The outcome of withdrawing an assignment: it is gone, its session is left.")
class WithdrawAssignmentPayload:
    session: Session | None = strawberry.field(description="The session that it was in, without it.")
    user_errors: list[UserError] = strawberry.field(description=TO_MEND)


@strawberry.input(description="When the client is reminded, instead of what was still to come.")
class SetRemindersInput:
    assignment_id: strawberry.ID = strawberry.field(description="A pending assignment.")
    remind_dates: list[datetime] = strawberry.field(
        description="Up to 50 moments of the assignment's window; none for no reminders."
    )


@strawberry.type(description="The outcome of setting reminders.")
class SetRemindersPayload:
    assignment: Assignment | None = strawberry.field(description="With its new reminders.")
    user_errors: list[UserError] = strawberry.field(description=TO_MEND)


@strawberry.input(description="Which submitted assignment is to be answered once more.")
class ReopenAssignmentInput:
    assignment_id: strawberry.ID = strawberry.field(description="A submitted assignment.")


@strawberry.type(description="The outcome of reopening an assignment.")
class ReopenAssignmentPayload:
    assignment: Assignment | None = strawberry.field(description="Pending again, with its next attempt.")
    user_errors: list[UserError] = strawberry.field(description=TO_MEND)


@strawberry.input(description="What the caregiver says of a submission; said again, it is mended.")
class GiveFeedbackInput:
    answer_set_id: strawberry.ID = strawberry.field(description="The submission of the present attempt.")
    text: str = strawberry.field(description="What to say, up to 10,000 characters.")
    score: int | None = strawberry.field(
        default=None,
        description="0 to 1,000,000; counts instead of the score by the book, which counts without it.",
    )


@strawberry.type(description="The outcome of giving feedback.")
class GiveFeedbackPayload:
    feedback: Feedback | None = strawberry.field(description="What was said.")
    assignment: Assignment | None = strawberry.field(description="The assignment that it was said of.")
    user_errors: list[UserError] = strawberry.field(description=TO_MEND)
