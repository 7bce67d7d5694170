"""Faults that a test brings about in the real parts of the service."""

import asyncio
import ctypes
import sys
from threading import Thread
from time import sleep
from typing import TypeVar

from app.db.drivers.interface import Database, Occupancy
from app.db.sql import Operation

Result = TypeVar("Result")

# What a background task may meet: a fault that no code expects, what `sys.exit` raises, and the cancellation
# of something that the task waits for, which is not the cancellation of the task.
UNEXPECTED = (MemoryError, SystemExit, asyncio.CancelledError)


def kill_writer(thread: Thread) -> None:
    """When the next change comes. The thread is between two operations then, not in one."""
    while sys._current_frames()[thread.ident or 0].f_code.co_name != "next_group":
        sleep(0.001)
    raise_in(thread, MemoryError)


def raise_in(thread: Thread, fault: type[BaseException]) -> None:
    """As soon as the thread runs Python code again, which is when what it waits for has come."""
    identity, what = ctypes.c_ulong(thread.ident or 0), ctypes.py_object(fault)
    assert ctypes.pythonapi.PyThreadState_SetAsyncExc(identity, what) == 1


class Failing:
    """A database that raises these faults, the last first, instead of what it is called for; None is none."""

    def __init__(self, db: Database, faults: list[BaseException | None]) -> None:
        self.db = db
        self.faults = faults

    def fail(self, operation: Operation[Result]) -> None:
        if self.faults and (fault := self.faults.pop()) is not None:
            operation.close()
            raise fault

    async def read(self, operation: Operation[Result]) -> Result:
        self.fail(operation)
        return await self.db.read(operation)

    async def write(self, operation: Operation[Result]) -> Result:
        self.fail(operation)
        return await self.db.write(operation)

    async def close(self) -> None:
        await self.db.close()

    def occupancy(self) -> Occupancy:
        return self.db.occupancy()
