"""Two concurrent changes of one object: one runs after the other, and the later one is performed or rejected.

Each race runs many times, on connections of two pools (PostgreSQL) and in two writers of one file (SQLite).
The events are checked too: one for each performed change, none for a rejection.
"""

import asyncio
from collections.abc import Sequence
from itertools import cycle
from typing import Any

import pytest

from app.db.drivers.factory import open_database
from app.db.drivers.interface import Database
from tests.callers import load
from tests.care.actions import (
    DONE,
    Verb,
    assigning,
    closing,
    consistent_rows,
    extending,
    giving,
    outcome_of,
    reminding,
    reopening,
    saving,
    sessions_with_homework,
    submitting,
    withdrawing,
)

ROUNDS = 20
Outcomes = dict[tuple[str, ...], list[str]]  # what became of each, and the events


def one_of(number: int, refusal: str, *events: str) -> Outcomes:
    """One request wins; all others have the same outcome."""
    places = range(number)
    return {
        tuple(DONE if place == winner else refusal for place in places): list(events) for winner in places
    }


# What was done before, what is done at once, and what may become of it.
RACES: dict[str, tuple[list[Verb], list[Verb], Outcomes]] = {
    "the same submission": ([], [submitting("1")] * 4, {(DONE,) * 4: ["SUBMITTED"]}),
    "different submissions": (
        [],
        [submitting("1"), submitting("2"), submitting("3")],
        one_of(3, "WRONG_STATE", "SUBMITTED"),
    ),
    "a submission and the closing of the session": (
        [],
        [submitting("1"), closing],
        {(DONE, DONE): ["SESSION_CLOSED", "SUBMITTED"], ("NOT_RUNNING", DONE): ["SESSION_CLOSED"]},
    ),
    "a submission and an extension": (
        [],
        [submitting("1"), extending(9)],
        {(DONE, DONE): ["EXTENDED", "SUBMITTED"], (DONE, "WRONG_STATE"): ["SUBMITTED"]},
    ),
    "a submission and reminders": (
        [],
        [submitting("1"), reminding(5)],
        {(DONE, DONE): ["REMINDERS_SET", "SUBMITTED"], (DONE, "WRONG_STATE"): ["SUBMITTED"]},
    ),
    "a submission and a withdrawal": (
        [],
        [submitting("1"), withdrawing],
        {(DONE, "WRONG_STATE"): ["SUBMITTED"], ("NOT_FOUND", DONE): ["WITHDRAWN"]},
    ),
    "an extension and a withdrawal": (
        [],
        [extending(9), withdrawing],
        {(DONE, DONE): ["EXTENDED", "WITHDRAWN"], ("NOT_FOUND", DONE): ["WITHDRAWN"]},
    ),
    "feedback and reopening": (
        [submitting("1")],
        [giving("good", 9), reopening],
        {
            (DONE, DONE): ["FEEDBACK_GIVEN", "REOPENED", "SUBMITTED"],
            ("WRONG_STATE", DONE): ["REOPENED", "SUBMITTED"],
        },
    ),
    "two feedbacks": (
        [submitting("1")],
        [giving("good", 9), giving("better", 10)],
        {(DONE, DONE): ["FEEDBACK_GIVEN", "FEEDBACK_GIVEN", "SUBMITTED"]},
    ),
    "the same feedback": (
        [submitting("1")],
        [giving("good", 9)] * 3,
        {(DONE,) * 3: ["FEEDBACK_GIVEN", "SUBMITTED"]},
    ),
    "feedback and closing": (
        [submitting("1")],
        [giving("good", 9), closing],
        {
            (DONE, DONE): ["FEEDBACK_GIVEN", "SESSION_CLOSED", "SUBMITTED"],
            ("NOT_RUNNING", DONE): ["SESSION_CLOSED", "SUBMITTED"],
        },
    ),
    "reopening twice": (
        [submitting("1")],
        [reopening, reopening],
        one_of(2, "WRONG_STATE", "REOPENED", "SUBMITTED"),
    ),
    "first drafts of two tabs": (
        [],
        [saving("1"), saving("2"), saving("3")],
        one_of(3, "DRAFT_CONFLICT", "DRAFT_SAVED"),
    ),
    "next drafts of two tabs": (
        [saving("0")],
        [saving("1", 1), saving("2", 1)],
        one_of(2, "DRAFT_CONFLICT", "DRAFT_SAVED", "DRAFT_SAVED"),
    ),
    "the same draft twice": ([], [saving("1")] * 3, {(DONE,) * 3: ["DRAFT_SAVED"]}),
    "a draft and a submission": (
        [],
        [saving("1"), submitting("2")],
        {(DONE, "DRAFT_CONFLICT"): ["DRAFT_SAVED"], ("WRONG_STATE", DONE): ["SUBMITTED"]},
    ),
    "a draft and the closing of the session": (
        [],
        [saving("1"), closing],
        {(DONE, DONE): ["DRAFT_SAVED", "SESSION_CLOSED"], ("NOT_RUNNING", DONE): ["SESSION_CLOSED"]},
    ),
    "homework and the closing of the session": (
        [],
        [assigning, closing],
        {(DONE, DONE): ["ASSIGNED", "SESSION_CLOSED"], ("NOT_RUNNING", DONE): ["SESSION_CLOSED"]},
    ),
    "closing twice": ([], [closing, closing], one_of(2, "NOT_RUNNING", "SESSION_CLOSED")),
}


async def run_at_once(verbs: Sequence[Verb], databases: Sequence[Database], number: int, turn: int) -> Any:
    """The first request alternates, and so do the databases that they use."""
    places = [(place + turn) % len(verbs) for place in range(len(verbs))]
    through = cycle(databases[turn % 2 :] + databases[: turn % 2])  # type: ignore[operator]
    found = await asyncio.gather(
        *(outcome_of(verbs[place](db, number)) for place, db in zip(places, through, strict=False))
    )
    return tuple(outcome for _, outcome in sorted(zip(places, found, strict=True)))


@pytest.mark.parametrize("race", RACES)
def test_two_concurrent_changes_give_the_outcome_of_some_order(database_url: str, race: str) -> None:
    load(database_url, sessions_with_homework(ROUNDS))
    first, at_once, allowed = RACES[race]

    async def racing() -> None:
        databases = [await open_database(database_url), await open_database(database_url)]
        try:
            became = {}
            for number in range(1, ROUNDS + 1):
                for verb in first:
                    await verb(databases[0], number)
                became[number] = await run_at_once(at_once, databases, number, number)
            rows = await consistent_rows(databases[0])
            for number, outcomes in became.items():
                events = sorted(each["kind"] for each in rows["event"] if each["session_id"] == number)
                assert events == allowed[outcomes], (number, outcomes)
        finally:
            for db in databases:
                await db.close()

    asyncio.run(racing())
