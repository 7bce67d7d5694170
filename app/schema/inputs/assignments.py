"""Inputs and payloads of the mutations on assignments."""

from datetime import datetime

import strawberry

from app.schema.errors import USER_ERRORS, UserError
from app.schema.types.answers import Feedback
from app.schema.types.assignments import Assignment
from app.schema.types.sessions import Session


@strawberry.input(description="Input for assigning homework.")
class AssignHomeworkInput:
    session_id: strawberry.ID = strawberry.field(description="Id of a running session.")
    book_ids: list[strawberry.ID] = strawberry.field(
        description="Ids of 1 to 50 books of the catalogue. Duplicates are ignored."
    )
    start_date: datetime = strawberry.field(
        description="Start of the period in which the homework can be answered."
    )
    end_date: datetime = strawberry.field(description="Due date, not before `startDate`.")
    remind_dates: list[datetime] | None = strawberry.field(
        default=None,
        description="Times of reminders to the client: up to 50, between `startDate` and `endDate`.",
    )


@strawberry.type(description="Result of `assignHomework`.")
class AssignHomeworkPayload:
    assignments: list[Assignment] = strawberry.field(
        description="One assignment per book, in the order of `bookIds`; empty if nothing was assigned."
    )
    message: str | None = strawberry.field(
        description="A confirmation message; null if nothing was assigned."
    )
    user_errors: list[UserError] = strawberry.field(description=USER_ERRORS)


@strawberry.input(description="Input for extending an assignment.")
class ExtendAssignmentInput:
    assignment_id: strawberry.ID = strawberry.field(description="Id of a pending assignment.")
    end_date: datetime = strawberry.field(description="The new end date, not before the current one.")


@strawberry.type(description="Result of `extendAssignment`.")
class ExtendAssignmentPayload:
    assignment: Assignment | None = strawberry.field(
        description="The assignment with its new end date; null if nothing was changed."
    )
    user_errors: list[UserError] = strawberry.field(description=USER_ERRORS)


@strawberry.input(description="Input for withdrawing an assignment.")
class WithdrawAssignmentInput:
    assignment_id: strawberry.ID = strawberry.field(description="Id of a pending assignment.")


@strawberry.type(description="Result of `withdrawAssignment`. The assignment no longer exists.")
class WithdrawAssignmentPayload:
    session: Session | None = strawberry.field(
        description="The session that contained the assignment; null if nothing was changed."
    )
    user_errors: list[UserError] = strawberry.field(description=USER_ERRORS)


@strawberry.input(
    description="Input for setting the reminders of an assignment. Replaces its scheduled reminders."
)
class SetRemindersInput:
    assignment_id: strawberry.ID = strawberry.field(description="Id of a pending assignment.")
    remind_dates: list[datetime] = strawberry.field(
        description="Times of reminders: up to 50, within the assignment's window; empty for no reminders."
    )


@strawberry.type(description="Result of `setReminders`.")
class SetRemindersPayload:
    assignment: Assignment | None = strawberry.field(
        description="The assignment with its new reminders; null if nothing was changed."
    )
    user_errors: list[UserError] = strawberry.field(description=USER_ERRORS)


@strawberry.input(description="Input for reopening an assignment.")
class ReopenAssignmentInput:
    assignment_id: strawberry.ID = strawberry.field(description="Id of a submitted assignment.")


@strawberry.type(description="Result of `reopenAssignment`.")
class ReopenAssignmentPayload:
    assignment: Assignment | None = strawberry.field(
        description="The assignment, pending, with its next attempt; null if nothing was changed."
    )
    user_errors: list[UserError] = strawberry.field(description=USER_ERRORS)


@strawberry.input(
    description="Input for giving or editing feedback. Each submission has at most one feedback."
)
class GiveFeedbackInput:
    answer_set_id: strawberry.ID = strawberry.field(
        description="Id of the submission of the current attempt."
    )
    text: str = strawberry.field(description="Text of the feedback, up to 10,000 characters.")
    score: int | None = strawberry.field(
        default=None,
        description="Score from 0 to 1,000,000 that overrides the score computed from the book.",
    )


@strawberry.type(description="Result of `giveFeedback`.")
class GiveFeedbackPayload:
    feedback: Feedback | None = strawberry.field(description="The feedback; null if nothing was changed.")
    assignment: Assignment | None = strawberry.field(
        description="The assignment of the submission; null if nothing was changed."
    )
    user_errors: list[UserError] = strawberry.field(description=USER_ERRORS)
