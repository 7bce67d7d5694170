"""Promise: a short read of SQLite runs on the event loop; a long one goes on in a thread, with the same
answer from the same snapshot, and meanwhile the loop serves others."""

import asyncio
import sqlite3
from collections.abc import Callable
from contextlib import closing
from threading import Event, get_ident
from time import perf_counter
from typing import Any

import pytest

from app.db.drivers.interface import Database, DatabaseUnavailable, sqlite_path
from app.db.sql import Operation
from tests.db import raw
from tests.db.operations import COUNT_MODULES, Broken, adding, counting, sql, with_database

pytestmark = pytest.mark.parametrize("kind", ["sqlite"], indirect=True)

ROWS = 300_000
# Some hundred times as long as a read may take on the loop when that is a millisecond.
SLOW = sql(
    f"WITH RECURSIVE n (x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n LIMIT {ROWS}) "
    "SELECT count(*), (SELECT count(*) FROM module) FROM n"
)
ENDLESS = 60  # seconds after which a test that hangs fails


def where_it_runs(*steps: Any) -> Operation[list[int]]:
    """The thread that the operation is in before, between and after its steps."""
    seen = [get_ident()]
    for step in steps:
        yield step, {}
        seen.append(get_ident())
    return seen


def test_a_short_read_stays_on_the_loop(database_url: str) -> None:
    async def use(db: Database) -> None:
        assert await db.read(where_it_runs(COUNT_MODULES, COUNT_MODULES)) == [get_ident()] * 3

    with_database(database_url, use, loop_read_ms=1000)


def test_without_time_on_the_loop_reads_run_in_threads(database_url: str) -> None:
    async def use(db: Database) -> None:
        seen = await db.read(where_it_runs(COUNT_MODULES, SLOW))
        assert len(set(seen)) == 1
        assert get_ident() not in seen

    with_database(database_url, use, loop_read_ms=0)


@pytest.mark.parametrize("loop_read_ms", [0, 1000], ids=["in threads", "on the loop"])
@pytest.mark.parametrize("fault", [MemoryError, SystemExit, asyncio.CancelledError])
def test_reads_go_on_whatever_an_operation_raises(
    database_url: str, fault: type[BaseException], loop_read_ms: int
) -> None:
    def raising() -> Operation[None]:
        yield COUNT_MODULES, {}
        raise fault

    async def use(db: Database) -> None:
        for _ in range(3):  # more often than there are threads and connections
            with pytest.raises(fault):
                await db.read(raising())
        assert await db.read(counting()) == 0
        occupancy = db.occupancy()
        assert (occupancy.open, occupancy.idle) == (1, 1)

    with_database(database_url, use, readers=1, loop_read_ms=loop_read_ms)


def test_a_long_read_goes_on_in_a_thread_while_the_loop_serves_others(database_url: str) -> None:
    others_were_served = Event()

    def slowly() -> Operation[tuple[list[int], int]]:
        before = get_ident()
        rows = yield SLOW, {}
        assert others_were_served.wait(ENDLESS)
        return [before, get_ident()], rows[0][0]

    async def use(db: Database) -> None:
        slow = asyncio.create_task(db.read(slowly()))
        await asyncio.sleep(0)
        await db.write(adding("meanwhile"))
        assert await db.read(counting()) == 1
        assert not slow.done()
        others_were_served.set()
        (before, after), counted = await slow
        assert before == get_ident() != after
        assert counted == ROWS

    with_database(database_url, use, loop_read_ms=1)


def test_time_that_the_operation_itself_takes_counts_too(database_url: str) -> None:
    def thinking() -> Operation[list[int]]:
        seen = yield from where_it_runs(COUNT_MODULES)
        end = perf_counter() + 0.2
        while perf_counter() < end:
            pass
        return seen + (yield from where_it_runs(COUNT_MODULES))

    async def use(db: Database) -> None:
        here = get_ident()
        *before, after = await db.read(thinking())
        assert before == [here] * 3
        assert after != here

    with_database(database_url, use, loop_read_ms=50)


