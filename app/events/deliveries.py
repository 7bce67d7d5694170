"""Delivering: each event at least once, with growing pauses until the webhook takes it or it is given up."""

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
from app.db.statements.deliveries import (
    COUNT_ATTEMPTS,
    FIND_DUE_DELIVERIES,
    STORE_OUTCOME,
    TAKE_DELIVERIES,
)
from app.db.tables import DeliveryState
from app.events.batches import finding, take_each
from app.events.posting import Answer, post
from app.events.webhook import TYPES, Happened, Webhook, body_of, headers_of
from app.telemetry import counters

logger = logging.getLogger("care.dispatch")

MOST_AT_ONCE = 8
LEASE = timedelta(seconds=60)  # far longer than an attempt; who died meanwhile is then taken to have failed
KEPT = timedelta(days=7)  # once delivered
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
    """One attempt to deliver an event, which nobody else makes until the lease ends."""

    caregiver: int
    number: int
    happened: Happened


async def deliver(db: Database, webhook: Webhook, clock: Callable[[], datetime]) -> bool:
    """Delivers some of what is due. Is there more to do?"""
    now = clock()
    found = await db.read(finding(FIND_DUE_DELIVERIES, {"now": now, "most": MOST_AT_ONCE}))
    attempts: list[Attempt] = []
    faults: list[BaseException | None] = []
    try:
        await take_each(db, found, partial(attempting, now), attempts)
    except DatabaseUnavailable as fault:  # what was taken before is counted already, so it is posted
        faults.append(fault)
    made = [deliver_one(db, webhook, clock, attempt) for attempt in attempts]
    faults += await asyncio.gather(*made, return_exceptions=True)
    for failure in filter(None, faults):
        raise failure  # when all are done: one that cannot be noted calls off no other
    return len(found) == MOST_AT_ONCE and bool(attempts)


def attempting(now: datetime, caregiver: int, events: list[int]) -> Operation[list[Attempt]]:
    """The attempt is counted before it is made: who dies in between has made it."""
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
    answer = await post_attempt(webhook, attempt.happened, clock())
    counters.deliveries["taken" if answer.is_taken else "failed"] += 1
    await db.write(settling(attempt, answer, clock()))


async def post_attempt(webhook: Webhook, happened: Happened, now: datetime) -> Answer:
    """What cannot be posted counts as a failed attempt: so the pauses grow, and it is given up in the end."""
    if happened.kind not in TYPES:  # written by a newer version, which may be back before it is given up
        logger.error("event %s has a kind that this version does not know: %s", happened.event, happened.kind)
        return Answer("unknown kind")
    try:
        body = body_of(happened)
        return await post(webhook, headers_of(webhook, happened.event, body, now), body)
    except Exception:
        logger.exception("event %s cannot be posted", happened.event)
        return Answer("not posted")


def settling(attempt: Attempt, answer: Answer, now: datetime) -> Operation[None]:
    state, pause = what_next(attempt.number, answer.is_taken)
    if state is DeliveryState.DEAD:
        logger.error("event %s was not delivered: %s; given up", attempt.happened.event, answer.said)
    yield (
        STORE_OUTCOME,
        {
            "caregiver": attempt.caregiver,
            "event": attempt.happened.event,
            "attempt": attempt.number,
            "to": state,
            "next": now + pause,
            "outcome": answer.said,
        },
    )


def what_next(attempts: int, is_taken: bool) -> tuple[DeliveryState, timedelta]:
    """The state after so many attempts, and when something is to be done again: delivering, or removing."""
    if is_taken:
        return DeliveryState.DELIVERED, KEPT
    if attempts > len(PAUSES):
        return DeliveryState.DEAD, timedelta(0)
    return DeliveryState.WAITING, PAUSES[attempts - 1]
