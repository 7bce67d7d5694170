"""Causes faults in the database and in threads of the service."""

import asyncio
import ctypes
import sys
from threading import Thread
from time import sleep
from typing import TypeVar

from app.db.drivers.interface import Database, Occupancy
from app.db.sql import Repeatable, Steps

Result = TypeVar("Result")

# Faults in a background task: an unexpected error, `sys.exit`, and the cancellation of something that the
# task awaits, which is not the cancellation of the task.
UNEXPECTED = (MemoryError, SystemExit, asyncio.CancelledError)


def kill_writer(thread: Thread) -> None:
    """Takes effect at the next write. The thread is between two operations then."""
    while sys._current_frames()[thread.ident or 0].f_code.co_name != "next_group":
        sleep(0.001)
    raise_in(thread, MemoryError)


def raise_in(thread: Thread, fault: type[BaseException]) -> None:
    """Takes effect when the thread runs Python code again."""
    identity, exception = ctypes.c_ulong(thread.ident or 0), ctypes.py_object(fault)
    assert ctypes.pythonapi.PyThreadState_SetAsyncExc(identity, exception) == 1


class Hanging:
    """A database that does not respond."""

    def __init__(self) -> None:
        self.reads = 0  # that wait now

    async def read(self, steps: Steps[Result]) -> Result:
        steps.close()
        self.reads += 1
        try:
            return await asyncio.get_running_loop().create_future()  # type: ignore[no-any-return]
        finally:
            self.reads -= 1


class Failing:
    """A database that raises one of the faults per call, the last first; None runs the steps."""

    def __init__(self, db: Database, faults: list[BaseException | None]) -> None:
        self.db = db
        self.faults = faults

    def fail(self) -> None:
        if self.faults and (fault := self.faults.pop()) is not None:
            raise fault

    async def read(self, steps: Steps[Result]) -> Result:
        self.fail()
        return await self.db.read(steps)

    async def write(self, steps: Steps[Result] | Repeatable[Result]) -> Result:
        self.fail()
        return await self.db.write(steps)

    async def close(self) -> None:
        await self.db.close()

    def occupancy(self) -> Occupancy:
        return self.db.occupancy()
