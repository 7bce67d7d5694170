"""Inputs and payloads of what is done to homework."""

from datetime import datetime

import strawberry

from app.schema.errors import UserError
from app.schema.types.answers import Feedback
from app.schema.types.assignments import Assignment
from app.schema.types.sessions import Session


@strawberry.input(description="Which books a client shall answer, from when to when.")
class AssignHomeworkInput:
    session_id: strawberry.ID
    book_ids: list[strawberry.ID] = strawberry.field(
        description="1 to 50; a book named twice is assigned once."
    )
    start_date: datetime
    end_date: datetime = strawberry.field(description="Not before startDate.")
    remind_dates: list[datetime] | None = strawberry.field(
        default=None, description="Up to 50 moments between startDate and endDate."
    )


@strawberry.type(description="The outcome of assigning homework: new assignments, or what to mend.")
class AssignHomeworkPayload:
    assignments: list[Assignment] = strawberry.field(description="In the order of the books.")
    message: str | None = strawberry.field(
        description="Says that the homework was assigned; null when it was not."
    )
    user_errors: list[UserError]


@strawberry.input(description="Until when a pending assignment may be answered in time.")
class ExtendAssignmentInput:
    assignment_id: strawberry.ID
    end_date: datetime = strawberry.field(description="Not before the present one.")


@strawberry.type(description="The outcome of extending an assignment.")
class ExtendAssignmentPayload:
    assignment: Assignment | None
    user_errors: list[UserError]


@strawberry.input(description="Which pending assignment is taken back.")
class WithdrawAssignmentInput:
    assignment_id: strawberry.ID


@strawberry.type(description="The outcome of withdrawing an assignment: it is gone, its session is left.")
class WithdrawAssignmentPayload:
    session: Session | None
    user_errors: list[UserError]


@strawberry.input(description="When the client is reminded, instead of what was still to come.")
class SetRemindersInput:
    assignment_id: strawberry.ID
    remind_dates: list[datetime] = strawberry.field(
        description="Up to 50 moments of the assignment's window; none for no reminders."
    )


@strawberry.type(description="The outcome of setting reminders.")
class SetRemindersPayload:
    assignment: Assignment | None
    user_errors: list[UserError]


@strawberry.input(description="Which submitted assignment is to be answered once more.")
class ReopenAssignmentInput:
    assignment_id: strawberry.ID


@strawberry.type(description="The outcome of reopening an assignment.")
class ReopenAssignmentPayload:
    assignment: Assignment | None
    user_errors: list[UserError]


@strawberry.input(description="What the caregiver says of a submission; said again, it is mended.")
class GiveFeedbackInput:
    answer_set_id: strawberry.ID = strawberry.field(description="The submission of the present attempt.")
    text: str = strawberry.field(description="Up to 10,000 characters.")
    score: int | None = strawberry.field(
        default=None, description="0 to 1,000,000; becomes the assignment's. Without it, the book's stays."
    )


@strawberry.type(description="The outcome of giving feedback.")
class GiveFeedbackPayload:
    feedback: Feedback | None
    assignment: Assignment | None
    user_errors: list[UserError]
