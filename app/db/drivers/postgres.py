"""PostgreSQL: each operation runs on a connection of a pool."""

import asyncio
import logging
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from functools import partial
from time import perf_counter
from typing import Any, TypeVar

from app.db.drivers.interface import CHANNEL, DatabaseError, DatabaseUnavailable, Occupancy
from app.db.sql import (
    DATABASE_KIND,
    Bulk,
    CompiledStatement,
    OnlyStatement,
    Operation,
    Step,
    Together,
    Values,
    as_one_statement,
    changes_of,
    observed,
)
from app.telemetry import counters

try:
    import asyncpg
except ImportError:
    raise DatabaseError("PostgreSQL needs asyncpg; install the project with its extra `postgres`") from None

Result = TypeVar("Result")

OLDEST_POSTGRES = 15  # the oldest major version that PostgreSQL supports
ACQUIRE_SECONDS = 10  # the same as the lock timeout of SQLite
NOTIFY = f"SELECT pg_notify('{CHANNEL}', parties) FROM unnest($1::text[]) AS parties"

logger = logging.getLogger("care.database")

UNAVAILABLE = (
    OSError,
    TimeoutError,
    asyncpg.PostgresConnectionError,
    asyncpg.InsufficientResourcesError,  # a full disk, too many connections
    asyncpg.LockNotAvailableError,  # another transaction holds the lock for long
    asyncpg.OperatorInterventionError,  # the server stops or starts
    asyncpg.PostgresSystemError,  # an I/O error
    asyncpg.TransactionRollbackError,  # a deadlock or a serialization failure
    asyncpg.InternalClientError,  # "cannot switch to state": the server died within a response
)


class PostgresDatabase:
    def __init__(self, pool: Any, acquire_seconds: float | None) -> None:
        self.pool = pool
        self.acquire_seconds = acquire_seconds
        self.turns = asyncio.Semaphore(pool.get_max_size())  # asyncpg's pool does not keep the order
        self.idle: list[Any] = []
        self.unannounced: set[str] = set()
        self.announcing: asyncio.Task[None] | None = None

    async def read(self, operation: Operation[Result]) -> Result:
        began = perf_counter()
        result = await self.run(operation, isolation="repeatable_read", readonly=True)
        counters.reads_on_connections.add(perf_counter() - began)
        return result

    async def write(self, operation: Operation[Result]) -> Result:
        began = perf_counter()
        parties: set[str] = set()
        result = await self.run(observed(operation, partial(add_parties, parties)))
        counters.writes.add(perf_counter() - began)
        self.announce(parties)
        return result

    async def run(self, operation: Operation[Result], **transaction: Any) -> Result:
        try:
            step = next(operation)
            if step is DATABASE_KIND:
                step = operation.send(["postgresql"])
        except StopIteration as done:
            return done.value  # type: ignore[no-any-return]
        async with self.connection() as connection:
            if isinstance(step, OnlyStatement):
                return await run_steps_on_postgres(connection, operation, step)
            return await run_transaction(connection, operation, step, **transaction)

    def announce(self, parties: set[str]) -> None:
        """Announces committed events to all processes. With NOTIFY in the transaction of the change, only one
        transaction could commit at a time."""
        self.unannounced |= parties
        if self.unannounced and self.announcing is None:
            self.announcing = asyncio.create_task(self.send_announcements())

    async def send_announcements(self) -> None:
        """A subscription finds an event that stays unannounced by its next poll (care/subscriptions.py)."""
        try:
            while self.unannounced:
                parties, self.unannounced = self.unannounced, set()
                async with self.connection() as connection:
                    await connection.fetch(NOTIFY, sorted(parties))
        except Exception as error:
            logger.warning("new events could not be announced: %s", type(error).__name__)
        finally:
            self.announcing = None

    @asynccontextmanager
    async def connection(self) -> AsyncIterator[Any]:
        try:
            async with asyncio.timeout(self.acquire_seconds):
                await self.turns.acquire()
        except TimeoutError as error:
            raise DatabaseUnavailable from error
        try:
            connection = await self.take_connection()
            try:
                yield connection
            except BaseException:
                await self.return_to_pool(connection)
                raise
            self.idle.append(connection)
        finally:
            self.turns.release()

    async def take_connection(self) -> Any:
        """Idle connections are kept here, because asyncpg's pool takes as long as a small statement."""
        while self.idle:
            connection = self.idle.pop()
            if not connection.is_closed():
                return connection
            await self.return_to_pool(connection)
        try:
            return await self.pool.acquire(timeout=self.acquire_seconds)
        except Exception as error:  # no statement has run
            raise DatabaseUnavailable from error

    async def return_to_pool(self, connection: Any) -> None:
        """The pool ends what still runs, and replaces a connection that is closed."""
        with suppress(Exception):
            await self.pool.release(connection)

    def occupancy(self) -> Occupancy:
        idle = self.pool.get_idle_size() + len(self.idle)
        return Occupancy(self.pool.get_size(), idle, self.pool.get_max_size())

    async def close(self) -> None:
        if self.announcing is not None:
            await self.announcing
        while self.idle:
            await self.return_to_pool(self.idle.pop())
        await self.pool.close()


