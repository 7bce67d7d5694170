"""Assignment, Reminder and Lateness."""

from datetime import datetime
from typing import Any

import strawberry

from app.care.assignments import LatenessState, lateness
from app.db.moments import as_moment, known_moment
from app.db.reader.plans import Row
from app.db.tables import AssignmentStatus, FeedbackStatus, ReminderState
from app.schema.types.answers import AnswerSet, Feedback
from app.schema.types.books import Book, Module
from app.schema.types.node import Node, id_field, needing
from app.schema.types.people import Caregiver, Client
from app.schema.types.sessions import Session


@strawberry.type(description="State of an assignment relative to its end date, at the time of the request.")
class Lateness:
    state: LatenessState = strawberry.field(description="On time, late or overdue.")
    seconds: int = strawberry.field(description="Seconds by which it is late or overdue; 0 if on time.")


@strawberry.type(description="A reminder to the client.")
class Reminder:
    id: strawberry.ID = id_field()
    remind_date: datetime = strawberry.field(description="Time at which the reminder is due.")
    state: ReminderState = strawberry.field(description="State of the reminder.")


def lateness_of(assignment: strawberry.Parent[Row]) -> Any:
    end_date, submit_date = as_moment(assignment.end_date), as_moment(assignment.submit_date)
    return lateness(end_date, submit_date, known_moment(assignment.now))


@strawberry.type(description="The homework of one book, assigned to the client of a session.")
class Assignment(Node):
    name: str = strawberry.field(description="Name of the book.")
    book: Book = strawberry.field(description="The book to answer.")
    module: Module = strawberry.field(description="Module of the book.")
    is_test: bool = strawberry.field(description="Whether the book is a test.")
    session: Session = strawberry.field(description="The session in which it was assigned.")
    caregiver: Caregiver = strawberry.field(description="The caregiver who assigned it.")
    client: Client = strawberry.field(description="The client who answers it.")
    assign_date: datetime = strawberry.field(description="Time of assignment.")
    start_date: datetime = strawberry.field(description="Start of the period in which it can be answered.")
    end_date: datetime | None = strawberry.field(
        description="Due date; late answers are accepted. Null only for homework imported from the legacy "
        "paths, which do not return it."
    )
    submit_date: datetime | None = strawberry.field(
        description="Time at which the current attempt was submitted; null while pending."
    )
    status: AssignmentStatus = strawberry.field(description="Whether the current attempt is submitted.")
    attempt: int = strawberry.field(
        description="Number of the current attempt, from 1. Reopening starts the next attempt."
    )
    lateness: Lateness = strawberry.field(
        resolver=lateness_of,
        metadata=needing("end_date", "submit_date", "now"),
        description="State relative to the end date.",
    )
    score: int = strawberry.field(
        description="Effective score of the current attempt; 0 while pending or if there is no score."
    )
    feedback_status: FeedbackStatus = strawberry.field(
        description="Whether the current attempt has feedback."
    )
    feedback_submit_date: datetime | None = strawberry.field(
        description="Time of the feedback on the current attempt; null if there is none."
    )
    answer_sets: list[AnswerSet] = strawberry.field(description="Submissions of all attempts, newest first.")
    draft: AnswerSet | None = strawberry.field(
        description="The client's draft; null if there is none, and always null for the caregiver."
    )
    feedbacks: list[Feedback] = strawberry.field(description="Feedback on all attempts, oldest first.")
    reminders: list[Reminder] = strawberry.field(description="Reminders, in order of time.")
