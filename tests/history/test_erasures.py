"""Promise: a change beside the erasure of its client, whatever the order in which PostgreSQL runs their
statements, ends as if it had been made before or after.

The changes are those of the interleavings; each order has a client of its own.
"""

from functools import partial
from itertools import count
from random import Random, SystemRandom
from typing import Any

import pytest

from app.db.admin.erasing import erasing
from app.db.drivers.interface import Database
from app.db.session_counters import differences
from tests.callers import run_read
from tests.factories import Record, a_client
from tests.history.interleaving import Interleaver, play_on
from tests.history.life import DONE, LATER
from tests.history.test_interleavings import CHANGES, perform, sessions

SOME = 6  # orders of each change
STEPS = 40  # more than both have
BEFORE, AFTER = [0] * STEPS, [1] * STEPS
TABLES = ("session", "assignment", "answer_set", "feedback", "reminder", "event")
NUMBERS = """{id,session_id,assignment_id,answer_set_id,reminder_id,client_id,chat_id,
    latest_assignment_id}"""
PRIVATE = ("Session", "Description", "Draft", "Again", "Another", "Text")


def clients(number: int) -> list[Record]:
    """Each has the session of the same number."""
    made = sessions(number)
    known = {each["id"] for each in made if each["kind"] == "client"}
    for each in made:
        if each["kind"] == "session":
            each["clientId"] = each["id"]
    return [*(a_client(each) for each in range(1, number + 1) if each not in known), *made]


async def erase(client: int, db: Database) -> str:
    await db.write(erasing(client, LATER))
    return DONE


async def play(player: Interleaver, name: str, client: int, order: list[int]) -> Any:
    """Returns the outcomes and the rows, without their numbers."""
    changes = [partial(perform, CHANGES[name], client, client=client), partial(erase, client)]
    played = await player.play(changes, order)
    stored = {}
    for table in TABLES:
        row = f"(to_jsonb(one) - '{NUMBERS}'::text[])::text"
        rows = f"SELECT {row} FROM {table} one WHERE client_id = $1 ORDER BY id"
        stored[table] = [text for (text,) in await player.observer.fetch(rows, client)]
    assert not [word for word in PRIVATE if f'"{word}' in str(stored)], (name, played.order, stored)
    return played.outcomes, stored


@pytest.mark.parametrize("kind", ["postgresql"], indirect=True)
def test_a_change_beside_an_erasure_ends_as_if_made_before_or_after(database_url: str) -> None:
    chance, numbers = Random(SystemRandom().randrange(2**32)), count(1)

    async def play_each(player: Interleaver) -> None:
        for name in CHANGES:
            ends = [await play(player, name, next(numbers), order) for order in (BEFORE, AFTER)]
            for _ in range(SOME):
                order = chance.choices((0, 1), (1, 5), k=STEPS)
                end = await play(player, name, next(numbers), order)
                assert end in ends, (name, order, end)

    play_on(database_url, clients(len(CHANGES) * (SOME + 2)), play_each)
    assert run_read(database_url, differences()) == []
