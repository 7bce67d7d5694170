"""Threads and tasks that run beside the requests: a fault in one of them has a log line and a consequence."""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from contextlib import suppress

from app.db.drivers.interface import DatabaseUnavailable, is_fault_of_database, reason_of
from app.telemetry.redaction import kind_of

logger = logging.getLogger("care.background")

RESTART_SECONDS = 5.0


class Vitals:
    """Records that a part ended which the process cannot work without, and ends the process."""

    def __init__(self) -> None:
        self.failed_part = ""
        self.end_process: Callable[[], object] | None = None

    def fail(self, part: str, fault: BaseException) -> None:
        """Callable from any thread."""
        self.failed_part = part
        logger.critical("%s has ended, so the process ends", part, exc_info=fault)
        if self.end_process is not None:
            self.end_process()

    def on_failure(self, end_process: Callable[[], object]) -> None:
        """Also for a failure that came first."""
        self.end_process = end_process
        if self.failed_part:
            end_process()


async def keep_running(
    part: str,
    work: Callable[[], Awaitable[None]],
    pause: float = RESTART_SECONDS,
    stop: asyncio.Event | None = None,
) -> None:
    """Runs `work` until it returns. After a fault, logs it, pauses, and starts `work` again unless `stop`."""
    stop = stop or asyncio.Event()
    while not stop.is_set():
        try:
            return await work()
        except BaseException as fault:
            if is_end_of_task(fault):
                raise
            log_fault(part, fault)
        await wait_for(stop, pause)


def is_end_of_task(fault: BaseException) -> bool:
    """Whether this task was cancelled. A CancelledError from what it awaited is a fault like others."""
    if isinstance(fault, asyncio.CancelledError):
        task = asyncio.current_task()
        return task is None or task.cancelling() > 0
    return isinstance(fault, GeneratorExit | KeyboardInterrupt)


def log_fault(part: str, fault: BaseException) -> None:
    if isinstance(fault, DatabaseUnavailable):
        logger.warning("%s waits for the database: %s", part, reason_of(fault))
    elif isinstance(fault, OSError) or is_fault_of_database(fault):
        logger.warning("%s waits for what it depends on: %s", part, kind_of(fault))
    else:
        logger.error("%s failed and is started again", part, exc_info=fault)


async def wait_for(stop: asyncio.Event, seconds: float) -> None:
    """Returns after so many seconds, or when `stop` is set."""
    with suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            await stop.wait()
