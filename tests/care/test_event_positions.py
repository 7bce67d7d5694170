"""A position in the event log: a subscriber receives each event once, or learns that some were removed.

Contract: an event is received although it is committed after later ones, however long after the moment of
its request; retention never removes an event unnoticed before a slow subscriber has received it.
"""

import asyncio
from contextlib import AsyncExitStack
from datetime import datetime, timedelta
from random import Random

import pytest

from app.care.context import Context, Role, Viewer
from app.care.errors import EventsExpired
from app.care.homework import Homework, assigning
from app.care.subscriptions import (
    CAREGIVER_CHANGES,
    MAX_EVENTS,
    OLD,
    EventFilter,
    EventPosition,
    position_after,
    reading_current_position,
    reading_events,
)
from app.db.drivers.interface import Database
from app.db.reader.selection import AccessScope
from app.db.sql import Repeatable, Steps
from app.db.statements.retention import REMOVE_EVENTS, marking_removed
from app.events.deliveries import updating
from tests.callers import load
from tests.db import raw
from tests.db.overlapping import uncommitted
from tests.db.small_steps import with_database
from tests.factories import DAY, HOUR, NOW, Record, a_book, a_module, a_session, people

CHANGES = EventFilter(CAREGIVER_CHANGES)
SESSIONS = 8
only_postgresql = pytest.mark.parametrize("kind", ["postgresql"], indirect=True)


def sessions() -> list[Record]:
    opened = [a_session(number, client=1 + number % 2) for number in range(1, SESSIONS + 1)]
    return [*people(), a_module(1), a_book(1), *opened]


@pytest.fixture
def url(database_url: str) -> str:
    """The first assignment of a book would lock its row for all others."""
    load(database_url, sessions())
    raw.run(database_url, "UPDATE book SET is_assigned = true")
    return database_url


def assign(session: int, moment: datetime = NOW) -> Repeatable[list[int]]:
    """Adds one event; `moment` is that of the request."""
    return assigning(AccessScope(moment, caregiver=1), Homework(session, (1,), NOW, NOW + DAY))


class Subscriber:
    """A subscription of the caregiver, with the sessions of the events that it has received."""

    def __init__(self, db: Database) -> None:
        self.db = db
        self.now = NOW
        self.position = EventPosition(0)
        self.received: list[int] = []

    async def start(self) -> None:
        self.position = await self.db.read(reading_current_position(self.access(), CHANGES))

    async def poll(self, most: int = MAX_EVENTS) -> None:
        found, self.position = await self.db.read(reading_events(self.access(), CHANGES, self.position, most))
        self.received += [event.session_id for event in found]

    def access(self) -> AccessScope:
        return AccessScope(self.now, caregiver=1)


# --- the order of commits -------------------------------------------------------------------------


@only_postgresql
@pytest.mark.parametrize("starts_before", [True, False])
@pytest.mark.parametrize("age", [timedelta(0), 2 * HOUR], ids=["just now", "hours ago"])
def test_an_event_of_a_long_transaction_is_received(url: str, starts_before: bool, age: timedelta) -> None:
    async def use(db: Database) -> list[int]:
        subscriber = Subscriber(db)
        if starts_before:
            await subscriber.start()
        async with uncommitted(url, assign(1, NOW - age)):
            await db.write(assign(2, NOW - age))
            if not starts_before:
                await subscriber.start()
            for _ in range(4):
                await subscriber.poll()
            await db.write(assign(3, NOW - age))
            await subscriber.poll()
        for _ in range(4):
            await subscriber.poll()
        return subscriber.received

    assert with_database(url, use) == ([2, 3, 1] if starts_before else [3, 1])


def test_events_that_wait_are_received_in_several_reads(url: str) -> None:
    """No read goes on after an event that it has not returned. PostgreSQL stores a changed row behind the
    others."""
    handed_over = [
        f"UPDATE event SET hand_over_date = moment WHERE id = {id}" for id in range(SESSIONS, 0, -1)
    ]

    async def use(db: Database) -> list[int]:
        subscriber = Subscriber(db)
        await subscriber.start()
        for session in range(1, SESSIONS + 1):
            await db.write(assign(session))
        await asyncio.to_thread(raw.run, url, *handed_over, "ANALYZE")
        for _ in range(SESSIONS):
            await subscriber.poll(most=1)
        return subscriber.received

    assert with_database(url, use) == list(range(1, SESSIONS + 1))


@only_postgresql
def test_many_events_of_a_long_transaction_are_received_in_several_reads(url: str) -> None:
    def assigning_each() -> Steps[None]:
        for session in range(1, SESSIONS):
            yield from assign(session)

    async def use(db: Database) -> list[int]:
        subscriber = Subscriber(db)
        await subscriber.start()
        async with uncommitted(url, assigning_each()):
            await db.write(assign(SESSIONS))
            await subscriber.poll()
        for _ in range(SESSIONS):
            await subscriber.poll(most=1)
        return subscriber.received

    assert with_database(url, use) == [SESSIONS, *range(1, SESSIONS)]


