"""Inputs and payloads of the mutations on answers."""

import strawberry

from app.schema.errors import USER_ERRORS, UserError
from app.schema.types.answers import AnswerSet
from app.schema.types.assignments import Assignment


@strawberry.input(description="The answer to one question.")
class AnswerInput:
    question_id: strawberry.ID = strawberry.field(description="Id of a question in the assignment's book.")
    answer: str = strawberry.field(
        description="Text of up to 10,000 characters: `true` or `false` for YES_NO, a number such as 7.5 for "
        "NUMBER, one of the options for SINGLE_CHOICE or SCALE, one option per line for MULTIPLE_CHOICE. "
        "An empty text means not answered."
    )


@strawberry.input(description="Input for saving a draft.")
class SaveAnswersInput:
    assignment_id: strawberry.ID = strawberry.field(
        description="Id of a pending assignment that has started."
    )
    answers: list[AnswerInput] = strawberry.field(
        description="All answers of the draft. They replace the stored answers."
    )
    revision: int | None = strawberry.field(
        default=0, description="Revision of the draft that the client last read; 0 or null if there was none."
    )
    auto_save: bool | None = strawberry.field(
        default=False, description="True for an automatic save; false or null for a save by the user."
    )


@strawberry.type(description="Result of `saveAnswers`.")
class SaveAnswersPayload:
    assignment: Assignment | None = strawberry.field(
        description="The assignment of the draft; null if nothing was saved."
    )
    draft: AnswerSet | None = strawberry.field(
        description="The saved draft with its new revision; the stored draft on DRAFT_CONFLICT."
    )
    user_errors: list[UserError] = strawberry.field(description=USER_ERRORS)


@strawberry.input(description="Input for submitting answers.")
class SubmitAnswersInput:
    assignment_id: strawberry.ID = strawberry.field(
        description="Id of a pending assignment that has started."
    )
    answers: list[AnswerInput] = strawberry.field(
        description="The answers. Every required question must be answered."
    )
    revision: int | None = strawberry.field(
        default=0, description="Revision of the draft that the client last read; 0 or null if there was none."
    )


@strawberry.type(description="Result of `submitAnswers`.")
class SubmitAnswersPayload:
    assignment: Assignment | None = strawberry.field(
        description="The completed assignment; null if nothing was submitted."
    )
    answer_set: AnswerSet | None = strawberry.field(
        description="The submission; null if nothing was submitted."
    )
    draft: AnswerSet | None = strawberry.field(
        description="The stored draft on DRAFT_CONFLICT; otherwise null."
    )
    user_errors: list[UserError] = strawberry.field(description=USER_ERRORS)
