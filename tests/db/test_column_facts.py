"""What tables.py says about its columns is complete, and other parts follow it."""

from collections.abc import Iterable
from typing import Any

import pytest
from pydantic import BaseModel
from sqlalchemy import JSON, Column, Integer, MetaData, String, Table, Text, select

from app.db.admin.erasing import erasing
from app.db.facts import Erased, Facts, facts_of, is_personal, member_of
from app.db.interchange import dump
from app.db.interchange.import_format import (
    AnswerSetLine,
    AssignmentLine,
    BookLine,
    CaregiverLine,
    ClientLine,
    ModuleLine,
    QuestionItem,
    ReminderItem,
    SessionLine,
)
from app.db.sql import Bulk, Statement, Steps
from app.db.tables import (
    ANSWER_SET,
    ASSIGNMENT,
    BOOK,
    CAREGIVER,
    CLIENT,
    MODULE,
    QUESTION,
    REMINDER,
    SESSION,
    TABLES,
)
from tests.callers import run_read, run_write
from tests.factories import NOW
from tests.lifecycle import PRIVATE, load_one_client

COLUMNS = [column for table in TABLES for column in table.columns]
PERSONAL = [column for column in COLUMNS if is_personal(column)]
FINGERPRINT = "of client 1"


def unstated(columns: Iterable[Column[Any]]) -> list[str]:
    """The texts without a statement whether they are personal."""
    texts = (column for column in columns if isinstance(column.type, String | JSON))
    return [str(column) for column in texts if facts_of(column).erased is None]


def test_every_text_says_whether_it_is_personal() -> None:
    assert unstated(COLUMNS) == []


def test_a_text_that_does_not_say_so_is_found() -> None:
    stated = {"facts": Facts(Erased.UNCHANGED)}
    table = Table(
        "letter",
        MetaData(),
        Column("id", Integer),
        Column("title", Text, info=stated),
        Column("text", Text),
        Column("state", String, info={"facts": Facts(recorded=True)}),
        Column("pages", JSON().with_variant(Text(), "sqlite")),
    )

    assert unstated(table.columns) == ["letter.text", "letter.state", "letter.pages"]


def reading_personal_texts() -> Steps[dict[str, str]]:
    found = {}
    for column in PERSONAL:
        found[str(column)] = str((yield Statement(select(column)), {}))
    return found


def test_no_personal_text_of_a_client_survives_an_erasure(database_url: str) -> None:
    """Also fails for a column of which the database of this test has no text."""
    load_one_client(database_url)

    def adding_fingerprint() -> Steps[None]:
        yield Bulk(
            "imported_row", ("kind", "id", "client_id", "fingerprint"), [("client", 1, 1, FINGERPRINT)]
        )

    run_write(database_url, adding_fingerprint())
    before = run_read(database_url, reading_personal_texts())

    run_write(database_url, erasing(1, NOW))

    after = run_read(database_url, reading_personal_texts())
    private = (*PRIVATE, FINGERPRINT)
    assert [name for name, texts in before.items() if not any(each in texts for each in private)] == []
    assert [name for name, texts in after.items() if any(each in texts for each in private)] == []


def test_own_data_contains_every_personal_text_but_these() -> None:
    shown = {
        str(column)
        for columns in (
            dump.CLIENT_COLUMNS,
            dump.SESSION_COLUMNS,
            dump.ASSIGNMENT_COLUMNS,
            dump.ANSWER_SET_COLUMNS,
            dump.FEEDBACK_COLUMNS,
        )
        for column in columns.values()
    }

    # docs/own-data.md, Not included; a fingerprint is no text.
    assert {str(column) for column in PERSONAL} - shown == {
        "delivery.last_answer",
        "idempotency_key.body",
        "imported_row.fingerprint",
    }


@pytest.mark.parametrize(
    ("line", "table", "lists"),
    [
        (CaregiverLine, CAREGIVER, []),
        (ClientLine, CLIENT, []),
        (ModuleLine, MODULE, []),
        (BookLine, BOOK, ["questions"]),
        (QuestionItem, QUESTION, []),
        (SessionLine, SESSION, []),
        (AssignmentLine, ASSIGNMENT, ["reminders"]),
        (ReminderItem, REMINDER, []),
        (AnswerSetLine, ANSWER_SET, []),
    ],
)
def test_every_member_of_a_line_is_a_column(line: type[BaseModel], table: Table, lists: list[str]) -> None:
    """A question has a kind of its own."""
    columns = {column.name: member_of(column) for column in table.columns}
    fields = {name: field.alias for name, field in line.model_fields.items() if name not in lists}
    if table is not QUESTION:
        fields.pop("kind", None)

    assert fields == {name: columns[name] for name in fields}
