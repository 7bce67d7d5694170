"""On both databases a write runs in one transaction, and a read on one snapshot."""

import asyncio
import errno
import sqlite3
import threading
from contextlib import closing
from typing import Any

import pytest

from app.db.drivers.factory import open_database
from app.db.drivers.interface import Database, DatabaseError, DatabaseUnavailable, sqlite_path
from app.db.sql import MissingParameter, OnlyStatement, Statement, Steps, Values
from tests.callers import kind_of
from tests.db import raw
from tests.db.small_steps import (
    COUNT_MODULES,
    Broken,
    add_module,
    adding,
    adding_and_failing,
    counting,
    modules,
    running,
    sql,
    with_database,
)
from tests.patience import PATIENCE
from tests.postgres import drop_database


def test_a_closed_database_is_unavailable(database_url: str) -> None:
    async def use() -> None:
        db = await open_database(database_url)
        await db.close()
        async with asyncio.timeout(PATIENCE):
            for call in (db.read, db.write):
                with pytest.raises(DatabaseUnavailable):
                    await call(counting())

    asyncio.run(use())


@pytest.mark.parametrize(
    "fault", [Broken("broken inside"), None], ids=["raised inside", "a broken constraint"]
)
def test_a_failed_write_is_rolled_back_and_the_next_one_works(
    database_url: str, fault: Exception | None
) -> None:
    async def use(db: Database) -> None:
        with pytest.raises(Exception, match=r"(?i)broken inside|foreign key"):
            await db.write(adding_and_failing(fault))
        await db.write(adding("next"))

    with_database(database_url, use)

    assert modules(database_url) == ["next"]


@pytest.mark.parametrize("method", ["read", "write"])
def test_a_full_disk_of_the_caller_is_no_fault_of_the_database(database_url: str, method: str) -> None:
    def storing() -> Steps[None]:
        yield COUNT_MODULES, {}
        yield COUNT_MODULES, {}
        raise OSError(errno.ENOSPC, "No space left on device")

    async def use(db: Database) -> int:
        with pytest.raises(OSError, match="No space left on device"):
            await getattr(db, method)(storing())
        return await db.read(counting())

    assert with_database(database_url, use) == 0


def test_a_statement_without_a_value_for_each_parameter_does_not_run(database_url: str) -> None:
    add = sql("INSERT INTO module (name) VALUES (:name)")
    find = sql("SELECT count(*) FROM module WHERE name = :name OR name = 'a'")

    def running(statement: Statement, values: Values) -> Steps[object]:
        return (yield statement, values)

    async def use(db: Database) -> list[str]:
        refused = []
        for run, statement in ((db.write, add), (db.read, find)):
            with pytest.raises(MissingParameter) as one:
                await run(running(statement, {"nam": "b"}))
            refused.append(str(one.value))
        return refused

    add_text, find_text = (one.for_(kind_of(database_url)).sql for one in (add, find))
    assert with_database(database_url, use) == [
        f"no value for :name in {add_text}",
        f"no value for :name in {find_text}",
    ]
    assert modules(database_url) == []


@pytest.mark.parametrize("method", ["read", "write"])
@pytest.mark.parametrize("loop_read_ms", [60_000, 0], ids=["on the loop", "in a thread"])
def test_a_failed_statement_closes_its_steps(database_url: str, method: str, loop_read_ms: int) -> None:
    """What the steps opened is closed before the caller receives the error."""
    closed: list[str] = []

    def opening(name: str, statement: Statement) -> Steps[None]:
        try:
            yield COUNT_MODULES, {}
            yield statement, {}
        finally:
            closed.append(name)

    async def use(db: Database) -> None:
        missing = opening("a missing value", sql("SELECT count(*) FROM module WHERE name = :name"))
        with pytest.raises(MissingParameter):
            await getattr(db, method)(missing)
        wrong = opening("a wrong statement", sql("SELECT nonsense FROM module"))
        with pytest.raises(Exception, match="nonsense"):
            await getattr(db, method)(wrong)
        assert closed == ["a missing value", "a wrong statement"]

    with_database(database_url, use, loop_read_ms=loop_read_ms)


