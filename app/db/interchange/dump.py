"""Reads all stored data of one client, a few sessions at a time so that memory use is limited.

The names of the columns are the members of the exported JSON document in snake case and in their order; a dot
separates the members of nested objects.
"""

from collections import defaultdict
from typing import Any

from sqlalchemy import Boolean, Column, ColumnElement, DateTime, FromClause, Table, select

from app.db.answers import read_answers
from app.db.facts import facts_of
from app.db.moments import as_moment
from app.db.reader.access import CAREGIVERS_OF_CLIENT, relationship_key
from app.db.sql import Statement, Steps, Values, among, count_parameter, id_parameter
from app.db.tables import (
    ANSWER_SET,
    ASSIGNMENT,
    BOOK,
    CAREGIVER,
    CLIENT,
    EVENT,
    FEEDBACK,
    MODULE,
    QUESTION,
    REMINDER,
    SESSION,
)

SESSIONS_AT_ONCE = 20
PARENT = "parent"  # the column that holds the id of the row above; it is not exported

Data = dict[str, Any]  # a row by its column names, and lists of the rows below it
Columns = dict[str, ColumnElement[Any]]


def columns_of(table: Table, parent: str | None = None) -> Columns:
    """All columns of rows of a client, except what the nested objects show and what says otherwise."""
    own = {PARENT: table.c[parent]} if parent else {}
    shown = (each for each in table.columns if facts_of(each).exported and not each.foreign_keys)
    return own | {column.name: column for column in shown}


def columns_of_assignment() -> Columns:
    columns = columns_of(ASSIGNMENT, parent="session_id")
    first = {name: columns.pop(name) for name in (PARENT, "id")}
    book = {
        "book.id": BOOK.c.id,
        "book.name": BOOK.c.name,
        "book.is_test": BOOK.c.is_test,
        "book.module.id": MODULE.c.id,
        "book.module.name": MODULE.c.name,
    }
    withdraw_date = columns.pop("withdraw_date")
    last = {"is_withdrawn": withdraw_date.is_not(None), "withdraw_date": withdraw_date}
    return first | book | columns | last


CLIENT_COLUMNS = columns_of(CLIENT)
SESSION_COLUMNS = columns_of(SESSION) | {
    "caregiver.id": SESSION.c.caregiver_id,
    "caregiver.name": CAREGIVER.c.name,
    "caregiver.position": CAREGIVER.c.position,
}
ASSIGNMENT_COLUMNS = columns_of_assignment()
REMINDER_COLUMNS = columns_of(REMINDER, parent="assignment_id")
ANSWER_SET_COLUMNS = columns_of(ANSWER_SET, parent="assignment_id")
FEEDBACK_COLUMNS = columns_of(FEEDBACK, parent="answer_set_id")
EVENT_COLUMNS = columns_of(EVENT)


# --- statements -----------------------------------------------------------------------------------


def read_below(columns: Columns, *order: str, source: FromClause | None = None) -> Statement:
    """The rows that belong to one of `parents`, in the order of the parents."""
    parent: Column[Any] = columns[PARENT]  # type: ignore[assignment]
    table = parent.table
    return Statement(
        select(*columns.values())
        .select_from(table if source is None else source)
        .where(relationship_key(table, "client"), among(parent, "parents"))
        .order_by(parent, *(table.c[name] for name in order))
    )


