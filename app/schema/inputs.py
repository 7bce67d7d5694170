"""The inputs and payloads of the mutations."""

from datetime import datetime

import strawberry
from strawberry import ID, field

from app.schema.errors import UserError
from app.schema.types.assignments import AnswerSet, Assignment, Feedback
from app.schema.types.sessions import Session

BOOK_IDS = "Ids of 1 to 50 books of the catalogue. Duplicates are ignored."
REMIND_DATES = "Times of reminders to the client: up to 50, between `startDate` and `endDate`."
REVISION = "Revision of the draft that the client last read; 0 or null if there was none."


@strawberry.type
class ChangePayload:
    user_errors: list[UserError] = field(description="Errors that rejected the mutation; empty on success.")


# --- sessions ---


@strawberry.input(description="Homework of a new session.")
class SessionHomeworkInput:
    book_ids: list[ID] = field(description=BOOK_IDS)
    start_date: datetime = field(
        description="Start of the period in which the homework can be answered, not before the session."
    )
    end_date: datetime = field(description="Due date, not before `startDate`.")
    remind_dates: list[datetime] | None = field(default=None, description=REMIND_DATES)


@strawberry.input(
    description="Repetition of a session at the same local time in the time zone of the service."
)
class RepeatInput:
    count: int = field(description="Total number of sessions, 1 to 52.")
    every_days: int = field(description="Interval between sessions in days, 1 to 366.")


@strawberry.input(
    description="Input for creating sessions. Exactly one of `clientOpptId` and `clientId` is required."
)
class CreateSessionInput:
    client_oppt_id: str | None = field(
        default=None,
        description="External identifier of the client. Required for the first session with a client.",
    )
    client_id: ID | None = field(
        default=None, description="Id of a client with whom the caregiver has or had a session."
    )
    title: str = field(description="Title, up to 200 characters.")
    description: str | None = field(
        default="", description="Description, up to 10,000 characters; null means empty."
    )
    start_date: datetime = field(description="Start date; may be in the past.")
    homework: SessionHomeworkInput | None = field(
        default=None,
        description="Homework to assign. Repeated sessions get it at the same offset from their start.",
    )
    repeat: RepeatInput | None = field(default=None, description="Creates several sessions instead of one.")


@strawberry.type(description="Result of `createSession`.")
class CreateSessionPayload(ChangePayload):
    sessions: list[Session] = field(description="The new sessions, in order; empty if none was created.")


@strawberry.input(description="Input for updating a session. Omitted and null fields are not changed.")
class UpdateSessionInput:
    session_id: ID = field(description="Id of a session that is not closed.")
    title: str | None = field(default=None, description="Title, up to 200 characters.")
    description: str | None = field(default=None, description="Description, up to 10,000 characters.")
    start_date: datetime | None = field(
        default=None,
        description="Start date; can be changed until the session starts. Pending homework and scheduled "
        "reminders move by the same amount of time.",
    )


@strawberry.type(description="Result of `updateSession`.")
class UpdateSessionPayload(ChangePayload):
    session: Session | None = field(description="The updated session; null if nothing was changed.")


@strawberry.input(description="Input for closing a session.")
class CloseSessionInput:
    session_id: ID = field(description="Id of a session that is not closed.")


@strawberry.type(description="Result of `closeSession`.")
class CloseSessionPayload(ChangePayload):
    session: Session | None = field(description="The closed session; null if nothing was changed.")


# --- homework ---


@strawberry.input(description="Input for assigning homework.")
class AssignHomeworkInput:
    session_id: ID = field(description="Id of a running session.")
    book_ids: list[ID] = field(description=BOOK_IDS)
    start_date: datetime = field(
        description="Start of the period in which the homework can be answered; may be in the past."
    )
    end_date: datetime = field(description="Due date, not before `startDate`.")
    remind_dates: list[datetime] | None = field(default=None, description=REMIND_DATES)


@strawberry.type(description="Result of `assignHomework`.")
class AssignHomeworkPayload(ChangePayload):
    assignments: list[Assignment] = field(
        description="One assignment per book, in the order of `bookIds`; empty if nothing was assigned."
    )
    message: str | None = field(description="A confirmation message; null if nothing was assigned.")


