"""Statements that find recent assignments, to detect a repeated request."""

from sqlalchemy import ColumnElement, and_, exists, not_, select
from sqlalchemy.sql.elements import ClauseElement

from app.db.reader.entities import table_of
from app.db.reader.relationship import without_index
from app.db.sql import (
    DatabaseKind,
    Statement,
    among,
    id_parameter,
    moment_parameter,
)
from app.db.tables import AnswerSet, Assignment, AssignmentStatus, Reminder


def find_lately_assigned(kind: DatabaseKind) -> ClauseElement:
    """All assignments of the session since `since`; each with whether it is unchanged."""
    assignment, answers = table_of(Assignment).c, table_of(AnswerSet).c
    parties: tuple[ColumnElement[int], ...] = (answers.caregiver_id, answers.client_id)
    if kind == "sqlite":  # SQLite must not search all answers of the client
        parties = tuple(map(without_index, parties))
    has_answers = exists().where(
        answers.assignment_id == assignment.id,
        parties[0] == id_parameter("caregiver"),
        parties[1] == id_parameter("client"),
    )
    is_untouched = and_(
        assignment.status == AssignmentStatus.PENDING.value,
        assignment.attempt == 1,
        assignment.withdraw_date.is_(None),
        not_(has_answers),
    )
    return (
        select(
            assignment.id,
            assignment.book_id,
            assignment.assign_date,
            assignment.start_date,
            assignment.end_date,
            is_untouched,
        )
        .where(
            assignment.session_id == id_parameter("session"),
            assignment.caregiver_id == id_parameter("caregiver"),
            assignment.client_id == id_parameter("client"),
            assignment.assign_date >= moment_parameter("since"),
        )
        .order_by(assignment.id)
    )


def find_their_reminders(kind: DatabaseKind) -> ClauseElement:
    reminder = table_of(Reminder).c
    return select(reminder.assignment_id, reminder.remind_date, reminder.state).where(
        among(reminder.assignment_id, "assignments", kind),
        reminder.caregiver_id == id_parameter("caregiver"),
        reminder.client_id == id_parameter("client"),
    )


FIND_LATELY_ASSIGNED = Statement(find_lately_assigned)
FIND_THEIR_REMINDERS = Statement(find_their_reminders)
