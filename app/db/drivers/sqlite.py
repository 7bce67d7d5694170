"""The embedded database: short reads run on the event loop, long ones in threads, writes commit in groups."""

import asyncio
import sqlite3
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime
from functools import partial
from math import inf
from pathlib import Path
from time import perf_counter
from typing import Any, TypeVar

import orjson

from app.db.drivers.group_commit import Writer
from app.db.drivers.interface import (
    DatabaseError,
    DatabaseUnavailable,
    Failed,
    Occupancy,
    run_steps,
)
from app.db.sql import (
    REQUIRED,
    Bulk,
    MissingParameter,
    Operation,
    Step,
    Values,
    Written,
)
from app.db.tables import moment_as_text
from app.telemetry import counters

Result = TypeVar("Result")

OLDEST_SQLITE = (3, 38, 0)  # json_each without an extension, RETURNING
BUSY_SECONDS = 10
STEPS_BETWEEN_LOOKS = 2000  # of SQLite's machine: some tens of microseconds
PAGES_BETWEEN_CHECKPOINTS = 4000  # 16 MB, which the log grows to; finding a page in it is one look-up still
READS_UNDER_WAY = 4  # per thread; each holds a connection and a snapshot while it waits for its thread

# What an operator can mend, as the low byte of an error code.
UNAVAILABLE = {
    sqlite3.SQLITE_BUSY,
    sqlite3.SQLITE_CANTOPEN,
    sqlite3.SQLITE_CORRUPT,
    sqlite3.SQLITE_FULL,
    sqlite3.SQLITE_IOERR,
    sqlite3.SQLITE_LOCKED,
    sqlite3.SQLITE_NOTADB,
    sqlite3.SQLITE_PERM,
    sqlite3.SQLITE_PROTOCOL,
    sqlite3.SQLITE_READONLY,
}
AS_THEY_ARE = {int, str, type(None)}
OUT_OF_TIME = {sqlite3.SQLITE_INTERRUPT, sqlite3.SQLITE_BUSY}


class SqliteDatabase:
    """Everything goes through sqlite3 itself; a hop between threads costs more than most statements."""

    def __init__(self, path: Path, threads: int, loop_read_ms: int, failed: Failed) -> None:
        check_sqlite(path)
        self.path = path
        self.loop_seconds = loop_read_ms / 1000
        self.is_closed = False
        self.idle: list[Reader] = []  # the last one was used last: its pages are at hand
        self.opened: set[Reader] = set()
        self.most_idle = threads + 1
        self.most_opened = threads * READS_UNDER_WAY
        self.threads = ThreadPoolExecutor(threads, thread_name_prefix="reader")
        self.writer = Writer(partial(connect_writer, path), run_in_transaction, failed)
        self.written = asyncio.Event()  # for whoever follows what is written (following.py)

    # --- reading ---

    async def read(self, operation: Operation[Result]) -> Result:
        if self.is_closed:
            raise DatabaseUnavailable
        reader = self.take_at_once() if self.loop_seconds else None
        if reader is None:
            began, loop = perf_counter(), asyncio.get_running_loop()
            result = await loop.run_in_executor(self.threads, self.read_in_thread, operation)
            counters.reads_in_threads.add(perf_counter() - began)
            return result
        late_at = None
        try:
            reader.begin_on_loop(self.loop_seconds)
            result = run_steps(operation, reader.run_on_loop)
            counters.reads_on_loop.add(perf_counter() - reader.deadline + self.loop_seconds)
            return result
        except OutOfTime as late:
            late_at = late.step
        finally:
            if late_at is None:
                self.give_back(reader)
        began = reader.deadline - self.loop_seconds
        result = await self.go_on_in_thread(reader, operation, late_at)
        counters.reads_in_threads.add(perf_counter() - began)
        return result

    async def go_on_in_thread(self, reader: "Reader", operation: Operation[Result], step: Step) -> Result:
        moved = self.threads.submit(self.finish, reader, operation, step)
        try:
            return await asyncio.wrap_future(moved)
        finally:
            if moved.cancel():  # nobody waits any more, and no thread has taken it up
                operation.close()
                self.give_back(reader)

    def finish(self, reader: "Reader", operation: Operation[Result], step: Step | None = None) -> Result:
        """The whole operation, or the rest of it on the snapshot that it had on the event loop."""
        try:
            reader.leave_loop()
            if step is None:
                reader.connection.execute("BEGIN")
            return run_steps(operation, partial(run_in_transaction, reader.connection), step)
        finally:
            self.give_back(reader)

    def read_in_thread(self, operation: Operation[Result]) -> Result:
        try:
            reader = self.idle.pop()
        except IndexError:
            reader = self.open_reader(BUSY_SECONDS)
        return self.finish(reader, operation)

    def take_at_once(self) -> "Reader | None":
        """None where a thread has to wait: for a lock, or for its turn when too much is under way."""
        try:
            return self.idle.pop()
        except IndexError:
            if len(self.opened) >= self.most_opened:
                return None
        try:
            return self.open_reader(0)
        except DatabaseUnavailable:
            return None

    def open_reader(self, patience: float) -> "Reader":
        try:
            reader = Reader(connect_sqlite(self.path, patience))
        except sqlite3.Error as fault:
            raise DatabaseUnavailable from fault
        self.opened.add(reader)
        return reader

    def give_back(self, reader: "Reader") -> None:
        try:
            reader.end()
        except sqlite3.Error:
            is_usable = False
        else:
            is_usable = len(self.idle) < self.most_idle
        if is_usable:
            self.idle.append(reader)
        else:
            self.opened.discard(reader)
            reader.connection.close()

    # --- writing ---

    async def write(self, operation: Operation[Result]) -> Result:
        if self.is_closed:
            raise DatabaseUnavailable
        began = perf_counter()
        try:
            result = await self.writer.write(operation)
            counters.writes.add(perf_counter() - began)
            return result
        finally:
            self.written.set()

    def occupancy(self) -> Occupancy:
        waiting = self.writer.queue.qsize()
        return Occupancy(len(self.opened), len(self.idle), self.most_opened, waiting)

    # --- closing ---

    async def close(self) -> None:
        """What was asked for before is still answered."""
        self.is_closed = True
        await asyncio.to_thread(self.wait_and_close)

    def wait_and_close(self) -> None:
        self.threads.shutdown()
        self.writer.close()
        for reader in self.opened:
            reader.connection.close()


