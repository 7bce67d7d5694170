"""AnswerSet, Answer and Feedback."""

from datetime import datetime
from typing import TYPE_CHECKING, Annotated

import strawberry

from app.db.tables import SaveType
from app.schema.node import Node, id_field
from app.schema.people import Caregiver

if TYPE_CHECKING:
    from app.schema.assignments import Assignment


@strawberry.type(description="What was answered to one question.")
class Answer:
    question_text: str
    answer: str = strawberry.field(description="As text; booleans and numbers too.")


@strawberry.type(description="The answers of one submission, or of a draft.")
class AnswerSet(Node):
    save_type: SaveType
    attempt: int = strawberry.field(description="Counts from 1; a reopened assignment is attempted again.")
    revision: int = strawberry.field(description="Grows with every save of a draft.")
    submit_date: datetime | None = strawberry.field(description="Null for a draft.")
    assignment: Annotated["Assignment", strawberry.lazy("app.schema.assignments")]
    answers: list[Answer] = strawberry.field(description="One per question, in the order of the book.")


@strawberry.type(description="What the caregiver says of a submission.")
class Feedback:
    id: strawberry.ID = id_field()
    text: str
    score: int | None
    author: Caregiver
    submit_date: datetime
    answer_set: AnswerSet
