"""One thread writes to SQLite: concurrent writes share one commit and one sync of the disk."""

import asyncio
import sqlite3
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from queue import Empty, SimpleQueue
from threading import Thread
from time import perf_counter, sleep
from typing import Any, TypeVar

from app.db.drivers.interface import DatabaseUnavailable, Failed, run_steps
from app.db.sql import Operation, Step
from app.telemetry import counters

Result = TypeVar("Result")

MOST_TOGETHER = 64
GATHERING_SECONDS = 0.001  # to let concurrent writes arrive before a commit
ENDED = "the database writer has ended; nothing was changed"
ENDED_MEANWHILE = "the database writer has ended; whether the change was kept is not known"


@dataclass(slots=True, eq=False)
class PendingWrite:
    """A queued operation and its result."""

    operation: Operation[Any]
    future: asyncio.Future[Any]
    result: Any = None
    fault: BaseException | None = None


class Writer:
    """`run` runs a step on a connection.

    The thread survives every exception of an operation. A fault elsewhere ends the thread: then every caller
    gets DatabaseUnavailable, and `failed` is called.
    """

    def __init__(
        self,
        connect: Callable[[], sqlite3.Connection],
        run: Callable[[sqlite3.Connection, Step], list[Any]],
        failed: Failed,
    ) -> None:
        self.connect = connect
        self.run = run
        self.failed = failed
        self.has_ended = False
        self.pending: set[PendingWrite] = set()
        self.connection: sqlite3.Connection | None = None
        self.had_several = False  # did the last group have several operations?
        self.queue: SimpleQueue[PendingWrite | None] = SimpleQueue()
        # A daemon, so that a process that does not close it can end; SQLite survives that at any moment.
        self.thread = Thread(target=self.work, name="writer", daemon=True)
        self.thread.start()

    async def write(self, operation: Operation[Result]) -> Result:
        waiting = PendingWrite(operation, asyncio.get_running_loop().create_future())
        self.pending.add(waiting)
        try:
            if self.has_ended:  # checked after `add`: the thread sets it before it fails the pending writes
                raise DatabaseUnavailable(ENDED)
            self.queue.put(waiting)
            return await waiting.future  # type: ignore[no-any-return]
        finally:
            self.pending.discard(waiting)

    def close(self) -> None:
        """Completes the queued writes first."""
        self.queue.put(None)
        self.thread.join()

    # --- in the thread ---

    def work(self) -> None:
        try:
            while self.work_on_a_group():
                pass
        except BaseException as fault:
            self.end(fault)
        finally:
            self.drop_connection()

    def end(self, fault: BaseException) -> None:
        self.has_ended = True
        try:
            left = list(self.pending)
            for one in left:
                one.fault = DatabaseUnavailable(ENDED_MEANWHILE)
                one.fault.__cause__ = fault
            notify_callers(left)
        finally:
            self.failed("the database writer", fault)

    def work_on_a_group(self) -> bool:
        waiting = self.next_group()
        self.had_several = len(waiting) > 1
        is_last = waiting[-1] is None
        group = deque(one for one in waiting if one is not None)
        while group:
            notify_callers(self.commit_together(group))
        return not is_last

    def next_group(self) -> list[PendingWrite | None]:
        """All queued operations up to MOST_TOGETHER; None, which ends the thread, is the last of all.

        After a group of several operations the thread waits shortly, so that the next group is large too.
        """
        group = [self.queue.get()]
        if self.had_several:
            sleep(GATHERING_SECONDS)
        while group[-1] is not None and len(group) < MOST_TOGETHER:
            try:
                group.append(self.queue.get_nowait())
            except Empty:
                break
        return group

    def commit_together(self, group: deque[PendingWrite]) -> list[PendingWrite]:
        """Runs the group in one transaction. `group` keeps the rest only if SQLite ended the transaction."""
        ran: list[PendingWrite] = []
        is_alone = len(group) == 1
        try:
            connection = self.connection = self.connection or self.connect()
            began = perf_counter()
            connection.execute("BEGIN IMMEDIATE")
        except BaseException as fault:
            ran.extend(group)
            group.clear()
            fail_together(ran, fault)
            return ran
        try:
            while group:
                one = group.popleft()
                if one.future.cancelled():  # the caller has gone
                    one.operation.close()
                    continue
                ran.append(one)
                self.run_by_itself(connection, one, is_alone)
            if connection.in_transaction or not is_alone:
                connection.execute("COMMIT")
        except BaseException as fault:
            self.roll_back(connection)
            fail_together(ran, fault)
        else:
            counters.commits.add(perf_counter() - began)
            counters.committed.add(len(ran))
        return ran

    def run_by_itself(self, connection: sqlite3.Connection, one: PendingWrite, is_alone: bool) -> None:
        """Rolls back one failed operation of a group; raises only if the whole transaction is lost.

        A single operation needs no savepoint, whose copies of changed pages would be large for an import.
        """
        if not is_alone:
            connection.execute("SAVEPOINT operation")
        try:
            one.result = run_steps(one.operation, partial(self.run, connection))
        except BaseException as fault:
            if not connection.in_transaction:  # SQLite ended it: a full disk, an I/O error
                raise
            connection.execute("ROLLBACK" if is_alone else "ROLLBACK TO operation")
            one.fault = as_exception(fault)
        if not is_alone:
            connection.execute("RELEASE operation")

    def roll_back(self, connection: sqlite3.Connection) -> None:
        try:
            if connection.in_transaction:
                connection.execute("ROLLBACK")
        except sqlite3.Error:
            self.drop_connection()  # the connection is unusable; the next group opens another

    def drop_connection(self) -> None:
        if self.connection is not None:
            self.connection.close()
            self.connection = None


def as_exception(fault: BaseException) -> Exception:
    """SystemExit and KeyboardInterrupt would end the caller's event loop."""
    if isinstance(fault, Exception):
        return fault
    error = RuntimeError(f"an operation raised {type(fault).__name__}")
    error.__cause__ = fault
    return error


def fail_together(ran: list[PendingWrite], fault: BaseException) -> None:
    """Fails the rejected operations too: the reason may be a change of the group that was rolled back."""
    cause = fault.__cause__ if isinstance(fault, DatabaseUnavailable) else fault
    for one in ran:
        one.fault = DatabaseUnavailable()
        one.fault.__cause__ = cause


def notify_callers(ran: list[PendingWrite]) -> None:
    """Wakes each event loop once for all of its callers."""
    loops = {one.future.get_loop() for one in ran}
    for loop in loops:
        mine = [one for one in ran if one.future.get_loop() is loop]
        try:
            loop.call_soon_threadsafe(set_results, mine)
        except RuntimeError:  # the loop is closed
            continue


def set_results(ran: list[PendingWrite]) -> None:
    for one in ran:
        if one.future.done():  # the caller was cancelled; the change stays committed
            continue
        if one.fault is not None:
            one.future.set_exception(one.fault)
        else:
            one.future.set_result(one.result)