READ_CLIENT = Statement(
    select(*CLIENT_COLUMNS.values()).where(CLIENT_COLUMNS["id"] == id_parameter("client"))
)
READ_SESSIONS = Statement(
    select(*SESSION_COLUMNS.values())
    .select_from(SESSION.join(CAREGIVER, CAREGIVER.c.id == SESSION.c.caregiver_id))
    .where(relationship_key(SESSION, "client", uses_index=True))
    .where(SESSION.c.id > id_parameter("after"))
    .order_by(SESSION.c.id)
    .limit(count_parameter("at_once"))
)
READ_ASSIGNMENTS = read_below(
    ASSIGNMENT_COLUMNS,
    "id",
    source=ASSIGNMENT.join(BOOK, BOOK.c.id == ASSIGNMENT.c.book_id).join(
        MODULE, MODULE.c.id == BOOK.c.module_id
    ),
)
READ_REMINDERS = read_below(REMINDER_COLUMNS, "remind_date", "id")
READ_ANSWER_SETS = read_below(ANSWER_SET_COLUMNS, "attempt", "id")
READ_POSITIONS = Statement(
    select(QUESTION.c.id, QUESTION.c.position).where(among(QUESTION.c.id, "questions"))
)
READ_FEEDBACKS = read_below(FEEDBACK_COLUMNS, "id")
READ_EVENTS = Statement(
    select(*EVENT_COLUMNS.values())
    .where(relationship_key(EVENT, "client", uses_index=True))
    .order_by(EVENT_COLUMNS["id"])
)


# --- steps ----------------------------------------------------------------------------------------


def reading_client(client_id: int) -> Steps[Data]:
    rows = yield READ_CLIENT, {"client": client_id}
    return as_data(CLIENT_COLUMNS, rows)[0]


def reading_key(client_id: int) -> Steps[Values]:
    found = yield CAREGIVERS_OF_CLIENT, {"client": client_id}
    return {"client": client_id, "caregivers": [row[0] for row in found]}


def reading_sessions(key: Values, after: int) -> Steps[list[Data]]:
    """The next sessions after the id `after`, with all rows below them."""
    rows = yield READ_SESSIONS, {**key, "after": after, "at_once": SESSIONS_AT_ONCE}
    sessions = as_data(SESSION_COLUMNS, rows)
    assignments = yield from adding_rows(sessions, "assignments", READ_ASSIGNMENTS, ASSIGNMENT_COLUMNS, key)
    yield from adding_rows(assignments, "reminders", READ_REMINDERS, REMINDER_COLUMNS, key)
    sets = yield from adding_rows(assignments, "answer_sets", READ_ANSWER_SETS, ANSWER_SET_COLUMNS, key)
    yield from adding_answers(sets)
    yield from adding_rows(sets, "feedbacks", READ_FEEDBACKS, FEEDBACK_COLUMNS, key)
    return sessions


def adding_rows(
    above: list[Data], name: str, statement: Statement, columns: Columns, key: Values
) -> Steps[list[Data]]:
    """Reads the rows below `above`, and adds them to the rows above as the list `name`."""
    parents = [row["id"] for row in above]
    found = as_data(columns, (yield statement, {**key, "parents": parents})) if parents else []
    groups: dict[int, list[Data]] = defaultdict(list)
    for row in found:
        groups[row.pop(PARENT)].append(row)
    for row in above:
        row[name] = groups[row["id"]]
    return found


def adding_answers(sets: list[Data]) -> Steps[None]:
    """Replaces the document of each answer set by its answers with their positions in the book."""
    answers = [read_answers(row["answers"]) for row in sets]
    questions = {one.question_id for of_set in answers for one in of_set if one.question_id is not None}
    positions = dict((yield READ_POSITIONS, {"questions": sorted(questions)})) if questions else {}
    for row, of_set in zip(sets, answers, strict=True):
        row["answers"] = [
            {"position": positions.get(one.question_id, place), **one._asdict()}
            for place, one in enumerate(of_set, 1)
        ]


def reading_events(key: Values) -> Steps[list[Data]]:
    return as_data(EVENT_COLUMNS, (yield READ_EVENTS, key))


def as_data(columns: Columns, rows: list[Any]) -> list[Data]:
    moments = [name for name, column in columns.items() if isinstance(column.type, DateTime)]
    flags = [name for name, column in columns.items() if isinstance(column.type, Boolean)]
    found = [dict(zip(columns, row, strict=True)) for row in rows]
    for row in found:
        row |= {name: as_moment(row[name]) for name in moments}
        row |= {name: bool(row[name]) for name in flags}
    return found
