"""The two databases: each runs an operation whole, a read on one snapshot, a write in one transaction."""

import asyncio
import sqlite3
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime
from pathlib import Path
from typing import Any, Protocol, TypeVar

import orjson

from app.db.statements import Bulk, Operation, Step
from app.db.tables import moment_as_text

Result = TypeVar("Result")

OLDEST_SQLITE = (3, 38, 0)  # json_each without an extension, RETURNING
BUSY_SECONDS = 10


class DatabaseError(Exception):
    """The database cannot be opened or is not fit; the message is one sentence for the operator."""


def is_fault_of_database(error: BaseException) -> bool:
    """Locked, full, gone: what an operator can mend, and no mistake in the code."""
    if isinstance(error, sqlite3.OperationalError | TimeoutError):
        return True
    return type(error).__module__.startswith("asyncpg.")  # imported only where PostgreSQL is used


class Database(Protocol):
    async def read(self, operation: Operation[Result]) -> Result: ...

    async def write(self, operation: Operation[Result]) -> Result: ...

    async def close(self) -> None: ...


async def open_database(url: str, readers: int = 4, patience: float | None = 60) -> Database:
    """`patience` is how many seconds a statement may take on PostgreSQL; None is for whole-world commands."""
    if url.startswith("sqlite:///"):
        return SqliteDatabase(sqlite_path(url), readers)
    return await open_postgres(url, readers, patience)


def sqlite_path(url: str) -> Path:
    return Path(url.removeprefix("sqlite:///"))


# --- SQLite ---------------------------------------------------------------------------------------


class SqliteDatabase:
    """One thread writes, a few read, each through sqlite3 itself: a hop per statement costs more than it."""

    def __init__(self, path: Path, readers: int) -> None:
        check_sqlite(path)
        self.path = path
        self.local = threading.local()
        self.connections: list[sqlite3.Connection] = []
        self.readers = ThreadPoolExecutor(readers, thread_name_prefix="reader")
        self.writer = ThreadPoolExecutor(1, thread_name_prefix="writer")

    async def read(self, operation: Operation[Result]) -> Result:
        return await asyncio.get_running_loop().run_in_executor(
            self.readers, self.run_transaction, "BEGIN", operation
        )

    async def write(self, operation: Operation[Result]) -> Result:
        # The thread finishes what it began even if the caller no longer waits.
        return await asyncio.get_running_loop().run_in_executor(
            self.writer, self.run_transaction, "BEGIN IMMEDIATE", operation
        )

    def run_transaction(self, begin: str, operation: Operation[Result]) -> Result:
        connection = self.own_connection()
        connection.execute(begin)
        try:
            result = run_steps(operation, lambda step: run_on_sqlite(connection, step))
            connection.execute("COMMIT")
        except BaseException:
            self.roll_back(connection)
            raise
        return result

    def roll_back(self, connection: sqlite3.Connection) -> None:
        if not connection.in_transaction:  # SQLite itself rolls back on some faults, a full disk among them
            return
        try:
            connection.execute("ROLLBACK")
        except sqlite3.Error:
            # Nothing can be done on this connection any more; the thread's next one is new.
            self.connections.remove(connection)
            connection.close()
            del self.local.connection

    def own_connection(self) -> sqlite3.Connection:
        connection = getattr(self.local, "connection", None)
        if connection is None:
            connection = self.local.connection = connect_sqlite(self.path)
            self.connections.append(connection)
        return connection

    async def close(self) -> None:
        for pool in (self.readers, self.writer):
            await asyncio.to_thread(pool.shutdown)
        for connection in self.connections:
            connection.close()


def connect_sqlite(path: Path) -> sqlite3.Connection:
    """A connection to an existing file; `migrate` makes the file."""
    connection = sqlite3.connect(
        f"{path.absolute().as_uri()}?mode=rw",
        uri=True,
        isolation_level=None,  # transactions begin where the code says so
        check_same_thread=False,  # opened by its thread, closed at the end by another
        cached_statements=512,
        timeout=BUSY_SECONDS,
    )
    try:
        prepare_sqlite(connection)
    except sqlite3.Error:
        connection.close()
        raise
    return connection


def prepare_sqlite(connection: Any) -> None:
    """What every connection needs, whoever opened it."""
    connection.execute("PRAGMA foreign_keys = ON")
    connection.execute("PRAGMA synchronous = FULL")  # NORMAL loses the last commits when the power goes
    connection.execute(f"PRAGMA busy_timeout = {BUSY_SECONDS * 1000}")


