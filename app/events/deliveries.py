"""Deliveries: each event is posted at least once, with growing pauses, until the webhook accepts it or
attempts run out. An operator can list and retry them."""

import asyncio
import logging
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import partial
from typing import Any

from app.db.drivers.interface import Database, DatabaseUnavailable
from app.db.moments import known_moment
from app.db.sql import Statement, Steps, selecting
from app.db.statements.deliveries import (
    COUNT_ATTEMPTS,
    FIND_DEAD_DELIVERIES,
    FIND_DELIVERY,
    FIND_DUE_DELIVERIES,
    LIST_DELIVERIES,
    RETRY_DELIVERIES,
    STORE_OUTCOME,
    TAKE_DELIVERIES,
)
from app.db.statements.dispatch import SEARCH_LIMIT
from app.db.tables import DeliveryState
from app.events.outbox import take_each
from app.events.webhook import TYPES, PostResult, Webhook, WebhookEvent, body_of, headers_of, post
from app.telemetry import counters
from app.telemetry.wording import OperatorError

logger = logging.getLogger("care.dispatch")

MAX_CONCURRENT = 8
# After this time an attempt without an outcome counts as failed: its process has died.
LEASE = timedelta(seconds=60)
DELIVERED_PERIOD = timedelta(days=7)  # for which a delivery is stored after it was accepted
SECOND, MINUTE, HOUR = timedelta(seconds=1), timedelta(minutes=1), timedelta(hours=1)
PAUSES = (5 * SECOND, 30 * SECOND, 5 * MINUTE, 30 * MINUTE, *(n * HOUR for n in (2, 5, 10, 14, 20, 24)))


@dataclass(frozen=True)
class Attempt:
    """One attempt to deliver an event. No other process makes it until the lease ends."""

    caregiver: int
    number: int
    event: WebhookEvent


async def deliver(db: Database, webhook: Webhook, clock: Callable[[], datetime]) -> bool:
    """Delivers a batch of due events. Returns whether more remain."""
    now = clock()
    found = await db.read(selecting(FIND_DUE_DELIVERIES, now=now, limit=SEARCH_LIMIT))
    attempts: list[Attempt] = []
    faults: list[BaseException | None] = []
    try:
        for at in range(0, len(found), MAX_CONCURRENT):
            await take_each(db, found[at : at + MAX_CONCURRENT], partial(counting_attempts, now), attempts)
            if attempts:  # otherwise the database rejects all of these, and others may be due
                break
    except DatabaseUnavailable as fault:  # attempts that were counted before it are still posted
        faults.append(fault)
    posts = [deliver_one(db, webhook, clock, attempt) for attempt in attempts]
    faults += await asyncio.gather(*posts, return_exceptions=True)
    for failure in filter(None, faults):
        raise failure  # after all attempts, so that a failure to store one result cancels no other
    return len(found) > MAX_CONCURRENT and bool(attempts)


def counting_attempts(now: datetime, caregiver: int, events: list[int]) -> Steps[list[Attempt]]:
    """Counts attempts before they are made. If the process dies in between, the attempt counts as failed."""
    values: dict[str, Any] = {"caregiver": caregiver, "events": events, "now": now}
    attempts = []
    for event, before, kind, stored, client, session, assignment, reminder in (yield TAKE_DELIVERIES, values):
        data = {
            "sessionId": session,
            "assignmentId": assignment,
            "caregiverId": caregiver,
            "clientId": client,
            "reminderId": reminder,
        }
        attempts.append(Attempt(caregiver, before + 1, WebhookEvent(event, kind, known_moment(stored), data)))
    if attempts:
        taken = [attempt.event.id for attempt in attempts]
        yield COUNT_ATTEMPTS, {**values, "events": taken, "until": now + LEASE}
    return attempts


async def deliver_one(
    db: Database, webhook: Webhook, clock: Callable[[], datetime], attempt: Attempt
) -> None:
    result = await post_attempt(webhook, attempt.event, clock())
    counters.deliveries["accepted" if result.is_accepted else "failed"] += 1
    await db.write(storing_outcome(attempt, result, clock()))


async def post_attempt(webhook: Webhook, event: WebhookEvent, now: datetime) -> PostResult:
    """An event that cannot be posted counts as a failed attempt, so that its attempts run out."""
    if event.kind not in TYPES:  # of a newer version, which may run again before attempts run out
        logger.error("event %s has a kind that this version does not know: %s", event.id, event.kind)
        return PostResult("unknown kind")
    try:
        body = body_of(event)
        return await post(webhook, headers_of(webhook, event.id, body, now), body)
    except Exception:
        logger.exception("event %s cannot be posted", event.id)
        return PostResult("not posted")


def storing_outcome(attempt: Attempt, result: PostResult, now: datetime) -> Steps[None]:
    state, pause = next_state(attempt.number, result.is_accepted)
    if state is DeliveryState.DEAD:
        logger.error("event %s was not delivered: %s; given up", attempt.event.id, result.status)
    values = {"caregiver": attempt.caregiver, "event": attempt.event.id, "attempt": attempt.number}
    yield STORE_OUTCOME, {**values, "to": state, "next": now + pause, "outcome": result.status}


def next_state(attempts: int, is_accepted: bool) -> tuple[DeliveryState, timedelta]:
    """Returns the state after an attempt, and the time until the next attempt or the removal."""
    if is_accepted:
        return DeliveryState.DELIVERED, DELIVERED_PERIOD
    if attempts > len(PAUSES):
        return DeliveryState.DEAD, timedelta(0)
    return DeliveryState.WAITING, PAUSES[attempts - 1]


# --- listing and retrying, for the operator --------------------------------------------------------


@dataclass(frozen=True)
class StoredDelivery:
    event: int
    kind: str
    state: str
    attempts: int
    next_date: datetime
    last_outcome: str | None


def listing_deliveries(state: DeliveryState | None, after: int) -> Steps[list[StoredDelivery]]:
    """Lists the deliveries of events after `after`, SEARCH_LIMIT at most."""
    rows = yield LIST_DELIVERIES[state], {"after": after}
    return [
        StoredDelivery(event, kind, state, attempts, known_moment(next_date), outcome)
        for event, kind, state, attempts, next_date, outcome in rows
    ]


async def retry_event(db: Database, event: int, now: datetime) -> int:
    """Retries a waiting or dead delivery at once, and restarts its sequence of pauses."""
    found = await db.read(selecting(FIND_DELIVERY, event=event))
    if not found:
        raise OperatorError(f"event {event} has no waiting or dead delivery")
    return len(await take_each(db, found, partial(updating, RETRY_DELIVERIES, now)))


async def retry_dead(db: Database, now: datetime) -> tuple[int, int]:
    """Retries every dead delivery once. Returns how many were dead, and how many are scheduled now."""
    total = scheduled = last = 0
    while found := await db.read(selecting(FIND_DEAD_DELIVERIES, after=last)):
        total += len(found)
        scheduled += len(await take_each(db, found, partial(updating, RETRY_DELIVERIES, now)))
        last = found[-1][1]
    return total, scheduled


def updating(statement: Statement, now: datetime, caregiver: int, events: list[int]) -> Steps[list[int]]:
    yield statement, {"caregiver": caregiver, "events": events, "now": now}
    return events
