"""Assignment, Reminder and Lateness."""

from datetime import datetime
from typing import Any

import strawberry

from app.care.assignments.reading import LatenessState, lateness
from app.db.reader.entities import as_moment, known_moment
from app.db.reader.plans import Row
from app.db.tables import AssignmentStatus, FeedbackStatus, ReminderState
from app.schema.types.answers import AnswerSet, Feedback
from app.schema.types.books import Book, Module
from app.schema.types.node import Node, id_field, needing
from app.schema.types.people import Caregiver, Client
from app.schema.types.sessions import Session


@strawberry.type(description="How an assignment stands to its end date, at the moment of the request.")
class Lateness:
    state: LatenessState = strawberry.field(description="In time, late or overdue.")
    seconds: int = strawberry.field(
        description="By how much it is late or overdue, in seconds; 0 when on time."
    )


@strawberry.type(description="A moment at which the client is reminded.")
class Reminder:
    id: strawberry.ID = id_field()
    remind_date: datetime = strawberry.field(description="When the client is to be reminded.")
    state: ReminderState = strawberry.field(description="What became of it.")


def lateness_of(assignment: strawberry.Parent[Row]) -> Any:
    end_date, submit_date = as_moment(assignment.end_date), as_moment(assignment.submit_date)
    return lateness(end_date, submit_date, known_moment(assignment.now))


@strawberry.type(description="The homework of one book, assigned to the client of a session.")
class Assignment(Node):
    name: str = strawberry.field(description="The name of its book.")
    book: Book = strawberry.field(description="What is to be answered.")
    module: Module = strawberry.field(description="The module of its book.")
    is_test: bool = strawberry.field(description="Whether its book is a test.")
    session: Session = strawberry.field(description="In which it was assigned.")
    caregiver: Caregiver = strawberry.field(description="Who assigned it.")
    client: Client = strawberry.field(description="Who answers it.")
    assign_date: datetime = strawberry.field(description="When it was assigned.")
    start_date: datetime = strawberry.field(description="From when on it can be answered.")
    end_date: datetime | None = strawberry.field(
        description="Until when answers are in time; late ones are taken too. Null only for homework "
        "recorded from the legacy paths, which do not carry it."
    )
    submit_date: datetime | None = strawberry.field(
        description="When the present attempt was submitted; null while pending."
    )
    status: AssignmentStatus = strawberry.field(description="Whether the present attempt is submitted.")
    attempt: int = strawberry.field(description="The present attempt, from 1; reopening begins another.")
    lateness: Lateness = strawberry.field(
        resolver=lateness_of,
        metadata=needing("end_date", "submit_date", "now"),
        description="How it stands to its end date.",
    )
    score: int = strawberry.field(
        description="Of the present attempt, as it counts; 0 while pending, and where there is none."
    )
    feedback_status: FeedbackStatus = strawberry.field(
        description="Whether the caregiver responded to the present attempt."
    )
    feedback_submit_date: datetime | None = strawberry.field(
        description="When the caregiver responded to the present attempt; null until then."
    )
    answer_sets: list[AnswerSet] = strawberry.field(
        description="The submissions of every attempt, newest first."
    )
    draft: AnswerSet | None = strawberry.field(
        description="The client's own unfinished answers, null without any; always null for the caregiver."
    )
    feedbacks: list[Feedback] = strawberry.field(
        description="What the caregiver said of each attempt, oldest first."
    )
    reminders: list[Reminder] = strawberry.field(description="When the client is reminded, in order.")