def test_what_is_moved_stays_on_its_snapshot(database_url: str) -> None:
    def counting_around() -> Operation[list[int]]:
        counted = [(yield COUNT_MODULES, {})[0][0]]
        raw.run(database_url, "INSERT INTO module (name) VALUES ('new')")
        counted.append((yield SLOW, {})[0][1])
        counted.append((yield COUNT_MODULES, {})[0][0])
        return [*counted, get_ident()]

    async def use(db: Database) -> None:
        *counted, thread = await db.read(counting_around())
        assert counted == [0, 0, 0]
        assert thread != get_ident()
        assert await db.read(counting()) == 1

    with_database(database_url, use, loop_read_ms=1)


def test_the_operation_does_not_hear_that_it_was_moved(database_url: str) -> None:
    heard = []

    def listening() -> Operation[int]:
        try:
            return int((yield SLOW, {})[0][0])
        except BaseException as fault:
            heard.append(fault)
            raise

    async def use(db: Database) -> int:
        return await db.read(listening())

    assert with_database(database_url, use, loop_read_ms=1) == ROWS
    assert heard == []


def refusing() -> Operation[None]:
    yield SLOW, {}
    raise Broken


def mistaken() -> Operation[None]:
    yield SLOW, {}
    yield sql("SELECT nonsense FROM module"), {}


def test_a_fault_in_the_thread_is_raised_as_on_the_loop(database_url: str) -> None:
    async def use(db: Database) -> None:
        with pytest.raises(Broken):
            await db.read(refusing())
        with pytest.raises(sqlite3.OperationalError, match="no such column: nonsense"):
            await db.read(mistaken())
        assert await db.read(counting()) == 0

    with_database(database_url, use, loop_read_ms=1)


@pytest.mark.parametrize("loop_read_ms", [0, 1])
def test_many_long_reads_at_once_are_all_answered(database_url: str, loop_read_ms: int) -> None:
    async def use(db: Database) -> None:
        slow = [asyncio.create_task(db.read(slowly())) for _ in range(12)]
        await asyncio.sleep(0)
        assert await db.read(counting()) == 0
        assert await asyncio.gather(*slow) == [ROWS] * 12

    with_database(database_url, use, readers=1, loop_read_ms=loop_read_ms)


def test_no_more_reads_begin_than_there_may_be_connections(database_url: str) -> None:
    """What is moved keeps its connection while it waits for a thread; the rest begins when one is free."""
    is_held, release = Event(), Event()

    async def use(db: Database) -> None:
        first = asyncio.create_task(db.read(holding(is_held, release)))
        await asyncio.to_thread(is_held.wait, ENDLESS)
        others = [asyncio.create_task(db.read(where_it_runs(SLOW))) for _ in range(8)]
        await asyncio.sleep(0)
        release.set()
        began_in = [(await other)[0] for other in others]
        assert [thread == get_ident() for thread in began_in] == [True] * 3 + [False] * 5
        await first

    with_database(database_url, use, readers=1, loop_read_ms=1)


def test_connections_are_used_again_and_keep_no_snapshot(database_url: str) -> None:
    async def use(db: Database) -> None:
        await db.read(where_it_runs(sql("PRAGMA cache_size = -1234")))
        with pytest.raises(sqlite3.OperationalError):
            await db.read(mistaken())
        assert await db.read(asking("PRAGMA cache_size")) == -1234
        assert not holds_a_snapshot(database_url)

    with_database(database_url, use)


def asking(statement: str) -> Operation[int]:
    return int((yield sql(statement), {})[0][0])


def slowly() -> Operation[int]:
    return int((yield SLOW, {})[0][0])


# --- called off


def holding(is_held: Event, release: Event) -> Operation[None]:
    """A long read that stays in its thread until it is released."""
    yield SLOW, {}
    is_held.set()
    assert release.wait(ENDLESS)
    yield COUNT_MODULES, {}


def holds_a_snapshot(url: str) -> bool:
    """Whether somebody still reads what the write-ahead log held before."""
    return bool(
        raw.run(url, "INSERT INTO module (name) VALUES ('x')", "PRAGMA wal_checkpoint(TRUNCATE)")[0][0]
    )


