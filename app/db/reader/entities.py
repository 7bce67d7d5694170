"""The readable columns of each table, and the links from its rows to other rows."""

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime
from functools import cached_property
from typing import Any

from sqlalchemy import JSON, Boolean, Column, ColumnElement, FromClause, case, func, type_coerce

from app.db.answers import read_answers, read_json
from app.db.moments import Moment
from app.db.reader.access import is_final, is_not_withdrawn, is_own_draft
from app.db.sql import literal_text
from app.db.tables import (
    CARE_TABLES,
    NEVER_DUE,
    WITHOUT_END,
    AnswerSet,
    Assignment,
    AssignmentStatus,
    Book,
    Caregiver,
    Client,
    Feedback,
    Module,
    Question,
    Reminder,
    Session,
    Table,
    table_of,
)

Condition = Callable[[FromClause], ColumnElement[bool]]  # of the (aliased) table that it receives


@dataclass(frozen=True)
class ToOne:
    """A row whose id this row has."""

    target: Table
    key: str  # own column with the id of the target


@dataclass(frozen=True)
class ToMany:
    """Rows with the id of this row, filtered by `condition` and sorted by `order`."""

    target: Table
    key: str  # column of the target with the id of this row
    order: tuple[str, ...] = ("id",)
    newest_first: bool = False
    condition: Condition | None = None
    is_single: bool = False  # at most one row


@dataclass(frozen=True)
class Entity:
    table: Table
    links: dict[str, ToOne | ToMany] = field(default_factory=dict)
    through: dict[str, tuple[str, str]] = field(default_factory=dict)  # name -> link and member of its row
    condition: Condition | None = None  # reads skip all other rows

    @cached_property
    def columns(self) -> dict[str, Column[Any]]:
        return {column.name: column for column in table_of(self.table).columns}

    @property
    def is_care(self) -> bool:
        """Is every row a part of a care relationship?"""
        return self.table in CARE_TABLES


ENTITIES: dict[Table, Entity] = {
    entity.table: entity
    for entity in (
        Entity(Caregiver),
        Entity(Client, {"assignments": ToMany(Assignment, "client_id", newest_first=True)}),
        Entity(Module),
        Entity(
            Book,
            {
                "module": ToOne(Module, "module_id"),
                "questions": ToMany(Question, "book_id", order=("position",)),
            },
        ),
        Entity(Question),
        Entity(
            Session,
            {
                "caregiver": ToOne(Caregiver, "caregiver_id"),
                "client": ToOne(Client, "client_id"),
                "latest_assignment": ToOne(Assignment, "latest_assignment_id"),
                "assignments": ToMany(Assignment, "session_id", newest_first=True),
            },
        ),
        Entity(
            Assignment,
            {
                "caregiver": ToOne(Caregiver, "caregiver_id"),
                "client": ToOne(Client, "client_id"),
                "session": ToOne(Session, "session_id"),
                "book": ToOne(Book, "book_id"),
                "answer_sets": ToMany(  # an attempt has one submission
                    AnswerSet, "assignment_id", ("attempt",), newest_first=True, condition=is_final
                ),
                "draft": ToMany(
                    AnswerSet, "assignment_id", newest_first=True, condition=is_own_draft, is_single=True
                ),
                "feedbacks": ToMany(Feedback, "assignment_id"),
                "reminders": ToMany(Reminder, "assignment_id", order=("remind_date", "id")),
            },
            through={"name": ("book", "name"), "is_test": ("book", "is_test"), "module": ("book", "module")},
            condition=is_not_withdrawn,
        ),
        Entity(
            AnswerSet,
            {
                "assignment": ToOne(Assignment, "assignment_id"),
                "feedback": ToMany(Feedback, "answer_set_id", is_single=True),
            },
        ),
        Entity(
            Feedback,
            {
                "assignment": ToOne(Assignment, "assignment_id"),
                "author": ToOne(Caregiver, "caregiver_id"),
                "answer_set": ToOne(AnswerSet, "answer_set_id"),
            },
        ),
        Entity(Reminder, {"assignment": ToOne(Assignment, "assignment_id")}),
    )
}


# --- computed columns -----------------------------------------------------------------------------


def due_of(assignment: FromClause) -> ColumnElement[datetime]:
    """The expression of the indexes by due date (db/tables.py)."""
    is_pending = assignment.c.status == literal_text(AssignmentStatus.PENDING)
    end_date = func.coalesce(assignment.c.end_date, literal_text(WITHOUT_END))
    return type_coerce(case((is_pending, end_date), else_=literal_text(NEVER_DUE)), Moment)


def is_due(assignment: FromClause) -> ColumnElement[bool]:
    """Pending, as a condition that matches the indexes by due date."""
    return due_of(assignment) < literal_text(NEVER_DUE)


# Selected like columns, under these names.
COMPUTED: dict[str, Callable[[FromClause], ColumnElement[Any]]] = {"due": due_of}


# --- values ---------------------------------------------------------------------------------------

ANSWERS = "answers"  # of an answer set: the only column that holds a list of objects


def conversion_of(column: Column[Any]) -> Callable[[Any], Any] | None:
    """The conversion of a driver's value, if needed: SQLite has no booleans and no JSON values."""
    if isinstance(column.type, Boolean):
        return bool
    if isinstance(column.type, JSON):
        return read_answers if column.name == ANSWERS else read_json
    return None
