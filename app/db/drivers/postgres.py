"""PostgreSQL: the steps of a read or change run on one connection of a pool."""

import asyncio
import logging
import random
import re
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator
from contextlib import asynccontextmanager, suppress
from contextvars import Context
from functools import lru_cache, partial
from time import monotonic, perf_counter
from typing import Any, TypeVar
from weakref import WeakKeyDictionary

from app.db.drivers.batches import MAX_BATCH, MAX_CHANGES, UNCONFIRMED, BatchItem, run_batch
from app.db.drivers.connections import ACQUIRE_SECONDS, Primary, open_pool
from app.db.drivers.fair_turns import CONNECTED, FairThreads, FairTurns
from app.db.drivers.faults import (
    CONFLICTS,
    close_at_once,
    is_lost,
    is_of_worker,
    is_open,
    raising_unavailable,
)
from app.db.drivers.interface import (
    CHANNEL,
    DatabaseError,
    DatabaseUnavailable,
    Occupancy,
    OutcomeUnknown,
    to_the_end,
)
from app.db.drivers.waiting_commits import reading_waiting_commits
from app.db.drivers.watching import SILENT_SECONDS, watch_hosts
from app.db.sql import (
    DATABASE_KIND,
    Batchable,
    Bulk,
    CompiledStatement,
    DatabaseKind,
    FastPath,
    FastRead,
    LongWork,
    OnlyStatement,
    Repeatable,
    Statement,
    Step,
    Steps,
    Together,
    Values,
    changes_of,
    mapping_steps,
)
from app.telemetry import counters

Result = TypeVar("Result")
RunBatch = Callable[[FairTurns, BatchItem], Awaitable[None]]

ATTEMPTS = 5  # to commit a change that conflicts with others
READS_AT_ONCE = 2  # reads or batches of one statement
ANNOUNCE_SECONDS = 0.02  # between two announcements, each of which costs as much as a small change
PAUSE_SECONDS = 0.05  # before the next attempt, at most
UNKNOWN = "the database went away; whether the change was kept is not known"
COMMIT_SECONDS = 5  # less than ACQUIRE_SECONDS: commits that wait must not make reads fail
MIN_WAIT = 0.5  # seconds for which a commit waits if the standby is lost
CITUS_SECONDS = 10  # for the statements of a change on Citus, whose workers know no `lock_timeout` of ours
READ = "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY"
CHANGE = "BEGIN"
# A change does not wait for long for a row of another transaction (a deadlock is found after 1 s), and a
# process that has stopped does not keep rows locked. Local, because commands, which wait longer, may use the
# same session of a pooler.
LIMITED_CHANGE = "BEGIN; SET LOCAL lock_timeout = '3s'; SET LOCAL idle_in_transaction_session_timeout = '10s'"
NOTIFY = f"SELECT pg_notify('{CHANNEL}', parties) FROM unnest($1::text[]) AS parties"

# One thread: Python runs the code of one thread at a time.
WORKER = FairThreads(1, "long-work")

logger = logging.getLogger("care.database")


