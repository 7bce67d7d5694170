"""Everything that is held of one client, read some sessions at a time, so that no life is too long."""

from collections import defaultdict
from collections.abc import Callable
from typing import Any

from sqlalchemy import Boolean, Column, ColumnElement, FromClause, and_, select
from sqlalchemy.sql.elements import ClauseElement

from app.db.reader.entities import Table, as_moment, table_of
from app.db.reader.plans import without_index
from app.db.reader.reads import CAREGIVERS_OF_CLIENT
from app.db.sql import (
    DatabaseKind,
    Operation,
    Statement,
    Values,
    among,
    count_parameter,
    id_parameter,
)
from app.db.tables import (
    Answer,
    AnswerSet,
    Assignment,
    Book,
    Caregiver,
    Client,
    Event,
    Feedback,
    Module,
    Moment,
    Reminder,
    Session,
)

SESSIONS_AT_ONCE = 20

Data = dict[str, Any]  # a row by the names of its columns; under the name of a table, rows that hang on it
Columns = dict[str, Column[Any]]


# --- statements -----------------------------------------------------------------------------------


def of_client(table: FromClause, kind: DatabaseKind, leads: bool = False) -> ColumnElement[bool]:
    """The relationship key. Where it does not lead, SQLite must not go by its index (see plans.py)."""
    client: ColumnElement[int] = table.c.client_id
    caregiver: ColumnElement[int] = table.c.caregiver_id
    if kind == "sqlite":
        client, caregiver = client if leads else without_index(client), without_index(caregiver)
    return and_(client == id_parameter("client"), among(caregiver, "caregivers", kind))


def columns_of(table: Table, *names: str, **joined: Column[Any]) -> Columns:
    return {name: table_of(table).c[name] for name in names} | joined


CLIENT = columns_of(Client, "id", "name", "oppt_id", "user_name", "is_disabled", "erase_date")
SESSION = columns_of(
    Session, "id", "title", "description", "chat_id", "create_date", "start_date", "is_closed", "close_date",
    "caregiver_id",
    caregiver_name=table_of(Caregiver).c.name, caregiver_position=table_of(Caregiver).c.position,
)  # fmt: skip
ASSIGNMENT = columns_of(
    Assignment, "id", "session_id", "book_id", "assign_date", "start_date", "end_date", "submit_date",
    "status", "attempt", "score", "feedback_status", "feedback_submit_date", "withdraw_date",
    book_name=table_of(Book).c.name, is_test=table_of(Book).c.is_test,
    module_id=table_of(Book).c.module_id, module_name=table_of(Module).c.name,
)  # fmt: skip
REMINDER = columns_of(Reminder, "id", "assignment_id", "remind_date", "state")
ANSWER_SET = columns_of(
    AnswerSet, "id", "assignment_id", "save_type", "attempt", "revision", "submit_date", "score", "own_score"
)
ANSWER = columns_of(Answer, "answer_set_id", "position", "question_id", "question_text", "answer")
FEEDBACK = columns_of(Feedback, "id", "answer_set_id", "text", "score", "submit_date")
EVENT = columns_of(Event, "id", "kind", "actor", "session_id", "assignment_id", "reminder_id", "moment")


def read_client(kind: DatabaseKind) -> ClauseElement:
    return select(*CLIENT.values()).where(CLIENT["id"] == id_parameter("client"))


def read_sessions(kind: DatabaseKind) -> ClauseElement:
    session, caregiver = table_of(Session), table_of(Caregiver)
    source = session.join(caregiver, caregiver.c.id == session.c.caregiver_id)
    rows = select(*SESSION.values()).select_from(source).where(of_client(session, kind, leads=True))
    rows = rows.where(session.c.id > id_parameter("after")).order_by(session.c.id)
    return rows.limit(count_parameter("at_once"))


def read_assignments(kind: DatabaseKind) -> ClauseElement:
    assignment, book, module = table_of(Assignment), table_of(Book), table_of(Module)
    source = assignment.join(book, book.c.id == assignment.c.book_id)
    source = source.join(module, module.c.id == book.c.module_id)
    rows = select(*ASSIGNMENT.values()).select_from(source).where(of_client(assignment, kind))
    rows = rows.where(among(assignment.c.session_id, "parents", kind))
    return rows.order_by(assignment.c.session_id, assignment.c.id)