def test_a_read_that_is_called_off_in_its_thread_gives_its_connection_back(database_url: str) -> None:
    is_held, release = Event(), Event()

    async def use(db: Database) -> None:
        read = asyncio.create_task(db.read(holding(is_held, release)))
        await asyncio.to_thread(is_held.wait, ENDLESS)
        read.cancel()
        with pytest.raises(asyncio.CancelledError):
            await read
        release.set()
        assert await db.read(slowly()) == ROWS  # in the same, the only thread: it is done with the other
        assert not holds_a_snapshot(database_url)

    with_database(database_url, use, readers=1, loop_read_ms=1)


def test_a_read_that_is_called_off_before_a_thread_takes_it_never_goes_on(database_url: str) -> None:
    is_held, release = Event(), Event()
    went_on, was_closed = [], []

    def waiting() -> Operation[None]:
        try:
            went_on.append((yield SLOW, {}))
        finally:
            was_closed.append(True)

    async def use(db: Database) -> None:
        first = asyncio.create_task(db.read(holding(is_held, release)))
        await asyncio.to_thread(is_held.wait, ENDLESS)
        second = asyncio.create_task(db.read(waiting()))
        await asyncio.sleep(0)
        second.cancel()
        with pytest.raises(asyncio.CancelledError):
            await second
        assert was_closed == [True]
        release.set()
        await first
        assert await db.read(slowly()) == ROWS
        assert went_on == []
        assert not holds_a_snapshot(database_url)

    with_database(database_url, use, readers=1, loop_read_ms=1)


@pytest.mark.parametrize("loop_read_ms", [0, 1])
def test_closing_waits_for_what_is_being_read(database_url: str, loop_read_ms: int) -> None:
    async def use(db: Database) -> None:
        slow = [asyncio.create_task(db.read(slowly())) for _ in range(3)]
        await asyncio.sleep(0)
        await db.close()
        assert await asyncio.gather(*slow) == [ROWS] * 3

    with_database(database_url, use, readers=1, loop_read_ms=loop_read_ms)
    assert not holds_a_snapshot(database_url)


# --- locked and gone


@pytest.mark.parametrize("loop_read_ms", [0, 5])
def test_a_read_waits_for_a_lock_in_a_thread(database_url: str, loop_read_ms: int) -> None:
    """The lock is let go by the event loop: a read that waited there would never get it."""

    async def use(db: Database) -> None:
        with closing(sqlite3.connect(sqlite_path(database_url), isolation_level=None)) as other:
            other.execute("PRAGMA locking_mode = EXCLUSIVE")
            other.execute("BEGIN EXCLUSIVE")
            other.execute("INSERT INTO module (name) VALUES ('new')")
            read = asyncio.create_task(db.read(where_it_runs(COUNT_MODULES)))
            await asyncio.sleep(0)
            other.execute("COMMIT")
        assert get_ident() != (await read)[-1]
        assert await db.read(counting()) == 1

    with_database(database_url, use, loop_read_ms=loop_read_ms)


def remove(url: str) -> None:
    sqlite_path(url).unlink()


def spoil(url: str) -> None:
    sqlite_path(url).write_bytes(b"this is no database " * 500)


@pytest.mark.parametrize("loop_read_ms", [0, 5])
@pytest.mark.parametrize(
    ("harm", "cause"), [(remove, "unable to open database file"), (spoil, "file is not a database")]
)
def test_a_file_that_is_gone_or_spoilt_is_unavailable(
    database_url: str, loop_read_ms: int, harm: Callable[[str], None], cause: str
) -> None:
    async def use(db: Database) -> None:
        harm(database_url)
        for asked in (db.read(counting()), db.write(adding("never"))):
            with pytest.raises(DatabaseUnavailable, match="nothing was changed") as refused:
                await asked
            assert str(refused.value.__cause__) == cause

    with_database(database_url, use, loop_read_ms=loop_read_ms)
