"""On PostgreSQL a change of answers waits for another one of the assignment, and reads what that stored."""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from app.care.answers import saving, submitting
from app.care.assignment_changes import reopening
from app.care.errors import CareError, DraftConflict, NotFound, WrongState
from app.db.drivers.interface import Database
from app.db.reader.selection import AccessScope
from app.db.sql import Steps
from app.db.tables import SaveType
from tests.callers import load, run_write
from tests.care.actions import answers_of, consistent_rows, sessions_with_homework
from tests.db import raw
from tests.db.overlapping import uncommitted, until_blocked
from tests.db.small_steps import with_database
from tests.factories import NOW

pytestmark = pytest.mark.parametrize("kind", ["postgresql"], indirect=True)

CAREGIVER, CLIENT = AccessScope(NOW, caregiver=1), AccessScope(NOW, client=1)


def save(answer: str, revision: int = 0) -> Steps[int]:
    return saving(CLIENT, answers_of(1, answer, revision), SaveType.DRAFT)


def submit(answer: str) -> Steps[list[int]]:
    return submitting(CLIENT, answers_of(1, answer))


def submit_and_reopen() -> Steps[None]:
    yield from submit("1")
    yield from reopening(CAREGIVER, 1)


def outcome_after(url: str, first: Steps[Any], second: Steps[Any]) -> tuple[Any, Any]:
    """Runs the second operation while the first is not committed. Returns both results; an error of a rule is
    a result too."""

    async def use(db: Database) -> tuple[Any, Any]:
        async with uncommitted(url, first) as stored:
            waiting = asyncio.create_task(db.write(second))
            assert await until_blocked(url, waiting)
        [outcome] = await asyncio.gather(waiting, return_exceptions=True)
        await consistent_rows(db)
        return stored, outcome

    stored, outcome = with_database(url, use)
    assert isinstance(outcome, CareError) or not isinstance(outcome, BaseException), outcome
    return stored, outcome


@pytest.fixture
def url(database_url: str) -> str:
    load(database_url, sessions_with_homework(1))
    return database_url


@pytest.mark.parametrize("change", [save, submit])
def test_a_change_that_waits_for_a_first_draft_conflicts_with_it(
    url: str, change: Callable[[str], Steps[Any]]
) -> None:
    draft, outcome = outcome_after(url, save("1"), change("2"))

    assert isinstance(outcome, DraftConflict)
    assert outcome.draft_id == draft


def test_a_save_that_waits_for_the_same_save_returns_its_draft(url: str) -> None:
    draft, outcome = outcome_after(url, save("1"), save("1"))

    assert outcome == draft


def test_a_save_that_waits_for_a_next_draft_conflicts_with_it(url: str) -> None:
    draft = run_write(url, save("0"))

    _, outcome = outcome_after(url, save("1", 1), save("2", 1))

    assert isinstance(outcome, DraftConflict)
    assert outcome.draft_id == draft


def test_a_save_that_waits_for_a_submission_is_rejected(url: str) -> None:
    _, outcome = outcome_after(url, submit("1"), save("1"))

    assert isinstance(outcome, WrongState)


def test_a_submission_that_waits_for_the_same_one_returns_its_ids(url: str) -> None:
    submitted, outcome = outcome_after(url, submit("1"), submit("1"))

    assert outcome == submitted


def test_a_draft_after_an_attempt_that_it_waited_for_continues_its_revisions(url: str) -> None:
    outcome_after(url, submit_and_reopen(), save("2"))

    assert raw.run(url, "SELECT save_type, revision FROM answer_set ORDER BY id") == [
        ("FINAL", 1),
        ("DRAFT", 2),
    ]


def test_a_change_does_not_wait_for_the_assignment_of_another_client(url: str) -> None:
    foreign = saving(AccessScope(NOW, client=2), answers_of(1, "1"), SaveType.DRAFT)

    async def use(db: Database) -> None:
        async with uncommitted(url, save("1")):
            with pytest.raises(NotFound):
                await db.write(foreign)

    with_database(url, use)