@pytest.mark.once_on_postgresql
@pytest.mark.parametrize("loop_read_ms", [5, 0], ids=["on the loop", "in a thread"])
def test_a_read_sees_one_snapshot_while_a_write_commits(database_url: str, loop_read_ms: int) -> None:
    def counting_twice(url: str) -> Steps[tuple[int, int]]:
        before = (yield COUNT_MODULES, {})[0][0]
        other = threading.Thread(target=lambda: raw.run(url, "INSERT INTO module (name) VALUES ('new')"))
        other.start()
        other.join()
        return before, (yield COUNT_MODULES, {})[0][0]

    async def use(db: Database) -> tuple[tuple[int, int], int]:
        seen = await db.read(counting_twice(database_url))
        return seen, await db.read(counting())

    assert with_database(database_url, use, loop_read_ms=loop_read_ms) == ((0, 0), 1)


def test_a_read_cannot_write(database_url: str) -> None:
    async def use(db: Database) -> None:
        with pytest.raises(Exception) as refused:
            await db.read(adding("never"))
        fault = refused.value.__cause__ or refused.value
        assert "read-only" in str(fault) or "readonly" in str(fault)

    with_database(database_url, use)
    assert modules(database_url) == []


def test_concurrent_writes_happen_once_each(database_url: str) -> None:
    names = [f"module {number:02}" for number in range(40)]

    async def use(db: Database) -> list[str]:
        return await asyncio.gather(*(db.write(adding(name)) for name in names))

    assert with_database(database_url, use) == names
    assert sorted(modules(database_url)) == names


def test_an_error_of_one_concurrent_write_fails_that_write_alone(database_url: str) -> None:
    async def use(db: Database) -> list[object]:
        writes = [
            adding("a"),
            adding_and_failing(Broken()),
            adding("b"),
            adding_and_failing(None),
            adding("c"),
        ]
        return await asyncio.gather(*(db.write(one) for one in writes), return_exceptions=True)

    a, refused, b, broken, c = with_database(database_url, use)

    assert (a, b, c) == ("a", "b", "c")
    assert isinstance(refused, Broken)
    assert "foreign key" in str(broken).lower() and not isinstance(broken, DatabaseUnavailable)
    assert sorted(modules(database_url)) == ["a", "b", "c"]


