"""On PostgreSQL, the fast path submits answers by one read and one statement, in batches with those of other
callers. It writes the same rows as a transaction. If it writes nothing, a transaction submits or rejects."""

import asyncio
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest

from app.care.answers import Answers, submitting
from app.care.questions import GivenAnswer
from app.db.drivers.interface import DatabaseUnavailable
from app.db.reader.selection import AccessScope
from app.db.sql import FastPath, FastRead
from app.db.statements.fast_paths import SUBMIT_ON_FAST_PATH
from tests.care.actions import QUESTION
from tests.care.test_draft_fast_path import (
    NOT_FOUND,
    SESSIONS,
    code_of,
    drafts,
    plans_of,
    rows,
    together,
    without_fast_path,
    write,
)
from tests.db import raw
from tests.db.small_steps import with_database
from tests.db.test_waiting_changes import locking
from tests.factories import NOW, starting_with
from tests.patience import PATIENCE

pytestmark = [
    pytest.mark.parametrize("kind", ["postgresql"], indirect=True),
    starting_with(drafts),
]

STATES = (
    "SELECT id, status, attempt, score, submit_date FROM assignment WHERE id IN ({0}) ORDER BY id",
    "SELECT completed_assignment_count, last_assignment_score FROM session WHERE id IN ({0}) ORDER BY id",
    "SELECT assignment_id, remind_date, state FROM reminder WHERE assignment_id IN ({0}) ORDER BY id",
)


async def submit(
    db: Any,
    assignment: int = 1,
    answer: str = "2",
    revision: int = 1,
    note: Callable[[Any], Any] = lambda step: step,
) -> list[int]:
    answers = Answers(assignment, (GivenAnswer(QUESTION, answer),), revision)
    return list(await write(db, "submitAnswers", submitting(AccessScope(NOW, client=2), answers), note))


def states(url: str, *assignments: int) -> list[Any]:
    ids = ", ".join(map(str, assignments))
    return [[tuple(row) for row in raw.run(url, statement.format(ids))] for statement in STATES]


@pytest.mark.parametrize(("fast", "careful", "revision"), [(1, 2, 1), (4, 5, 0)], ids=["a draft", "no draft"])
def test_it_writes_what_a_transaction_writes(
    database_url: str, fast: int, careful: int, revision: int
) -> None:
    [found], sent = together(database_url, partial(submit, assignment=fast, revision=revision))
    slow = partial(submit, assignment=careful, revision=revision, note=without_fast_path)
    expected = with_database(database_url, slow)

    assert sent == ["FAST PATH"]
    sets, events, records = rows(database_url)
    fast_set, careful_set = (
        next(row for row in sets if row[0] == answer_set) for _, answer_set in (found, expected)
    )
    assert (found[0], expected[0]) == (fast, careful) == (fast_set[3], careful_set[3])
    assert fast_set[4:] == careful_set[4:] and fast_set[4:7] == ("FINAL", 1, revision or 1)
    assert len(sets) == SESSIONS + (0 if revision else 2)
    assert [event[:6] for event in events] == [
        (1, 2, number, number, "SUBMITTED", "CLIENT") for number in (fast, careful)
    ]
    assert fast_set[1:3] == careful_set[1:3] == (1, 2)
    assert [record[7] for record in records] == [
        f'[[1,2,{{"assignments":[{number}]}}]]' for number in (fast, careful)
    ]
    (one, another), (session, other_session), reminders = states(database_url, fast, careful)
    assert one[1:] == another[1:] and one[1] == "COMPLETE"
    assert session == other_session and session[0] == 1
    of_fast, of_careful = ([row[1:] for row in reminders if row[0] == number] for number in (fast, careful))
    assert of_fast == of_careful and {state for _, state in of_fast} == {"SKIPPED"}


def test_several_callers_share_one_commit(database_url: str) -> None:
    work = [partial(submit, assignment=number) for number in range(1, SESSIONS + 1)]

    found, sent = together(database_url, *work)

    assert ([assignment for assignment, _ in found], sent) == ([1, 2, 3], ["FAST PATH"])
    assert [row[:2] for row in states(database_url, 1, 2, 3)[0]] == [
        (number, "COMPLETE") for number in (1, 2, 3)
    ]


