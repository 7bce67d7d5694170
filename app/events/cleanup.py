"""Stored deliveries: listing, retrying and removing them."""

from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import partial
from typing import Any

from app.db.drivers.interface import Database
from app.db.moments import known_moment
from app.db.sql import Operation, Statement
from app.db.statements.deliveries import (
    FIND_DEAD_DELIVERIES,
    FIND_DELIVERY,
    FIND_OLD_DELIVERIES,
    LIST_DELIVERIES,
    REMOVE_DELIVERIES,
    RETRY_DELIVERIES,
)
from app.db.statements.dispatch import SEARCH_LIMIT
from app.db.statements.idempotency_keys import REMOVE_IDEMPOTENCY_KEYS
from app.db.tables import DeliveryState
from app.events.batches import finding, take_each

KEPT_RESPONSES = timedelta(
    hours=48
)  # twice the time for which retries are documented to get the first response


class NoSuchDelivery(Exception):
    """The message is one sentence for the operator."""


@dataclass(frozen=True)
class Listed:
    event: int
    kind: str
    state: str
    attempts: int
    next_date: datetime
    last_answer: str | None


def listing(state: DeliveryState | None, after: int) -> Operation[list[Listed]]:
    """Lists the deliveries of events after `after`, SEARCH_LIMIT at most."""
    rows = yield LIST_DELIVERIES[state], {"after": after}
    return [listed_of(*row) for row in rows]


def listed_of(event: int, kind: str, state: str, attempts: int, next_date: Any, answer: str | None) -> Listed:
    return Listed(event, kind, state, attempts, known_moment(next_date), answer)


async def retry_event(db: Database, event: int, now: datetime) -> None:
    """Retries a waiting or dead delivery at once, and restarts its sequence of pauses."""
    found = await db.read(finding(FIND_DELIVERY, {"event": event}))
    if not found:
        raise NoSuchDelivery(f"no delivery of event {event} waits or was given up")
    await take_each(db, found, partial(updating, RETRY_DELIVERIES, now))


async def retry_dead(db: Database, now: datetime) -> int:
    """Returns the number of dead deliveries."""
    return await update_all(db, FIND_DEAD_DELIVERIES, RETRY_DELIVERIES, now)


async def clean_up(db: Database, now: datetime) -> bool:
    """Removes one batch of old deliveries and idempotency keys. Returns whether more remain."""
    found = await db.read(finding(FIND_OLD_DELIVERIES, {"now": now}))
    removed = await take_each(db, found, partial(updating, REMOVE_DELIVERIES, now))
    responses = await db.write(removing_responses(now - KEPT_RESPONSES))
    return len(removed) == SEARCH_LIMIT or responses == SEARCH_LIMIT


def removing_responses(before: datetime) -> Operation[int]:
    return len((yield REMOVE_IDEMPOTENCY_KEYS, {"before": before}))


async def update_all(db: Database, find: Statement, statement: Statement, now: datetime) -> int:
    done = 0
    while found := await db.read(finding(find, {"now": now})):
        done += len(await take_each(db, found, partial(updating, statement, now)))
    return done


def updating(statement: Statement, now: datetime, caregiver: int, events: list[int]) -> Operation[list[int]]:
    yield statement, {"caregiver": caregiver, "events": events, "now": now}
    return events