class OutOfTime(BaseException):
    """A step has to be run in a thread. Not an Exception: no operation hears of it."""

    def __init__(self, step: Step) -> None:
        super().__init__()
        self.step = step


class Reader:
    """A connection that reads, and the moment until which it may do so on the event loop."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self.connection = connection
        self.connection.execute("PRAGMA query_only = ON")
        self.cursor = connection.cursor()
        self.deadline = inf
        self.is_on_loop = False

    def begin_on_loop(self, seconds: float) -> None:
        if not self.is_on_loop:
            self.is_on_loop = True
            self.connection.set_progress_handler(self.is_late, STEPS_BETWEEN_LOOKS)
            self.connection.execute("PRAGMA busy_timeout = 0")
        self.cursor.execute("BEGIN")
        self.deadline = perf_counter() + seconds

    def run_on_loop(self, step: Step) -> list[Any]:
        if perf_counter() > self.deadline:
            raise OutOfTime(step)
        try:
            return run_on_sqlite(self.cursor, step)
        except sqlite3.Error as fault:
            if code_of(fault) in OUT_OF_TIME:
                raise OutOfTime(step) from None
            if is_unavailable(fault):
                raise DatabaseUnavailable from fault
            raise

    def is_late(self) -> bool:
        """SQLite asks now and then, and ends the statement that is being run if so."""
        return perf_counter() > self.deadline

    def leave_loop(self) -> None:
        """The transaction stays as it is: a read that SQLite ended has undone nothing."""
        self.deadline = inf
        if self.is_on_loop:
            self.is_on_loop = False
            self.connection.set_progress_handler(None, 0)
            self.connection.execute(f"PRAGMA busy_timeout = {BUSY_SECONDS * 1000}")

    def end(self) -> None:
        self.deadline = inf
        if self.connection.in_transaction:
            self.cursor.execute("COMMIT")


# --- connections ----------------------------------------------------------------------------------


def connect_sqlite(path: Path, patience: float = BUSY_SECONDS) -> sqlite3.Connection:
    """A connection to an existing file; `migrate` makes the file. Opening waits so long for a lock."""
    connection = sqlite3.connect(
        f"{path.absolute().as_uri()}?mode=rw",
        uri=True,
        isolation_level=None,  # transactions begin where the code says so
        check_same_thread=False,  # one thread at a time, but not always the same one
        cached_statements=512,
        timeout=patience,
    )
    try:
        prepare_sqlite(connection)
    except sqlite3.Error:
        connection.close()
        raise
    return connection


def connect_writer(path: Path) -> sqlite3.Connection:
    connection = connect_sqlite(path)
    # To go back to a savepoint SQLite copies each page that is changed; in a group these would fill a file.
    connection.execute("PRAGMA temp_store = MEMORY")
    # The pages of the indexes that writes change: the default of 2 MB would read them again and again.
    connection.execute("PRAGMA cache_size = -8000")
    # A page that is changed again before a checkpoint is carried over once.
    connection.execute(f"PRAGMA wal_autocheckpoint = {PAGES_BETWEEN_CHECKPOINTS}")
    return connection


def prepare_sqlite(connection: Any) -> None:
    """What every connection needs, whoever opened it."""
    connection.execute("PRAGMA foreign_keys = ON")
    connection.execute("PRAGMA synchronous = FULL")  # NORMAL loses the last commits when the power goes
    connection.execute("PRAGMA secure_delete = ON")  # what is deleted leaves no copy in its page
    connection.execute(f"PRAGMA busy_timeout = {BUSY_SECONDS * 1000}")


def check_sqlite(path: Path) -> None:
    if sqlite3.sqlite_version_info < OLDEST_SQLITE:
        raise DatabaseError(f"SQLite {sqlite3.sqlite_version} is too old; 3.38 or newer is needed")
    try:
        path.open("rb").close()  # the system says why not, SQLite does not
        connection = connect_sqlite(path)
        try:
            found = {
                name: connection.execute(f"PRAGMA {name}").fetchone()[0]
                for name in ("journal_mode", "synchronous", "foreign_keys")
            }
        finally:
            connection.close()
    except FileNotFoundError:
        raise DatabaseError(f"there is no database at {path}; run `care-gateway migrate` first") from None
    except (OSError, sqlite3.Error) as error:
        reason = (error.strerror if isinstance(error, OSError) else "") or str(error)
        raise DatabaseError(f"the database at {path} cannot be opened: {reason.lower()}") from None
    if found != {"journal_mode": "wal", "synchronous": 2, "foreign_keys": 1}:
        raise DatabaseError(f"the database at {path} is not durable or not checked: {found}")


# --- steps ----------------------------------------------------------------------------------------


def run_in_transaction(connection: sqlite3.Connection, step: Step) -> list[Any]:
    """An operation hears of a fault only while its transaction is there to go on with."""
    try:
        return run_on_sqlite(connection, step)
    except Exception as fault:
        if is_unavailable(fault) or not connection.in_transaction:
            raise DatabaseUnavailable from fault
        raise


def run_on_sqlite(connection: sqlite3.Connection | sqlite3.Cursor, step: Step) -> list[Any]:
    if isinstance(step, Bulk):
        marks = ", ".join("?" * len(step.columns))
        sql = f"INSERT INTO {step.table} ({', '.join(step.columns)}) VALUES ({marks})"
        connection.executemany(sql, ([as_sqlite(value) for value in row] for row in step.rows))
        return []
    statement, values = step
    written = statement.for_("sqlite")
    done = connection.execute(written.sql, sqlite_values(written, values))
    if written.is_counted:
        return new_ids(done)
    return done.fetchall()


def new_ids(done: sqlite3.Cursor) -> list[tuple[int]]:
    """Of the rows that were just added: RETURNING makes SQLite keep them in a table of its own, which takes
    as long as adding them. Numbers are given one after the other, and nobody else is writing."""
    last = done.lastrowid
    assert last is not None
    return [(id,) for id in range(last - done.rowcount + 1, last + 1)]


def is_unavailable(fault: Exception) -> bool:
    return code_of(fault) in UNAVAILABLE


def code_of(fault: Exception) -> int:
    """0 for what Python's part of the driver says by itself."""
    return getattr(fault, "sqlite_errorcode", 0) & 0xFF


def sqlite_values(written: Written, given: Values) -> list[Any]:
    values = []
    try:
        for name, own in written.parameters:  # one pass: it takes as long as a small statement
            value = given[name] if own is REQUIRED else own
            values.append(value if value.__class__ in AS_THEY_ARE else as_sqlite(value))
    except KeyError as missing:
        raise MissingParameter(missing.args[0], written.sql) from None
    return values


def as_sqlite(value: Any) -> Any:
    if isinstance(value, datetime):
        return moment_as_text(value)
    if isinstance(value, str):
        return str(value)  # a word of an enum, of which sqlite3 would ask first what it is
    if isinstance(value, list):
        return orjson.dumps(value, as_sqlite, orjson.OPT_PASSTHROUGH_DATETIME).decode()
    return value
