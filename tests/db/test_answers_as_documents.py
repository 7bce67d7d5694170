"""Migration 0009 makes the rows of the table `answer` one document per answer set, or changes nothing."""

import asyncio
import json
import re
from collections import defaultdict
from typing import Any

import pytest
from alembic import command
from sqlalchemy import inspect

from app.care.own_data import DataFormat, exporting
from app.db.admin.erasing import erasing
from app.db.admin.migrate import config, migrate, newest_version, stored_version
from app.db.drivers.interface import DatabaseError
from tests.callers import load, run_read, run_write
from tests.db import raw
from tests.db.test_migrations import outline, with_connection
from tests.factories import (
    NOW,
    a_book,
    a_complete_assignment,
    a_world,
    an_answer_set,
    an_assignment,
    prepared_by,
)

pytestmark = pytest.mark.filterwarnings("ignore:Skipped unsupported reflection of expression-based index")

Rows = list[tuple[Any, ...]]

HARD_TEXTS = [
    "",
    " \t\n",
    "\"quoted\" and 'single'",
    r"back\slash \n \u0041 \"",
    "👩‍👩‍👧 ü é \u0301 \ufeff \uffff",
    "".join(map(chr, range(1, 32))) + "\x7f\x85",
    "two\u2028lines\u2029here",
    "ä🙂" * 5_000,
    '[[1,"text","answer"]]',
    '{"answer":null}',
    "null",
]
MANY = range(101, 551)  # more answer sets than the migration has in memory
QUESTIONS = [{"text": f"Question {n}?", "kind": "TEXT"} for n in range(len(HARD_TEXTS))]
OLD_ROWS = (
    "SELECT answer_set_id, caregiver_id, client_id, position, question_id, question_text, answer FROM answer"
    " ORDER BY answer_set_id, position"
)
DOCUMENTS = "SELECT id, caregiver_id, client_id, answers FROM answer_set ORDER BY id"