def check_sqlite(path: Path) -> None:
    if sqlite3.sqlite_version_info < OLDEST_SQLITE:
        raise DatabaseError(f"SQLite {sqlite3.sqlite_version} is too old; 3.38 or newer is needed")
    if not path.exists():
        raise DatabaseError(f"there is no database at {path}; run `care-gateway migrate` first")
    try:
        connection = connect_sqlite(path)
        try:
            found = {
                name: connection.execute(f"PRAGMA {name}").fetchone()[0]
                for name in ("journal_mode", "synchronous", "foreign_keys")
            }
        finally:
            connection.close()
    except sqlite3.Error as error:
        raise DatabaseError(f"the database at {path} cannot be opened: {error}") from None
    if found != {"journal_mode": "wal", "synchronous": 2, "foreign_keys": 1}:
        raise DatabaseError(f"the database at {path} is not durable or not checked: {found}")


def run_steps(operation: Operation[Result], run: Callable[[Step], list[Any]]) -> Result:
    try:
        step = next(operation)
        while True:
            try:
                rows = run(step)
            except Exception as fault:
                step = operation.throw(fault)  # an operation may know what a broken constraint means
            else:
                step = operation.send(rows)
    except StopIteration as done:
        return done.value  # type: ignore[no-any-return]
    finally:
        operation.close()


def run_on_sqlite(connection: sqlite3.Connection, step: Step) -> list[Any]:
    if isinstance(step, Bulk):
        marks = ", ".join("?" * len(step.columns))
        sql = f"INSERT INTO {step.table} ({', '.join(step.columns)}) VALUES ({marks})"
        connection.executemany(sql, ([as_sqlite(value) for value in row] for row in step.rows))
        return []
    statement, values = step
    written = statement.for_("sqlite")
    return connection.execute(written.sql, sqlite_values(written.values(values))).fetchall()


def sqlite_values(values: list[Any]) -> list[Any]:
    return [as_sqlite(value) for value in values]


def as_sqlite(value: Any) -> Any:
    if isinstance(value, datetime):
        return moment_as_text(value)
    if isinstance(value, list):
        return orjson.dumps([as_sqlite(item) for item in value]).decode()
    return value


# --- PostgreSQL -----------------------------------------------------------------------------------


class PostgresDatabase:
    def __init__(self, pool: Any) -> None:
        self.pool = pool

    async def read(self, operation: Operation[Result]) -> Result:
        async with (
            self.pool.acquire() as connection,
            connection.transaction(isolation="repeatable_read", readonly=True),
        ):
            return await run_steps_on_postgres(connection, operation)

    async def write(self, operation: Operation[Result]) -> Result:
        async with self.pool.acquire() as connection, connection.transaction():
            return await run_steps_on_postgres(connection, operation)

    async def close(self) -> None:
        await self.pool.close()


async def open_postgres(url: str, connections: int, patience: float | None) -> PostgresDatabase:
    try:
        import asyncpg
    except ImportError:
        raise DatabaseError(
            "PostgreSQL needs asyncpg; install the project with its extra `postgres`"
        ) from None
    try:
        pool = await asyncpg.create_pool(url, min_size=1, max_size=connections, command_timeout=patience)
    except ValueError:  # its text would quote a part of the address, which may be one of the password
        raise DatabaseError(
            "the address of the PostgreSQL database cannot be read; "
            "what is special in a user name or password is written as %XX"
        ) from None
    except (OSError, asyncpg.PostgresError, asyncpg.InterfaceError) as error:
        reason = str(error) or "it does not answer"
        raise DatabaseError(f"the PostgreSQL database cannot be opened: {reason}") from None
    return PostgresDatabase(pool)


async def run_steps_on_postgres(connection: Any, operation: Operation[Result]) -> Result:
    try:
        step = next(operation)
        while True:
            try:
                rows = await run_on_postgres(connection, step)
            except Exception as fault:
                step = operation.throw(fault)
            else:
                step = operation.send(rows)
    except StopIteration as done:
        return done.value  # type: ignore[no-any-return]
    finally:
        operation.close()


async def run_on_postgres(connection: Any, step: Step) -> list[Any]:
    if isinstance(step, Bulk):
        await connection.copy_records_to_table(step.table, records=step.rows, columns=step.columns)
        return []
    statement, values = step
    written = statement.for_("postgresql")
    return await connection.fetch(written.sql, *written.values(values))  # type: ignore[no-any-return]