def add_parties(parties: set[str], step: Step) -> None:
    """Adds the caregiver and client of the events that the step adds; an empty text for several clients."""
    for statement, values in changes_of(step):
        if statement.adds_events:
            parties.add(f"{values['caregiver']} {values['client']}" if "client" in values else "")


async def open_postgres(url: str, connections: int, patience: float | None) -> PostgresDatabase:
    try:
        pool = await asyncpg.create_pool(
            url, min_size=1, max_size=connections, command_timeout=patience, reset=keep_session
        )
    except ValueError as error:  # its text may quote a part of the password
        if str(error).startswith("`sslmode` parameter must be"):  # does not quote the address
            raise DatabaseError(f"the address of the PostgreSQL database cannot be used: {error}") from None
        raise DatabaseError(
            "the address of the PostgreSQL database cannot be read; "
            "write special characters in the user name and password as %XX"
        ) from None
    except (OSError, asyncpg.PostgresError, asyncpg.InterfaceError) as error:
        reason = str(error) or "it does not respond"
        raise DatabaseError(f"the PostgreSQL database cannot be opened: {reason}") from None
    await refuse_old_server(pool)
    return PostgresDatabase(pool, None if patience is None else ACQUIRE_SECONDS)


async def keep_session(connection: Any) -> None:
    """Runs before a connection returns to the pool, in place of a round trip that resets the session: no
    operation sets a parameter, listens, or takes an advisory lock. asyncpg has ended an open transaction."""


async def refuse_old_server(pool: Any) -> None:
    async with pool.acquire() as connection:
        version = connection.get_server_version()
    if version.major < OLDEST_POSTGRES:
        await pool.close()
        raise DatabaseError(
            f"PostgreSQL {version.major}.{version.minor} is too old; {OLDEST_POSTGRES} or newer is needed"
        )


@contextmanager
def raising_unavailable(*message: str) -> Iterator[None]:
    try:
        yield
    except Exception as error:
        if is_unavailable(error):
            raise DatabaseUnavailable(*message) from error
        raise


def is_unavailable(error: Exception) -> bool:
    # asyncpg raises the same class for a closed connection and for a wrong call; only the text differs.
    is_closed = type(error) is asyncpg.InterfaceError and "clos" in str(error)
    return is_closed or isinstance(error, UNAVAILABLE)


async def run_transaction(connection: Any, operation: Operation[Result], step: Step, **kind: Any) -> Result:
    transaction = connection.transaction(**kind)
    with raising_unavailable():
        await transaction.start()
    try:
        result = await run_steps_on_postgres(connection, operation, step)
    except BaseException:
        with suppress(Exception):  # a lost connection has rolled back
            await transaction.rollback()
        raise
    with raising_unavailable("the database went away; whether the change was kept is not known"):
        await transaction.commit()
    return result


async def run_steps_on_postgres(
    connection: Any, operation: Operation[Result], step: Step | None = None
) -> Result:
    """Runs an operation to its end, from `step` on if given."""
    try:
        step = step or next(operation)
        while True:
            with raising_unavailable():
                rows = await run_on_postgres(connection, step)
            step = operation.send(rows)
    except StopIteration as done:
        return done.value  # type: ignore[no-any-return]
    finally:
        operation.close()


async def run_on_postgres(connection: Any, step: Step) -> list[Any]:
    if isinstance(step, Bulk):
        await connection.copy_records_to_table(step.table, records=step.rows, columns=step.columns)
        return []
    if step is DATABASE_KIND:
        return ["postgresql"]
    if isinstance(step, Together):
        sql = as_one_statement(tuple([statement for statement, _ in step.changes]))
        values = [
            value for statement, given in step.changes for value in statement.for_("postgresql").values(given)
        ]
        return await connection.fetch(sql, *values)  # type: ignore[no-any-return]
    statement, given = step
    compiled = statement.for_("postgresql")
    if statement.reads_after_lock:
        return await read_after_lock(connection, compiled, given)
    return await connection.fetch(compiled.sql, *compiled.values(given))  # type: ignore[no-any-return]


async def read_after_lock(connection: Any, compiled: CompiledStatement, given: Values) -> list[Any]:
    """Runs the statement twice in one round trip. A run that waits for a lock reads other rows as they were
    before it waited; the second run has the lock, and reads them as they are now."""
    runs = [compiled.values({**given, "is_locked": is_locked}) for is_locked in (False, True)]
    rows: list[Any] = await connection.fetchmany(compiled.sql, runs)
    return rows[1:]  # nothing if the first run locked nothing
