"""Statements that add assignments (the homework of a session), change them, and set their reminders."""

from collections.abc import Callable
from functools import partial
from typing import Any

from sqlalchemy import (
    ColumnElement,
    DateTime,
    FromClause,
    Insert,
    Select,
    Table,
    and_,
    case,
    delete,
    exists,
    insert,
    literal,
    literal_column,
    null,
    select,
    update,
)
from sqlalchemy.sql.elements import ClauseElement

from app.db.reader.access import is_not_withdrawn, is_of_caregiver, relationship_key, without_index
from app.db.sql import (
    DatabaseKind,
    Statement,
    among,
    count_parameter,
    each,
    id_parameter,
    in_order,
    literal_text,
    moment_parameter,
    new_id,
    new_id_if_here,
)
from app.db.statements.events import CLIENT_ID
from app.db.tables import (
    ANSWER_SET,
    ASSIGNMENT,
    BOOK,
    REMINDER,
    SESSION,
    AssignmentStatus,
    FeedbackStatus,
    ReminderState,
)

LOCKED, LOCKED_SESSION = ASSIGNMENT.alias("a"), SESSION.alias("s")

# --- adding assignments to a session --------------------------------------------------------------

NEW_ID = new_id("assignment")
CAN_BE_ASSIGNED = and_(among(BOOK.c.id, "books"), BOOK.c.retire_date.is_(None))


def columns_of_assignment(id: Any, book: Any, client: ColumnElement[int] = CLIENT_ID) -> dict[str, Any]:
    return {
        "id": id,
        "caregiver_id": id_parameter("caregiver"),
        "client_id": client,
        "session_id": id_parameter("session"),
        "book_id": book,
        "assign_date": moment_parameter("now"),
        "start_date": moment_parameter("start"),
        "end_date": moment_parameter("end"),
        "status": literal_text(AssignmentStatus.PENDING),
        "attempt": literal_column("1"),
        "score": literal_column("0"),
        "feedback_status": literal_text(FeedbackStatus.WAITING),
    }


def columns_of_reminder(
    assignment: Any, moment: Any, client: ColumnElement[int] = CLIENT_ID
) -> dict[str, Any]:
    """A moment in the past is stored as skipped."""
    is_past = moment < moment_parameter("now")
    return {
        "caregiver_id": id_parameter("caregiver"),
        "client_id": client,
        "assignment_id": assignment,
        "remind_date": moment,
        "state": case(
            (is_past, literal_text(ReminderState.SKIPPED)), else_=literal_text(ReminderState.SCHEDULED)
        ),
    }


def add_assignments(kind: DatabaseKind) -> ClauseElement:
    ids, books = each("assignments", kind), each("books", kind)
    columns = columns_of_assignment(ids.c.value, books.c.value)
    return insert_rows(ASSIGNMENT, columns, ids.join(books, ids.c.position == books.c.position))


def add_reminders(kind: DatabaseKind) -> ClauseElement:
    """Adds every moment for every new assignment."""
    assignments, moments = each("assignments", kind), moments_to_remind(kind)
    columns = columns_of_reminder(assignments.c.value, moments.c.value)
    rows = select(*columns.values()).select_from(assignments.join(moments, literal(True)))
    return insert(REMINDER).from_select(list(columns), in_order(rows, kind, assignments, moments))


def moments_to_remind(kind: DatabaseKind) -> FromClause:
    return each("moments", kind, DateTime(timezone=True))


def insert_rows(
    table: Table, columns: dict[str, Any], source: FromClause, *order: ColumnElement[Any]
) -> Insert:
    rows = select(*columns.values()).select_from(source).order_by(*order)
    return insert(table).from_select(list(columns), rows)


def lock_session_and_books(kind: DatabaseKind) -> Select[Any]:
    """PostgreSQL takes the ids once the session is locked: an import that has locked it waits for the
    transactions that have taken ids (db/admin/sequences.py)."""
    found = (
        select(*LOCKED_SESSION.c["client_id", "is_closed", "start_date"])
        .where(LOCKED_SESSION.c.id == id_parameter("session"), is_of_caregiver(LOCKED_SESSION))
        .with_for_update(of=LOCKED_SESSION)
    )
    of_books = new_id_if_here("assignment"), *BOOK.c["id", "is_assigned"]
    if kind == "postgresql":
        session = found.subquery("locked")
        return select(*session.c, *of_books).select_from(session.outerjoin(BOOK, CAN_BE_ASSIGNED))
    return found.add_columns(*of_books).select_from(LOCKED_SESSION.outerjoin(BOOK, CAN_BE_ASSIGNED))


# Locks the caregiver's session, whose counters will change. Returns one row for each of the books that can be
# assigned, or one row without a book; each with the id of a new assignment, except on Citus.
LOCK_SESSION_AND_BOOKS = Statement(lock_session_and_books)
FIND_BOOKS = Statement(select(BOOK.c.id, BOOK.c.is_assigned).where(CAN_BE_ASSIGNED))
TAKE_NEW_IDS = Statement(lambda kind: select(NEW_ID).select_from(each("books", kind)))
# Locks the books in the order of their ids, to avoid deadlocks.
LOCK_UNUSED_BOOKS = (
    select(BOOK.c.id)
    .where(among(BOOK.c.id, "books"), ~BOOK.c.is_assigned)
    .order_by(BOOK.c.id)
    .with_for_update()
)
MARK_BOOKS_ASSIGNED = Statement(
    update(BOOK).where(BOOK.c.id.in_(LOCK_UNUSED_BOOKS.scalar_subquery())).values(is_assigned=literal(True))
)
ADD_ASSIGNMENTS = Statement(add_assignments)
ADD_REMINDERS = Statement(add_reminders)
COUNT_NEW_ASSIGNMENTS = Statement(
    update(SESSION)
    .where(SESSION.c.id == id_parameter("session"), is_of_caregiver(SESSION))
    .values(
        assignment_count=SESSION.c.assignment_count + count_parameter("added"),
        latest_assignment_id=id_parameter("latest"),
    )
)

