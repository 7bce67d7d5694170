"""One thread writes to SQLite: concurrent writes share one commit and one sync of the disk."""

import asyncio
import sqlite3
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from queue import Empty, SimpleQueue
from threading import Thread
from time import perf_counter, sleep
from typing import Any, TypeVar

from app.db.drivers.interface import DatabaseUnavailable, Failed, OutcomeUnknown
from app.db.sql import Steps
from app.telemetry import counters

Result = TypeVar("Result")

GROUP_SIZE = 64  # maximum number of writes in one commit
GATHER_SECONDS = 0.001  # to let concurrent writes arrive before a commit
ENDED = "the database writer has ended; nothing was changed"
UNSYNCED = "the disk reported an error while the change was committed; whether it is kept is not known"
ENDED_MEANWHILE = "the database writer has ended; whether the change was kept is not known"


@dataclass(slots=True, eq=False)
class PendingWrite:
    """Queued steps and their result."""

    steps: Steps[Any]
    future: asyncio.Future[Any]
    result: Any = None
    error: BaseException | None = None


class Writer:
    """`run` runs a step on a connection.

    The thread survives every exception of the steps. An error elsewhere ends the thread: then every caller
    gets DatabaseUnavailable, and `failed` is called.
    """

    def __init__(
        self,
        connect: Callable[[], sqlite3.Connection],
        run: Callable[[sqlite3.Connection, Steps[Any]], Any],
        failed: Failed,
    ) -> None:
        self.connect = connect
        self.run = run
        self.failed = failed
        self.has_ended = False
        self.pending: set[PendingWrite] = set()
        self.connection: sqlite3.Connection | None = None
        self.had_several = False  # did the last group have several writes?
        self.queue: SimpleQueue[PendingWrite | None] = SimpleQueue()
        # A daemon, so that a process that does not close it can end; SQLite survives that at any moment.
        self.thread = Thread(target=self.run_thread, name="writer", daemon=True)
        self.thread.start()

    async def write(self, steps: Steps[Result]) -> Result:
        write = PendingWrite(steps, asyncio.get_running_loop().create_future())
        self.pending.add(write)
        try:
            if self.has_ended:  # checked after `add`: the thread sets it before it fails the pending writes
                raise DatabaseUnavailable(ENDED)
            self.queue.put(write)
            return await write.future  # type: ignore[no-any-return]
        finally:
            self.pending.discard(write)

    def close(self) -> None:
        """Completes the queued writes first."""
        self.queue.put(None)
        self.thread.join()

    # --- in the thread ---

    def run_thread(self) -> None:
        try:
            while self.process_group():
                pass
        except BaseException as error:
            self.fail_pending(error)
        finally:
            self.drop_connection()

    def fail_pending(self, error: BaseException) -> None:
        self.has_ended = True
        try:
            writes = list(self.pending)
            for write in writes:
                write.error = OutcomeUnknown(ENDED_MEANWHILE)
                write.error.__cause__ = error
            notify_callers(writes)
        finally:
            self.failed("the database writer", error)

    def process_group(self) -> bool:
        """Returns False if the thread must end."""
        queued = self.next_group()
        self.had_several = len(queued) > 1
        group = deque(write for write in queued if write is not None)
        while group:
            notify_callers(self.commit_group(group))
        return queued[-1] is not None

    def next_group(self) -> list[PendingWrite | None]:
        """All queued writes up to GROUP_SIZE; None, which ends the thread, is the last of all.

        After a group of several writes the thread waits shortly, so that the next group is large too.
        """
        group = [self.queue.get()]
        if self.had_several:
            sleep(GATHER_SECONDS)
        while group[-1] is not None and len(group) < GROUP_SIZE:
            try:
                group.append(self.queue.get_nowait())
            except Empty:
                break
        return group

    def commit_group(self, group: deque[PendingWrite]) -> list[PendingWrite]:
        """Runs the group in one transaction. `group` keeps the rest only if SQLite ended the transaction."""
        done: list[PendingWrite] = []
        is_single, is_committing = len(group) == 1, False
        try:
            connection = self.connection = self.connection or self.connect()
            began = perf_counter()
            connection.execute("BEGIN IMMEDIATE")
        except BaseException as error:
            done.extend(group)
            group.clear()
            fail_all(done, error)
            return done
        try:
            while group:
                write = group.popleft()
                if write.future.cancelled():  # its caller was cancelled
                    continue
                done.append(write)
                self.run_write(connection, write, is_single)
            if connection.in_transaction or not is_single:
                is_committing = True
                connection.execute("COMMIT")
        except BaseException as error:
            self.roll_back(connection)
            fail_all(done, error, is_unknown=is_committing and is_disk_error(error))
        else:
            counters.commits.add(perf_counter() - began)
            counters.committed.add(len(done))
        return done

    def run_write(self, connection: sqlite3.Connection, write: PendingWrite, is_single: bool) -> None:
        """Rolls back one failed write of a group; raises only if the whole transaction is lost.

        A single write needs no savepoint, whose copies of changed pages would be large for an import.
        """
        if not is_single:
            connection.execute("SAVEPOINT steps")
        try:
            write.result = self.run(connection, write.steps)
        except BaseException as error:
            if not connection.in_transaction:  # SQLite ended it: a full disk, an I/O error
                raise
            connection.execute("ROLLBACK" if is_single else "ROLLBACK TO steps")
            write.error = as_exception(error)
        if not is_single:
            connection.execute("RELEASE steps")

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


def as_exception(error: BaseException) -> Exception:
    """SystemExit and KeyboardInterrupt would end the caller's event loop."""
    if isinstance(error, Exception):
        return error
    wrapped = RuntimeError(f"the steps raised {type(error).__name__}")
    wrapped.__cause__ = error
    return wrapped


def is_disk_error(error: BaseException) -> bool:
    """After a failed sync the whole transaction may be in the file, and a crash would bring it back."""
    return getattr(error, "sqlite_errorcode", 0) & 0xFF == sqlite3.SQLITE_IOERR


def fail_all(writes: list[PendingWrite], error: BaseException, is_unknown: bool = False) -> None:
    """Fails the rejected writes too: the reason may be a change of the group that was rolled back."""
    cause = error.__cause__ if isinstance(error, DatabaseUnavailable) else error
    for write in writes:
        is_made = is_unknown and write.error is None
        write.error = OutcomeUnknown(UNSYNCED) if is_made else DatabaseUnavailable()
        write.error.__cause__ = cause


def notify_callers(writes: list[PendingWrite]) -> None:
    """Wakes each event loop once for all of its callers."""
    for loop in {write.future.get_loop() for write in writes}:
        try:
            of_loop = [write for write in writes if write.future.get_loop() is loop]
            loop.call_soon_threadsafe(set_results, of_loop)
        except RuntimeError:  # the loop is closed
            continue


def set_results(writes: list[PendingWrite]) -> None:
    for write in writes:
        if write.future.done():  # the caller was cancelled; the change stays committed
            continue
        if write.error is not None:
            write.future.set_exception(write.error)
        else:
            write.future.set_result(write.result)
