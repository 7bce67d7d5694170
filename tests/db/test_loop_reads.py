"""A short read of SQLite runs on the event loop; a long one continues in a thread on the same snapshot,
while the loop serves other requests."""

import asyncio
import sqlite3
from collections.abc import Callable
from contextlib import closing
from threading import Event, get_ident
from time import perf_counter
from typing import Any

import pytest

from app.db.drivers.interface import Database, DatabaseUnavailable, sqlite_path
from app.db.drivers.sqlite import BUSY_SECONDS, STEPS_BETWEEN_CHECKS, Reader, connect_sqlite, run_on_sqlite
from app.db.sql import Step, Steps, selecting
from app.telemetry import counters
from tests.db import raw
from tests.db.small_steps import COUNT_MODULES, Broken, adding, counting, sql, with_database
from tests.patience import PATIENCE

pytestmark = pytest.mark.parametrize("kind", ["sqlite"], indirect=True)

ROWS = 300_000
# Takes some hundred times the millisecond that these tests allow on the loop.
SLOW = sql(
    f"WITH RECURSIVE n (x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n LIMIT {ROWS}) "
    "SELECT count(*), (SELECT count(*) FROM module) FROM n"
)
NEVER = 60_000  # milliseconds after which these reads would continue in a thread, however busy the machine is


def threads_of(*steps: Any) -> Steps[list[int]]:
    """The thread of the generator before, between and after its steps."""
    seen = [get_ident()]
    for step in steps:
        yield step, {}
        seen.append(get_ident())
    return seen


def test_a_short_read_stays_on_the_loop(database_url: str) -> None:
    async def use(db: Database) -> None:
        assert await db.read(threads_of(COUNT_MODULES, COUNT_MODULES)) == [get_ident()] * 3

    with_database(database_url, use, loop_read_ms=NEVER)


def test_with_a_limit_of_zero_reads_run_in_threads(database_url: str) -> None:
    async def use(db: Database) -> None:
        seen = await db.read(threads_of(COUNT_MODULES, SLOW))
        assert len(set(seen)) == 1
        assert get_ident() not in seen

    with_database(database_url, use, loop_read_ms=0)


@pytest.mark.parametrize("loop_read_ms", [0, NEVER], ids=["in threads", "on the loop"])
@pytest.mark.parametrize("fault", [MemoryError, SystemExit, asyncio.CancelledError])
def test_a_read_releases_its_connection_after_every_exception_of_an_operation(
    database_url: str, fault: type[BaseException], loop_read_ms: int
) -> None:
    def raising() -> Steps[None]:
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


def test_connections_beyond_the_idle_ones_are_closed_after_many_reads_at_once(database_url: str) -> None:
    async def use(db: Database) -> None:
        for _ in range(3):
            await asyncio.gather(*(db.read(threads_of(SLOW)) for _ in range(4)))
            occupancy = db.occupancy()
            assert (occupancy.open, occupancy.idle) == (2, 2)

    with_database(database_url, use, readers=1, loop_read_ms=1)


def test_a_long_read_continues_in_a_thread_while_the_loop_serves_others(database_url: str) -> None:
    others_were_served = Event()

    def slowly() -> Steps[tuple[list[int], int]]:
        before = get_ident()
        rows = yield SLOW, {}
        assert others_were_served.wait(PATIENCE)
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


def test_every_long_read_of_a_connection_continues_in_a_thread(database_url: str) -> None:
    async def use(db: Database) -> None:
        for _ in range(3):
            before, after = await db.read(threads_of(SLOW))
            assert before == get_ident() != after

    with_database(database_url, use, readers=1, loop_read_ms=1)


