"""The readable columns of each table, and the links from its rows to other rows."""

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

import orjson
from sqlalchemy import (
    JSON,
    BigInteger,
    Boolean,
    Column,
    ColumnElement,
    FromClause,
    bindparam,
    case,
    func,
    literal_column,
    type_coerce,
)
from sqlalchemy import Table as SqlTable
from sqlmodel import SQLModel

from app.db.tables import (
    CARE_TABLES,
    NEVER_DUE,
    WITHOUT_END,
    Answer,
    AnswerSet,
    Assignment,
    AssignmentStatus,
    Book,
    Caregiver,
    Client,
    Feedback,
    Module,
    Moment,
    Question,
    Reminder,
    SaveType,
    Session,
)

Table = type[SQLModel]
Condition = Callable[[FromClause], ColumnElement[bool]]  # of the (aliased) table that it receives


@dataclass(frozen=True)
class ToOne:
    """A row whose id this row has."""

    target: Table
    key: str  # own column with the id of the target


@dataclass(frozen=True)
class ToMany:
    """Rows with the id of this row, filtered by `only` and sorted by `order`."""

    target: Table
    key: str  # column of the target with the id of this row
    order: tuple[str, ...] = ("id",)
    newest_first: bool = False
    only: Condition | None = None
    is_single: bool = False  # at most one row


@dataclass(frozen=True)
class Entity:
    table: Table
    is_care: bool
    columns: dict[str, Column[Any]]
    links: dict[str, ToOne | ToMany] = field(default_factory=dict)
    through: dict[str, tuple[str, str]] = field(default_factory=dict)  # members of a linked row
    only: Condition | None = None  # reads skip all other rows


def is_there(assignment: FromClause) -> ColumnElement[bool]:
    """Reads skip withdrawn assignments, which stay in the table for the audit log."""
    return assignment.c.withdraw_date.is_(None)


def literal(text: str) -> ColumnElement[Any]:
    """A literal in the statement. A parameter does not match the expression of an index, and if it decides on
    a partial index, SQLite prepares the statement again whenever the parameters change."""
    return literal_column(f"'{text}'")


FINAL = literal(SaveType.FINAL)


def is_final(answer_set: FromClause) -> ColumnElement[bool]:
    return answer_set.c.save_type == FINAL


def is_own_draft(answer_set: FromClause) -> ColumnElement[bool]:
    """A draft is visible to its client only: a caregiver's `:client` is NULL, which equals nothing."""
    # Plus 0, so that the database searches by the assignment and not by the client.
    mine = answer_set.c.client_id + literal_column("0") == bindparam("client", type_=BigInteger)
    return (answer_set.c.save_type != FINAL) & mine


def due_of(assignment: FromClause) -> ColumnElement[datetime]:
    """The expression of the indexes by due date (db/tables.py)."""
    is_pending = assignment.c.status == literal(AssignmentStatus.PENDING)
    end_date = func.coalesce(assignment.c.end_date, literal(WITHOUT_END))
    return type_coerce(case((is_pending, end_date), else_=literal(NEVER_DUE)), Moment)


def is_due(assignment: FromClause) -> ColumnElement[bool]:
    """Pending, as a condition that matches the indexes by due date."""
    return due_of(assignment) < literal(NEVER_DUE)


# Selected like columns, under these names.
COMPUTED: dict[str, Callable[[FromClause], ColumnElement[Any]]] = {"due": due_of}


LINKS: dict[Table, dict[str, ToOne | ToMany]] = {
    Caregiver: {},
    Client: {
        "assignments": ToMany(Assignment, "client_id", newest_first=True),
    },
    Module: {},
    Book: {
        "module": ToOne(Module, "module_id"),
        "questions": ToMany(Question, "book_id", order=("position",)),
    },
    Question: {},
    Session: {
        "caregiver": ToOne(Caregiver, "caregiver_id"),
        "client": ToOne(Client, "client_id"),
        "latest_assignment": ToOne(Assignment, "latest_assignment_id"),
        "assignments": ToMany(Assignment, "session_id", newest_first=True),
    },
    Assignment: {
        "caregiver": ToOne(Caregiver, "caregiver_id"),
        "client": ToOne(Client, "client_id"),
        "session": ToOne(Session, "session_id"),
        "book": ToOne(Book, "book_id"),
        "answer_sets": ToMany(
            AnswerSet, "assignment_id", order=("attempt", "id"), newest_first=True, only=is_final
        ),
        "draft": ToMany(AnswerSet, "assignment_id", newest_first=True, only=is_own_draft, is_single=True),
        "feedbacks": ToMany(Feedback, "assignment_id"),
        "reminders": ToMany(Reminder, "assignment_id", order=("remind_date", "id")),
    },
    AnswerSet: {
        "assignment": ToOne(Assignment, "assignment_id"),
        "answers": ToMany(Answer, "answer_set_id", order=("position",)),
        "feedback": ToMany(Feedback, "answer_set_id", is_single=True),
    },
    Answer: {},
    Feedback: {
        "assignment": ToOne(Assignment, "assignment_id"),
        "author": ToOne(Caregiver, "caregiver_id"),
        "answer_set": ToOne(AnswerSet, "answer_set_id"),
    },
    Reminder: {
        "assignment": ToOne(Assignment, "assignment_id"),
    },
}


THROUGH: dict[Table, dict[str, tuple[str, str]]] = {
    Assignment: {"name": ("book", "name"), "is_test": ("book", "is_test"), "module": ("book", "module")},
}


ONLY: dict[Table, Condition] = {Assignment: is_there}


def table_of(model: Table) -> SqlTable:
    """SQLAlchemy's table behind a SQLModel class."""
    return model.__table__  # type: ignore[attr-defined, no-any-return]


def read_off(table: Table) -> Entity:
    columns = {column.name: column for column in table_of(table).columns}
    return Entity(table, table in CARE_TABLES, columns, LINKS[table], THROUGH.get(table, {}), ONLY.get(table))


ENTITIES: dict[Table, Entity] = {table: read_off(table) for table in LINKS}


def check_entities() -> None:
    """Fails at start-up if a link does not match the tables."""
    for entity in ENTITIES.values():
        if entity.is_care and not {"caregiver_id", "client_id"} <= entity.columns.keys():
            raise TypeError(f"{entity.table.__name__} has no relationship key")
        for name, link in entity.links.items():
            holder = entity if isinstance(link, ToOne) else ENTITIES[link.target]
            if link.key not in holder.columns or name in entity.columns:
                raise TypeError(f"the link {entity.table.__name__}.{name} does not fit the tables")


check_entities()


def as_moment(stored: datetime | str | None) -> datetime | None:
    """Converts a stored moment; SQLite stores texts that sort like the moments."""
    return datetime.fromisoformat(stored) if isinstance(stored, str) else stored


def reader_of(column: Column[Any]) -> Callable[[Any], Any] | None:
    """The conversion of a driver's value, if needed: SQLite has no booleans and no JSON values."""
    if isinstance(column.type, Boolean):
        return bool
    if isinstance(column.type, JSON):
        return read_json
    return None


def known_moment(stored: datetime | str | None) -> datetime:
    """Converts a moment of a column that is never null."""
    moment = as_moment(stored)
    assert moment is not None
    return moment


def read_json(stored: str | None) -> Any:
    return None if stored is None else orjson.loads(stored)
