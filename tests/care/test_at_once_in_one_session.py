"""Many who change one session at the same time: it counts right, and who lost is told so."""

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
from tests.care.lives import (
    DONE,
    DRAFT,
    OPTIONS,
    Verb,
    as_client,
    assigning,
    extending,
    outcome_of,
    reminding,
    reopening,
    said,
    saving,
    sessions_with_homework,
    submitting,
    whole,
    withdrawing,
)

Result = TypeVar("Result")


def with_two(url: str, use: Callable[[Database, Database], Awaitable[Result]]) -> Result:
    """The same database opened twice, as by two processes."""

    async def used() -> Result:
        one, other = await open_database(url), await open_database(url)
        try:
            return await use(one, other)
        finally:
            await one.close()
            await other.close()

    return asyncio.run(used())


def test_many_submissions_of_one_session_are_all_counted(database_url: str) -> None:
    load(database_url, sessions_with_homework(2, each=30))

    async def use(one: Database, other: Database) -> None:
        outcomes = await asyncio.gather(
            *(
                outcome_of(submitting(OPTIONS[number % 4])(one if number % 2 else other, number))
                for number in range(1, 61)
            )
        )
        assert set(outcomes) == {DONE}
        rows = await whole(one)
        assert [
            (each["assignment_count"], each["completed_assignment_count"], each["last_assignment_score"])
            for each in rows["session"]
        ] == [(30, 30, 30 % 4), (30, 30, 60 % 4)]
        assert Counter(each["assignment_id"] for each in rows["event"]) == Counter(range(1, 61))

    with_two(database_url, use)


@pytest.mark.parametrize("turn", range(5))
def test_everybody_does_everything_at_once_and_the_session_counts_right(database_url: str, turn: int) -> None:
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
        rows = await whole(one)
        done = Counter(outcomes)[DONE]
        assert len(rows["event"]) == done
        assert set(outcomes) <= {DONE, "WRONG_STATE", "NOT_FOUND", "DRAFT_CONFLICT"}

    with_two(database_url, use)


def test_the_same_submission_at_once_gets_the_same_answer(database_url: str) -> None:
    load(database_url, sessions_with_homework(20))

    async def use(one: Database, other: Database) -> None:
        for number in range(1, 21):
            answers = said(number, "2")
            found = await asyncio.gather(
                *(submit_answers(as_client(db), answers) for db in (one, other, one, other))
            )
            assert len(set(found)) == 1
        await whole(one)

    with_two(database_url, use)


def test_who_lost_a_race_of_drafts_is_told_of_the_one_that_was_saved(database_url: str) -> None:
    load(database_url, sessions_with_homework(20))

    async def tab(db: Database, number: int, answer: str) -> Any:
        try:
            saved = await save_answers(as_client(db), said(number, answer), False, DRAFT)
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
        await whole(one)

    with_two(database_url, use)
