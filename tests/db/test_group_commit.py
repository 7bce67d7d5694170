"""Concurrent writes of SQLite share a commit and return after it. An error of one write fails that write
alone; an error of the transaction fails every write in it."""

import asyncio
import resource
import sqlite3
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, closing, contextmanager
from threading import Event

import pytest

from app.db.drivers.group_commit import UNSYNCED, PendingWrite
from app.db.drivers.interface import Database, DatabaseUnavailable, OutcomeUnknown, reason_of, sqlite_path
from app.db.drivers.sqlite import SqliteDatabase
from app.db.sql import Steps, selecting
from app.telemetry import counters
from tests.db import raw
from tests.db.small_steps import (
    COUNT_MODULES,
    Broken,
    add_module,
    adding,
    adding_and_failing,
    modules,
    sql,
    with_database,
)
from tests.fault_injection import kill_writer
from tests.patience import PATIENCE

pytestmark = pytest.mark.parametrize("kind", ["sqlite"], indirect=True)


def blocking(is_running: Event, release: Event) -> Steps[None]:
    is_running.set()
    assert release.wait(PATIENCE)
    yield from ()


@asynccontextmanager
async def busy_writer(db: Database) -> AsyncIterator[None]:
    """Writes inside the block are queued until it ends, and so form one group."""
    is_running, release = Event(), Event()
    blocker = asyncio.create_task(db.write(blocking(is_running, release)))
    await asyncio.to_thread(is_running.wait, PATIENCE)
    try:
        yield
        await asyncio.sleep(0)  # until the last write is queued
    finally:
        release.set()
        await blocker


async def write_together(db: Database, *operations: Steps[object]) -> list[object]:
    async with busy_writer(db):
        writes = [asyncio.create_task(db.write(one)) for one in operations]
    return await asyncio.gather(*writes, return_exceptions=True)


def adding_and_counting(name: str, url: str) -> Steps[tuple[int, int]]:
    """Returns how many modules the steps see, and how many are committed."""
    yield add_module(name), {}
    own = (yield COUNT_MODULES, {})[0][0]
    return own, len(modules(url))


def test_queued_writes_are_committed_together(database_url: str) -> None:
    async def use(db: Database) -> list[object]:
        return await write_together(db, *(adding_and_counting(name, database_url) for name in "abc"))

    assert with_database(database_url, use) == [(1, 0), (2, 0), (3, 0)]
    assert modules(database_url) == ["a", "b", "c"]


def test_no_write_returns_before_the_commit(database_url: str) -> None:
    async def use(db: Database) -> None:
        async with busy_writer(db):
            writes = [asyncio.create_task(db.write(adding(name))) for name in "abc"]
        for done in asyncio.as_completed(writes):
            await done
            assert modules(database_url) == ["a", "b", "c"]

    with_database(database_url, use)


def test_a_group_has_64_writes_at_most(database_url: str) -> None:
    names = [f"module {number:03}" for number in range(70)]

    async def use(db: Database) -> list[object]:
        return await write_together(db, *(adding_and_counting(name, database_url) for name in names))

    seen = with_database(database_url, use)

    assert seen == [(number, 0 if number <= 64 else 64) for number in range(1, 71)]
    assert modules(database_url) == names


