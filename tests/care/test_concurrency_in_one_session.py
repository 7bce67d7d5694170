"""Many concurrent changes in one session: the counters stay right, and rejected requests get the current
state."""

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

import pytest

from app.care.answers import get_my_answer_sets, save_answers, submit_answers
from app.care.errors import DraftConflict
from app.db.drivers.factory import open_database
from app.db.drivers.interface import Database
from tests.callers import load
from tests.care.actions import (
    DONE,
    DRAFT,
    OPTIONS,
    Verb,
    answers_of,
    as_client,
    assigning,
    consistent_rows,
    extending,
    outcome_of,
    reminding,
    reopening,
    saving,
    sessions_with_homework,
    submitting,
    withdrawing,
)

Result = TypeVar("Result")


def with_two(url: str, use: Callable[[Database, Database], Awaitable[Result]]) -> Result:
    """Opens the same database twice, as two processes do."""

    async def used() -> Result:
        one, other = await open_database(url), await open_database(url)
        try:
            return await use(one, other)
        finally:
            await one.close()
            await other.close()

    return asyncio.run(used())


def test_concurrent_submissions_are_all_counted(database_url: str) -> None:
    load(database_url, sessions_with_homework(2, each=30))

    async def use(one: Database, other: Database) -> None:
        outcomes = await asyncio.gather(
            *(
                outcome_of(submitting(OPTIONS[number % 4])(one if number % 2 else other, number))
                for number in range(1, 61)
            )
        )
        assert set(outcomes) == {DONE}
        rows = await consistent_rows(one)
        assert [
            (each["assignment_count"], each["completed_assignment_count"], each["last_assignment_score"])
            for each in rows["session"]
        ] == [(30, 30, 30 % 4), (30, 30, 60 % 4)]
        assert Counter(each["assignment_id"] for each in rows["event"]) == Counter(range(1, 61))

    with_two(database_url, use)


@pytest.mark.parametrize("turn", range(5))
def test_concurrent_changes_of_all_kinds_keep_the_counters_right(database_url: str, turn: int) -> None:
    load(database_url, sessions_with_homework(1, each=12))
    verbs: list[Verb] = [
        submitting("1"),
        extending(9),
        reminding(3),
        saving("2"),
        withdrawing,
        submitting("3"),
        reopening,
    ]
    verbs = verbs[turn:] + verbs[:turn]

    async def use(one: Database, other: Database) -> None:
        outcomes = await asyncio.gather(
            *(
                outcome_of(verb(one if (number + place) % 2 else other, number))
                for place, verb in enumerate(verbs)
                for number in range(1, 13)
            ),
            *(outcome_of(assigning(one, 1)) for _ in range(5)),
        )
        rows = await consistent_rows(one)
        done = Counter(outcomes)[DONE]
        assert len(rows["event"]) == done
        assert set(outcomes) <= {DONE, "WRONG_STATE", "NOT_FOUND", "DRAFT_CONFLICT"}

    with_two(database_url, use)


def test_concurrent_equal_submissions_get_the_same_result(database_url: str) -> None:
    load(database_url, sessions_with_homework(20))

    async def use(one: Database, other: Database) -> None:
        for number in range(1, 21):
            answers = answers_of(number, "2")
            found = await asyncio.gather(
                *(submit_answers(as_client(db), answers) for db in (one, other, one, other))
            )
            assert len(set(map(tuple, found))) == 1
        await consistent_rows(one)

    with_two(database_url, use)


def test_the_loser_of_two_concurrent_drafts_gets_the_saved_draft(database_url: str) -> None:
    load(database_url, sessions_with_homework(20))

    async def tab(db: Database, number: int, answer: str) -> Any:
        try:
            saved = await save_answers(as_client(db), answers_of(number, answer), False, DRAFT)
        except DraftConflict as conflict:
            assert conflict.draft_id is not None
            [stored] = await get_my_answer_sets(as_client(db), [conflict.draft_id], DRAFT)
            return "lost", stored
        return "won", saved

    async def use(one: Database, other: Database) -> None:
        for number in range(1, 21):
            found = await asyncio.gather(tab(one, number, "1"), tab(other, number, "2"))
            (lost, there), (won, saved) = sorted(found, key=lambda each: str(each[0]))
            assert (lost, won) == ("lost", "won")
            assert (there.id, there.revision) == (saved.id, saved.revision) == (saved.id, 1)
        await consistent_rows(one)

    with_two(database_url, use)
