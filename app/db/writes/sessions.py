"""Opening, changing and closing a session."""

from sqlalchemy import Boolean, insert, literal, select, true, update
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.sql.elements import ClauseElement, ColumnElement

from app.db.entities import table_of
from app.db.kept import recomputed
from app.db.statements import DatabaseKind, Statement, id_parameter, moment_parameter, text_parameter
from app.db.tables import Assignment, Client, Relationship, Reminder, ReminderState, Session

SESSION = table_of(Session)
CLIENT = table_of(Client)
RELATIONSHIP = table_of(Relationship)


def is_mine() -> ColumnElement[bool]:
    return (SESSION.c.id == id_parameter("session")) & (SESSION.c.caregiver_id == id_parameter("caregiver"))


def find_client(kind: DatabaseKind) -> ClauseElement:
    """By the identifier that the client has outside this service: whoever knows it was told it."""
    return (
        select(CLIENT.c.id)
        .where(CLIENT.c.oppt_id == text_parameter("oppt_id"), CLIENT.c.erase_date.is_(None))
        .with_for_update(read=True, key_share=True)
    )  # a client who is being erased meanwhile is gone


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


def close_session(kind: DatabaseKind) -> ClauseElement:
    return update(SESSION).where(is_mine()).values(is_closed=true(), close_date=moment_parameter("now"))


def skip_reminders_of_session(kind: DatabaseKind) -> ClauseElement:
    """Nobody is reminded of what nobody can answer any more."""
    reminder, assignment = table_of(Reminder), table_of(Assignment)
    of_session = select(assignment.c.id).where(
        assignment.c.session_id == id_parameter("session"),
        assignment.c.caregiver_id == id_parameter("caregiver"),
    )
    return (
        update(reminder)
        .where(
            reminder.c.assignment_id.in_(of_session),
            reminder.c.caregiver_id == id_parameter("caregiver"),
            reminder.c.state == ReminderState.SCHEDULED.value,
        )
        .values(state=ReminderState.SKIPPED.value)
    )


def recount(kind: DatabaseKind) -> ClauseElement:
    """What the session counts of its assignments, whatever has become of them."""
    return update(SESSION).where(is_mine()).values(recomputed(id_parameter("caregiver")))


FIND_CLIENT = Statement(find_client)
FIND_MY_CLIENT = Statement(find_my_client)
RELATE = Statement(relate)
ADD_SESSION = Statement(add_session, gives_ids=True)
LOCK_WHOLE_SESSION = Statement(lock_whole_session)
CHANGE_SESSION = Statement(change_session)
CLOSE_SESSION = Statement(close_session)
SKIP_REMINDERS_OF_SESSION = Statement(skip_reminders_of_session)
RECOUNT = Statement(recount)
