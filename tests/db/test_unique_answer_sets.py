"""The database rejects a second submission of an attempt and a second draft of an assignment. A database
with duplicates is not migrated."""

import asyncio
import json
import re

import pytest
from alembic import command

from app.db.admin.migrate import config, migrate, newest_version, stored_version
from app.db.drivers.interface import DatabaseError
from tests.callers import load, run_read
from tests.db import raw
from tests.db.test_migrations import outline, with_connection
from tests.factories import a_complete_assignment, a_world, an_answer_set, prepared_by


def put_answer_sets(url: str) -> None:
    """Assignment 1 has submissions 1 and 11 of two attempts and draft 12; assignment 9 has submission 13."""
    load(
        url,
        [
            *a_world(),
            an_answer_set(12, assignment=1, saveType="DRAFT"),
            a_complete_assignment(9, attempt=2),
            an_answer_set(13, assignment=9, attempt=2),
            an_answer_set(14, assignment=2, saveType="AUTO_SAVE"),
        ],
    )


with_answer_sets = prepared_by(put_answer_sets)


def copy_set(number: int, *, to: int, **changed: object) -> str:
    """The statement that adds a copy of this answer set."""
    columns = ("caregiver_id", "client_id", "assignment_id", "save_type", "attempt", "revision")
    values = (str(changed.get(name, name)) for name in columns)
    return (
        f"INSERT INTO answer_set (id, {', '.join(columns)}, submit_date)"
        f" SELECT {to}, {', '.join(values)}, submit_date FROM answer_set WHERE id = {number}"
    )


@with_answer_sets
@pytest.mark.parametrize(
    "second",
    [copy_set(1, to=90), copy_set(12, to=90), copy_set(14, to=90, save_type="'DRAFT'", attempt=2)],
    ids=["submission", "draft", "draft of another kind and attempt"],
)
def test_the_database_rejects_a_second_answer_set(database_url: str, second: str) -> None:
    with pytest.raises(Exception, match=r"(?i)unique") as refused:
        raw.run(database_url, second)

    assert "answer_set" in str(refused.value)
    assert raw.run(database_url, "SELECT id FROM answer_set ORDER BY id") == [
        (number,) for number in (1, 2, 3, 12, 13, 14)
    ]


@with_answer_sets
def test_the_database_accepts_submissions_of_several_attempts_and_a_draft(database_url: str) -> None:
    raw.run(database_url, copy_set(13, to=90, attempt=1), copy_set(13, to=91, save_type="'DRAFT'"))

    assert raw.run(database_url, "SELECT count(*) FROM answer_set WHERE assignment_id = 9") == [(3,)]


# --- a database with duplicates ---

TWO_DRAFTS = (copy_set(12, to=90), copy_set(14, to=91, save_type="'DRAFT'", attempt=2))
TWO_SUBMISSIONS = (copy_set(1, to=92), copy_set(13, to=93), copy_set(13, to=94))
ANSWERS_TOO = (
    "INSERT INTO answer (answer_set_id, position, caregiver_id, client_id, question_text, answer)"
    " SELECT id, 1, caregiver_id, client_id, 'How?', 'copied' FROM answer_set WHERE id >= 90",
    "INSERT INTO feedback (caregiver_id, client_id, assignment_id, answer_set_id, text, submit_date)"
    " SELECT caregiver_id, client_id, assignment_id, id, 'Good', submit_date FROM answer_set"
    " WHERE id IN (13, 94)",
)
REFUSED = (
    "nothing was changed: the database has {found}; keep one row of answer_set for each, "
    "and delete the others with their rows of answer and feedback. Then run `care-gateway migrate` again"
)


COUNT = "SELECT count(*) FROM answer_set"


def put_answer_sets_without_indexes(url: str) -> None:
    """In the tables before the unique indexes."""
    put_answer_sets(url)
    downgrade(url)


def downgrade(url: str) -> None:
    with_connection(url, lambda connection: command.downgrade(config(connection), "0004"))


before_unique_indexes = prepared_by(put_answer_sets_without_indexes)


@before_unique_indexes
@pytest.mark.parametrize(
    ("statements", "found"),
    [
        (TWO_DRAFTS, "two drafts for one assignment (assignments 1, 2)"),
        (TWO_SUBMISSIONS, "two FINAL answer sets for one attempt (assignments 1, 9)"),
        (
            (*TWO_DRAFTS, *TWO_SUBMISSIONS),
            "two FINAL answer sets for one attempt (assignments 1, 9)"
            " and two drafts for one assignment (assignments 1, 2)",
        ),
    ],
    ids=["drafts", "submissions", "both"],
)
def test_a_database_with_duplicate_answer_sets_is_not_migrated(
    database_url: str, statements: tuple[str, ...], found: str
) -> None:
    raw.run(database_url, *statements)
    before = with_connection(database_url, outline), raw.run(database_url, COUNT)

    with pytest.raises(DatabaseError, match=f"^{re.escape(REFUSED.format(found=found))}$"):
        asyncio.run(migrate(database_url))

    assert (with_connection(database_url, outline), raw.run(database_url, COUNT)) == before
    assert run_read(database_url, stored_version()) == "0004"


def test_the_error_names_the_first_assignments(database_url: str) -> None:
    load(
        database_url,
        [*a_world(), *(a_complete_assignment(number) for number in range(101, 123))]
        + [an_answer_set(number, assignment=number) for number in range(101, 123)],
    )
    downgrade(database_url)
    raw.run(database_url, *(copy_set(number, to=number + 100) for number in range(101, 123)))

    with pytest.raises(DatabaseError, match=r"\(assignments 101, [0-9, ]+ 120 and 2 more\)"):
        asyncio.run(migrate(database_url))


SURPLUS = (
    "SELECT s.id FROM answer_set s JOIN answer_set t ON t.assignment_id = s.assignment_id AND t.id > s.id"
    " WHERE (s.save_type = 'FINAL' AND t.save_type = 'FINAL' AND s.attempt = t.attempt)"
    " OR (s.save_type <> 'FINAL' AND t.save_type <> 'FINAL')"
)


@before_unique_indexes
def test_a_database_can_be_migrated_when_the_newest_answer_sets_are_kept(database_url: str) -> None:
    raw.run(database_url, *TWO_DRAFTS, *TWO_SUBMISSIONS, *ANSWERS_TOO)

    raw.run(
        database_url,
        f"DELETE FROM feedback WHERE answer_set_id IN ({SURPLUS})",
        f"DELETE FROM answer WHERE answer_set_id IN ({SURPLUS})",
        f"DELETE FROM answer_set WHERE id IN ({SURPLUS})",
    )
    asyncio.run(migrate(database_url))

    assert run_read(database_url, stored_version()) == newest_version()
    left = raw.run(database_url, "SELECT id FROM answer_set ORDER BY id")
    assert [row[0] for row in left] == [2, 3, 90, 91, 92, 94]
    assert all(json.loads(row[0]) for row in raw.run(database_url, "SELECT answers FROM answer_set"))
    assert raw.run(database_url, "SELECT answer_set_id FROM feedback") == [(94,)]
