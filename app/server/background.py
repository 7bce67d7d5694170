"""Background threads and tasks: their errors are logged, and they are restarted or end the process."""

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from contextlib import asynccontextmanager, suppress
from typing import Any

from app.db.drivers.interface import DatabaseUnavailable, is_fault_of_database, reason_of
from app.telemetry.redaction import class_of

logger = logging.getLogger("care.background")

RESTART_SECONDS = 5.0


class Vitals:
    """Ends the process when a part fails that it cannot work without."""

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
        """Calls `end_process` on a failure, also on an earlier one."""
        self.end_process = end_process
        if self.failed_part:
            end_process()


async def keep_running(
    part: str,
    work: Callable[[], Awaitable[None]],
    pause: float = RESTART_SECONDS,
    stop: asyncio.Event | None = None,
) -> None:
    """Runs `work` until it returns. Logs an error, pauses, and starts `work` again unless `stop` is set."""
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
    """Whether this task was cancelled. A CancelledError of an awaited task is an error like any other."""
    if isinstance(fault, asyncio.CancelledError):
        task = asyncio.current_task()
        return task is None or task.cancelling() > 0
    return isinstance(fault, GeneratorExit | KeyboardInterrupt)


def log_fault(part: str, fault: BaseException) -> None:
    if isinstance(fault, DatabaseUnavailable):
        logger.warning("%s waits for the database: %s", part, reason_of(fault))
    elif isinstance(fault, OSError) or is_fault_of_database(fault):
        logger.warning("%s waits for what it depends on: %s", part, class_of(fault))
    else:
        logger.error("%s failed and is started again", part, exc_info=fault)


@asynccontextmanager
async def in_background(work: Callable[[asyncio.Event], Coroutine[Any, Any, None]]) -> AsyncIterator[None]:
    """Runs `work` while the block runs. At the end of the block, sets the event that `work` has received as
    its argument, and waits for the end of `work`."""
    stop = asyncio.Event()
    task = asyncio.create_task(work(stop))
    try:
        yield
    finally:
        stop.set()
        await task


async def repeat(work: Callable[[], Awaitable[bool | None]], stop: asyncio.Event, pause: float) -> None:
    """Repeats `work` until `stop` is set. Pauses after a run unless `work` returns True: more remains."""
    while not stop.is_set():
        if not await work():
            await wait_for(stop, pause)


async def wait_for(stop: asyncio.Event, seconds: float) -> None:
    """Returns after `seconds`, or when `stop` is set."""
    with suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            await stop.wait()
