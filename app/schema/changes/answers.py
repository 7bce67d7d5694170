"""Inputs and payloads of answering."""

import strawberry

from app.schema.errors import UserError
from app.schema.types.answers import AnswerSet
from app.schema.types.assignments import Assignment


@strawberry.input(description="The answer to one question.")
class AnswerInput:
    question_id: strawberry.ID
    answer: str = strawberry.field(
        description="As text, up to 10,000 characters: `true` or `false` to a YES_NO question, a number such "
        "as 7.5 to a NUMBER, one of the options to a SINGLE_CHOICE or SCALE, one option per line to a "
        "MULTIPLE_CHOICE. Empty means not answered."
    )


@strawberry.input(description="What the client has answered so far.")
class SaveAnswersInput:
    assignment_id: strawberry.ID
    answers: list[AnswerInput] = strawberry.field(description="All of them; what is left out is dropped.")
    revision: int = strawberry.field(
        default=0, description="Of the draft that the client saw last; 0 where there was none."
    )
    auto_save: bool = strawberry.field(default=False, description="Saved by the device, not by the person.")


@strawberry.type(description="The outcome of saving a draft.")
class SaveAnswersPayload:
    draft: AnswerSet | None = strawberry.field(
        description="With its new revision; after a DRAFT_CONFLICT the stored one."
    )
    user_errors: list[UserError]


@strawberry.input(description="What the client answers for good.")
class SubmitAnswersInput:
    assignment_id: strawberry.ID
    answers: list[AnswerInput] = strawberry.field(description="Every question that must be answered.")
    revision: int = strawberry.field(
        default=0, description="Of the draft that the client saw last; 0 where there was none."
    )


@strawberry.type(description="The outcome of submitting answers.")
class SubmitAnswersPayload:
    assignment: Assignment | None
    answer_set: AnswerSet | None
    draft: AnswerSet | None = strawberry.field(description="After a DRAFT_CONFLICT the stored one.")
    user_errors: list[UserError]
