"""Inputs and payloads of answering."""

import strawberry

from app.schema.errors import TO_MEND, UserError
from app.schema.types.answers import AnswerSet
from app.schema.types.assignments import Assignment


@strawberry.input(description="The answer to one question.")
class AnswerInput:
    question_id: strawberry.ID = strawberry.field(description="A question of the assignment's book.")
    answer: str = strawberry.field(
        description="As text, up to 10,000 characters: `true` or `false` to a YES_NO question, a number such "
        "as 7.5 to a NUMBER, one of the options to a SINGLE_CHOICE or SCALE, one option per line to a "
        "MULTIPLE_CHOICE. Empty means not answered."
    )


@strawberry.input(description="What the client has answered so far.")
class SaveAnswersInput:
    assignment_id: strawberry.ID = strawberry.field(description="A pending assignment that has begun.")
    answers: list[AnswerInput] = strawberry.field(
        description="All answers of the draft; what is left out is dropped."
    )
    revision: int | None = strawberry.field(
        default=0, description="The revision of the draft that the client saw last; 0 or null without one."
    )
    auto_save: bool | None = strawberry.field(
        default=False, description="True if the app saved it automatically, false or null if the person did."
    )


@strawberry.type(description="The outcome of saving a draft.")
class SaveAnswersPayload:
    assignment: Assignment | None = strawberry.field(
        description="The assignment that the draft belongs to; null when nothing was saved."
    )
    draft: AnswerSet | None = strawberry.field(
        description="The draft with its new revision; after a DRAFT_CONFLICT the stored one."
    )
    user_errors: list[UserError] = strawberry.field(description=TO_MEND)


@strawberry.input(description="What the client answers for good.")
class SubmitAnswersInput:
    assignment_id: strawberry.ID = strawberry.field(description="A pending assignment that has begun.")
    answers: list[AnswerInput] = strawberry.field(
        description="The answers; those to required questions must be among them."
    )
    revision: int | None = strawberry.field(
        default=0, description="The revision of the draft that the client saw last; 0 or null without one."
    )


@strawberry.type(description="The outcome of submitting answers.")
class SubmitAnswersPayload:
    assignment: Assignment | None = strawberry.field(
        description="The assignment, now complete; null when nothing was submitted."
    )
    answer_set: AnswerSet | None = strawberry.field(description="What was submitted.")
    draft: AnswerSet | None = strawberry.field(
        description="After a DRAFT_CONFLICT the stored draft, else null."
    )
    user_errors: list[UserError] = strawberry.field(description=TO_MEND)