@only_postgresql
@pytest.mark.parametrize("seed", range(8))
def test_events_of_overlapping_transactions_are_received_once(url: str, seed: int) -> None:
    """Transactions begin and end in random order, and the subscriber polls between, in small batches."""
    rng = Random(seed)

    async def use(db: Database) -> tuple[list[int], EventPosition]:
        subscriber = Subscriber(db)
        await subscriber.start()
        waiting, opened = list(range(1, SESSIONS + 1)), []
        while waiting or opened:
            choice = rng.random()
            if choice < 0.4:
                await subscriber.poll(most=rng.choice((1, 2, MAX_EVENTS)))
            elif waiting and choice < 0.7:
                stack = AsyncExitStack()
                await stack.enter_async_context(uncommitted(url, assign(waiting.pop(), NOW - HOUR)))
                opened.append(stack)
            elif opened:
                await opened.pop(rng.randrange(len(opened))).aclose()
        for _ in range(SESSIONS + 3):
            await subscriber.poll(most=1)
        return subscriber.received, subscriber.position

    received, position = with_database(url, use)

    assert sorted(received) == list(range(1, SESSIONS + 1))
    assert (position.floor, position.seen, position.next_floor) == (newest_event(url), frozenset(), None)


def test_a_position_does_not_remember_events_for_long(url: str, kind: str) -> None:
    async def use(db: Database) -> EventPosition:
        subscriber = Subscriber(db)
        await subscriber.start()
        for session in range(1, SESSIONS + 1):
            await db.write(assign(session))
        for _ in range(3):
            await subscriber.poll()
        if kind == "citus":  # whose open transactions are those of many servers
            assert len(subscriber.position.seen) == SESSIONS
            subscriber.now += OLD
            await subscriber.poll()
        assert subscriber.received == list(range(1, SESSIONS + 1))
        return subscriber.position

    position = with_database(url, use)

    assert (position.floor, position.seen) == (newest_event(url), frozenset())


@only_postgresql
def test_a_position_is_forgotten_although_some_transaction_is_always_open(url: str) -> None:
    """The transactions that were open at one moment have ended, and later ones do not matter."""

    async def use(db: Database) -> EventPosition:
        subscriber = Subscriber(db)
        await subscriber.start()
        opened = AsyncExitStack()
        for session in range(1, SESSIONS + 1):
            following = AsyncExitStack()
            await following.enter_async_context(uncommitted(url, assign(session)))
            await opened.aclose()
            opened = following
            await subscriber.poll()
        async with opened:
            return subscriber.position

    position = with_database(url, use)

    assert (position.floor > 0, len(position.seen) < SESSIONS // 2) == (True, True)


def newest_event(url: str) -> int:
    return int(raw.run(url, "SELECT max(id) FROM event")[0][0])


# --- retention ------------------------------------------------------------------------------------


async def remove(db: Database, last: int) -> None:
    await db.write(marking_removed(last, NOW))
    await db.write(updating(REMOVE_EVENTS, NOW, 1, list(range(1, last + 1))))


@pytest.mark.parametrize(("removed", "is_noticed"), [(3, False), (4, False), (5, True), (8, True)])
def test_removed_events_end_a_slow_subscription(url: str, removed: int, is_noticed: bool) -> None:
    """It has received four of eight events."""

    async def use(db: Database) -> list[int]:
        for session in range(1, SESSIONS + 1):
            await db.write(assign(session))
        subscriber = Subscriber(db)
        await subscriber.poll(most=4)
        await remove(db, removed)
        if is_noticed:
            with pytest.raises(EventsExpired):
                await subscriber.poll()
        else:
            await subscriber.poll()
        return subscriber.received

    assert with_database(url, use) == ([1, 2, 3, 4] if is_noticed else [1, 2, 3, 4, 5, 6, 7, 8])


def test_events_that_are_removed_before_the_first_read_end_a_subscription(url: str) -> None:
    """They were there when it named the event after which it begins."""

    async def use(db: Database) -> list[int]:
        for session in (1, 2, 3):
            await db.write(assign(session))
        subscriber = Subscriber(db)
        ctx = Context(Viewer(Role.CAREGIVER, 1), db, NOW, "test", "UTC")
        subscriber.position = await position_after(ctx, 1)
        await remove(db, 2)
        with pytest.raises(EventsExpired):
            await subscriber.poll()
        return subscriber.received

    assert with_database(url, use) == []


@pytest.mark.parametrize("asleep", [OLD + timedelta(seconds=1), 8 * DAY], ids=["a day", "days"])
def test_removed_events_end_a_subscription_that_slept(url: str, asleep: timedelta) -> None:
    async def use(db: Database) -> list[int]:
        subscriber = Subscriber(db)
        await db.write(assign(1))
        await subscriber.poll()
        await db.write(assign(2))
        await remove(db, 2)
        subscriber.now += asleep
        with pytest.raises(EventsExpired):
            await subscriber.poll()
        return subscriber.received

    assert with_database(url, use) == [1]


@only_postgresql
def test_removed_events_that_were_received_do_not_end_a_subscription(url: str) -> None:
    """It remembers them one by one, because another transaction is open."""

    async def use(db: Database) -> list[int]:
        subscriber = Subscriber(db)
        await subscriber.start()
        async with uncommitted(url, assign(1)):
            await db.write(assign(2))
            for _ in range(3):
                await subscriber.poll()
            await remove(db, max(subscriber.position.seen))
            subscriber.now += 2 * OLD
            await subscriber.poll()
        return subscriber.received

    assert with_database(url, use) == [2]


def test_removed_events_of_others_do_not_end_a_subscription(url: str) -> None:
    async def use(db: Database) -> list[int]:
        await db.write(assign(1))
        subscriber = Subscriber(db)
        await subscriber.start()
        for _ in range(20):
            await db.write(marking_removed(1000, NOW))
            subscriber.now += 12 * HOUR
            await subscriber.poll()
        later = Subscriber(db)
        await later.start()
        await asyncio.gather(later.poll(), subscriber.poll())
        return subscriber.received

    assert with_database(url, use) == []
