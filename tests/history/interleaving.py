"""Runs two changes on two connections of PostgreSQL, one statement at a time, in each possible order."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from typing import Any, TypeVar

from app.db.drivers.batches import BatchItem, run_batch
from app.db.drivers.factory import open_database
from app.db.drivers.interface import Database, DatabaseUnavailable
from app.db.drivers.postgres import CONFLICTS, raising_unavailable, run_step
from app.db.sql import FastPath, FastRead, OnlyStatement, Repeatable, Steps
from tests.callers import load
from tests.db import raw
from tests.factories import Record

Result = TypeVar("Result")
WAITS = "SELECT EXISTS (SELECT FROM unnest(pg_blocking_pids($1)) AS pid WHERE pid <> ALL ($2))"
WAITS_AT_GATE = "SELECT pg_backend_pid() = ANY (pg_blocking_pids($1))"
# A statement that reads books waits there for its gate, between its snapshot and its locks.
GATES = (
    "ALTER TABLE book RENAME TO stored_book",
    """CREATE VIEW book AS SELECT * FROM stored_book
        WHERE pg_advisory_xact_lock_shared(pg_backend_pid()) IS NOT NULL""",
)
TIMEOUT = 30


@dataclass(eq=False)
class SteppedDatabase:
    """Waits for a turn before each statement of a change, and before its commit. The one statement of a fast
    path waits again within it."""

    connection: Any
    gate: Any  # another connection
    db: Database  # for reads
    turn: asyncio.Event = field(default_factory=asyncio.Event)
    arrived: asyncio.Event = field(default_factory=asyncio.Event)  # it waits for a turn, or has ended
    has_ended: bool = False
    fast_paths: int = 0  # that made the change

    async def read(self, steps: Steps[Result]) -> Result:
        return await self.db.read(steps)

    async def write(self, repeatable: Repeatable[Result]) -> Result:
        """Begins again after a deadlock, as the driver does."""
        while True:
            try:
                return await self.perform(iter(repeatable))
            except DatabaseUnavailable as fault:
                if not isinstance(fault.__cause__, CONFLICTS):
                    raise

    async def perform(self, steps: Steps[Result]) -> Result:
        try:
            step = next(steps)
            while isinstance(step, FastRead | FastPath):
                running = self.run_fast_path if isinstance(step, FastPath) else self.run_fast_read
                step = steps.send(await running(step))
        except StopIteration as end:
            self.fast_paths += 1
            return end.value  # type: ignore[no-any-return]
        assert not isinstance(step, OnlyStatement)
        await self.wait()
        transaction = self.connection.transaction()
        await transaction.start()
        try:
            while True:
                with raising_unavailable():
                    rows = await run_step(self.connection, "postgresql", step)
                step = steps.send(rows)
                await self.wait()
        except StopIteration as end:
            await self.wait()
            await transaction.commit()
            return end.value  # type: ignore[no-any-return]
        except BaseException:
            await transaction.rollback()
            raise

    async def run_fast_read(self, step: FastRead) -> list[Any]:
        await self.wait()
        compiled = step.statement.for_("postgresql")
        return list(await self.connection.fetch(compiled.sql, *compiled.values(step.values)))

    async def run_fast_path(self, step: FastPath) -> list[Any]:
        """Returns the row, as the driver does."""
        item, process = BatchItem(step.statement, values=step.values), self.connection.get_server_pid()
        await self.wait()
        await self.gate.execute(f"SELECT pg_advisory_lock({process})")
        running = asyncio.create_task(run_batch(self.connection, [item]))
        while not running.done() and not await self.gate.fetchval(WAITS_AT_GATE, process):
            pass
        await self.wait()
        await self.gate.execute(f"SELECT pg_advisory_unlock({process})")
        await running
        return [row for row in item.rows or () if row[1] is not None]

    async def wait(self) -> None:
        self.arrived.set()
        await self.turn.wait()
        self.turn.clear()


Change = Callable[[Database], Awaitable[str]]  # returns its outcome


@dataclass
class Played:
    order: list[int] = field(default_factory=list)
    choices: list[list[int]] = field(default_factory=list)  # at each place of the order, who could have run
    outcomes: list[str] = field(default_factory=list)

    def next_order(self) -> list[int] | None:
        """Differs at the last place at which the other could have run, and had not."""
        for at in range(len(self.order) - 1, -1, -1):
            if self.order[at] == 0 and self.choices[at] == [0, 1]:
                return [*self.order[:at], 1]
        return None


@dataclass
class Interleaver:
    one: SteppedDatabase
    other: SteppedDatabase
    observer: Any

    async def play(self, changes: Sequence[Change], wanted: Sequence[int]) -> Played:
        """Follows the order as far as it goes, and then lets the first one run that can."""
        played = Played()
        databases = [self.one, self.other]
        tasks = []
        for database, change in zip(databases, changes, strict=True):
            database.turn.clear()
            database.arrived.clear()
            database.has_ended = False
            tasks.append(asyncio.create_task(self.run(database, change)))
        await asyncio.gather(*(database.arrived.wait() for database in databases))
        blocked: set[int] = set()
        async with asyncio.timeout(TIMEOUT):
            while not all(database.has_ended for database in databases):
                blocked = {each for each in blocked if not databases[each].arrived.is_set()}
                possible = [each for each in (0, 1) if not databases[each].has_ended and each not in blocked]
                if not possible:
                    await asyncio.sleep(0.01)  # until PostgreSQL ends the deadlock
                    continue
                at = len(played.order)
                chosen = wanted[at] if at < len(wanted) and wanted[at] in possible else possible[0]
                played.order.append(chosen)
                played.choices.append(possible)
                if await self.step(databases[chosen]):
                    blocked.add(chosen)
                # What the blocked one waited for may have ended with this step.
                await self.until_settled([databases[each] for each in blocked])
            played.outcomes = [await task for task in tasks]
        return played

    async def run(self, database: SteppedDatabase, change: Change) -> str:
        try:
            return await change(database)
        finally:
            database.has_ended = True
            database.arrived.set()

    async def step(self, database: SteppedDatabase) -> bool:
        """Runs one statement. Returns whether it waits for a lock."""
        database.arrived.clear()
        database.turn.set()
        return await self.until_settled([database])

    async def until_settled(self, databases: list[SteppedDatabase]) -> bool:
        """Waits until each has arrived at its next turn, or waits for a lock."""
        gates = [each.gate.get_server_pid() for each in (self.one, self.other)]
        for database in databases:
            process = database.connection.get_server_pid()
            while not database.arrived.is_set():
                with suppress(TimeoutError):
                    async with asyncio.timeout(0.001):  # between two looks
                        await database.arrived.wait()
                if not database.arrived.is_set() and await self.observer.fetchval(WAITS, process, gates):
                    return True
        return False


def play_on(url: str, records: list[Record], play: Callable[[Interleaver], Awaitable[None]]) -> None:
    """Plays on a database that has these records."""

    async def opened() -> None:
        db = await open_database(url)
        try:
            async with interleaving(url, db) as player:
                await play(player)
        finally:
            await db.close()

    load(url, records)
    raw.run(url, "ANALYZE")  # which autovacuum does in service
    raw.run(url, *GATES)
    asyncio.run(opened())


@asynccontextmanager
async def interleaving(url: str, db: Database) -> AsyncIterator[Interleaver]:
    import asyncpg

    connections = [await asyncpg.connect(url) for _ in range(5)]
    try:
        one, other = (SteppedDatabase(*connections[at : at + 2], db) for at in (0, 2))
        yield Interleaver(one, other, connections[4])
    finally:
        for each in connections:
            await each.close()
