"""Statements that assign homework: assignments, reminders and session counters."""

from sqlalchemy import DateTime, and_, case, insert, literal, select, update
from sqlalchemy.sql.elements import ClauseElement, ColumnElement

from app.db.reader.entities import table_of
from app.db.sql import (
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
    """Locks the caregiver's session, whose counters will change. Returns one row for each of the books that
    can be assigned, or one row without a book."""
    session, book = table_of(Session).alias("s"), table_of(Book)
    return (
        select(session.c.client_id, session.c.is_closed, session.c.start_date, book.c.id, book.c.is_assigned)
        .select_from(session.outerjoin(book, can_be_assigned(kind)))
        .where(session.c.id == id_parameter("session"), session.c.caregiver_id == id_parameter("caregiver"))
        .with_for_update(of=session)
    )


def can_be_assigned(kind: DatabaseKind) -> ColumnElement[bool]:
    book = table_of(Book).c
    return and_(among(book.id, "books", kind), book.retire_date.is_(None))


def find_books(kind: DatabaseKind) -> ClauseElement:
    """The books that can be assigned."""
    book = table_of(Book).c
    return select(book.id, book.is_assigned).where(can_be_assigned(kind))


def mark_books_assigned(kind: DatabaseKind) -> ClauseElement:
    """Locks the rows in the order of their ids, to avoid deadlocks."""
    book = table_of(Book)
    unused = select(book.c.id).where(among(book.c.id, "books", kind), ~book.c.is_assigned)
    locked = unused.order_by(book.c.id).with_for_update().scalar_subquery()
    return update(book).where(book.c.id.in_(locked)).values(is_assigned=literal(True))


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
    """Adds every moment for every new assignment; a moment in the past is stored as skipped."""
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
FIND_BOOKS = Statement(find_books)
MARK_BOOKS_ASSIGNED = Statement(mark_books_assigned)
ADD_ASSIGNMENTS = Statement(add_assignments, gives_ids=True)
ADD_REMINDERS = Statement(add_reminders)
COUNT_NEW_ASSIGNMENTS = Statement(count_new_assignments)
