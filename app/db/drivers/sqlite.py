"""SQLite: short reads run on the event loop, long reads in threads, and writes commit in groups."""

import asyncio
import sqlite3
from collections.abc import Callable
from contextlib import closing
from datetime import datetime
from functools import partial
from math import inf
from pathlib import Path
from time import perf_counter
from typing import Any, TypeVar

import orjson

from app.db.drivers.fair_turns import FairThreads
from app.db.drivers.group_commit import Writer
from app.db.drivers.interface import (
    DatabaseAway,
    DatabaseError,
    DatabaseUnavailable,
    Failed,
    Occupancy,
)
from app.db.moments import moment_as_text
from app.db.sql import (
    DATABASE_KIND,
    REQUIRED,
    Bulk,
    CompiledStatement,
    FastPath,
    FastRead,
    LongWork,
    MissingParameter,
    Repeatable,
    Step,
    Steps,
    Together,
    Values,
)
from app.telemetry import counters

Result = TypeVar("Result")

OLDEST_SQLITE = (3, 38, 0)  # json_each without an extension, RETURNING
BUSY_SECONDS = 10
STEPS_BETWEEN_CHECKS = 2000  # instructions of SQLite's virtual machine: some tens of microseconds
PAGES_BETWEEN_CHECKPOINTS = 4000  # a log of 16 MB; a page in it is still found by one lookup
CACHED_STATEMENTS = 100  # of a connection; one with twelve joins takes 90 kB
READS_PER_THREAD = 4  # running or waiting; each keeps a connection and a snapshot

# The low bytes of the error codes that an operator can correct.
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
UNCONVERTED_TYPES = {int, str, type(None)}
INTERRUPTED = {sqlite3.SQLITE_INTERRUPT, sqlite3.SQLITE_BUSY}


class SqliteDatabase:
    """Calls sqlite3 directly, because a switch between threads costs more than most statements."""

    def __init__(self, path: Path, threads: int, loop_read_ms: int, failed: Failed) -> None:
        check_sqlite(path)
        self.path = path
        self.loop_seconds = loop_read_ms / 1000
        self.is_closed = False
        self.idle: list[Reader] = []  # the most recently used one, whose page cache is warm, is the last
        self.opened: set[Reader] = set()
        self.max_idle = threads + 1
        self.max_opened = threads * READS_PER_THREAD
        self.threads = FairThreads(threads, "reader")
        self.writer = Writer(partial(connect_writer, path), run_all, failed)
        self.written = asyncio.Event()  # set after each write, for the event feed

    # --- reading ---

    async def read(self, steps: Steps[Result]) -> Result:
        if self.is_closed:
            raise DatabaseUnavailable
        reader = self.take_reader() if self.loop_seconds else None
        if reader is None:
            began = perf_counter()
            result = await self.threads.run(partial(self.read_in_thread, steps))
            counters.reads_in_threads.add(perf_counter() - began)
            return result
        late_step = None
        try:
            reader.begin_on_loop(self.loop_seconds)
            result = run_steps(steps, reader.run_on_loop)
            counters.reads_on_loop.add(perf_counter() - reader.deadline + self.loop_seconds)
            return result
        except OutOfTime as late:
            late_step = late.step
        finally:
            if late_step is None:
                self.release(reader)
        began = reader.deadline - self.loop_seconds
        result = await self.continue_in_thread(reader, steps, late_step)
        counters.reads_in_threads.add(perf_counter() - began)
        return result

    async def continue_in_thread(self, reader: "Reader", steps: Steps[Result], step: Step) -> Result:
        submitted = self.threads.submit(partial(self.run_in_thread, reader, steps, step))
        try:
            return await asyncio.wrap_future(submitted)
        finally:
            if submitted.cancel():  # the caller was cancelled before a thread started it
                steps.close()
                self.release(reader)

    def run_in_thread(self, reader: "Reader", steps: Steps[Result], step: Step | None = None) -> Result:
        """Runs all the steps, or the rest of them on the snapshot of the event loop."""
        try:
            reader.leave_loop()
            if step is None:
                reader.connection.execute("BEGIN")
            return run_all(reader.connection, steps, step)
        finally:
            self.release(reader)

    def read_in_thread(self, steps: Steps[Result]) -> Result:
        try:
            reader = self.idle.pop()
        except IndexError:
            reader = self.open_reader(BUSY_SECONDS)
        return self.run_in_thread(reader, steps)

    def take_reader(self) -> "Reader | None":
        """None if the read would have to wait for a lock or for a free connection."""
        try:
            return self.idle.pop()
        except IndexError:
            if len(self.opened) >= self.max_opened:
                return None
        try:
            return self.open_reader(0)
        except DatabaseUnavailable:
            return None

    def open_reader(self, patience: float) -> "Reader":
        try:
            reader = Reader(connect_sqlite(self.path, patience))
        except sqlite3.Error as error:
            raise DatabaseUnavailable from error
        self.opened.add(reader)
        return reader

    def release(self, reader: "Reader") -> None:
        try:
            reader.end()
            is_usable = len(self.idle) < self.max_idle
        except sqlite3.Error:
            is_usable = False
        if is_usable:
            self.idle.append(reader)
        else:
            self.opened.discard(reader)
            reader.connection.close()

    # --- writing ---

    async def write(self, steps: Steps[Result] | Repeatable[Result]) -> Result:
        if self.is_closed:
            raise DatabaseUnavailable
        began = perf_counter()
        try:
            result = await self.writer.write(iter(steps))
            counters.writes.add(perf_counter() - began)
            return result
        finally:
            self.written.set()

    def occupancy(self) -> Occupancy:
        return Occupancy(len(self.opened), len(self.idle), self.max_opened, self.writer.queue.qsize())

    # --- closing ---

    async def close(self) -> None:
        """Completes the running and queued writes first."""
        self.is_closed = True
        await asyncio.to_thread(self.wait_and_close)

    def wait_and_close(self) -> None:
        self.threads.shutdown()
        self.writer.close()
        for reader in self.opened:
            reader.connection.close()


