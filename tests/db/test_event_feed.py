"""The event feed notifies a process of its own events and of those of other processes, with the caregiver
and client of each; after a gap it notifies without them."""

import asyncio
from collections.abc import AsyncIterator, Coroutine
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager, suppress
from typing import Any
from urllib.parse import urlsplit

import pytest
from sqlalchemy import select

from app.db.drivers.event_feed import Notify, event_feed_of, follow_postgres, rely_on_polling
from app.db.drivers.factory import open_database
from app.db.drivers.interface import DatabaseUnavailable
from app.db.sql import NUMBER, FastPath, Statement, Together, id_parameter, selecting
from app.db.statements.dispatch import INSERT_REMINDER_EVENTS
from app.db.statements.events import INSERT_ASSIGNMENT_EVENTS, INSERT_SESSION_EVENTS
from app.db.tables import Actor, EventKind
from tests.db import raw
from tests.db.small_steps import add_module, with_database
from tests.factories import NOW, a_world, starting_with
from tests.postgres import free_ports

pytestmark = starting_with(a_world)

TIMEOUT = 30
Notifications = asyncio.Queue[list[tuple[int, int]] | None]


@pytest.fixture
def url(database_url: str) -> str:
    return database_url


@asynccontextmanager
async def followed(url: str) -> AsyncIterator[tuple[Any, Notifications, asyncio.Task[None]]]:
    """An open database, its notifications, and the task of the feed."""
    db = await open_database(url)
    notifications: Notifications = asyncio.Queue()

    async def follow() -> None:
        await event_feed_of(db)(lambda parties: notifications.put_nowait(parties and list(parties)))

    task = asyncio.create_task(follow())
    try:
        assert await soon(notifications.get()) is None  # earlier events are unknown
        yield db, notifications, task
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError, Exception):
            await task
        await db.close()


async def follow(db: Any, notify: Notify) -> None:
    await event_feed_of(db)(notify)


async def soon(coroutine: Coroutine[Any, Any, Any]) -> Any:
    return await asyncio.wait_for(coroutine, TIMEOUT)


def inserting_events(caregiver: int, client: int, session: int, assignments: list[int]) -> Any:
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


def test_events_of_this_process_are_notified(url: str) -> None:
    async def run() -> list[Any]:
        async with followed(url) as (db, notifications, _):
            await db.write(inserting_events(1, 1, 1, [2]))
            first = await soon(notifications.get())
            await db.write(inserting_events(1, 2, 4, [4]))
            return [first, await soon(notifications.get())]

    assert asyncio.run(run()) == [[(1, 1)], [(1, 2)]]


def test_events_of_sessions_and_reminders_are_notified(url: str) -> None:
    of_session = {"event": EventKind.SESSION_UPDATED, "actor": Actor.CAREGIVER, "client": 1, "sessions": [1]}

    async def run() -> list[Any]:
        async with followed(url) as (db, notifications, _):
            await db.write(selecting(INSERT_SESSION_EVENTS, caregiver=1, now=NOW, **of_session))
            first = await soon(notifications.get())
            await db.write(selecting(INSERT_REMINDER_EVENTS, caregiver=1, now=NOW, reminders=[1]))
            return [first, await soon(notifications.get())]

    # PostgreSQL announces events that may be of several clients without their client.
    assert asyncio.run(run()) == [[(1, 1)], [(1, 1)] if url.startswith("sqlite:") else None]


def test_all_events_of_changes_that_are_made_together_are_notified(url: str) -> None:
    def inserting() -> Any:
        [of_first], [of_second] = inserting_events(1, 1, 1, [2]), inserting_events(1, 2, 4, [4])
        yield Together((of_first, of_second, (add_module("without events"), {})))

    async def run() -> list[Any]:
        async with followed(url) as (db, notifications, _):
            await db.write(inserting())
            found: list[Any] = []
            while len(found) < 2:
                found += await soon(notifications.get())
            return found

    assert asyncio.run(run()) == [(1, 1), (1, 2)]


