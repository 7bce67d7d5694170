"""A small world, a webhook receiver, and a dispatcher that runs once on request."""

import asyncio
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import pytest

from app.db.drivers.factory import open_database
from app.db.drivers.interface import Database
from app.settings import Settings
from tests.db import raw
from tests.events.dispatch_once import dispatch_once
from tests.events.receiver import SECRET, Receiver, receiving
from tests.factories import HOUR, NOW, Record, a_world, an_assignment, starting_with

Rows = list[tuple[Any, ...]]


@dataclass(frozen=True)
class Care:
    settings: Settings

    def dispatch(self, now: datetime = NOW, **changed: Any) -> None:
        asyncio.run(dispatching(self.settings.model_copy(update=changed), now))

    def rows(self, sql: str) -> Rows:
        return raw.run(self.settings.database, sql)

    def add_event(self, kind: str, client: int = 2) -> None:
        """Adds an event of caregiver 1 in session 4, as a change writes it."""
        self.rows(
            "INSERT INTO event (caregiver_id, client_id, kind, actor, session_id, assignment_id, moment)"
            f" VALUES (1, {client}, '{kind}', 'CLIENT', 4, 6, '2026-11-21T06:30:00.000000Z')"
        )

    def reminders(self) -> dict[int, str]:
        return dict(self.rows("SELECT id, state FROM reminder ORDER BY id"))

    def events(self) -> Rows:
        return self.rows(
            "SELECT caregiver_id, client_id, kind, actor, session_id, assignment_id, reminder_id FROM event"
            " ORDER BY id"
        )

    def deliveries(self) -> Rows:
        return self.rows("SELECT event_id, state, attempts, last_answer FROM delivery ORDER BY event_id")


def add_dead_deliveries(care: Care, first: int, last: int) -> None:
    """Of events with these ids, long before any period of retention. PostgreSQL stores those of the last
    event first."""
    event = "event (id, caregiver_id, client_id, kind, session_id, moment, hand_over_date)"
    delivery = "delivery (event_id, caregiver_id, client_id, state, attempts, next_date)"
    long_ago = "'2025-11-21T06:30:00.000000Z'"
    for table, row in (
        (event, f"id, 1, 1, 'ASSIGNED', 1, {long_ago}, {long_ago}"),
        (delivery, f"id, 1, 1, 'DEAD', 11, {long_ago}"),
    ):
        ids = f"WITH RECURSIVE n (id) AS (SELECT {last} UNION ALL SELECT id - 1 FROM n WHERE id > {first})"
        care.rows(f"{ids} INSERT INTO {table} SELECT {row} FROM n")
    care.rows("ANALYZE")


async def dispatching(settings: Settings, now: datetime) -> None:
    async def round(db: Database) -> None:
        await dispatch_once(db, settings, now)

    await on_database(settings.database, round)


async def on_database(url: str, use: Any) -> None:
    db = await open_database(url)
    try:
        await use(db)
    finally:
        await db.close()


def a_world_with_a_due_reminder() -> list[Record]:
    """`a_world`, and in session 4 assignment 6, whose reminder 2 was due an hour ago. Reminder 1, of
    assignment 2, is due tomorrow."""
    return [*a_world(), an_assignment(6, session=4, book=3, reminders=[{"remindDate": NOW - HOUR}])]


def pytest_itemcollected(item: pytest.Item) -> None:
    if "care" in getattr(item, "fixturenames", ()):
        item.add_marker(starting_with(a_world_with_a_due_reminder))


@pytest.fixture
def care(settings: Settings) -> Care:
    """Without a webhook, over `a_world_with_a_due_reminder`."""
    return Care(settings)


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    with receiving() as one:
        yield one


@pytest.fixture
def with_webhook(care: Care, receiver: Receiver) -> Care:
    """The same with a webhook to the receiver."""
    webhook = {"webhook_url": receiver.url, "webhook_secret": SECRET}
    return Care(care.settings.model_copy(update=webhook))
