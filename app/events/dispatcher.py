"""The dispatcher at work: it looks every second, outlives every fault, and stops when it is told to."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from datetime import datetime

from app.care import audit
from app.db.drivers.interface import Database
from app.events.cleanup import tidy
from app.events.deliveries import deliver
from app.events.outbox import hand_over, remind
from app.events.retention import expire
from app.events.webhook import Webhook
from app.server.background import keep_running, wait_for
from app.settings import KEEP_ALL, Retention
from app.telemetry import counters

Clock = Callable[[], datetime]

PAUSE_SECONDS = 1.0
TIDY_PAUSES = 3600  # between two tidyings
FAULT_PAUSES = 5  # after a fault
FINISH_SECONDS = 2.0  # for what is under way when the process ends; a post that is cut off comes again


async def take(db: Database, has_webhook: bool, now: datetime) -> bool:
    """Some of the reminders that are due, and of the events that wait. Is there more to do?"""
    more_reminders = await remind(db, now)
    more_events = await hand_over(db, has_webhook, now)
    counters.came_round("outbox")
    return more_reminders or more_events


async def seal_some(db: Database, now: datetime) -> bool:
    """Seals some of the audit trail. Is there more to do?"""
    more = await audit.seal_some(db, now)
    counters.came_round("audit trail")
    return more


async def dispatch(
    db: Database,
    webhook: Webhook | None,
    clock: Clock,
    stop: asyncio.Event,
    pause: float = PAUSE_SECONDS,
    periods: Retention = KEEP_ALL,
) -> None:
    """Until `stop`. What has begun by then is finished if that takes no longer than FINISH_SECONDS.

    A webhook that is slow stops neither reminders nor anything else: each work goes its own way.
    """
    works = {
        "the dispatcher (outbox)": repeat(lambda: take(db, webhook is not None, clock()), stop, pause),
        "the dispatcher (audit trail)": repeat(lambda: seal_some(db, clock()), stop, pause),
        "the dispatcher (removal)": repeat(lambda: tidy(db, clock()), stop, pause * TIDY_PAUSES),
        "the dispatcher (retention)": repeat(
            lambda: expire(db, periods, clock(), stop), stop, pause * TIDY_PAUSES
        ),
    }
    if webhook is not None:
        works["the dispatcher (webhook)"] = repeat(lambda: deliver(db, webhook, clock), stop, pause)
    tasks = [
        asyncio.create_task(keep_running(part, work, pause * FAULT_PAUSES, stop))
        for part, work in works.items()
    ]
    try:
        await stop.wait()
        await asyncio.wait(tasks, timeout=FINISH_SECONDS)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks)


def repeat(
    work: Callable[[], Awaitable[bool]], stop: asyncio.Event, pause: float
) -> Callable[[], Awaitable[None]]:
    """Works until `stop`, and pauses whenever there is nothing more to do."""

    async def repeated() -> None:
        while not stop.is_set():
            if not await work():
                await wait_for(stop, pause)

    return repeated


@asynccontextmanager
async def dispatching(
    db: Database, webhook: Webhook | None, clock: Clock, periods: Retention = KEEP_ALL
) -> AsyncIterator[None]:
    """Dispatches beside what the block does."""
    stop = asyncio.Event()
    work = asyncio.create_task(dispatch(db, webhook, clock, stop, periods=periods))
    try:
        yield
    finally:
        stop.set()
        await work