class PostgresDatabase:
    def __init__(
        self, primary: Primary, pool: Any, is_patient: bool, is_pooled: bool, kind: DatabaseKind
    ) -> None:
        self.primary = primary
        self.pool = pool
        self.kind = kind
        self.acquire_seconds = None if is_patient else ACQUIRE_SECONDS
        self.commit_seconds = None if is_patient else COMMIT_SECONDS
        self.change_seconds = CITUS_SECONDS if kind == "citus" and not is_patient else None
        self.begin_change = CHANGE if is_patient else LIMITED_CHANGE
        self.is_pooled = is_pooled  # by PgBouncer, through which no notification arrives
        # asyncpg's pool does not keep the order. Changes that wait, for a row or for a standby, leave a
        # connection to reads and one to their audit records.
        size = pool.get_max_size() - 1
        self.turns = FairTurns(size)
        self.turns_to_change = FairTurns(max(1, size - 1))
        self.turn_to_record = FairTurns(1)
        self.fast_path_turn = FairTurns(1)  # so that the next batch collects during a commit
        # For each statement, so that the next batch collects during the last ones.
        self.turns_to_read: WeakKeyDictionary[Statement, FairTurns] = WeakKeyDictionary()
        self.idle: list[Any] = []
        self.has_unconfirmed = False  # a commit may still wait for a lost standby
        self.losses = 0  # a connection from before the last loss is not used again
        self.unannounced: set[str] = set()
        self.announcing: asyncio.Task[None] | None = None
        self.in_use: dict[Any, float] = {}  # connections, and since when
        self.watching: asyncio.Task[None] | None = None
        if not is_patient:
            self.watching = asyncio.create_task(watch_hosts(primary, self.silent_connections))

    async def read(self, steps: Steps[Result]) -> Result:
        began = perf_counter()
        result = await self.run(steps, is_read=True)
        counters.reads_on_connections.add(perf_counter() - began)
        return result

    async def write(self, steps: Steps[Result] | Repeatable[Result]) -> Result:
        began = perf_counter()
        attempts = ATTEMPTS if isinstance(steps, Repeatable) else 1
        while True:
            attempts -= 1
            parties: set[str] = set()
            try:
                result = await self.run(mapping_steps(steps, partial(add_parties, parties)))
            except DatabaseUnavailable as fault:
                if not attempts or not isinstance(fault.__cause__, CONFLICTS):
                    raise
                await asyncio.sleep(random.random() * PAUSE_SECONDS)
            else:
                counters.writes.add(perf_counter() - began)
                self.announce(parties)
                return result

    async def run(self, steps: Steps[Result], is_read: bool = False) -> Result:
        try:
            return await self.run_to_end(steps, is_read)
        finally:
            steps.close()  # after an error, which is then its context

    async def run_to_end(self, steps: Steps[Result], is_read: bool) -> Result:
        try:
            step = next(steps)
            while step is DATABASE_KIND or isinstance(step, FastRead | FastPath | LongWork):
                step = steps.send(await self.run_outside(step))
        except StopIteration as done:
            return done.value  # type: ignore[no-any-return]
        # On Citus a batch would depend on the machines of all its requests.
        if is_read and isinstance(step, Batchable) and self.kind == "postgresql":
            rows = await self.read_in_batch(step)
            if rows is not None:
                return result_of(steps, rows)
        is_single = isinstance(step, OnlyStatement)
        if is_read:
            turns = [self.turns]
        else:
            turns = [self.turn_to_record] if is_single else [self.turns_to_change, self.turns]
        async with self.connection(*turns) as connection:
            if self.has_unconfirmed and not is_read:
                await self.reject_while_commits_wait(connection)
            if not is_single:
                return await self.run_transaction(connection, steps, step, is_read)
            running = run_steps(connection, self.kind, steps, step)
            return await (running if is_read else self.confirm(connection, running))

    async def run_outside(self, step: Step) -> list[Any]:
        """Runs a step that needs no transaction."""
        if isinstance(step, LongWork):
            return [await WORKER.run(step.function)]
        if step is DATABASE_KIND:
            return [self.kind]
        if self.kind != "postgresql":
            return []
        if isinstance(step, FastPath):
            return await self.run_fast_path(step)
        assert isinstance(step, FastRead)
        return await self.read_in_batch(step) or []

    async def run_fast_path(self, step: FastPath) -> list[Any]:
        """Returns the row of the change, or nothing if it was not made."""
        item = BatchItem(step.statement, values=step.values, is_change=True)
        await self.run_or_join(self.fast_path_turn, item, self.run_changes)
        rows = [row for row in item.rows or () if row[1] is not None]
        if rows:
            self.announce({f"{step.values['caregiver']} {rows[0][1]}"})
        return rows

    async def run_changes(self, turns: FairTurns, item: BatchItem) -> None:
        async with self.connection(self.turns_to_change, self.turns, until=item.until) as connection:
            if self.has_unconfirmed:
                await self.reject_while_commits_wait(connection)
            items = [item, *turns.take(item.statement, MAX_CHANGES - 1)]
            await to_the_end(run_batch(connection, items, self.confirm))

    async def read_in_batch(self, step: Batchable) -> list[Any] | None:
        """Returns the row, or None if PostgreSQL rolled the batch back."""
        item = BatchItem(step.statement, values=step.values)
        turns = self.turns_to_read.get(step.statement)
        if turns is None:
            turns = self.turns_to_read[step.statement] = FairTurns(READS_AT_ONCE)
        await self.run_or_join(turns, item, self.run_reads)
        return item.rows

    async def run_reads(self, turns: FairTurns, item: BatchItem) -> None:
        async with self.connection(until=item.until) as connection:
            items = [item, *turns.take(item.statement, MAX_BATCH - 1)]
            if len(items) > 1:
                await to_the_end(run_batch(connection, items))
            else:
                with raising_unavailable():
                    item.rows = await run_step(connection, self.kind, (item.statement, item.values))

    async def run_or_join(self, turns: FairTurns, item: BatchItem, run: RunBatch) -> None:
        """Runs the next batch, or waits until another request has run the statement of the item."""
        task = asyncio.current_task()
        CONNECTED.add(task)
        try:
            item.until = self.end_of_wait()
            if not await self.has_turn(turns, item):
                return
            try:
                if item.turn is None:
                    await asyncio.sleep(0)  # other requests that have arrived meanwhile join the batch
                await run(turns, item)
            finally:
                turns.release()
        finally:
            CONNECTED.discard(task)

    async def has_turn(self, turns: FairTurns, item: BatchItem) -> bool:
        if turns.free or item.until is None:
            return await turns.acquire(item)
        timer = asyncio.get_running_loop().call_at(item.until, item.time_out)
        try:
            return await turns.acquire(item)
        finally:
            timer.cancel()

    def end_of_wait(self) -> float | None:
        """Until when a request waits for a connection; None: without a limit."""
        return self.acquire_seconds and asyncio.get_running_loop().time() + self.acquire_seconds

    async def run_transaction(
        self, connection: Any, steps: Steps[Result], step: Step, is_read: bool
    ) -> Result:
        try:
            with raising_unavailable():
                await connection.execute(READ if is_read else self.begin_change)
            try:
                async with asyncio.timeout(None if is_read else self.change_seconds):
                    result = await run_steps(connection, self.kind, steps, step)
            except TimeoutError as error:
                raise DatabaseUnavailable from error
            if is_read:
                with raising_unavailable():
                    await connection.execute("COMMIT")
        except BaseException:
            await roll_back(connection)
            raise
        if not is_read:
            with raising_unavailable():
                await self.confirm(connection, connection.execute("COMMIT"))
        return result

    async def confirm(self, connection: Any, commit: Awaitable[Result]) -> Result:
        """A commit that is not confirmed may be complete, and may still wait for a standby. Its connection is
        closed: asyncpg would cancel the wait, and PostgreSQL then shows a change that is not replicated."""
        try:
            async with asyncio.timeout(self.commit_seconds):
                return await commit
        except BaseException as error:
            fault = error.__cause__ if isinstance(error, DatabaseUnavailable) else error
            is_late = isinstance(fault, TimeoutError)
            is_left = is_late or isinstance(fault, asyncio.CancelledError)
            is_unknown = is_late or is_lost(fault)
            self.has_unconfirmed |= is_left or is_unknown
            if is_left:
                close_at_once(connection)
            if is_unknown:
                raise OutcomeUnknown(UNCONFIRMED if is_late else UNKNOWN) from fault
            raise

    async def reject_while_commits_wait(self, connection: Any) -> None:
        """Until the standby is back, a commit keeps its process of PostgreSQL, also without its connection.
        Every further change would keep one more, until PostgreSQL accepts no connections."""
        _, seconds = await run_steps(connection, self.kind, reading_waiting_commits())
        if seconds > MIN_WAIT:
            raise DatabaseUnavailable from DatabaseError("earlier changes wait for a synchronous standby")
        self.has_unconfirmed = False

    def announce(self, parties: set[str]) -> None:
        """Announces committed events to all processes. With NOTIFY in the transaction of the change, only one
        transaction could commit at a time."""
        self.unannounced |= parties
        if self.unannounced and self.announcing is None:
            # Not in the turns of this caller, because it announces the events of all.
            self.announcing = asyncio.create_task(self.send_announcements(), context=Context())

    async def send_announcements(self) -> None:
        """A subscription finds an event that stays unannounced by its next poll (care/subscriptions.py)."""
        try:
            while self.unannounced:
                parties, self.unannounced = self.unannounced, set()
                async with self.connection() as connection:
                    await connection.fetch(NOTIFY, sorted(parties))
                await asyncio.sleep(ANNOUNCE_SECONDS)
        except Exception as error:
            logger.warning("new events could not be announced: %s", type(error).__name__)
        finally:
            self.announcing = None

    @asynccontextmanager
    async def connection(self, *turns: FairTurns, until: float | None = None) -> AsyncIterator[Any]:
        """Without `turns` as for a read."""
        taken: list[FairTurns] = []
        task = asyncio.current_task()
        CONNECTED.add(task)
        try:
            try:
                async with asyncio.timeout_at(until or self.end_of_wait()):
                    for turn in turns or [self.turns]:
                        await turn.acquire()
                        taken.append(turn)
                    losses = self.losses
                    connection = await self.take_connection()
            except TimeoutError as error:
                raise DatabaseUnavailable from error
            self.in_use[connection] = monotonic()
            try:
                yield connection
            except BaseException as fault:
                # asyncpg raises it if the connection is closed before a prepared statement is sent.
                was_closed = isinstance(fault, AttributeError) and not is_open(connection)
                cause = fault.__cause__ if isinstance(fault, DatabaseUnavailable) else None
                if was_closed or self.is_lost(cause, connection):
                    await self.drop_connections(connection, losses)
                await self.return_to_pool(connection)
                if was_closed:
                    raise DatabaseUnavailable from fault
                raise
            finally:
                del self.in_use[connection]
            if losses == self.losses:
                self.idle.append(connection)
            else:
                await self.return_to_pool(connection)
        finally:
            CONNECTED.discard(task)
            for turn in taken:
                turn.release()

    def silent_connections(self) -> list[Any]:
        """Returns the connections whose server may have stopped: they have been in use for SILENT_SECONDS."""
        since = monotonic() - SILENT_SECONDS
        return [connection for connection, began in self.in_use.items() if began < since]

    def is_lost(self, fault: BaseException | None, connection: Any) -> bool:
        return is_lost(fault) and not (self.kind == "citus" and is_of_worker(fault, connection))

    async def drop_connections(self, lost: Any, losses: int) -> None:
        """The first caller that notices a loss closes the idle connections too, because they lead to the same
        server: reads on a former primary would succeed with outdated rows."""
        dropped = [lost]
        if losses == self.losses:
            self.losses += 1
            dropped += self.idle
            self.idle = []
            await self.pool.expire_connections()
        for connection in dropped:
            close_at_once(connection)
            await self.return_to_pool(connection)

    async def take_connection(self) -> Any:
        """Idle connections are kept here, because asyncpg's pool takes as long as a small statement."""
        while self.idle:
            connection = self.idle.pop()
            if is_open(connection):
                return connection
            await self.return_to_pool(connection)
        try:
            return await self.pool.acquire()
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
        self.losses += 1  # a connection in use then returns to the pool, which waits for it
        if self.watching is not None:
            self.watching.cancel()
            await asyncio.wait([self.watching])
        if self.announcing is not None:
            await self.announcing
        while self.idle:
            await self.return_to_pool(self.idle.pop())
        await self.pool.close()