@pytest.mark.parametrize("kind", ["postgresql"], indirect=True)
def test_events_of_a_fast_path_are_notified(url: str) -> None:
    made = Statement(select(NUMBER, id_parameter("client")))

    def changing() -> Any:
        yield FastPath(made, made, {"caregiver": 1, "client": 2})

    async def run() -> Any:
        async with followed(url) as (db, notifications, _):
            await db.write(changing())
            return await soon(notifications.get())

    assert asyncio.run(run()) == [(1, 2)]


@pytest.mark.parametrize("kind", ["sqlite"], indirect=True)
def test_a_feed_that_is_cancelled_at_the_moment_of_a_change_ends(url: str) -> None:
    async def run() -> bool:
        async with followed(url) as (db, notifications, follower):
            await db.write(inserting_events(1, 1, 1, [2]))
            await soon(notifications.get())
            for _ in range(10):  # until it waits
                await asyncio.sleep(0)
            db.written.set()
            follower.cancel()
            for _ in range(10):
                await asyncio.sleep(0)
            return follower.done()

    assert asyncio.run(run())


def test_an_event_at_the_moment_of_the_first_notification_is_notified(url: str) -> None:
    """The subscriptions check then, and may do so before the event is committed."""
    insert = (
        "INSERT INTO event (caregiver_id, client_id, kind, session_id, moment)"
        " VALUES (1, 2, 'ASSIGNED', 4, '2026-11-21T06:30:00.000000Z')"
    )
    add = insert if url.startswith("sqlite:") else "SELECT pg_notify('care_event', '1 2')"
    notifications: Notifications = asyncio.Queue()

    def receive(parties: Any) -> None:
        notifications.put_nowait(parties and list(parties))
        if parties is None:
            with ThreadPoolExecutor(1) as pool:  # blocks the event loop
                pool.submit(raw.run, url, add).result()

    async def run() -> list[Any]:
        db = await open_database(url)
        task = asyncio.create_task(follow(db, receive))
        found = [await soon(notifications.get()) for _ in range(2)]
        task.cancel()
        await asyncio.wait([task])
        await db.close()
        return found

    assert asyncio.run(run()) == [None, [(1, 2)]]


