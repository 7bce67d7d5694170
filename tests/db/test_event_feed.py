"""Promise: a process notices events of its own and of others, and says of whom they are; when it may have
missed some it says that nobody knows."""

import asyncio
from collections.abc import AsyncIterator, Coroutine
from contextlib import asynccontextmanager, suppress
from typing import Any

import pytest

from app.db.drivers.event_feed import event_feed_of
from app.db.drivers.factory import open_database
from app.db.statements.events import INSERT_ASSIGNMENT_EVENTS
from app.db.tables import Actor, EventKind
from tests.callers import load
from tests.db import raw
from tests.factories import NOW, a_world

PATIENCE = 30
Told = asyncio.Queue[list[tuple[int, int]] | None]


@pytest.fixture
def url(database_url: str) -> str:
    load(database_url, a_world())
    return database_url


@asynccontextmanager
async def followed(url: str) -> AsyncIterator[tuple[Any, Told, asyncio.Task[None]]]:
    """An open database, what is told of it, and the task that follows it."""
    db = await open_database(url)
    told: Told = asyncio.Queue()

    async def follow() -> None:
        await event_feed_of(url, db)(lambda parties: told.put_nowait(parties and list(parties)))

    task = asyncio.create_task(follow())
    try:
        assert await soon(told.get()) is None  # what happened before it began, nobody knows
        yield db, told, task
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError, Exception):
            await task
        await db.close()


async def soon(what: Coroutine[Any, Any, Any]) -> Any:
    return await asyncio.wait_for(what, PATIENCE)


def telling(caregiver: int, client: int, session: int, assignments: list[int]) -> Any:
    yield (
        INSERT_ASSIGNMENT_EVENTS,
        {
            "caregiver": caregiver,
            "client": client,
            "session": session,
            "assignments": assignments,
            "event": EventKind.EXTENDED,
            "actor": Actor.CAREGIVER,
            "now": NOW,
        },
    )


def test_events_of_this_process_are_noticed(url: str) -> None:
    async def run() -> list[Any]:
        async with followed(url) as (db, told, _):
            await db.write(telling(1, 1, 1, [2]))
            first = await soon(told.get())
            await db.write(telling(1, 2, 4, [4]))
            return [first, await soon(told.get())]

    assert asyncio.run(run()) == [[(1, 1)], [(1, 2)]]


def test_events_of_another_process_are_noticed(url: str) -> None:
    async def run() -> list[Any]:
        async with followed(url) as (_, told, _):
            other = await open_database(url)
            try:
                await other.write(telling(2, 2, 5, [5]))
            finally:
                await other.close()
            return [await soon(told.get())]

    assert asyncio.run(run()) == [[(2, 2)]]


@pytest.mark.parametrize("kind", ["postgresql"], indirect=True)
def test_a_word_of_somebody_else_makes_everybody_look(url: str) -> None:
    async def run() -> Any:
        async with followed(url) as (_, told, _):
            await asyncio.to_thread(raw.run, url, "SELECT pg_notify('care_event', 'hello')")
            return await soon(told.get())

    assert asyncio.run(run()) is None


@pytest.mark.parametrize("kind", ["postgresql"], indirect=True)
def test_a_connection_that_is_lost_is_no_longer_followed(url: str) -> None:
    """Who follows begins anew, and then everybody looks."""
    lose = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE query LIKE 'LISTEN%'"

    async def run() -> bool:
        async with followed(url) as (_, _, task):
            await asyncio.to_thread(raw.run, url, lose)
            done, _ = await asyncio.wait({task}, timeout=PATIENCE)
            return bool(done) and task.exception() is not None

    assert asyncio.run(run())
