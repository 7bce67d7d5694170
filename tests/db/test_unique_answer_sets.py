"""The database rejects a second submission of an attempt and a second draft of an assignment."""

import pytest

from tests.callers import load
from tests.db import raw
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
