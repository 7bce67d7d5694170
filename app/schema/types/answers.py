"""AnswerSet, Answer and Feedback."""

from datetime import datetime
from typing import TYPE_CHECKING, Annotated, Optional

import strawberry

from app.db.reader.plans import Row
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
        description="Global id of the question; null where only the old service knew it.",
    )
    question_text: str = strawberry.field(description="The question as it was asked.")
    answer: str = strawberry.field(
        description="As text, whatever the kind of the question: AnswerInput says how."
    )


@strawberry.type(description="The answers to one assignment: a submission, or the client's draft.")
class AnswerSet(Node):
    save_type: SaveType = strawberry.field(description="Whether it is a submission or a draft.")
    attempt: int = strawberry.field(
        description="Which attempt at the assignment, from 1; reopening begins another."
    )
    revision: int = strawberry.field(description="Grows with every save of a draft; the next save names it.")
    submit_date: datetime | None = strawberry.field(description="When it was submitted; null for a draft.")
    assignment: Annotated["Assignment", strawberry.lazy("app.schema.types.assignments")] = strawberry.field(
        description="What was answered."
    )
    score: int | None = strawberry.field(
        description="The score that counts: that of the feedback where it gives one, else that of the book. "
        "Null where there is neither."
    )
    answers: list[Answer] = strawberry.field(description="One per question, in the order of the book.")
    feedback: Optional["Feedback"] = strawberry.field(
        description="What the caregiver said of it; null until then."
    )


@strawberry.type(description="What the caregiver says of a submission.")
class Feedback:
    id: strawberry.ID = id_field()
    text: str = strawberry.field(description="What was said.")
    score: int | None = strawberry.field(
        description="Counts instead of the score by the book; null where none was given."
    )
    author: Caregiver = strawberry.field(description="Who said it.")
    submit_date: datetime = strawberry.field(description="When it was said, or last mended.")
    answer_set: AnswerSet = strawberry.field(description="The submission that it is about.")
