"""Assignment and its parts: AnswerSet, Answer, Feedback, Reminder and Lateness."""

from datetime import datetime
from typing import Any

import strawberry
from strawberry import ID, Parent, field

from app.care.assignments import LatenessState, lateness
from app.db.moments import as_moment, known_moment
from app.db.reader.plans import Row
from app.db.tables import AssignmentStatus, FeedbackStatus, Question, ReminderState, SaveType
from app.schema.types.books import Book, Module
from app.schema.types.people import Caregiver, Client
from app.schema.types.scalars import Node, converting, global_id_converter, id_field, needing
from app.schema.types.sessions import Session

id_of_question = global_id_converter(Question.__name__)


def question_id(number: int | None) -> ID | None:
    return None if number is None else ID(id_of_question(number))


@strawberry.type(description="The answer to one question.")
class Answer:
    question_id: ID | None = field(
        resolver=lambda self: question_id(self.question_id),
        metadata=converting("question_id", lambda kind: question_id),
        description="Global id of the question; null for some answers imported from the old service.",
    )
    question_text: str = field(description="Text of the question at the time of the answer.")
    answer: str = field(description="The answer as text, in the format described in AnswerInput.")


@strawberry.type(description="The answers to one assignment: a submission or the client's draft.")
class AnswerSet(Node):
    save_type: SaveType = field(description="Whether this is a submission or a draft.")
    attempt: int = field(
        description="Number of the attempt, from 1. Reopening the assignment starts the next attempt."
    )
    revision: int = field(description="Increases with every save of a draft. The next save must pass it.")
    submit_date: datetime | None = field(description="Time of submission; null for a draft.")
    assignment: "Assignment" = field(description="The answered assignment.")
    score: int | None = field(
        description="The effective score: the score of the feedback if it has one, otherwise the score "
        "computed from the book. Null if there is neither."
    )
    answers: list[Answer] = field(
        description="In the order of the book. A submission has one per question, empty if it was not "
        "answered; a draft has only saved answers."
    )
    feedback: "Feedback | None" = field(description="Feedback of the caregiver; null if there is none.")


@strawberry.type(description="Feedback of a caregiver on a submission.")
class Feedback:
    id: ID = id_field()
    text: str = field(description="Text of the feedback.")
    score: int | None = field(
        description="Score that overrides the score computed from the book; null if there is none."
    )
    author: Caregiver = field(description="Author of the feedback.")
    submit_date: datetime = field(description="Time at which the feedback was given or last edited.")
    answer_set: AnswerSet = field(description="The submission.")


@strawberry.type(description="State of an assignment relative to its end date, at the time of the request.")
class Lateness:
    state: LatenessState = field(description="On time, late or overdue.")
    seconds: int = field(
        description="Seconds by which it is late or overdue, 2147483647 at most; 0 if on time."
    )


@strawberry.type(description="A reminder to the client.")
class Reminder:
    id: ID = id_field()
    remind_date: datetime = field(description="Time at which the reminder is due.")
    state: ReminderState = field(description="State of the reminder.")


def lateness_of(assignment: Parent[Row]) -> Any:
    end_date, submit_date = as_moment(assignment.end_date), as_moment(assignment.submit_date)
    return lateness(end_date, submit_date, known_moment(assignment.now))


@strawberry.type(description="The homework of one book, assigned to the client of a session.")
class Assignment(Node):
    name: str = field(description="Name of the book.")
    book: Book = field(description="The book to answer.")
    module: Module = field(description="Module of the book.")
    is_test: bool = field(description="Whether the book is a test.")
    session: Session = field(description="The session in which it was assigned.")
    caregiver: Caregiver = field(description="The caregiver who assigned it.")
    client: Client = field(description="The client who answers it.")
    assign_date: datetime = field(description="Time of assignment.")
    start_date: datetime = field(description="Start of the period in which it can be answered.")
    end_date: datetime | None = field(
        description="Due date; late answers are accepted. Null only for homework imported from the legacy "
        "paths, which do not return it."
    )
    submit_date: datetime | None = field(
        description="Time at which the current attempt was submitted; null while pending."
    )
    status: AssignmentStatus = field(description="Whether the current attempt is submitted.")
    attempt: int = field(
        description="Number of the current attempt, from 1. Reopening starts the next attempt."
    )
    lateness: Lateness = field(
        resolver=lateness_of,
        metadata=needing("end_date", "submit_date", "now"),
        description="State relative to the end date.",
    )
    score: int = field(
        description="Effective score of the current attempt; 0 while pending or if there is no score."
    )
    feedback_status: FeedbackStatus = field(description="Whether the current attempt has feedback.")
    feedback_submit_date: datetime | None = field(
        description="Time of the feedback on the current attempt; null if there is none."
    )
    answer_sets: list[AnswerSet] = field(description="Submissions of all attempts, newest first.")
    draft: AnswerSet | None = field(
        description="The client's draft; null if there is none, and always null for the caregiver."
    )
    feedbacks: list[Feedback] = field(description="Feedback on all attempts, oldest first.")
    reminders: list[Reminder] = field(description="Reminders, in order of time.")
