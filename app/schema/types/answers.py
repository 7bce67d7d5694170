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


@strawberry.type(description="The answer to one question.")
class Answer:
    question_id: strawberry.ID | None = strawberry.field(
        resolver=question_id_of,
        metadata=needing("question_id"),
        description="Global id of the question; null for some answers imported from the old service.",
    )
    question_text: str = strawberry.field(description="Text of the question at the time of the answer.")
    answer: str = strawberry.field(description="The answer as text, in the format described in AnswerInput.")


@strawberry.type(description="The answers to one assignment: a submission or the client's draft.")
class AnswerSet(Node):
    save_type: SaveType = strawberry.field(description="Whether this is a submission or a draft.")
    attempt: int = strawberry.field(
        description="Number of the attempt, from 1. Reopening the assignment starts the next attempt."
    )
    revision: int = strawberry.field(
        description="Increases with every save of a draft. The next save must pass it."
    )
    submit_date: datetime | None = strawberry.field(description="Time of submission; null for a draft.")
    assignment: Annotated["Assignment", strawberry.lazy("app.schema.types.assignments")] = strawberry.field(
        description="The answered assignment."
    )
    score: int | None = strawberry.field(
        description="The effective score: the score of the feedback if it has one, otherwise the score "
        "computed from the book. Null if there is neither."
    )
    answers: list[Answer] = strawberry.field(description="One answer per question, in the order of the book.")
    feedback: Optional["Feedback"] = strawberry.field(
        description="Feedback of the caregiver; null if there is none."
    )


@strawberry.type(description="Feedback of a caregiver on a submission.")
class Feedback:
    id: strawberry.ID = id_field()
    text: str = strawberry.field(description="Text of the feedback.")
    score: int | None = strawberry.field(
        description="Score that overrides the score computed from the book; null if there is none."
    )
    author: Caregiver = strawberry.field(description="Author of the feedback.")
    submit_date: datetime = strawberry.field(
        description="Time at which the feedback was given or last edited."
    )
    answer_set: AnswerSet = strawberry.field(description="The submission.")