def test_the_writes_of_each_commit_are_counted(database_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The first one, the one that keeps the thread busy, and a group."""
    committed, commits = counters.Histogram(counters.SIZES), counters.Histogram()
    monkeypatch.setattr(counters, "committed", committed)
    monkeypatch.setattr(counters, "commits", commits)

    async def use(db: Database) -> None:
        await db.write(adding("a"))
        await write_together(db, adding("b"), adding_and_failing(Broken()), adding("c"))

    with_database(database_url, use)

    assert (committed.sum, committed.counts[:3], sum(commits.counts)) == (5, [2, 0, 1], 3)


def test_an_error_of_one_write_of_a_group_fails_that_write_alone(database_url: str) -> None:
    async def use(db: Database) -> list[object]:
        return await write_together(
            db,
            adding("a"),
            adding_and_failing(Broken()),
            adding("b"),
            adding_and_failing(None),
            adding_and_counting("c", database_url),
        )

    a, refused, b, broken, c = with_database(database_url, use)

    assert (a, b, c) == ("a", "b", (3, 0))
    assert isinstance(refused, Broken)
    assert isinstance(broken, sqlite3.IntegrityError)
    assert modules(database_url) == ["a", "b", "c"]


def test_an_error_of_a_single_write_rolls_it_back(database_url: str) -> None:
    async def use(db: Database) -> str:
        with pytest.raises(Broken):
            await db.write(adding_and_failing(Broken()))
        return await db.write(adding("a"))

    assert with_database(database_url, use) == "a"
    assert modules(database_url) == ["a"]


@pytest.mark.parametrize("fault", [MemoryError, SystemExit, KeyboardInterrupt, asyncio.CancelledError])
@pytest.mark.parametrize("others_of_group", ["", "bc"], ids=["alone", "in a group"])
def test_the_thread_survives_every_exception_of_an_operation(
    database_url: str, fault: type[BaseException], others_of_group: str
) -> None:
    def raising() -> Steps[None]:
        yield add_module("never"), {}
        raise fault

    async def use(db: Database) -> list[object]:
        answers = await write_together(db, raising(), *(adding(name) for name in others_of_group))
        return [*answers, await db.write(adding("a"))]

    refused, *others = with_database(database_url, use)

    if fault is MemoryError:
        assert isinstance(refused, MemoryError)
    else:  # would end the caller's event loop or task
        assert repr(refused) == repr(RuntimeError(f"the steps raised {fault.__name__}"))
        assert isinstance(refused, RuntimeError) and isinstance(refused.__cause__, fault)
    assert others == [*others_of_group, "a"]
    assert modules(database_url) == [*others_of_group, "a"]


def test_when_the_thread_ends_all_pending_and_later_writes_fail(database_url: str) -> None:
    failed: list[tuple[str, str]] = []

    async def use(db: Database) -> list[BaseException]:
        assert isinstance(db, SqliteDatabase)
        kill_writer(db.writer.thread)  # when it takes the first of these
        waiting = [asyncio.create_task(db.write(adding(name))) for name in "abc"]
        done, _ = await asyncio.wait([*waiting], timeout=PATIENCE)
        assert len(done) == 3
        waiting.append(asyncio.create_task(db.write(adding("d"))))
        await asyncio.wait(waiting)
        assert db.writer.pending == set()
        return [fault for each in waiting if (fault := each.exception())]

    refused = with_database(database_url, use, failed=lambda part, fault: failed.append((part, repr(fault))))

    ended = "the database writer has ended; "
    assert [(type(one), str(one)) for one in refused] == [
        *[(OutcomeUnknown, f"{ended}whether the change was kept is not known")] * 3,
        (DatabaseUnavailable, f"{ended}nothing was changed"),
    ]
    assert failed == [("the database writer", "MemoryError()")]
    assert modules(database_url) == []


# --- cancelled


def test_a_write_that_is_cancelled_in_the_queue_does_not_run(database_url: str) -> None:
    async def use(db: Database) -> None:
        async with busy_writer(db):
            writes = [asyncio.create_task(db.write(adding(name))) for name in "abc"]
            await asyncio.sleep(0)
            writes[1].cancel()
        a, b, c = await asyncio.gather(*writes, return_exceptions=True)
        assert (a, c) == ("a", "c")
        assert isinstance(b, asyncio.CancelledError)

    with_database(database_url, use)
    assert modules(database_url) == ["a", "c"]


def test_a_write_that_is_cancelled_while_it_runs_is_completed(database_url: str) -> None:
    is_running, release = Event(), Event()

    def adding_slowly() -> Steps[None]:
        yield add_module("a"), {}
        yield from blocking(is_running, release)
        yield add_module("b"), {}

    async def use(db: Database) -> None:
        async with busy_writer(db):
            slow = asyncio.create_task(db.write(adding_slowly()))
            next_one = asyncio.create_task(db.write(adding("c")))
        await asyncio.to_thread(is_running.wait, PATIENCE)
        slow.cancel()
        with pytest.raises(asyncio.CancelledError):
            await slow
        release.set()
        assert await next_one == "c"

    with_database(database_url, use)
    assert modules(database_url) == ["a", "b", "c"]


def test_closing_completes_the_queued_writes_and_rejects_later_operations(database_url: str) -> None:
    async def use(db: Database) -> None:
        async with busy_writer(db):
            writes = [asyncio.create_task(db.write(adding(name))) for name in "abc"]
            await asyncio.sleep(0)
            closed = asyncio.create_task(db.close())
            await asyncio.sleep(0)
            late = [asyncio.create_task(run(adding("late"))) for run in (db.read, db.write)]
            await asyncio.sleep(0)
            assert [each.done() and type(each.exception()) for each in late] == [DatabaseUnavailable] * 2
        assert await asyncio.gather(*writes) == ["a", "b", "c"]
        await closed

    with_database(database_url, use)
    assert modules(database_url) == ["a", "b", "c"]


def test_callers_whose_event_loop_is_closed_do_not_keep_the_result_of_another(database_url: str) -> None:
    async def use(db: Database) -> None:
        assert isinstance(db, SqliteDatabase)
        loops = [asyncio.new_event_loop() for _ in range(8)]
        async with busy_writer(db):
            for number, each in enumerate(loops):
                db.writer.queue.put(PendingWrite(adding(str(number)), each.create_future()))
                each.close()
            own = asyncio.create_task(db.write(adding("own")))
            await asyncio.sleep(0)
        async with asyncio.timeout(PATIENCE):
            assert await own == "own"

    with_database(database_url, use)
    assert modules(database_url) == [*"01234567", "own"]


# --- errors of the database


def setting(pragma: str) -> Steps[None]:
    """For the writer's connection."""
    yield sql(f"PRAGMA {pragma}"), {}


def limit_size(url: str) -> Steps[None]:
    """The file cannot grow: SQLite reports a full disk."""
    return setting(f"max_page_count = {raw.run(url, 'PRAGMA page_count')[0][0]}")


def assert_unavailable(fault: object, cause: str) -> None:
    assert isinstance(fault, DatabaseUnavailable)
    assert str(fault) == "the database cannot take this now; nothing was changed"
    assert str(fault.__cause__) == cause


LARGE = sql("INSERT INTO module (name) VALUES (hex(zeroblob(1000000)))")
LARGE_AND_SEVERAL = sql(
    "INSERT INTO module (name) SELECT hex(zeroblob(500000)) FROM (SELECT 1 UNION ALL SELECT 2)"
)


def test_a_full_disk_fails_the_writes_of_the_transaction_and_no_later_ones(database_url: str) -> None:
    seen = []

    def adding_too_much() -> Steps[None]:
        try:
            yield LARGE, {}
        except Exception as error:
            seen.append(error)

    async def use(db: Database) -> None:
        await db.write(limit_size(database_url))
        a, refused, large, b, c = await write_together(
            db, adding("a"), adding_and_failing(Broken()), adding_too_much(), adding("b"), adding("c")
        )
        for one in (a, refused, large):
            assert_unavailable(one, "database or disk is full")
        assert (b, c) == ("b", "c")
        assert seen == []  # steps do not receive errors of statements

        await db.write(setting("max_page_count = 100000"))
        await db.write(adding_too_much())

    with_database(database_url, use)
    assert [name[:3] for name in modules(database_url)] == ["b", "c", "000"]


def test_a_full_disk_for_which_sqlite_rolls_back_one_statement_fails_one_write(database_url: str) -> None:
    def adding_too_much() -> Steps[None]:
        yield add_module("never"), {}
        yield LARGE_AND_SEVERAL, {}

    async def use(db: Database) -> None:
        await db.write(limit_size(database_url))
        a, large, b = await write_together(
            db, adding("a"), adding_too_much(), adding_and_counting("b", database_url)
        )
        assert (a, b) == ("a", (2, 0))
        assert_unavailable(large, "database or disk is full")

    with_database(database_url, use)
    assert modules(database_url) == ["a", "b"]


def test_a_commit_that_fails_fails_the_group(database_url: str) -> None:
    def breaking_late() -> Steps[None]:
        yield sql("PRAGMA defer_foreign_keys = ON"), {}
        yield sql("INSERT INTO book (module_id, name, is_test) VALUES (77, 'x', false)"), {}

    async def use(db: Database) -> None:
        failed = await write_together(db, adding("a"), breaking_late(), adding_and_failing(Broken()))
        for one in failed:
            assert_unavailable(one, "FOREIGN KEY constraint failed")
        await db.write(adding("b"))

    with_database(database_url, use)
    assert modules(database_url) == ["b"]


def adding_and_closing(db: SqliteDatabase) -> Steps[None]:
    yield add_module("lost"), {}
    assert db.writer.connection is not None
    db.writer.connection.close()
    yield add_module("late"), {}


def test_after_a_transaction_that_cannot_be_rolled_back_another_connection_writes(database_url: str) -> None:
    async def use(db: Database) -> None:
        assert isinstance(db, SqliteDatabase)
        with pytest.raises(DatabaseUnavailable):
            await db.write(adding_and_closing(db))
        await db.write(adding("kept"))

    with_database(database_url, use)

    assert modules(database_url) == ["kept"]


def test_a_lock_that_is_not_released_fails_the_waiting_writes(database_url: str) -> None:
    started = []

    def starting() -> Steps[None]:
        started.append(True)
        yield add_module("never"), {}

    async def use(db: Database) -> None:
        await db.write(setting("busy_timeout = 1"))
        with closing(sqlite3.connect(sqlite_path(database_url), isolation_level=None)) as other:
            other.execute("BEGIN IMMEDIATE")
            refused = await asyncio.gather(*(db.write(starting()) for _ in range(3)), return_exceptions=True)
        for one in refused:
            assert_unavailable(one, "database is locked")
        await db.write(adding("next"))

    with_database(database_url, use)
    assert (started, modules(database_url)) == ([], ["next"])


def test_queued_writes_wait_for_a_lock_together(database_url: str) -> None:
    """Otherwise the last of 64 writes would wait 64 times as long as the first."""
    begun: list[str] = []

    async def use(db: Database) -> list[object]:
        assert isinstance(db, SqliteDatabase)
        await db.write(setting("busy_timeout = 50"))
        assert db.writer.connection is not None
        db.writer.connection.set_trace_callback(begun.append)
        with closing(sqlite3.connect(sqlite_path(database_url), isolation_level=None)) as other:
            other.execute("BEGIN IMMEDIATE")
            return await asyncio.gather(
                *(db.write(adding("never")) for _ in range(9)), return_exceptions=True
            )

    for one in with_database(database_url, use):
        assert_unavailable(one, "database is locked")
    assert 1 <= len(begun) < 9
    assert set(begun) == {"BEGIN IMMEDIATE"}


def test_a_read_only_file_is_unavailable(database_url: str) -> None:
    async def use(db: Database) -> None:
        await db.write(setting("query_only = ON"))  # the same for SQLite as a read-only file
        with pytest.raises(DatabaseUnavailable) as refused:
            await db.write(adding("never"))
        assert_unavailable(refused.value, "attempt to write a readonly database")

    with_database(database_url, use)
    assert modules(database_url) == []


# --- a disk that fails ----------------------------------------------------------------------------


@contextmanager
def failing_disk(url: str) -> Iterator[None]:
    """The next write beyond the end of the write-ahead log is an I/O error: files of this process cannot
    grow. SQLite reports an error of the sync in the same way."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    log = sqlite_path(url).with_name("care.db-wal")
    resource.setrlimit(resource.RLIMIT_FSIZE, (log.stat().st_size + 100, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


def test_a_change_with_an_error_of_the_disk_before_its_commit_is_not_made(database_url: str) -> None:
    """The change does not fit in memory, so that SQLite writes a part of it before the commit."""
    many = "WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 3000)"
    adding_much = selecting(sql(f"INSERT INTO module (name) {many} SELECT hex(zeroblob(2000)) FROM n"))

    async def use(db: Database) -> list[object]:
        await db.write(adding("before"))
        with failing_disk(database_url):
            [fault] = await asyncio.gather(db.write(adding_much), return_exceptions=True)
        return [fault, await db.write(adding("after"))]

    fault, after = with_database(database_url, use)
    assert (type(fault), str(fault), after) == (DatabaseUnavailable, str(DatabaseUnavailable()), "after")
    assert reason_of(fault) == "disk I/O error"
    assert modules(database_url) == ["before", "after"]


def test_the_outcome_of_a_commit_with_an_error_of_the_disk_is_unknown(database_url: str) -> None:
    async def use(db: Database) -> list[object]:
        await db.write(adding("before"))
        with failing_disk(database_url):
            group = await write_together(db, adding("one"), adding_and_failing(Broken()))
            [single] = await asyncio.gather(db.write(adding("two")), return_exceptions=True)
        return [*group, single, await db.write(adding("after"))]

    one, rejected, single, after = with_database(database_url, use)
    assert [str(one), str(single)] == [UNSYNCED] * 2
    assert isinstance(one, OutcomeUnknown) and isinstance(single, OutcomeUnknown)
    assert reason_of(single) == f"{UNSYNCED}: disk I/O error"
    assert str(rejected) == str(DatabaseUnavailable())
    assert after == "after"
    assert modules(database_url) == ["before", "after"]