@pytest.mark.parametrize("kind", ["sqlite"], indirect=True)
def test_an_event_that_is_written_during_a_poll_is_notified_without_a_pause(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("app.db.drivers.event_feed.PAUSE_SECONDS", 2 * TIMEOUT)

    async def run() -> Any:
        async with followed(url) as (db, notifications, _):
            read = db.read

            async def read_and_write(steps: Any) -> Any:
                found = await read(steps)
                monkeypatch.setattr(db, "read", read)
                await db.write(inserting_events(1, 2, 4, [4]))
                return found

            monkeypatch.setattr(db, "read", read_and_write)
            await db.write(inserting_events(1, 1, 1, [2]))
            return [await soon(notifications.get()) for _ in range(2)]

    assert asyncio.run(run()) == [[(1, 1)], [(1, 2)]]


@pytest.mark.parametrize("kind", ["postgresql"], indirect=True)
def test_a_process_behind_a_pooler_is_not_notified(url: str) -> None:
    async def use(db: Any) -> bool:
        db.is_pooled = True
        return event_feed_of(db) is rely_on_polling

    assert with_database(url, use)


@pytest.mark.parametrize("kind", ["postgresql"], indirect=True)
def test_a_feed_that_ends_closes_its_connection(url: str) -> None:
    from app.db.drivers.connections import Primary  # not installed where the suite runs on SQLite only

    async def run() -> bool:
        primary, began = Primary(url), asyncio.Event()
        task = asyncio.create_task(follow_postgres(primary.connect, lambda _: began.set()))
        await soon(began.wait())
        [connection] = primary.connections
        task.cancel()
        await asyncio.wait([task])
        return bool(connection.is_closed())

    assert asyncio.run(run())


@pytest.mark.parametrize("kind", ["sqlite"], indirect=True)
def test_more_events_than_one_poll_reads_are_notified_without_a_pause(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("app.db.drivers.event_feed.BATCH_SIZE", 2)
    monkeypatch.setattr("app.db.drivers.event_feed.PAUSE_SECONDS", 2 * TIMEOUT)

    async def run() -> list[Any]:
        async with followed(url) as (db, notifications, _):
            await db.write(inserting_events(1, 1, 1, [1, 2, 3, 4, 5]))
            return [await soon(notifications.get()) for _ in range(3)]

    assert asyncio.run(run()) == [[(1, 1)] * 2, [(1, 1)] * 2, [(1, 1)]]


def test_events_of_another_process_are_notified_although_it_ends_then(url: str) -> None:
    async def run() -> list[Any]:
        async with followed(url) as (_, notifications, _):
            other = await open_database(url)
            try:
                await other.write(inserting_events(2, 2, 5, [5]))
                await other.write(inserting_events(1, 1, 1, [2]))
            finally:
                await other.close()
            received: list[Any] = []
            while len(received) < 2:
                received += await soon(notifications.get())
            return received

    assert asyncio.run(run()) == [(2, 2), (1, 1)]


@pytest.mark.parametrize("kind", ["postgresql"], indirect=True)
def test_events_are_announced_again_after_an_announcement_failed(
    url: str, caplog: pytest.LogCaptureFixture
) -> None:
    """PostgreSQL has no `pg_notify` for a while."""
    function = "ALTER FUNCTION pg_catalog.{}(text, text) RENAME TO {}"

    async def run() -> Any:
        async with followed(url) as (db, notifications, _):
            await asyncio.to_thread(raw.run, url, function.format("pg_notify", "pg_away"))
            await db.write(inserting_events(1, 1, 1, [2]))
            while db.announcing is not None and not db.announcing.done():
                await asyncio.sleep(0)
            await asyncio.to_thread(raw.run, url, function.format("pg_away", "pg_notify"))
            await db.write(inserting_events(1, 2, 4, [4]))
            return await soon(notifications.get())

    assert asyncio.run(run()) == [(1, 2)]
    assert [record.message for record in caplog.records] == [
        "new events could not be announced: UndefinedFunctionError"
    ]


@pytest.mark.parametrize("kind", ["postgresql"], indirect=True)
def test_an_unknown_notification_makes_every_subscription_check(url: str) -> None:
    async def run() -> Any:
        async with followed(url) as (_, notifications, _):
            await asyncio.to_thread(raw.run, url, "SELECT pg_notify('care_event', 'hello')")
            return await soon(notifications.get())

    assert asyncio.run(run()) is None


@pytest.mark.parametrize("kind", ["postgresql"], indirect=True)
def test_the_feed_fails_as_soon_as_its_connection_is_lost(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The caller restarts it, and then every subscription checks."""
    monkeypatch.setattr("app.db.drivers.event_feed.CHECK_SECONDS", 2 * TIMEOUT)
    lose = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE query LIKE 'LISTEN%'"

    async def run() -> bool:
        async with followed(url) as (_, _, task):
            await asyncio.to_thread(raw.run, url, lose)
            done, _ = await asyncio.wait({task}, timeout=TIMEOUT)
            return bool(done) and task.exception() is not None

    assert asyncio.run(run())


@pytest.mark.parametrize("kind", ["postgresql"], indirect=True)
def test_the_feed_waits_for_a_database_that_cannot_be_reached(url: str) -> None:
    from app.db.drivers.connections import Primary  # not installed where the suite runs on SQLite only

    dead = url.replace(f":{urlsplit(url).port}/", f":{free_ports()[0]}/")

    with pytest.raises(DatabaseUnavailable):
        asyncio.run(follow_postgres(Primary(dead).connect, lambda parties: None))


@pytest.mark.parametrize("kind", ["postgresql"], indirect=True)
def test_the_feed_fails_when_the_server_does_not_respond(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The connection stays open, but no notification arrives any more."""
    monkeypatch.setattr("app.db.drivers.event_feed.CHECK_SECONDS", 0.2)
    connections: list[Any] = []

    async def run() -> bool:
        db: Any = await open_database(url)

        async def connect(**options: Any) -> Any:
            connections.append(await db.primary.connect(**options))
            return connections[-1]

        def silence(parties: object) -> None:
            connections[-1]._transport.pause_reading()

        feed = asyncio.ensure_future(follow_postgres(connect, silence))
        await asyncio.wait([feed], timeout=TIMEOUT)
        has_failed = feed.done() and isinstance(feed.exception(), TimeoutError)
        feed.cancel()
        await asyncio.wait([feed])
        await db.close()
        return has_failed and connections[-1].is_closed()

    assert asyncio.run(run())
