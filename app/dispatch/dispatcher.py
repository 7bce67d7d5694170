"""The dispatcher at work: it looks every second, outlives every fault, and stops when it is told to."""

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from datetime import datetime

from app import counts
from app.db.audit.sealing import is_unsealed, sealing
from app.db.drivers import Database, DatabaseUnavailable, reason_of
from app.dispatch.deliveries import deliver
from app.dispatch.outbox import hand_over, remind
from app.dispatch.upkeep import tidy
from app.dispatch.webhook import Webhook

logger = logging.getLogger("care.dispatch")

Clock = Callable[[], datetime]

PAUSE_SECONDS = 1.0
TIDY_PAUSES = 3600  # between two tidyings
FAULT_PAUSES = 5  # at least, after a fault


async def take(db: Database, has_webhook: bool, now: datetime) -> bool:
    """Some of the reminders that are due, and of the events that wait. Is there more to do?"""
    more_reminders = await remind(db, now)
    more_events = await hand_over(db, has_webhook, now)
    counts.came_round("outbox")
    return more_reminders or more_events


async def seal_some(db: Database, now: datetime) -> bool:
    """Seals some of the audit trail. Is there more to do?"""
    more = await db.read(is_unsealed()) and await db.write(sealing(now))
    counts.came_round("audit trail")
    return more


async def dispatch(
    db: Database, webhook: Webhook | None, clock: Clock, stop: asyncio.Event, pause: float = PAUSE_SECONDS
) -> None:
    """Until `stop`: what has begun by then is finished, which takes as long as the webhook takes to answer.

    A webhook that is slow stops neither reminders nor anything else: each work goes its own way.
    """
    async with asyncio.TaskGroup() as works:
        works.create_task(repeat(lambda: take(db, webhook is not None, clock()), stop, pause))
        works.create_task(repeat(lambda: seal_some(db, clock()), stop, pause))
        works.create_task(repeat(lambda: tidy(db, clock()), stop, pause, TIDY_PAUSES))
        if webhook is not None:
            works.create_task(repeat(lambda: deliver(db, webhook, clock), stop, pause))


async def repeat(
    work: Callable[[], Awaitable[bool]], stop: asyncio.Event, pause: float, pauses: int = 1
) -> None:
    while not stop.is_set():
        try:
            seconds = 0.0 if await work() else pause * pauses
        except DatabaseUnavailable as fault:
            logger.warning("the dispatcher waits for the database: %s", reason_of(fault))
            seconds = pause * FAULT_PAUSES
        except Exception:
            logger.exception("the dispatcher met a fault and goes on")
            seconds = pause * FAULT_PAUSES
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await stop.wait()


@asynccontextmanager
async def dispatching(db: Database, webhook: Webhook | None, clock: Clock) -> AsyncIterator[None]:
    """Dispatches beside what the block does."""
    stop = asyncio.Event()
    work = asyncio.create_task(dispatch(db, webhook, clock, stop))
    try:
        yield
    finally:
        stop.set()
        await work
