"""Delivers each event at least once, with growing pauses, until the webhook accepts it or attempts run
out."""

import asyncio
import logging
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import partial
from typing import Any

from app.db.drivers.interface import Database, DatabaseUnavailable
from app.db.reader.entities import known_moment
from app.db.sql import Operation
from app.db.statements.deliveries import COUNT_ATTEMPTS, FIND_DUE_DELIVERIES, STORE_OUTCOME, TAKE_DELIVERIES
from app.db.tables import DeliveryState
from app.events.batches import finding, take_each
from app.events.posting import PostResult, post
from app.events.webhook import TYPES, Happened, Webhook, body_of, headers_of
from app.telemetry import counters

logger = logging.getLogger("care.dispatch")

MOST_AT_ONCE = 8
LEASE = timedelta(
    seconds=60
)  # much longer than an attempt; after it, the attempt of a process that died counts as failed
KEPT = timedelta(days=7)  # after delivery
SECOND, MINUTE, HOUR = timedelta(seconds=1), timedelta(minutes=1), timedelta(hours=1)
PAUSES = (
    5 * SECOND,
    30 * SECOND,
    5 * MINUTE,
    30 * MINUTE,
    2 * HOUR,
    5 * HOUR,
    10 * HOUR,
    14 * HOUR,
    20 * HOUR,
    24 * HOUR,
)


@dataclass(frozen=True)
class Attempt:
    """One attempt to deliver an event. No other process makes it until the lease ends."""

    caregiver: int
    number: int
    happened: Happened


async def deliver(db: Database, webhook: Webhook, clock: Callable[[], datetime]) -> bool:
    """Delivers a batch of due events. Returns whether more remain."""
    now = clock()
    found = await db.read(finding(FIND_DUE_DELIVERIES, {"now": now, "most": MOST_AT_ONCE}))
    attempts: list[Attempt] = []
    faults: list[BaseException | None] = []
    try:
        await take_each(db, found, partial(attempting, now), attempts)
    except DatabaseUnavailable as fault:  # attempts that were counted before it are still posted
        faults.append(fault)
    made = [deliver_one(db, webhook, clock, attempt) for attempt in attempts]
    faults += await asyncio.gather(*made, return_exceptions=True)
    for failure in filter(None, faults):
        raise failure  # after all attempts, so that a failure to store one result cancels no other
    return len(found) == MOST_AT_ONCE and bool(attempts)


def attempting(now: datetime, caregiver: int, events: list[int]) -> Operation[list[Attempt]]:
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
        attempts.append(Attempt(caregiver, before + 1, Happened(event, kind, known_moment(stored), data)))
    if attempts:
        taken = [attempt.happened.event for attempt in attempts]
        yield COUNT_ATTEMPTS, {**values, "events": taken, "until": now + LEASE}
    return attempts


async def deliver_one(
    db: Database, webhook: Webhook, clock: Callable[[], datetime], attempt: Attempt
) -> None:
    result = await post_attempt(webhook, attempt.happened, clock())
    counters.deliveries["taken" if result.is_accepted else "failed"] += 1
    await db.write(settling(attempt, result, clock()))


async def post_attempt(webhook: Webhook, happened: Happened, now: datetime) -> PostResult:
    """An event that cannot be posted counts as a failed attempt, so that its attempts run out."""
    if happened.kind not in TYPES:  # a newer version wrote it, and may run again before attempts run out
        logger.error("event %s has a kind that this version does not know: %s", happened.event, happened.kind)
        return PostResult("unknown kind")
    try:
        body = body_of(happened)
        return await post(webhook, headers_of(webhook, happened.event, body, now), body)
    except Exception:
        logger.exception("event %s cannot be posted", happened.event)
        return PostResult("not posted")


def settling(attempt: Attempt, result: PostResult, now: datetime) -> Operation[None]:
    state, pause = next_state(attempt.number, result.is_accepted)
    if state is DeliveryState.DEAD:
        logger.error("event %s was not delivered: %s; given up", attempt.happened.event, result.status)
    yield (
        STORE_OUTCOME,
        {
            "caregiver": attempt.caregiver,
            "event": attempt.happened.event,
            "attempt": attempt.number,
            "to": state,
            "next": now + pause,
            "outcome": result.status,
        },
    )


def next_state(attempts: int, is_accepted: bool) -> tuple[DeliveryState, timedelta]:
    """Returns the state after an attempt, and the time until the next attempt or the removal."""
    if is_accepted:
        return DeliveryState.DELIVERED, KEPT
    if attempts > len(PAUSES):
        return DeliveryState.DEAD, timedelta(0)
    return DeliveryState.WAITING, PAUSES[attempts - 1]