@pytest.mark.parametrize("second", ["1", "3"], ids=["the same", "other answers"])
def test_of_two_submissions_the_second_repeats_the_first_or_is_rejected(
    database_url: str, second: str
) -> None:
    found, _ = together(database_url, partial(submit, answer="1"), partial(submit, answer=second))

    assert code_of(found[1]) == (found[0] if second == "1" else "WRONG_STATE")
    assert [row[4] for row in rows(database_url)[0] if row[3] == 1] == ["FINAL"]
    assert [completed for completed, _ in states(database_url, 1)[1]] == [1]


@pytest.mark.parametrize(
    ("change", "assignment", "code"),
    [
        ("UPDATE answer_set SET revision = 7 WHERE id = 11", 1, "DRAFT_CONFLICT"),
        ("DELETE FROM answer_set WHERE id = 11", 1, "DRAFT_CONFLICT"),
        ("UPDATE answer_set SET assignment_id = 4 WHERE id = 13", 4, "DRAFT_CONFLICT"),
        ("UPDATE session SET is_closed = true WHERE id = 1", 1, "NOT_RUNNING"),
        ("UPDATE assignment SET withdraw_date = now() WHERE id = 1", 1, "NOT_FOUND"),
        ("UPDATE assignment SET status = 'COMPLETE' WHERE id = 1", 1, "WRONG_STATE"),
    ],
    ids=["saved", "dropped", "first saved", "closed", "withdrawn", "submitted"],
)
def test_a_change_between_the_read_and_the_statement_is_noticed(
    database_url: str, change: str, assignment: int, code: str
) -> None:
    work = partial(submit, assignment=assignment, revision=1 if assignment == 1 else 0)

    [error], sent = together(database_url, work, meanwhile=(change,))

    assert (code_of(error), sent[:2], sent[-1]) == (code, ["FAST PATH", "BEGIN;"], "ROLLBACK")
    assert rows(database_url)[1:] == [[], []]


def test_a_second_run_whose_first_run_has_locked_nothing_changes_nothing(database_url: str) -> None:
    """Another transaction had the lock then, and the second run may have begun before its commit."""
    steps: list[FastPath] = []

    def note(step: Any) -> Any:
        steps.extend([step] if isinstance(step, FastPath) else [])
        return FastRead(NOT_FOUND, {"number": 0}) if isinstance(step, FastPath) else step

    async def clients(db: Any, *runs: bool) -> list[Any]:
        compiled = steps[0].statement.for_("postgresql")
        values = [compiled.values({**steps[0].values, "number": 0, "is_locked": run}) for run in runs]
        async with db.connection() as connection:
            return [row[1] for row in await connection.fetchmany(compiled.sql, values)]

    async def use(db: Any) -> list[list[Any]]:
        await submit(db, note=note)
        return [await clients(db, True), await clients(db, False), await clients(db, False, True)]

    assert with_database(database_url, use) == [[None], [None], [None, 2]]


def test_the_score_of_the_session_is_that_of_its_latest_complete_assignment(database_url: str) -> None:
    raw.run(
        database_url,
        "UPDATE assignment SET session_id = 1 WHERE id = 2",
        "UPDATE session SET completed_assignment_count = 1, last_assignment_score = 7 WHERE id = 1",
        "UPDATE assignment SET status = 'COMPLETE', score = 7 WHERE id = 2",
    )

    _, sent = together(database_url, submit)

    assert sent == ["FAST PATH"]
    assert states(database_url, 1)[1] == [(2, 7)]


def test_another_transaction_that_has_locked_the_session_does_not_delay_a_batch(database_url: str) -> None:
    async def use(db: Any) -> list[Any]:
        async with asyncio.timeout(PATIENCE):
            return await asyncio.gather(submit(db, 1), submit(db, 2), return_exceptions=True)

    with locking(database_url, "SELECT * FROM session WHERE id = 1 FOR UPDATE"):
        [rejected, submitted] = with_database(database_url, use)

    assert (type(rejected), submitted[0]) == (DatabaseUnavailable, 2)
    assert [row[:2] for row in states(database_url, 1, 2)[0]] == [(1, "PENDING"), (2, "COMPLETE")]


def test_no_statement_scans_a_table(database_url: str) -> None:
    plans = plans_of(database_url, submit)

    assert len(plans) == 2 and plans[1][0] is SUBMIT_ON_FAST_PATH[1]
    assert [plan for _, plan in plans if "Seq Scan" in plan] == []
