"""What is kept of deliveries: listed, tried again, and removed in its time."""

from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import partial
from typing import Any

from app.db.drivers.interface import Database
from app.db.reader.entities import known_moment
from app.db.sql import Operation, Statement
from app.db.statements.deliveries import (
    FIND_DEAD_DELIVERIES,
    FIND_DELIVERY,
    FIND_OLD_DELIVERIES,
    LIST_DELIVERIES,
    REMOVE_DELIVERIES,
    REMOVE_IDEMPOTENCY_KEYS,
    RETRY_DELIVERIES,
)
from app.db.statements.dispatch import MOST_FOUND
from app.db.tables import DeliveryState
from app.events.batches import finding, take_each

KEPT_ANSWERS = timedelta(hours=48)  # twice as long as repetitions are promised the first answer


class NoSuchDelivery(Exception):
    """There is no such delivery; the message is one sentence for the operator."""


@dataclass(frozen=True)
class Listed:
    event: int
    kind: str
    state: str
    attempts: int
    next_date: datetime
    last_answer: str | None


def listing(state: DeliveryState | None, after: int) -> Operation[list[Listed]]:
    """The deliveries that follow upon an event; at most MOST_FOUND."""
    rows = yield LIST_DELIVERIES[state], {"after": after}
    return [listed_of(*row) for row in rows]


def listed_of(event: int, kind: str, state: str, attempts: int, next_date: Any, said: str | None) -> Listed:
    return Listed(event, kind, state, attempts, known_moment(next_date), said)


async def retry_event(db: Database, event: int, now: datetime) -> None:
    """At once and from the first pause on, whether it was given up or waits."""
    found = await db.read(finding(FIND_DELIVERY, {"event": event}))
    if not found:
        raise NoSuchDelivery(f"no delivery of event {event} waits or was given up")
    await take_each(db, found, partial(doing, RETRY_DELIVERIES, now))


async def retry_dead(db: Database, now: datetime) -> int:
    """How many there were."""
    return await until_none(db, FIND_DEAD_DELIVERIES, RETRY_DELIVERIES, now)


async def tidy(db: Database, now: datetime) -> bool:
    """Removes some of what nobody needs any more. Is there more to do?"""
    found = await db.read(finding(FIND_OLD_DELIVERIES, {"now": now}))
    removed = await take_each(db, found, partial(doing, REMOVE_DELIVERIES, now))
    answers = await db.write(removing_answers(now - KEPT_ANSWERS))
    return len(removed) == MOST_FOUND or answers == MOST_FOUND


def removing_answers(before: datetime) -> Operation[int]:
    return len((yield REMOVE_IDEMPOTENCY_KEYS, {"before": before}))


async def until_none(db: Database, find: Statement, do: Statement, now: datetime) -> int:
    done = 0
    while found := await db.read(finding(find, {"now": now})):
        done += len(await take_each(db, found, partial(doing, do, now)))
    return done


def doing(do: Statement, now: datetime, caregiver: int, events: list[int]) -> Operation[list[int]]:
    yield do, {"caregiver": caregiver, "events": events, "now": now}
    return events