def quoted(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


def add_answer(answer_set: int, position: int, question: int | None, text: str, answer: str) -> str:
    number = "NULL" if question is None else question
    return (
        "INSERT INTO answer"
        " (answer_set_id, caregiver_id, client_id, position, question_id, question_text, answer)"
        f" SELECT id, caregiver_id, client_id, {position}, {number}, {quoted(text)}, {quoted(answer)}"
        f" FROM answer_set WHERE id = {answer_set}"
    )


def put_tables_of_version_0008(url: str) -> None:
    """The world, of which client 2 is erased. Answer set 20 has answers without questions, 21 is an earlier
    attempt, 22 a draft of some questions, 23 has no answers. Then many more answer sets."""
    load(
        url,
        [
            *a_world(),
            a_book(9, questions=QUESTIONS),
            a_complete_assignment(20, book=9, attempt=2),
            an_answer_set(20, assignment=20, attempt=2),
            an_answer_set(21, assignment=20, attempt=1),
            an_assignment(22, book=9),
            an_answer_set(22, assignment=22, saveType="DRAFT"),
            a_complete_assignment(23, book=9),
            an_answer_set(23, assignment=23),
            *(a_complete_assignment(number) for number in MANY),
            *(an_answer_set(number, assignment=number) for number in MANY),
        ],
    )
    run_write(url, erasing(2, NOW))
    with_connection(url, lambda connection: command.downgrade(config(connection), "0008"))
    questions = [
        row[0] for row in raw.run(url, "SELECT id FROM question WHERE book_id = 9 ORDER BY position")
    ]
    answers = list(enumerate(zip(questions, HARD_TEXTS, strict=True), 1))
    raw.run(
        url,
        "DELETE FROM answer WHERE answer_set_id BETWEEN 20 AND 23",
        *(add_answer(20, place, None, text, text) for place, (_, text) in answers),
        *(add_answer(21, place, question, "How?", text) for place, (question, text) in reversed(answers)),
        *(add_answer(22, place, question, text, "") for place, (question, text) in answers[1::3]),
    )


at_version_0008 = prepared_by(put_tables_of_version_0008)


def documents_of(rows: Rows) -> dict[tuple[int, int, int], list[list[Any]]]:
    documents = defaultdict(list)
    for answer_set, caregiver, client, _, *answer in rows:
        documents[answer_set, caregiver, client].append(answer)
    return documents


def test_the_tables_of_the_version_before_are_made_again(database_url: str) -> None:
    """The other tests begin with a downgrade, which must give the tables that the version before had."""
    with_connection(database_url, lambda connection: command.downgrade(config(connection), "0008"))
    downgraded = with_connection(database_url, outline)

    with_connection(database_url, lambda connection: command.downgrade(config(connection), "base"))
    with_connection(database_url, lambda connection: command.upgrade(config(connection), "0008"))

    assert with_connection(database_url, outline) == downgraded


@at_version_0008
def test_answers_become_documents(database_url: str) -> None:
    rows = raw.run(database_url, OLD_ROWS)
    others = {name: count for name, count in counted(database_url).items() if name != "answer"}

    assert asyncio.run(migrate(database_url)) == "0008"

    expected = documents_of(rows)
    migrated = {tuple(key): json.loads(text) for *key, text in raw.run(database_url, DOCUMENTS)}
    assert {key: answers for key, answers in migrated.items() if answers} == expected
    assert [key for key in migrated if key not in expected] == [(23, 1, 1)]
    assert len(expected) > len(MANY)
    assert {answer for key in expected if key[2] == 2 for *_, answer in expected[key]} == {""}
    assert counted(database_url) == others | {"imported_row": 0, "tombstone": 1}  # of later migrations
    assert run_read(database_url, stored_version()) == newest_version()


@at_version_0008
def test_own_data_contains_the_answers_of_the_rows(database_url: str) -> None:
    rows = raw.run(database_url, OLD_ROWS)

    asyncio.run(migrate(database_url))

    parts: list[str] = []
    run_read(database_url, exporting(1, DataFormat.JSON, parts.append))
    exported = [
        (answer_set["id"], *answer.values())
        for session in json.loads("".join(parts))["sessions"]
        for assignment in session["assignments"]
        for answer_set in assignment["answerSets"]
        for answer in answer_set["answers"]
    ]
    assert sorted(exported) == [(row[0], *row[3:]) for row in rows if row[2] == 1]


@at_version_0008
def test_downgrading_gives_the_rows_again(database_url: str) -> None:
    rows = raw.run(database_url, OLD_ROWS)
    asyncio.run(migrate(database_url))

    with_connection(database_url, lambda connection: command.downgrade(config(connection), "0008"))

    assert raw.run(database_url, OLD_ROWS) == rows


def counted(url: str) -> dict[str, int]:
    """The number of rows in every table."""
    names = with_connection(url, lambda connection: inspect(connection).get_table_names())
    return {name: raw.run(url, f"SELECT count(*) FROM {name}")[0][0] for name in names}


# --- a database that is not migrated ---

OF_NO_SET = (
    "INSERT INTO answer SELECT 999, position, caregiver_id, client_id, question_text, answer, question_id"
)
WITHOUT_CHECK = {
    "sqlite": "PRAGMA foreign_keys = OFF",
    "postgresql": "ALTER TABLE answer DROP CONSTRAINT answer_answer_set_id_fkey",
}


def refusal(reason: str) -> str:
    message = (
        f"nothing was changed: {reason}; delete the rows of answer for which answer_set has no row with "
        "the same id, caregiver_id and client_id. Then run `care-gateway migrate` again"
    )
    return f"^{re.escape(message)}$"


OF_ANOTHER = refusal("the answers of answer set 400 are not those of its caregiver and client")


def assert_nothing_is_migrated(url: str, error: type[Exception], message: str) -> None:
    before = with_connection(url, outline), raw.run(url, OLD_ROWS), counted(url)

    with pytest.raises(error, match=message):
        asyncio.run(migrate(url))

    assert (with_connection(url, outline), raw.run(url, OLD_ROWS), counted(url)) == before
    assert run_read(url, stored_version()) == "0008"


@at_version_0008
@pytest.mark.parametrize("changed", ["client_id = 2", "caregiver_id = 2"])
def test_an_answer_of_another_relationship_than_its_set_is_refused(database_url: str, changed: str) -> None:
    """A document would show it to people who could not read it. Other sets are converted before it."""
    raw.run(database_url, f"UPDATE answer SET {changed} WHERE answer_set_id = 400 AND position = 2")

    assert_nothing_is_migrated(database_url, DatabaseError, OF_ANOTHER)


@at_version_0008
def test_a_database_can_be_migrated_when_such_answers_are_deleted(database_url: str, kind: str) -> None:
    raw.run(
        database_url,
        "UPDATE answer SET client_id = 2 WHERE answer_set_id = 400 AND position = 2",
        WITHOUT_CHECK[kind],
        f"{OF_NO_SET} FROM answer WHERE answer_set_id = 1",
    )

    raw.run(
        database_url,
        "DELETE FROM answer WHERE NOT EXISTS (SELECT 1 FROM answer_set s WHERE s.id = answer.answer_set_id"
        " AND s.caregiver_id = answer.caregiver_id AND s.client_id = answer.client_id)",
    )
    asyncio.run(migrate(database_url))

    [(document,)] = raw.run(database_url, "SELECT answers FROM answer_set WHERE id = 400")
    assert len(json.loads(document)) == 1


@at_version_0008
def test_answers_without_an_answer_set_are_refused(database_url: str, kind: str) -> None:
    raw.run(database_url, WITHOUT_CHECK[kind], f"{OF_NO_SET} FROM answer WHERE answer_set_id = 1")

    assert_nothing_is_migrated(database_url, DatabaseError, refusal("2 answers belong to no answer set"))


@at_version_0008
def test_a_database_with_a_half_of_the_migration_is_refused(database_url: str) -> None:
    raw.run(database_url, "ALTER TABLE answer_set ADD COLUMN answers TEXT")

    assert_nothing_is_migrated(database_url, Exception, "(duplicate column name: answers|already exists)")


@at_version_0008
def test_a_document_that_was_stored_wrong_is_refused(database_url: str, kind: str) -> None:
    raw.run(database_url, *DAMAGES[kind])

    assert_nothing_is_migrated(database_url, DatabaseError, OF_ANOTHER)


# Triggers that replace the document of answer set 400.
DAMAGES = {
    "sqlite": (
        "CREATE TRIGGER damage AFTER UPDATE ON answer_set WHEN NEW.id = 400 AND NEW.revision = 1"
        " BEGIN UPDATE answer_set SET answers = '[]', revision = 2 WHERE id = 400; END",
    ),
    "postgresql": (
        "CREATE FUNCTION damage() RETURNS trigger LANGUAGE plpgsql AS"
        " $$ BEGIN NEW.answers := '[]'; RETURN NEW; END $$",
        "CREATE TRIGGER damage BEFORE UPDATE ON answer_set FOR EACH ROW WHEN (NEW.id = 400)"
        " EXECUTE FUNCTION damage()",
    ),
}
