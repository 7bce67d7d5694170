"""Assigning homework: its rows, its reminders, and what its session counts."""

from sqlalchemy import DateTime, Select, case, func, insert, literal, select, update
from sqlalchemy.sql.elements import ClauseElement

from app.db.entities import table_of
from app.db.statements import (
    DatabaseKind,
    Statement,
    among,
    count_parameter,
    each,
    id_parameter,
    in_order,
    moment_parameter,
)
from app.db.tables import (
    Assignment,
    AssignmentStatus,
    Book,
    FeedbackStatus,
    Reminder,
    ReminderState,
    Session,
)


def lock_session(kind: DatabaseKind) -> ClauseElement:
    """The caregiver's session, held until the transaction ends: its counters are about to change. Beside it
    how many of the books can be assigned."""
    session, books = table_of(Session).c, count_books(kind).scalar_subquery()
    return (
        select(session.client_id, session.is_closed, session.start_date, books)
        .where(session.id == id_parameter("session"), session.caregiver_id == id_parameter("caregiver"))
        .with_for_update()
    )


def count_books(kind: DatabaseKind) -> Select[int]:
    """How many of the books can still be assigned."""
    book = table_of(Book).c
    return select(func.count()).where(among(book.id, "books", kind), book.retire_date.is_(None))


def add_assignments(kind: DatabaseKind) -> ClauseElement:
    books = each("books", kind)
    columns = {
        "caregiver_id": id_parameter("caregiver"),
        "client_id": id_parameter("client"),
        "session_id": id_parameter("session"),
        "book_id": books.c.value,
        "assign_date": moment_parameter("now"),
        "start_date": moment_parameter("start"),
        "end_date": moment_parameter("end"),
        "status": literal(AssignmentStatus.PENDING.value),
        "attempt": literal(1),
        "score": literal(0),
        "feedback_status": literal(FeedbackStatus.WAITING.value),
    }
    rows = in_order(select(*columns.values()).select_from(books), kind, books)
    return insert(table_of(Assignment)).from_select(list(columns), rows)


def add_reminders(kind: DatabaseKind) -> ClauseElement:
    """Every moment for every new assignment; a moment that has passed is stored, but reminds nobody."""
    assignments = each("assignments", kind)
    moments = each("moments", kind, DateTime(timezone=True))
    is_past = moments.c.value < moment_parameter("now")
    columns = {
        "caregiver_id": id_parameter("caregiver"),
        "client_id": id_parameter("client"),
        "assignment_id": assignments.c.value,
        "remind_date": moments.c.value,
        "state": case((is_past, ReminderState.SKIPPED.value), else_=ReminderState.SCHEDULED.value),
    }
    rows = select(*columns.values()).select_from(assignments.join(moments, literal(True)))
    rows = in_order(rows, kind, assignments, moments)
    return insert(table_of(Reminder)).from_select(list(columns), rows)


def count_new_assignments(kind: DatabaseKind) -> ClauseElement:
    session = table_of(Session)
    return (
        update(session)
        .where(session.c.id == id_parameter("session"), session.c.caregiver_id == id_parameter("caregiver"))
        .values(
            assignment_count=session.c.assignment_count + count_parameter("added"),
            latest_assignment_id=id_parameter("latest"),
        )
    )


LOCK_SESSION = Statement(lock_session)
COUNT_BOOKS = Statement(count_books)
ADD_ASSIGNMENTS = Statement(add_assignments, gives_ids=True)
ADD_REMINDERS = Statement(add_reminders)
COUNT_NEW_ASSIGNMENTS = Statement(count_new_assignments)