def test_the_time_of_the_operation_itself_counts(database_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    thought = 0

    def thinking() -> Steps[list[int]]:
        nonlocal thought
        seen = yield from threads_of(COUNT_MODULES)
        thought += NEVER
        return seen + (yield from threads_of(COUNT_MODULES))

    async def use(db: Database) -> None:
        here = get_ident()
        *before, after = await db.read(thinking())
        assert before == [here] * 3
        assert after != here

    monkeypatch.setattr("app.db.drivers.sqlite.perf_counter", lambda: perf_counter() + thought)
    with_database(database_url, use, loop_read_ms=NEVER)


@pytest.mark.parametrize(
    ("loop_read_ms", "seconds", "where"), [(NEVER, 1, "loop"), (NEVER, 70, "thread"), (0, 1, "thread")]
)
def test_the_whole_duration_of_a_read_is_counted(
    database_url: str, monkeypatch: pytest.MonkeyPatch, loop_read_ms: int, seconds: int, where: str
) -> None:
    now = 0.0

    def thinking() -> Steps[None]:
        nonlocal now
        yield COUNT_MODULES, {}
        now += seconds
        yield COUNT_MODULES, {}

    def counted() -> dict[str, float]:
        return {"loop": counters.reads_on_loop.sum, "thread": counters.reads_in_threads.sum}

    async def use(db: Database) -> None:
        await db.read(thinking())

    before = counted()
    monkeypatch.setattr("app.db.drivers.sqlite.perf_counter", lambda: now)
    with_database(database_url, use, loop_read_ms=loop_read_ms)
    grown = {name: pytest.approx(before[name] + (seconds if name == where else 0)) for name in before}

    assert counted() == grown


def test_a_read_that_is_moved_to_a_thread_keeps_its_snapshot(database_url: str) -> None:
    def counting_around() -> Steps[list[int]]:
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


def test_an_operation_does_not_notice_that_it_is_moved(database_url: str) -> None:
    seen = []

    def catching() -> Steps[int]:
        try:
            return int((yield SLOW, {})[0][0])
        except BaseException as error:
            seen.append(error)
            raise

    async def use(db: Database) -> int:
        return await db.read(catching())

    assert with_database(database_url, use, loop_read_ms=1) == ROWS
    assert seen == []


def refusing() -> Steps[None]:
    yield SLOW, {}
    raise Broken


def mistaken() -> Steps[None]:
    yield SLOW, {}
    yield sql("SELECT nonsense FROM module"), {}


def test_an_error_in_the_thread_is_raised_as_on_the_loop(database_url: str) -> None:
    async def use(db: Database) -> None:
        with pytest.raises(Broken):
            await db.read(refusing())
        with pytest.raises(sqlite3.OperationalError, match="no such column: nonsense"):
            await db.read(mistaken())
        assert await db.read(counting()) == 0

    with_database(database_url, use, loop_read_ms=1)


@pytest.mark.parametrize("loop_read_ms", [0, 1])
def test_many_concurrent_long_reads_return_their_results(database_url: str, loop_read_ms: int) -> None:
    async def use(db: Database) -> None:
        slow = [asyncio.create_task(db.read(slowly())) for _ in range(12)]
        await asyncio.sleep(0)
        assert await db.read(counting()) == 0
        assert await asyncio.gather(*slow) == [ROWS] * 12

    with_database(database_url, use, readers=1, loop_read_ms=loop_read_ms)


def test_reads_wait_for_a_free_connection(database_url: str) -> None:
    """A read that is moved keeps its connection while it waits for a thread."""
    is_running, release = Event(), Event()

    async def use(db: Database) -> None:
        first = asyncio.create_task(db.read(blocking(is_running, release)))
        await asyncio.to_thread(is_running.wait, PATIENCE)
        others = [asyncio.create_task(db.read(threads_of(SLOW))) for _ in range(8)]
        await asyncio.sleep(0)
        release.set()
        began_in = [(await other)[0] for other in others]
        assert [thread == get_ident() for thread in began_in] == [True] * 3 + [False] * 5
        await first

    with_database(database_url, use, readers=1, loop_read_ms=1)


def test_connections_are_reused_and_keep_no_snapshot(database_url: str) -> None:
    async def use(db: Database) -> None:
        await db.read(threads_of(sql("PRAGMA cache_size = -1234")))
        with pytest.raises(sqlite3.OperationalError):
            await db.read(mistaken())
        assert await db.read(reading_value("PRAGMA cache_size")) == -1234
        assert not holds_a_snapshot(database_url)

    with_database(database_url, use, loop_read_ms=NEVER)


def reading_value(statement: str) -> Steps[int]:
    return int((yield sql(statement), {})[0][0])


def slowly() -> Steps[int]:
    return int((yield SLOW, {})[0][0])


# --- cancelled


def blocking(is_running: Event, release: Event) -> Steps[None]:
    """A long read that blocks its thread until `release` is set."""
    yield SLOW, {}
    is_running.set()
    assert release.wait(PATIENCE)
    yield COUNT_MODULES, {}


def holds_a_snapshot(url: str) -> bool:
    """Does a connection still read an earlier state of the write-ahead log?"""
    return bool(
        raw.run(url, "INSERT INTO module (name) VALUES ('x')", "PRAGMA wal_checkpoint(TRUNCATE)")[0][0]
    )


def test_a_read_that_is_cancelled_in_its_thread_releases_its_connection(database_url: str) -> None:
    is_running, release = Event(), Event()

    async def use(db: Database) -> None:
        read = asyncio.create_task(db.read(blocking(is_running, release)))
        await asyncio.to_thread(is_running.wait, PATIENCE)
        read.cancel()
        with pytest.raises(asyncio.CancelledError):
            await read
        release.set()
        assert await db.read(slowly()) == ROWS  # in the only thread, which has ended the other read
        assert not holds_a_snapshot(database_url)

    with_database(database_url, use, readers=1, loop_read_ms=1)


def test_a_read_that_is_cancelled_before_its_thread_starts_does_not_continue(database_url: str) -> None:
    is_running, release = Event(), Event()
    continued, was_closed = [], []

    def waiting() -> Steps[None]:
        try:
            continued.append((yield SLOW, {}))
        finally:
            was_closed.append(True)

    async def use(db: Database) -> None:
        first = asyncio.create_task(db.read(blocking(is_running, release)))
        await asyncio.to_thread(is_running.wait, PATIENCE)
        second = asyncio.create_task(db.read(waiting()))
        await asyncio.sleep(0)
        second.cancel()
        with pytest.raises(asyncio.CancelledError):
            await second
        assert was_closed == [True]
        release.set()
        await first
        assert await db.read(slowly()) == ROWS
        assert continued == []
        assert not holds_a_snapshot(database_url)

    with_database(database_url, use, readers=1, loop_read_ms=1)


@pytest.mark.parametrize("loop_read_ms", [0, 1])
def test_closing_waits_for_running_reads(database_url: str, loop_read_ms: int) -> None:
    async def use(db: Database) -> None:
        slow = [asyncio.create_task(db.read(slowly())) for _ in range(3)]
        await asyncio.sleep(0)
        await db.close()
        assert await asyncio.gather(*slow) == [ROWS] * 3

    with_database(database_url, use, readers=1, loop_read_ms=loop_read_ms)
    assert not holds_a_snapshot(database_url)


# --- locked and missing files


@pytest.mark.parametrize("loop_read_ms", [0, 5])
def test_a_read_waits_for_a_lock_in_a_thread(database_url: str, loop_read_ms: int) -> None:
    """The event loop releases the lock: a read that waited on the loop would never get it."""

    async def use(db: Database) -> None:
        with closing(sqlite3.connect(sqlite_path(database_url), isolation_level=None)) as other:
            other.execute("PRAGMA locking_mode = EXCLUSIVE")
            other.execute("BEGIN EXCLUSIVE")
            other.execute("INSERT INTO module (name) VALUES ('new')")
            read = asyncio.create_task(db.read(threads_of(COUNT_MODULES)))
            await asyncio.sleep(0)
            other.execute("COMMIT")
        assert get_ident() != (await read)[-1]
        assert await db.read(counting()) == 1

    with_database(database_url, use, loop_read_ms=loop_read_ms)


@pytest.mark.parametrize("code", ["SQLITE_INTERRUPT", "SQLITE_BUSY", "SQLITE_BUSY_RECOVERY"])
def test_a_read_that_finds_a_lock_continues_in_a_thread(
    database_url: str, monkeypatch: pytest.MonkeyPatch, code: str
) -> None:
    """As when another process restores the write-ahead log of one that was killed."""
    fault = sqlite3.OperationalError(code)
    fault.sqlite_errorcode = getattr(sqlite3, code)

    def run(connection: sqlite3.Connection | sqlite3.Cursor, step: Step) -> list[Any]:
        if isinstance(connection, sqlite3.Cursor):  # of the event loop
            raise fault
        return run_on_sqlite(connection, step)

    async def use(db: Database) -> int:
        monkeypatch.setattr("app.db.drivers.sqlite.run_on_sqlite", run)
        return await db.read(counting())

    assert with_database(database_url, use, loop_read_ms=60_000) == 0


def test_only_the_loop_does_not_wait_for_a_lock(database_url: str) -> None:
    with closing(connect_sqlite(sqlite_path(database_url))) as connection:
        reader = Reader(connection)

        def timeout() -> int:
            return int(connection.execute("PRAGMA busy_timeout").fetchone()[0])

        reader.begin_on_loop(1)
        on_loop = timeout()
        reader.leave_loop()

        assert (on_loop, timeout()) == (0, BUSY_SECONDS * 1000)


def remove(url: str) -> None:
    sqlite_path(url).unlink()


def damage(url: str) -> None:
    sqlite_path(url).write_bytes(b"not a database " * 500)


@pytest.mark.parametrize("loop_read_ms", [0, 5])
@pytest.mark.parametrize(
    ("harm", "cause"), [(remove, "unable to open database file"), (damage, "file is not a database")]
)
def test_a_missing_or_damaged_file_is_unavailable(
    database_url: str, loop_read_ms: int, harm: Callable[[str], None], cause: str
) -> None:
    async def use(db: Database) -> None:
        harm(database_url)
        for operation in (db.read(counting()), db.write(adding("never"))):
            with pytest.raises(DatabaseUnavailable, match="nothing was changed") as refused:
                await operation
            assert str(refused.value.__cause__) == cause

    with_database(database_url, use, loop_read_ms=loop_read_ms)


@pytest.mark.parametrize("loop_read_ms", [0, NEVER], ids=["in threads", "on the loop"])
def test_a_page_that_is_damaged_after_the_first_read_is_unavailable(
    database_url: str, loop_read_ms: int
) -> None:
    """The connection has read the header and the schema already."""

    async def use(db: Database) -> None:
        assert await db.read(counting()) == 0
        with sqlite_path(database_url).open("r+b") as file:
            [[page_size]] = raw.run(database_url, "PRAGMA page_size")
            length = file.seek(0, 2)
            file.seek(page_size)
            file.write(b"?" * (length - page_size))
        with pytest.raises(DatabaseUnavailable, match="nothing was changed") as refused:
            await db.read(selecting(sql("SELECT count(*) FROM client")))
        assert str(refused.value.__cause__) == "database disk image is malformed"

    with_database(database_url, use, loop_read_ms=loop_read_ms)


def test_a_deadline_in_the_past_does_not_interrupt_the_begin_or_the_end_of_a_read(database_url: str) -> None:
    """SQLite counts the instructions of a statement over all of its runs."""
    with closing(connect_sqlite(sqlite_path(database_url))) as connection:
        reader = Reader(connection)
        for _ in range(STEPS_BETWEEN_CHECKS):
            reader.begin_on_loop(0)
            reader.end()
