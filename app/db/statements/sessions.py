"""Statements that open, change and close a session."""

from sqlalchemy import Boolean, and_, insert, literal, select, true, update
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.sql.elements import ClauseElement, ColumnElement

from app.db.reader.entities import is_there, table_of
from app.db.reader.relationship import without_index
from app.db.session_counters import recomputed
from app.db.sql import (
    DatabaseKind,
    Statement,
    among,
    id_parameter,
    moment_parameter,
    text_parameter,
)
from app.db.tables import Assignment, AssignmentStatus, Client, Relationship, Reminder, ReminderState, Session

SESSION = table_of(Session)
CLIENT = table_of(Client)
RELATIONSHIP = table_of(Relationship)
ASSIGNMENT = table_of(Assignment)
REMINDER = table_of(Reminder)


def is_mine() -> ColumnElement[bool]:
    return (SESSION.c.id == id_parameter("session")) & (SESSION.c.caregiver_id == id_parameter("caregiver"))


def find_client(kind: DatabaseKind) -> ClauseElement:
    """Finds a client by the external identifier, and whether there is a relationship with the caregiver."""
    is_related = select(literal(1)).where(
        RELATIONSHIP.c.client_id == CLIENT.c.id, RELATIONSHIP.c.caregiver_id == id_parameter("caregiver")
    )
    return (
        select(CLIENT.c.id, is_related.exists())
        .where(CLIENT.c.oppt_id == text_parameter("oppt_id"), CLIENT.c.erase_date.is_(None))
        .with_for_update(read=True, key_share=True, of=CLIENT)
    )  # waits for a concurrent erasure


def find_my_client(kind: DatabaseKind) -> ClauseElement:
    return (
        select(CLIENT.c.id)
        .join(RELATIONSHIP, RELATIONSHIP.c.client_id == CLIENT.c.id)
        .where(
            CLIENT.c.id == id_parameter("of_client"),
            CLIENT.c.erase_date.is_(None),
            RELATIONSHIP.c.caregiver_id == id_parameter("caregiver"),
        )
        .with_for_update(read=True, key_share=True, of=CLIENT)
    )


def relate(kind: DatabaseKind) -> ClauseElement:
    given = {"client_id": id_parameter("client"), "caregiver_id": id_parameter("caregiver")}
    if kind == "sqlite":
        return sqlite.insert(RELATIONSHIP).values(given).on_conflict_do_nothing()
    return postgresql.insert(RELATIONSHIP).values(given).on_conflict_do_nothing()


def add_session(kind: DatabaseKind) -> ClauseElement:
    columns = {
        "caregiver_id": id_parameter("caregiver"),
        "client_id": id_parameter("client"),
        "title": text_parameter("title"),
        "description": text_parameter("description"),
        "chat_id": text_parameter("chat"),
        "create_date": moment_parameter("now"),
        "start_date": moment_parameter("session_start"),
        "is_closed": literal(False, Boolean),
        "assignment_count": literal(0),
        "completed_assignment_count": literal(0),
    }
    return insert(SESSION).values(columns)


def lock_whole_session(kind: DatabaseKind) -> ClauseElement:
    session = SESSION.c
    columns = (session.client_id, session.is_closed, session.start_date, session.title, session.description)
    return select(*columns).where(is_mine()).with_for_update()


def change_session(kind: DatabaseKind) -> ClauseElement:
    changed = {
        "title": text_parameter("title"),
        "description": text_parameter("description"),
        "start_date": moment_parameter("session_start"),
    }
    return update(SESSION).where(is_mine()).values(changed)


def find_pending(kind: DatabaseKind) -> ClauseElement:
    """The pending assignments of the session with their start and end."""
    columns = (ASSIGNMENT.c.id, ASSIGNMENT.c.start_date, ASSIGNMENT.c.end_date)
    return select(*columns).where(is_pending_of_session()).order_by(ASSIGNMENT.c.id)


def is_pending_of_session() -> ColumnElement[bool]:
    return and_(
        ASSIGNMENT.c.session_id == id_parameter("session"),
        ASSIGNMENT.c.caregiver_id == id_parameter("caregiver"),
        ASSIGNMENT.c.status == AssignmentStatus.PENDING.value,
        is_there(ASSIGNMENT),
    )


def move_assignments(kind: DatabaseKind) -> ClauseElement:
    caregiver: ColumnElement[int] = ASSIGNMENT.c.caregiver_id
    if kind == "sqlite":  # SQLite searches by the ids
        caregiver = without_index(caregiver)
    mine = and_(among(ASSIGNMENT.c.id, "assignments", kind), caregiver == id_parameter("caregiver"))
    window = {"start_date": moment_parameter("start"), "end_date": moment_parameter("end")}
    return update(ASSIGNMENT).where(mine).values(window)


def find_scheduled_reminders(kind: DatabaseKind) -> ClauseElement:
    of_session = select(ASSIGNMENT.c.id).where(is_pending_of_session())
    return (
        select(REMINDER.c.id, REMINDER.c.remind_date)
        .where(REMINDER.c.assignment_id.in_(of_session), is_scheduled())
        .order_by(REMINDER.c.id)
    )


def is_scheduled() -> ColumnElement[bool]:
    return and_(
        REMINDER.c.caregiver_id == id_parameter("caregiver"),
        REMINDER.c.state == ReminderState.SCHEDULED.value,
    )


def move_reminders(kind: DatabaseKind) -> ClauseElement:
    """Skips reminders that the dispatcher has fired since they were found."""
    to = {"remind_date": moment_parameter("remind"), "state": text_parameter("state")}
    return update(REMINDER).where(among(REMINDER.c.id, "reminders", kind), is_scheduled()).values(to)


def close_session(kind: DatabaseKind) -> ClauseElement:
    return update(SESSION).where(is_mine()).values(is_closed=true(), close_date=moment_parameter("now"))


def skip_reminders_of_session(kind: DatabaseKind) -> ClauseElement:
    """Skips the reminders, because a closed session cannot be answered."""
    of_session = select(ASSIGNMENT.c.id).where(
        ASSIGNMENT.c.session_id == id_parameter("session"),
        ASSIGNMENT.c.caregiver_id == id_parameter("caregiver"),
    )
    skipped = update(REMINDER).where(REMINDER.c.assignment_id.in_(of_session), is_scheduled())
    return skipped.values(state=ReminderState.SKIPPED.value)


def recount(kind: DatabaseKind) -> ClauseElement:
    """Recomputes all assignment counters of the session."""
    return update(SESSION).where(is_mine()).values(recomputed(id_parameter("caregiver")))


FIND_CLIENT = Statement(find_client)
FIND_MY_CLIENT = Statement(find_my_client)
RELATE = Statement(relate)
ADD_SESSION = Statement(add_session, gives_ids=True)
LOCK_WHOLE_SESSION = Statement(lock_whole_session)
CHANGE_SESSION = Statement(change_session)
FIND_PENDING = Statement(find_pending)
MOVE_ASSIGNMENTS = Statement(move_assignments)
FIND_SCHEDULED_REMINDERS = Statement(find_scheduled_reminders)
MOVE_REMINDERS = Statement(move_reminders)
CLOSE_SESSION = Statement(close_session)
SKIP_REMINDERS_OF_SESSION = Statement(skip_reminders_of_session)
RECOUNT = Statement(recount)