def add_parties(parties: set[str], step: Step) -> Step:
    """Adds the caregiver and client of the events that the step adds; an empty text for several clients."""
    for statement, values in changes_of(step):
        if statement.adds_events:
            parties.add(f"{values['caregiver']} {values['client']}" if "client" in values else "")
    return step


async def roll_back(connection: Any) -> None:
    """Closes the connection if that fails, so that no transaction stays open. A lost one has rolled back."""
    try:
        await connection.execute("ROLLBACK")
    except BaseException as error:
        close_at_once(connection)
        if not isinstance(error, Exception):
            raise


async def open_postgres(url: str, connections: int, patience: float | None) -> PostgresDatabase:
    primary = Primary(url)
    pool, is_pooled, kind = await open_pool(primary, connections, patience)
    return PostgresDatabase(primary, pool, patience is None, is_pooled, kind)


def result_of(steps: Steps[Result], rows: list[Any]) -> Result:
    """The result of steps whose last statement returned these rows."""
    try:
        steps.send(rows)
    except StopIteration as done:
        return done.value  # type: ignore[no-any-return]
    raise RuntimeError("there is another statement")


async def run_steps(
    connection: Any, kind: DatabaseKind, steps: Steps[Result], step: Step | None = None
) -> Result:
    """Runs the steps to their end, from `step` on if given."""
    try:
        step = step or next(steps)
        while True:
            with raising_unavailable():
                rows = await run_step(connection, kind, step)
            step = steps.send(rows)
    except StopIteration as done:
        return done.value  # type: ignore[no-any-return]
    finally:
        steps.close()


