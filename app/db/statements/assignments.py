"""Statements that change an assignment."""

from sqlalchemy import and_, delete, literal, null, select, update
from sqlalchemy.sql.elements import ClauseElement, ColumnElement

from app.db.reader.entities import is_there, table_of
from app.db.reader.relationship import relationship_key
from app.db.reader.selection import ViewerRole
from app.db.sql import (
    DatabaseKind,
    Statement,
    among,
    count_parameter,
    id_parameter,
    moment_parameter,
)
from app.db.tables import Assignment, AssignmentStatus, FeedbackStatus, Reminder, ReminderState, Session

ASSIGNMENT = table_of(Assignment)
REMINDER = table_of(Reminder)


def lock_assignment(role: ViewerRole) -> Statement:
    """Locks the session and then the assignment, in the order of every other change, to avoid deadlocks."""

    def build(kind: DatabaseKind) -> ClauseElement:
        session, assignment = table_of(Session).alias("s"), ASSIGNMENT.alias("a")
        columns = (
            assignment.c.caregiver_id,
            assignment.c.client_id,
            assignment.c.session_id,
            assignment.c.book_id,
            assignment.c.start_date,
            assignment.c.end_date,
            assignment.c.status,
            assignment.c.attempt,
            session.c.is_closed,
            session.c.start_date.label("session_start"),
        )
        return (
            select(*columns)
            .select_from(session.join(assignment, assignment.c.session_id == session.c.id))
            .where(
                assignment.c.id == id_parameter("assignment"),
                is_there(assignment),
                relationship_key(assignment, role, kind),
                relationship_key(session, role, kind),
            )
            .with_for_update()
        )

    return Statement(build)


def is_locked_assignment() -> ColumnElement[bool]:
    """The assignment that the transaction has locked."""
    return and_(
        ASSIGNMENT.c.id == id_parameter("assignment"), ASSIGNMENT.c.caregiver_id == id_parameter("caregiver")
    )


def of_locked_assignment() -> ColumnElement[bool]:
    return and_(
        REMINDER.c.assignment_id == id_parameter("assignment"),
        REMINDER.c.caregiver_id == id_parameter("caregiver"),
    )


def extend(kind: DatabaseKind) -> ClauseElement:
    return update(ASSIGNMENT).where(is_locked_assignment()).values(end_date=moment_parameter("end"))


def withdraw(kind: DatabaseKind) -> ClauseElement:
    return update(ASSIGNMENT).where(is_locked_assignment()).values(withdraw_date=moment_parameter("now"))


def complete(kind: DatabaseKind) -> ClauseElement:
    changed = {
        "status": literal(AssignmentStatus.COMPLETE.value),
        "submit_date": moment_parameter("now"),
        "score": count_parameter("score"),
    }
    return update(ASSIGNMENT).where(is_locked_assignment()).values(changed)


def reopen(kind: DatabaseKind) -> ClauseElement:
    changed = {
        "status": literal(AssignmentStatus.PENDING.value),
        "attempt": ASSIGNMENT.c.attempt + 1,
        "score": literal(0),
        "submit_date": null(),
        "feedback_status": literal(FeedbackStatus.WAITING.value),
        "feedback_submit_date": null(),
    }
    return update(ASSIGNMENT).where(is_locked_assignment()).values(changed)


def note_feedback(kind: DatabaseKind) -> ClauseElement:
    changed = {
        "feedback_status": literal(FeedbackStatus.SUBMITTED.value),
        "feedback_submit_date": moment_parameter("now"),
        "score": count_parameter("score"),
    }
    return update(ASSIGNMENT).where(is_locked_assignment()).values(changed)


def find_reminders(kind: DatabaseKind) -> ClauseElement:
    columns = (REMINDER.c.id, REMINDER.c.remind_date, REMINDER.c.state)
    return select(*columns).where(of_locked_assignment()).order_by(REMINDER.c.remind_date)


def drop_scheduled_reminders(kind: DatabaseKind) -> ClauseElement:
    """Skips reminders that were sent after they were read."""
    is_scheduled = REMINDER.c.state == ReminderState.SCHEDULED.value
    return delete(REMINDER).where(
        of_locked_assignment(), among(REMINDER.c.id, "reminders", kind), is_scheduled
    )


def skip_reminders(kind: DatabaseKind) -> ClauseElement:
    return (
        update(REMINDER)
        .where(of_locked_assignment(), REMINDER.c.state == ReminderState.SCHEDULED.value)
        .values(state=ReminderState.SKIPPED.value)
    )


LOCK_ASSIGNMENT: dict[ViewerRole, Statement] = {
    "caregiver": lock_assignment("caregiver"),
    "client": lock_assignment("client"),
}
EXTEND = Statement(extend)
WITHDRAW = Statement(withdraw)
COMPLETE = Statement(complete)
REOPEN = Statement(reopen)
NOTE_FEEDBACK = Statement(note_feedback)
FIND_REMINDERS = Statement(find_reminders)
DROP_SCHEDULED_REMINDERS = Statement(drop_scheduled_reminders)
SKIP_REMINDERS = Statement(skip_reminders)