# --- recent assignments, to detect a repeated request ---------------------------------------------

HAS_ANSWERS = exists().where(
    ANSWER_SET.c.assignment_id == ASSIGNMENT.c.id,
    # SQLite must not search all answers of the client.
    without_index(ANSWER_SET.c.caregiver_id) == id_parameter("caregiver"),
    without_index(ANSWER_SET.c.client_id) == id_parameter("client"),
)
IS_UNCHANGED = and_(
    ASSIGNMENT.c.status == AssignmentStatus.PENDING.value,
    ASSIGNMENT.c.attempt == 1,
    is_not_withdrawn(ASSIGNMENT),
    ~HAS_ANSWERS,
)

# All assignments of the session since `since`; each with whether it is unchanged.
FIND_RECENT_ASSIGNMENTS = Statement(
    select(*ASSIGNMENT.c["id", "book_id", "assign_date", "start_date", "end_date"], IS_UNCHANGED)
    .where(
        ASSIGNMENT.c.session_id == id_parameter("session"),
        is_of_caregiver(ASSIGNMENT),
        ASSIGNMENT.c.client_id == id_parameter("client"),
        ASSIGNMENT.c.assign_date >= moment_parameter("since"),
    )
    .order_by(ASSIGNMENT.c.id)
)
FIND_REMINDERS_OF_ASSIGNMENTS = Statement(
    select(*REMINDER.c["assignment_id", "remind_date"]).where(
        among(REMINDER.c.assignment_id, "assignments"),
        is_of_caregiver(REMINDER),
        REMINDER.c.client_id == id_parameter("client"),
    )
)

# --- changing one assignment ----------------------------------------------------------------------


def select_assignment(is_own: Callable[[FromClause], ColumnElement[bool]]) -> Select[Any]:
    return (
        select(
            *LOCKED.c["caregiver_id", "client_id", "session_id", "start_date", "end_date"],
            *LOCKED.c["status", "attempt"],
            LOCKED_SESSION.c.is_closed,
            LOCKED_SESSION.c.start_date.label("session_start"),
        )
        .select_from(LOCKED_SESSION.join(LOCKED, LOCKED.c.session_id == LOCKED_SESSION.c.id))
        .where(
            LOCKED.c.id == id_parameter("assignment"),
            is_not_withdrawn(LOCKED),
            is_own(LOCKED),
            is_own(LOCKED_SESSION),
        )
    )


def locked(assignment: Select[Any]) -> Select[Any]:
    """Locks the session and then the assignment, in the order of every other change, to avoid deadlocks."""
    return assignment.with_for_update(of=(LOCKED_SESSION, LOCKED))


LOCK_ASSIGNMENT = Statement(locked(select_assignment(partial(relationship_key, role="caregiver"))))

FIND_CAREGIVER_OF_ASSIGNMENT = Statement(
    select(ASSIGNMENT.c.caregiver_id).where(
        ASSIGNMENT.c.id == id_parameter("assignment"), relationship_key(ASSIGNMENT, "client")
    )
)

# The assignment that the transaction has locked.
CHANGE = update(ASSIGNMENT).where(ASSIGNMENT.c.id == id_parameter("assignment"), is_of_caregiver(ASSIGNMENT))

EXTEND = Statement(CHANGE.values(end_date=moment_parameter("end")))
WITHDRAW = Statement(CHANGE.values(withdraw_date=moment_parameter("now")))
COMPLETE = Statement(
    CHANGE.values(
        status=literal(AssignmentStatus.COMPLETE.value),
        submit_date=moment_parameter("now"),
        score=count_parameter("score"),
        # Pending homework of an import may have feedback on an earlier attempt.
        feedback_status=literal(FeedbackStatus.WAITING.value),
        feedback_submit_date=null(),
    )
)
REOPEN = Statement(
    CHANGE.values(
        status=literal(AssignmentStatus.PENDING.value),
        attempt=ASSIGNMENT.c.attempt + 1,
        score=literal(0),
        submit_date=null(),
        feedback_status=literal(FeedbackStatus.WAITING.value),
        feedback_submit_date=null(),
    )
)
STORE_FEEDBACK_STATUS = Statement(
    CHANGE.values(
        feedback_status=literal(FeedbackStatus.SUBMITTED.value),
        feedback_submit_date=moment_parameter("now"),
        score=count_parameter("score"),
    )
)

# --- reminders of the locked assignment -----------------------------------------------------------

IS_REMINDER_OF_ASSIGNMENT = and_(
    REMINDER.c.assignment_id == id_parameter("assignment"), is_of_caregiver(REMINDER)
)
IS_SCHEDULED = REMINDER.c.state == ReminderState.SCHEDULED.value

FIND_REMINDERS = Statement(
    select(*REMINDER.c["id", "remind_date", "state"])
    .where(IS_REMINDER_OF_ASSIGNMENT)
    .order_by(REMINDER.c.remind_date)
)
# Leaves out reminders that were sent after they were read.
DROP_SCHEDULED_REMINDERS = Statement(
    delete(REMINDER).where(IS_REMINDER_OF_ASSIGNMENT, among(REMINDER.c.id, "reminders"), IS_SCHEDULED)
)
SKIP_REMINDERS = Statement(
    update(REMINDER).where(IS_REMINDER_OF_ASSIGNMENT, IS_SCHEDULED).values(state=ReminderState.SKIPPED.value)
)