class OutOfTime(BaseException):
    """A step must run in a thread. It is no Exception, so that the steps stay open."""

    def __init__(self, step: Step) -> None:
        super().__init__()
        self.step = step


class Reader:
    """A read connection and its deadline on the event loop."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self.connection = connection
        self.connection.execute("PRAGMA query_only = ON")
        self.cursor = connection.cursor()
        self.deadline = inf
        self.is_on_loop = False

    def begin_on_loop(self, seconds: float) -> None:
        if not self.is_on_loop:
            self.is_on_loop = True
            self.connection.set_progress_handler(self.is_late, STEPS_BETWEEN_CHECKS)
            self.connection.execute("PRAGMA busy_timeout = 0")
        self.cursor.execute("BEGIN")
        self.deadline = perf_counter() + seconds

    def run_on_loop(self, step: Step) -> list[Any]:
        if perf_counter() > self.deadline or isinstance(step, LongWork):
            raise OutOfTime(step)
        try:
            return run_on_sqlite(self.cursor, step)
        except sqlite3.Error as error:
            if code_of(error) in INTERRUPTED:
                raise OutOfTime(step) from None
            if is_unavailable(error):
                raise DatabaseUnavailable from error
            raise

    def is_late(self) -> bool:
        """SQLite calls this regularly and interrupts the statement if it returns True."""
        return perf_counter() > self.deadline

    def leave_loop(self) -> None:
        """Keeps the transaction: an interrupted read does not roll it back."""
        if self.is_on_loop:
            self.is_on_loop = False
            self.connection.set_progress_handler(None, 0)
            self.connection.execute(f"PRAGMA busy_timeout = {BUSY_SECONDS * 1000}")

    def end(self) -> None:
        self.deadline = inf  # BEGIN and COMMIT would be interrupted too, after it
        if self.connection.in_transaction:
            self.cursor.execute("COMMIT")


# --- connections ----------------------------------------------------------------------------------


def connect_sqlite(path: Path, patience: float = BUSY_SECONDS) -> sqlite3.Connection:
    """Connects to an existing file, which `migrate` creates; `patience` is the lock timeout in seconds."""
    connection = sqlite3.connect(
        f"{path.absolute().as_uri()}?mode=rw",
        uri=True,
        isolation_level=None,  # transactions begin explicitly
        check_same_thread=False,  # one thread at a time, but not always the same one
        cached_statements=CACHED_STATEMENTS,
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
    # SQLite copies each changed page for a savepoint; for a group the copies would be written to a file.
    connection.execute("PRAGMA temp_store = MEMORY")
    # Keeps the index pages that writes change; the default of 2 MB would read them repeatedly.
    connection.execute("PRAGMA cache_size = -8000")
    # A page that changes several times between two checkpoints is copied once.
    connection.execute(f"PRAGMA wal_autocheckpoint = {PAGES_BETWEEN_CHECKPOINTS}")
    return connection


def prepare_sqlite(connection: Any) -> None:
    """The settings of every connection."""
    connection.execute("PRAGMA foreign_keys = ON")
    connection.execute("PRAGMA synchronous = FULL")  # NORMAL may lose the last commits in a power failure
    connection.execute("PRAGMA secure_delete = ON")  # overwrites deleted content
    connection.execute(f"PRAGMA busy_timeout = {BUSY_SECONDS * 1000}")


def check_sqlite(path: Path, if_missing: str = "run `care-gateway migrate` first") -> None:
    if sqlite3.sqlite_version_info < OLDEST_SQLITE:
        raise DatabaseError(f"SQLite {sqlite3.sqlite_version} is too old; 3.38 or newer is needed")
    try:
        path.open("rb").close()  # the system's error gives the reason, SQLite's does not
        with closing(connect_sqlite(path)) as connection:
            found = {
                name: connection.execute(f"PRAGMA {name}").fetchone()[0]
                for name in ("journal_mode", "synchronous", "foreign_keys")
            }
    except FileNotFoundError:
        raise DatabaseError(f"there is no database at {path}; {if_missing}") from None
    except (OSError, sqlite3.Error) as error:
        reason = (error.strerror if isinstance(error, OSError) else "") or str(error)
        kind = DatabaseAway if code_of(error) == sqlite3.SQLITE_BUSY else DatabaseError
        raise kind(f"the database at {path} cannot be opened: {reason.lower()}") from None
    if found != {"journal_mode": "wal", "synchronous": 2, "foreign_keys": 1}:
        raise DatabaseError(f"the database at {path} is not durable or not checked: {found}")


# --- steps ----------------------------------------------------------------------------------------


def run_in_transaction(connection: sqlite3.Connection, step: Step) -> list[Any]:
    """Raises DatabaseUnavailable for faults that an operator can correct and for a lost transaction."""
    try:
        return run_on_sqlite(connection, step)
    except Exception as error:
        if is_unavailable(error) or not connection.in_transaction:
            raise DatabaseUnavailable from error
        raise


def run_all(connection: sqlite3.Connection, steps: Steps[Result], step: Step | None = None) -> Result:
    return run_steps(steps, partial(run_in_transaction, connection), step)


def run_steps(steps: Steps[Result], run: Callable[[Step], list[Any]], step: Step | None = None) -> Result:
    """Runs the steps to their end, from `step` on if given. A fault of a statement closes them."""
    try:
        step = step or next(steps)
        while True:
            step = steps.send(run(step))
    except StopIteration as done:
        return done.value  # type: ignore[no-any-return]
    except Exception:
        steps.close()
        raise


def run_on_sqlite(connection: sqlite3.Connection | sqlite3.Cursor, step: Step) -> list[Any]:
    if isinstance(step, Bulk):
        marks = ", ".join("?" * len(step.columns))
        sql = f"INSERT INTO {step.table} ({', '.join(step.columns)}) VALUES ({marks})"
        connection.executemany(sql, ([as_sqlite(value) for value in row] for row in step.rows))
        return []
    if step is DATABASE_KIND:
        return ["sqlite"]
    if isinstance(step, FastRead | FastPath):
        return []
    if isinstance(step, LongWork):
        return [step.function()]
    if isinstance(step, Together):
        for change in step.changes:
            run_on_sqlite(connection, change)
        return []
    statement, values = step
    compiled = statement.for_("sqlite")
    cursor = connection.execute(compiled.sql, sqlite_values(compiled, values))
    if compiled.returns_ids:
        return new_ids(cursor)
    return cursor.fetchall()


def new_ids(cursor: sqlite3.Cursor) -> list[tuple[int]]:
    """The ids of the inserted rows. They are consecutive, because SQLite has one writer. RETURNING would
    double the time: SQLite stores the returned rows in a temporary table."""
    last = cursor.lastrowid
    assert last is not None
    return [(id,) for id in range(last - cursor.rowcount + 1, last + 1)]


def is_unavailable(error: Exception) -> bool:
    return isinstance(error, MemoryError) or code_of(error) in UNAVAILABLE  # the former for SQLITE_NOMEM


def code_of(error: Exception) -> int:
    """0 for errors that Python's sqlite3 module raises itself."""
    return getattr(error, "sqlite_errorcode", 0) & 0xFF


def sqlite_values(statement: CompiledStatement, given: Values) -> list[Any]:
    """The parameters in one pass, which takes as long as a small statement."""
    values = []
    try:
        for name, default in statement.parameters:
            value = given[name] if default is REQUIRED else default
            values.append(value if value.__class__ in UNCONVERTED_TYPES else as_sqlite(value))
    except KeyError as missing:
        raise MissingParameter(missing.args[0], statement.sql) from None
    return values


def as_sqlite(value: Any) -> Any:
    if isinstance(value, datetime):
        return moment_as_text(value)
    if isinstance(value, str):
        return str(value)  # a StrEnum, for which sqlite3 would look up an adapter
    if isinstance(value, list):
        return orjson.dumps(value, as_sqlite, orjson.OPT_PASSTHROUGH_DATETIME).decode()
    return value