async def run_step(connection: Any, kind: DatabaseKind, step: Step) -> list[Any]:
    if isinstance(step, Bulk):
        rows = while_connected(connection, step.rows)
        await connection.copy_records_to_table(step.table, records=rows, columns=step.columns)
        return []
    if step is DATABASE_KIND:
        return [kind]
    if isinstance(step, FastRead | FastPath):
        return []
    if isinstance(step, LongWork):
        return [await WORKER.run(step.function)]
    if isinstance(step, Together):
        return await run_together(connection, kind, step)
    statement, given = step
    compiled = statement.for_(kind)
    if statement.reads_after_lock:
        return await read_after_lock(connection, compiled, given)
    return await connection.fetch(compiled.sql, *compiled.values(given))  # type: ignore[no-any-return]


def while_connected(connection: Any, rows: Iterable[Any]) -> Iterator[Any]:
    """asyncpg would read all rows, and write each of them to a connection that is lost."""
    for row in rows:
        if connection._transport.is_closing():
            raise ConnectionResetError("the connection was lost while rows were written")
        yield row


async def run_together(connection: Any, kind: DatabaseKind, step: Together) -> list[Any]:
    """In one round trip, except on Citus, which rejects an INSERT in a common table expression."""
    if kind == "citus":
        for change in step.changes:
            await run_step(connection, kind, change)
        return []
    sql = as_one_statement(tuple([statement for statement, _ in step.changes]))
    values = [value for statement, given in step.changes for value in statement.for_(kind).values(given)]
    return await connection.fetch(sql, *values)  # type: ignore[no-any-return]


@lru_cache(maxsize=256)
def as_one_statement(statements: tuple[Statement, ...]) -> str:
    """The statements as common table expressions of one PostgreSQL statement. Their parameters follow each
    other."""
    written: list[str] = []
    count = 0
    for statement in statements:
        compiled = statement.for_("postgresql")
        shifted = re.sub(r"\$(\d+)", lambda found: f"${int(found[1]) + count}", compiled.sql)  # noqa: B023
        written.append(f"change_{len(written)} AS ({shifted})")
        count += len(compiled.parameters)
    return f"WITH {', '.join(written)} SELECT"


async def read_after_lock(connection: Any, compiled: CompiledStatement, given: Values) -> list[Any]:
    """Runs the statement twice in one round trip. A run that waits for a lock reads other rows as they were
    before it waited; the second run has the lock, and reads them as they are now."""
    runs = [compiled.values({**given, "is_locked": is_locked}) for is_locked in (False, True)]
    rows: list[Any] = await connection.fetchmany(compiled.sql, runs)
    return rows[1:]  # nothing if the first run locked nothing