def hanging_on(parent: str, columns: Columns, *order: str) -> Statement:
    """The rows of one table that hang on `parents`."""

    def build(kind: DatabaseKind) -> ClauseElement:
        table = columns[parent].table
        rows = select(*columns.values()).where(of_client(table, kind))
        return rows.where(among(columns[parent], "parents", kind)).order_by(
            *(table.c[name] for name in order)
        )

    return Statement(build)


def read_events(kind: DatabaseKind) -> ClauseElement:
    event = table_of(Event)
    among_caregivers = among(event.c.caregiver_id, "caregivers", kind)
    rows = select(*EVENT.values()).where(event.c.client_id == id_parameter("client"), among_caregivers)
    return rows.order_by(event.c.id)


READ_CLIENT = Statement(read_client)
READ_SESSIONS = Statement(read_sessions)
READ_ASSIGNMENTS = Statement(read_assignments)
READ_REMINDERS = hanging_on("assignment_id", REMINDER, "assignment_id", "remind_date", "id")
READ_ANSWER_SETS = hanging_on("assignment_id", ANSWER_SET, "assignment_id", "attempt", "id")
READ_ANSWERS = hanging_on("answer_set_id", ANSWER, "answer_set_id", "position")
READ_FEEDBACKS = hanging_on("answer_set_id", FEEDBACK, "answer_set_id", "id")
READ_EVENTS = Statement(read_events)


# --- operations -----------------------------------------------------------------------------------


def client_held(client_id: int) -> Operation[Data]:
    rows = yield READ_CLIENT, {"client": client_id}
    return as_data(CLIENT, rows)[0]


def key_of(client_id: int) -> Operation[Values]:
    found = yield CAREGIVERS_OF_CLIENT, {"client": client_id}
    return {"client": client_id, "caregivers": [row[0] for row in found]}


def sessions_held(key: Values, after: int) -> Operation[list[Data]]:
    """The next few sessions behind that id, with all that hangs on them."""
    rows = yield READ_SESSIONS, {**key, "after": after, "at_once": SESSIONS_AT_ONCE}
    sessions = as_data(SESSION, rows)
    assignments = yield from hang(READ_ASSIGNMENTS, ASSIGNMENT, "session_id", sessions, "assignments", key)
    yield from hang(READ_REMINDERS, REMINDER, "assignment_id", assignments, "reminders", key)
    sets = yield from hang(READ_ANSWER_SETS, ANSWER_SET, "assignment_id", assignments, "answer_sets", key)
    yield from hang(READ_ANSWERS, ANSWER, "answer_set_id", sets, "answers", key)
    yield from hang(READ_FEEDBACKS, FEEDBACK, "answer_set_id", sets, "feedbacks", key)
    return sessions


def hang(
    statement: Statement, columns: Columns, parent: str, above: list[Data], name: str, key: Values
) -> Operation[list[Data]]:
    """Reads the rows that hang on those above, and hangs them there."""
    parents = [row["id"] for row in above]
    found = as_data(columns, (yield statement, {**key, "parents": parents})) if parents else []
    groups: dict[int, list[Data]] = defaultdict(list)
    for row in found:
        groups[row[parent]].append(row)
    for row in above:
        row[name] = groups[row["id"]]
    return found


def events_held(key: Values) -> Operation[list[Data]]:
    return as_data(EVENT, (yield READ_EVENTS, key))


def as_data(columns: Columns, rows: list[Any]) -> list[Data]:
    readers = {name: reader_for(column) for name, column in columns.items()}
    return [
        {name: read(value) for (name, read), value in zip(readers.items(), row, strict=True)} for row in rows
    ]


def reader_for(column: Column[Any]) -> Callable[[Any], Any]:
    if isinstance(column.type, Moment):
        return as_moment
    return bool if isinstance(column.type, Boolean) else lambda value: value
