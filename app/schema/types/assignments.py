"""Assignment, Reminder and Lateness."""

from datetime import datetime
from typing import Any

import strawberry

from app.care.assignments.reading import LatenessState, lateness
from app.db.entities import as_moment, known_moment
from app.db.plans import Row
from app.db.tables import AssignmentStatus, FeedbackStatus, ReminderState
from app.schema.types.answers import AnswerSet, Feedback
from app.schema.types.books import Book, Module
from app.schema.types.node import Node, id_field, needing
from app.schema.types.people import Caregiver, Client
from app.schema.types.sessions import Session


@strawberry.type(description="How an assignment stands to its end date, at the moment of the request.")
class Lateness:
    state: LatenessState
    seconds: int = strawberry.field(description="How late; 0 when on time.")


@strawberry.type(description="A moment at which the client is reminded.")
class Reminder:
    id: strawberry.ID = id_field()
    remind_date: datetime
    state: ReminderState


def lateness_of(assignment: strawberry.Parent[Row]) -> Any:
    end_date, submit_date = as_moment(assignment.end_date), as_moment(assignment.submit_date)
    return lateness(end_date, submit_date, known_moment(assignment.now))


@strawberry.type(description="The homework of one book, assigned to the client of a session.")
class Assignment(Node):
    name: str = strawberry.field(description="The name of its book.")
    book: Book
    module: Module = strawberry.field(description="Its book's module.")
    is_test: bool = strawberry.field(description="Whether its book is a test.")
    session: Session
    caregiver: Caregiver
    client: Client
    assign_date: datetime
    start_date: datetime
    end_date: datetime | None = strawberry.field(
        description="Null only for homework recorded from the legacy paths, which do not carry it."
    )
    submit_date: datetime | None = strawberry.field(description="Null while pending.")
    status: AssignmentStatus
    attempt: int = strawberry.field(description="Counts from 1; reopening begins another.")
    lateness: Lateness = strawberry.field(
        resolver=lateness_of, metadata=needing("end_date", "submit_date", "now")
    )
    score: int
    feedback_status: FeedbackStatus
    feedback_submit_date: datetime | None
    answer_sets: list[AnswerSet] = strawberry.field(
        description="The submissions of every attempt, newest first."
    )
    draft: AnswerSet | None = strawberry.field(
        description="The client's own unfinished answers; null for others."
    )
    feedbacks: list[Feedback]
    reminders: list[Reminder]