@strawberry.input(description="Input for extending an assignment.")
class ExtendAssignmentInput:
    assignment_id: ID = field(description="Id of a pending assignment.")
    end_date: datetime = field(description="The new end date, not before the current one.")


@strawberry.type(description="Result of `extendAssignment`.")
class ExtendAssignmentPayload(ChangePayload):
    assignment: Assignment | None = field(
        description="The assignment with its new end date; null if nothing was changed."
    )


@strawberry.input(description="Input for withdrawing an assignment.")
class WithdrawAssignmentInput:
    assignment_id: ID = field(description="Id of a pending assignment.")


@strawberry.type(description="Result of `withdrawAssignment`. The assignment no longer exists.")
class WithdrawAssignmentPayload(ChangePayload):
    session: Session | None = field(
        description="The session that contained the assignment; null if nothing was changed."
    )


@strawberry.input(
    description="Input for setting the reminders of an assignment. Replaces its scheduled reminders."
)
class SetRemindersInput:
    assignment_id: ID = field(description="Id of a pending assignment.")
    remind_dates: list[datetime] = field(
        description="Times of reminders: up to 50, within the assignment's window; empty for no reminders."
    )


@strawberry.type(description="Result of `setReminders`.")
class SetRemindersPayload(ChangePayload):
    assignment: Assignment | None = field(
        description="The assignment with its new reminders; null if nothing was changed."
    )


@strawberry.input(description="Input for reopening an assignment.")
class ReopenAssignmentInput:
    assignment_id: ID = field(description="Id of a submitted assignment.")


@strawberry.type(description="Result of `reopenAssignment`.")
class ReopenAssignmentPayload(ChangePayload):
    assignment: Assignment | None = field(
        description="The assignment, pending, with its next attempt; null if nothing was changed."
    )


@strawberry.input(
    description="Input for giving or editing feedback. Each submission has at most one feedback."
)
class GiveFeedbackInput:
    answer_set_id: ID = field(description="Id of the submission of the current attempt.")
    text: str = field(description="Text of the feedback, up to 10,000 characters.")
    score: int | None = field(
        default=None, description="Score from 0 to 1,000,000 that overrides the score computed from the book."
    )


@strawberry.type(description="Result of `giveFeedback`.")
class GiveFeedbackPayload(ChangePayload):
    feedback: Feedback | None = field(description="The feedback; null if nothing was changed.")
    assignment: Assignment | None = field(
        description="The assignment of the submission; null if nothing was changed."
    )


# --- answers ---


@strawberry.input(description="The answer to one question.")
class AnswerInput:
    question_id: ID = field(description="Id of a question in the assignment's book.")
    answer: str = field(
        description="Text of up to 10,000 characters: `true` or `false` for YES_NO, a number such as 7.5 for "
        "NUMBER, one of the options for SINGLE_CHOICE or SCALE, one option per line for MULTIPLE_CHOICE. "
        "An empty text means not answered."
    )


@strawberry.input(description="Input for saving a draft.")
class SaveAnswersInput:
    assignment_id: ID = field(description="Id of a pending assignment that has started.")
    answers: list[AnswerInput] = field(
        description="All answers of the draft. They replace the stored answers."
    )
    revision: int | None = field(default=0, description=REVISION)
    auto_save: bool | None = field(
        default=False, description="True for an automatic save; false or null for a save by the user."
    )


@strawberry.type(description="Result of `saveAnswers`.")
class SaveAnswersPayload(ChangePayload):
    assignment: Assignment | None = field(
        description="The assignment of the draft; null if nothing was saved."
    )
    draft: AnswerSet | None = field(
        description="The saved draft with its new revision; the stored draft on DRAFT_CONFLICT."
    )


@strawberry.input(description="Input for submitting answers.")
class SubmitAnswersInput:
    assignment_id: ID = field(description="Id of a pending assignment that has started.")
    answers: list[AnswerInput] = field(description="The answers. Every required question must be answered.")
    revision: int | None = field(default=0, description=REVISION)


@strawberry.type(description="Result of `submitAnswers`.")
class SubmitAnswersPayload(ChangePayload):
    assignment: Assignment | None = field(
        description="The completed assignment; null if nothing was submitted."
    )
    answer_set: AnswerSet | None = field(description="The submission; null if nothing was submitted.")
    draft: AnswerSet | None = field(description="The stored draft on DRAFT_CONFLICT; otherwise null.")
