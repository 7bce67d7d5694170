"""An operation runs whole: a write in one transaction, a read on one snapshot, on either database."""

import asyncio
import sqlite3
import threading
from collections.abc import Awaitable, Callable
from contextlib import closing
from typing import TypeVar

import pytest
from sqlalchemy import text

from app.db.drivers import Database, DatabaseError, open_database, sqlite_path
from app.db.statements import Operation, Statement
from tests.db import raw

Result = TypeVar("Result")


class Broken(Exception):
    pass


def sql(statement: str) -> Statement:
    return Statement(lambda kind: text(statement))


def add_module(name: str) -> Statement:
    return sql(f"INSERT INTO module (name) VALUES ('{name}')")


def modules(url: str) -> list[str]:
    return [row[0] for row in raw.run(url, "SELECT name FROM module ORDER BY id")]


def with_database(url: str, use: Callable[[Database], Awaitable[Result]]) -> Result:
    async def used() -> Result:
        db = await open_database(url)
        try:
            return await use(db)
        finally:
            await db.close()

    return asyncio.run(used())


def adding(name: str) -> Operation[str]:
    yield add_module(name), {}
    return name


def adding_and_breaking(fault: Exception | None) -> Operation[None]:
    yield add_module("never"), {}
    if fault is not None:
        raise fault
    yield sql("INSERT INTO book (module_id, name, is_test) VALUES (77, 'x', false)"), {}


@pytest.mark.parametrize(
    "fault", [Broken("broken inside"), None], ids=["raised inside", "a broken constraint"]
)
def test_a_write_that_breaks_leaves_nothing_and_the_next_one_works(
    database_url: str, fault: Exception | None
) -> None:
    async def use(db: Database) -> None:
        with pytest.raises(Exception, match=r"(?i)broken inside|foreign key"):
            await db.write(adding_and_breaking(fault))
        await db.write(adding("next"))

    with_database(database_url, use)

    assert modules(database_url) == ["next"]


def test_an_operation_may_mend_a_broken_constraint_as_its_own_refusal(database_url: str) -> None:
    def refusing() -> Operation[None]:
        try:
            yield from adding_and_breaking(None)
        except Exception:
            raise Broken from None

    async def use(db: Database) -> None:
        with pytest.raises(Broken):
            await db.write(refusing())

    with_database(database_url, use)

    assert modules(database_url) == []


def test_a_read_sees_one_snapshot_while_a_write_commits(database_url: str) -> None:
    count = sql("SELECT count(*) FROM module")

    def counting_twice(url: str) -> Operation[tuple[int, int]]:
        before = (yield count, {})[0][0]
        other = threading.Thread(target=lambda: raw.run(url, "INSERT INTO module (name) VALUES ('new')"))
        other.start()
        other.join()
        return before, (yield count, {})[0][0]

    async def use(db: Database) -> tuple[tuple[int, int], int]:
        seen = await db.read(counting_twice(database_url))
        return seen, await db.read(counting(count))

    assert with_database(database_url, use) == ((0, 0), 1)


def counting(count: Statement) -> Operation[int]:
    return int((yield count, {})[0][0])


def test_a_read_writes_nothing_on_postgresql(database_url: str) -> None:
    if database_url.startswith("sqlite:///"):
        return  # the file has one kind of transaction

    async def use(db: Database) -> None:
        with pytest.raises(Exception, match="read-only transaction"):
            await db.read(adding("never"))

    with_database(database_url, use)
    assert modules(database_url) == []


def test_writes_of_many_at_once_happen_each_once(database_url: str) -> None:
    names = [f"module {number:02}" for number in range(40)]

    async def use(db: Database) -> list[str]:
        return await asyncio.gather(*(db.write(adding(name)) for name in names))

    assert with_database(database_url, use) == names
    assert sorted(modules(database_url)) == names


@pytest.mark.parametrize("kind", ["sqlite"], indirect=True)
def test_a_write_waits_for_the_lock_of_another_process(database_url: str) -> None:
    """It asks for the lock before it reads: what it read would else be stale when its turn comes.

    The lock is let go only once the write has had time to meet it; nothing here depends on how much.
    """
    count = sql("SELECT count(*) FROM module")

    def reading_and_adding() -> Operation[int]:
        before = (yield count, {})[0][0]
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


# --- PostgreSQL that cannot be opened


@pytest.mark.parametrize(
    ("address", "message"),
    [
        (
            "care:s3cret@127.0.0.1:1/care",
            r"the PostgreSQL database cannot be opened: .*Connect call failed.*",
        ),
        ("care:s3cret@nowhere.invalid/care", r"the PostgreSQL database cannot be opened: .+"),
        ("care:s3/cret@127.0.0.1:1/care", r"the address of the PostgreSQL database cannot be read; .*%XX"),
        ("care:s3#cret@127.0.0.1:1/care", r"the address of the PostgreSQL database cannot be read; .*%XX"),
        ("care:s3cret@127.0.0.1:port/care", r"the address of the PostgreSQL database cannot be read; .*%XX"),
    ],
    ids=["nobody listens", "no such host", "slash in the password", "hash in the password", "no port"],
)
def test_an_unreachable_postgresql_is_one_sentence_without_the_password(address: str, message: str) -> None:
    pytest.importorskip("asyncpg")

    with pytest.raises(DatabaseError) as refused:
        asyncio.run(open_database(f"postgresql://{address}"))

    said = str(refused.value)
    assert "s3" not in said and "cret" not in said and "\n" not in said
    assert refused.match(f"^{message}$")


@pytest.mark.parametrize("kind", ["postgresql"], indirect=True)
def test_a_wrong_password_is_one_sentence_without_it(database_url: str) -> None:
    user, host = database_url.removeprefix("postgresql://").split("@")
    wrong = f"postgresql://{user.split(':')[0]}:s3cret@{host}"

    with pytest.raises(DatabaseError, match="password authentication failed") as refused:
        asyncio.run(open_database(wrong))

    assert "s3cret" not in str(refused.value)