def test_a_cancelled_write_is_complete_or_absent(database_url: str, caplog: pytest.LogCaptureFixture) -> None:
    def adding_twice() -> Steps[None]:
        yield add_module("first"), {}
        yield add_module("second"), {}

    async def use(db: Database) -> None:
        for turns in range(6):
            write = asyncio.create_task(db.write(adding_twice()))
            for _ in range(turns):
                await asyncio.sleep(0)
            write.cancel()
            await asyncio.gather(write, return_exceptions=True)
        await db.write(adding("last"))

    with_database(database_url, use)

    *others, last = modules(database_url)
    assert [record.getMessage() for record in caplog.records if record.name == "asyncio"] == []
    assert last == "last"
    assert others == ["first", "second"] * (len(others) // 2)


@pytest.mark.parametrize("is_write", [False, True], ids=["read", "write"])
def test_a_wrong_statement_is_not_an_unavailable_database(database_url: str, is_write: bool) -> None:
    def wrong() -> Steps[None]:
        yield sql("SELECT nonsense FROM module"), {}

    async def use(db: Database) -> None:
        with pytest.raises(Exception, match="nonsense") as refused:
            await (db.write(wrong()) if is_write else db.read(wrong()))
        assert not isinstance(refused.value, DatabaseUnavailable)
        assert await db.read(counting()) == 0

    with_database(database_url, use)


def test_a_closed_database_rejects_operations(database_url: str) -> None:
    async def use(db: Database) -> None:
        await db.read(counting())
        await db.close()
        for operation in (db.read(counting()), db.write(counting())):
            with pytest.raises(DatabaseUnavailable):
                await operation

    with_database(database_url, use)


@pytest.mark.parametrize("kind", ["sqlite"], indirect=True)
def test_a_write_waits_for_the_lock_of_another_process(database_url: str) -> None:
    """It takes the lock before it reads; otherwise it would read an outdated state."""

    def reading_and_adding() -> Steps[int]:
        before = (yield COUNT_MODULES, {})[0][0]
        yield add_module("second"), {}
        return int(before)

    with closing(
        sqlite3.connect(sqlite_path(database_url), isolation_level=None, check_same_thread=False)
    ) as other:
        other.execute("BEGIN IMMEDIATE")
        other.execute("INSERT INTO module (name) VALUES ('first')")

        async def use(db: Database) -> int:
            asyncio.get_running_loop().call_later(0.2, other.execute, "COMMIT")
            return await db.write(reading_and_adding())

        assert with_database(database_url, use) == 1

    assert modules(database_url) == ["first", "second"]


# --- a lost PostgreSQL

on_postgresql = pytest.mark.parametrize("kind", ["postgresql"], indirect=True)


@on_postgresql
@pytest.mark.parametrize("is_write", [False, True], ids=["read", "write"])
def test_a_terminated_connection_is_unavailable_and_the_next_one_works(
    database_url: str, is_write: bool
) -> None:
    seen = []

    def ending() -> Steps[None]:
        try:
            yield sql("SELECT pg_terminate_backend(pg_backend_pid())"), {}
        except Exception as error:
            seen.append(error)

    async def use(db: Database) -> int:
        with pytest.raises(DatabaseUnavailable, match="nothing was changed"):
            await (db.write(ending()) if is_write else db.read(ending()))
        return await db.read(counting())

    assert with_database(database_url, use) == 0
    assert seen == []  # steps do not receive errors of statements


@on_postgresql
def test_a_connection_lost_between_statements_rolls_back_the_write(database_url: str) -> None:
    def adding_before_and_after() -> Steps[None]:
        own = yield sql("SELECT pg_backend_pid()"), {}
        yield add_module("never"), {}
        other = threading.Thread(
            target=lambda: raw.run(database_url, f"SELECT pg_terminate_backend({own[0][0]}, 10000)")
        )
        other.start()
        other.join()
        yield add_module("never either"), {}

    async def use(db: Database) -> None:
        with pytest.raises(DatabaseUnavailable) as refused:
            await db.write(adding_before_and_after())
        assert refused.value.__cause__ is not None
        await db.write(adding("next"))

    with_database(database_url, use)
    assert modules(database_url) == ["next"]


@on_postgresql
def test_an_error_of_the_operation_is_raised_even_if_the_connection_is_lost(database_url: str) -> None:
    def refusing() -> Steps[None]:
        own = yield sql("SELECT pg_backend_pid()"), {}
        other = threading.Thread(
            target=lambda: raw.run(database_url, f"SELECT pg_terminate_backend({own[0][0]}, 10000)")
        )
        other.start()
        other.join()
        raise Broken

    async def use(db: Database) -> None:
        with pytest.raises(Broken):
            await db.write(refusing())

    with_database(database_url, use)


@on_postgresql
def test_a_statement_over_its_time_limit_is_unavailable(database_url: str) -> None:
    def sleeping() -> Steps[None]:
        yield sql("SELECT pg_sleep(600)"), {}

    async def use(db: Database) -> int:
        with pytest.raises(DatabaseUnavailable):
            await db.read(sleeping())
        return await db.read(counting())

    assert with_database(database_url, use, patience=0.5) == 0


@on_postgresql
def test_a_statement_over_its_time_limit_is_not_a_lost_server(database_url: str) -> None:
    async def use(db: Any) -> tuple[bool, bool]:
        async with db.connection(), db.connection():
            pass
        idle = {connection.get_server_pid() for connection in db.idle}
        with pytest.raises(DatabaseUnavailable):
            await db.read(running("SELECT pg_sleep(600)"))
        async with db.connection() as one, db.connection() as other:
            found = {connection.get_server_pid() for connection in (one, other)}
        is_ended = await db.read(running(f"SELECT count(*) = 0 FROM pg_stat_activity WHERE {SLEEPS}"))
        return found == idle, is_ended

    assert with_database(database_url, use, patience=0.5) == (True, True)


SLEEPS = "datname = current_database() AND query LIKE '%sleep(600)' AND state = 'active'"


def recording() -> Steps[None]:
    yield OnlyStatement(COUNT_MODULES, {})


@on_postgresql
def test_waiting_for_a_free_connection_has_a_time_limit(database_url: str) -> None:
    """The audit record of a read does not wait for one."""
    from app.db.drivers.postgres import (
        PostgresDatabase,  # here, because the suite on SQLite does without the driver
    )

    async def use(db: Database) -> None:
        assert isinstance(db, PostgresDatabase)
        db.acquire_seconds = 0.05
        async with db.connection():
            await db.write(recording())
            for run in (db.read, db.write, db.read):  # a turn that never came is not given back
                with pytest.raises(DatabaseUnavailable):
                    await run(counting())
        assert await db.read(counting()) == 0
        assert (db.turns.free, db.turns_to_change.free) == (1, 1)

    with_database(database_url, use, readers=1)


@on_postgresql
def test_a_dropped_database_is_unavailable(database_url: str) -> None:
    async def use(db: Database) -> None:
        server, name = database_url.rsplit("/", 1)
        await asyncio.to_thread(drop_database, f"{server}/postgres", name)
        for _ in range(2):
            with pytest.raises(DatabaseUnavailable):
                await db.read(counting())

    with_database(database_url, use)


# --- a PostgreSQL that cannot be opened


@pytest.mark.parametrize(
    ("address", "message"),
    [
        (
            "care:s3cret@127.0.0.1:1/care",
            r"the PostgreSQL database cannot be opened: 127\.0\.0\.1:1 refuses connections .+",
        ),
        ("care:s3cret@nowhere.invalid/care", r"the PostgreSQL database cannot be opened: .+"),
        ("care:5/s3cret@127.0.0.1:1/care", r"the address of the PostgreSQL database cannot be read; .*%XX"),
        ("care:5#s3cret@127.0.0.1:1/care", r"the address of the PostgreSQL database cannot be read; .*%XX"),
        ("care:5?s3cret@127.0.0.1:1/care", r"the address of the PostgreSQL database cannot be read; .*%XX"),
        ("care:s3cret@127.0.0.1:port/care", r"the address of the PostgreSQL database cannot be read; .*%XX"),
    ],
    ids=[
        *("no server", "no such host", "slash in the password", "hash in the password"),
        *("question mark in the password", "no port"),
    ],
)
def test_the_error_of_an_unreachable_server_does_not_contain_the_password(address: str, message: str) -> None:
    pytest.importorskip("asyncpg")

    with pytest.raises(DatabaseError) as refused:
        asyncio.run(open_database(f"postgresql://{address}"))

    message_text = str(refused.value)
    assert "s3" not in message_text and "cret" not in message_text and "\n" not in message_text
    assert refused.match(f"^{message}$")


@pytest.mark.parametrize("kind", ["postgresql"], indirect=True)
def test_the_error_of_a_wrong_password_does_not_contain_it(database_url: str) -> None:
    user, host = database_url.removeprefix("postgresql://").split("@")
    wrong = f"postgresql://{user.split(':')[0]}:s3cret@{host}"

    with pytest.raises(DatabaseError, match="rejects the user or the password") as refused:
        asyncio.run(open_database(wrong))

    assert "s3cret" not in str(refused.value)


@pytest.mark.parametrize("kind", ["postgresql"], indirect=True)
def test_an_old_server_is_rejected(database_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    version = with_database(database_url, lambda db: db.read(running("SHOW server_version_num")))
    monkeypatch.setattr("app.db.drivers.connections.OLDEST_POSTGRES", int(version) // 10000)
    assert with_database(database_url, lambda db: db.read(counting())) == 0

    monkeypatch.setattr("app.db.drivers.connections.OLDEST_POSTGRES", 99)

    open_connections = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database()"

    async def use() -> None:
        with pytest.raises(DatabaseError, match=r"^PostgreSQL \d+\.\d+ is too old; 99 or newer is needed$"):
            await open_database(database_url)
        async with asyncio.timeout(PATIENCE):
            while await asyncio.to_thread(raw.run, database_url, open_connections) != [(1,)]:  # its own
                pass

    asyncio.run(use())
