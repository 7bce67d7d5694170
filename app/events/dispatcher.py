"""The dispatcher: checks for work every second, continues after errors, and stops on request."""

import asyncio
from collections.abc import Callable
from datetime import datetime
from functools import partial

from app.care import audit
from app.db.drivers.interface import Database
from app.events.deliveries import deliver
from app.events.outbox import queue_deliveries, remind
from app.events.retention import clean_up, expire
from app.events.webhook import Webhook
from app.server.background import keep_running, repeat
from app.settings import KEEP_ALL, Retention
from app.telemetry import counters

PAUSE_SECONDS = 1.0
CLEANUP_PAUSES = 3600  # pauses between two runs of the cleanup: an hour
ERROR_PAUSES = 5  # pauses after an error
FINISH_SECONDS = 2.0  # at shutdown, for work in progress; an interrupted POST is repeated later


async def process_outbox(db: Database, has_webhook: bool, now: datetime) -> bool:
    """Processes a batch of due reminders and of new events. Returns whether more remain."""
    more_reminders = await remind(db, now)
    more_events = await queue_deliveries(db, has_webhook, now)
    counters.record_run("outbox")
    return more_reminders or more_events


async def seal_some(db: Database, now: datetime) -> bool:
    """Seals a batch of audit records. Returns whether more remain."""
    more = await audit.seal_some(db, now)
    counters.record_run("audit trail")
    return more


async def dispatch(
    db: Database,
    webhook: Webhook | None,
    clock: Callable[[], datetime],
    stop: asyncio.Event,
    pause: float = PAUSE_SECONDS,
    periods: Retention = KEEP_ALL,
) -> None:
    """Runs until `stop`, and then finishes work in progress for up to FINISH_SECONDS.

    Each kind of work has its own task, so a slow webhook does not delay reminders.
    """
    works = [
        ("outbox", pause, lambda: process_outbox(db, webhook is not None, clock())),
        ("audit trail", pause, lambda: seal_some(db, clock())),
        ("removal", pause * CLEANUP_PAUSES, lambda: clean_up(db, clock())),
        ("retention", pause * CLEANUP_PAUSES, lambda: expire(db, periods, clock(), stop)),
    ]
    if webhook is not None:
        works.append(("webhook", pause, lambda: deliver(db, webhook, clock)))
    tasks = [
        asyncio.create_task(
            keep_running(
                f"the dispatcher ({name})", partial(repeat, work, stop, between), pause * ERROR_PAUSES, stop
            )
        )
        for name, between, work in works
    ]
    try:
        await stop.wait()
        await asyncio.wait(tasks, timeout=FINISH_SECONDS)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks)
