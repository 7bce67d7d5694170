"""AnswerSet, Answer and Feedback."""

from datetime import datetime
from typing import TYPE_CHECKING, Annotated, Optional

import strawberry

from app.db.plans import Row
from app.db.tables import Question, SaveType
from app.schema.types.node import Node, global_id, id_field, needing
from app.schema.types.people import Caregiver

if TYPE_CHECKING:
    from app.schema.types.assignments import Assignment


def question_id_of(answer: strawberry.Parent[Row]) -> strawberry.ID | None:
    number = answer.question_id
    return None if number is None else strawberry.ID(global_id(Question.__name__, number))


@strawberry.type(description="What was answered to one question.")
class Answer:
    question_id: strawberry.ID | None = strawberry.field(
        resolver=question_id_of,
        metadata=needing("question_id"),
        description="Null where only the old service knew the question.",
    )
    question_text: str = strawberry.field(description="As it was asked.")
    answer: str = strawberry.field(description="As text; booleans and numbers too.")


@strawberry.type(description="The answers of one submission, or of a draft.")
class AnswerSet(Node):
    save_type: SaveType
    attempt: int = strawberry.field(description="Counts from 1; a reopened assignment is attempted again.")
    revision: int = strawberry.field(description="Grows with every save of a draft.")
    submit_date: datetime | None = strawberry.field(description="Null for a draft.")
    assignment: Annotated["Assignment", strawberry.lazy("app.schema.types.assignments")]
    score: int | None = strawberry.field(
        description="As it counts: that of the feedback, where one is given. Null where there is none."
    )
    answers: list[Answer] = strawberry.field(description="One per question, in the order of the book.")
    feedback: Optional["Feedback"] = strawberry.field(
        description="What the caregiver says of it, if anything."
    )


@strawberry.type(description="What the caregiver says of a submission.")
class Feedback:
    id: strawberry.ID = id_field()
    text: str
    score: int | None
    author: Caregiver
    submit_date: datetime
    answer_set: AnswerSet
