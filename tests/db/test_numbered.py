"""PostgreSQL runs equal short reads of several callers in one round trip. Each caller gets its own rows, and
the error of one is nobody else's."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from sqlalchemy import case, func, literal_column, select, true

from app.db.drivers.factory import open_database
from app.db.drivers.fair_turns import CALLER
from app.db.drivers.interface import DatabaseUnavailable
from app.db.sql import NUMBER, Numbered, Statement, Steps, id_parameter

pytestmark = pytest.mark.parametrize("kind", ["postgresql"], indirect=True)

QUOTIENT = Statement(select(NUMBER, literal_column("840") / id_parameter("by")))
DOUBLE = Statement(select(NUMBER, literal_column("2") * id_parameter("by")))

ENDING_ITS_OWN_CONNECTION = Statement(
    select(
        NUMBER,
        case((id_parameter("by") == 0, func.pg_terminate_backend(func.pg_backend_pid())), else_=true()),
    )
)


def reading(statement: Statement, by: int) -> Steps[int]:
    [(_, value)] = yield Numbered(statement, {"by": by, "number": 0})
    return int(value)


async def read_for(db: Any, caller: str, statement: Statement, by: int) -> int:
    CALLER.state = {"budget": caller}  # until the first await that waits
    try:
        return await db.read(reading(statement, by))
    finally:
        CALLER.state = None


Reads = list["asyncio.Task[int]"]


def beside_a_busy_connection(url: str, test: Callable[[Any, Any, list[str]], Awaitable[None]]) -> None:
    """The test gets a database with one connection, which it has in use, and the statements it will send."""

    async def main() -> None:
        db: Any = await open_database(url, 1)
        try:
            async with asyncio.timeout(30):
                async with db.connection() as connection:
                    sent: list[str] = []
                    connection.add_query_logger(lambda query: sent.append(query.query))
                    busy = asyncio.create_task(db.read(reading(DOUBLE, 0)))
                    await asyncio.sleep(0)
                await busy
                await test(db, connection, sent)
        finally:
            await db.close()

    asyncio.run(main())


def waiting_reads(db: Any, *reads: tuple[str, Statement, int]) -> Reads:
    return [asyncio.create_task(read_for(db, *each)) for each in reads]


def test_each_caller_gets_its_own_rows(database_url: str) -> None:
    async def test(db: Any, connection: Any, sent: list[str]) -> None:
        await asyncio.sleep(0)  # asyncpg calls the logger in the next turn of the loop
        sent.clear()
        async with db.connection():
            reads = waiting_reads(
                db, *[(f"caller {by % 3}", DOUBLE if by == 4 else QUOTIENT, by) for by in range(1, 9)]
            )
            await asyncio.sleep(0)

        assert await asyncio.gather(*reads) == [840, 420, 280, 8, 168, 140, 120, 105]

        await asyncio.sleep(0)
        assert len(sent) == 3  # those before and behind the other statement of their caller, and that one
        assert (db.turns.free, len(db.turns.waiting.items)) == (1, 0)

    beside_a_busy_connection(database_url, test)


def test_an_error_is_that_of_its_caller_only(database_url: str) -> None:
    async def test(db: Any, connection: Any, sent: list[str]) -> None:
        for by in ([0, 1, 2], [1, 0, 2], [1, 2, 0]):
            async with db.connection():
                reads = waiting_reads(db, *[(f"caller {each}", QUOTIENT, each) for each in by])
                await asyncio.sleep(0)

            found = dict(zip(by, await asyncio.gather(*reads, return_exceptions=True), strict=True))

            assert str(found.pop(0)) == "division by zero"
            assert found == {1: 840, 2: 420}

    beside_a_busy_connection(database_url, test)


@pytest.mark.parametrize("cancelled", [0, 1, 2])
def test_a_cancelled_caller_does_not_cancel_the_others(database_url: str, cancelled: int) -> None:
    async def test(db: Any, connection: Any, sent: list[str]) -> None:
        for turns in range(12):  # of the loop, before the cancellation
            async with db.connection():
                reads = waiting_reads(db, *[(f"caller {by}", QUOTIENT, by) for by in (1, 2, 3)])
                await asyncio.sleep(0)
            for _ in range(turns):
                await asyncio.sleep(0)
            reads[cancelled].cancel()

            found: list[Any] = await asyncio.gather(*reads, return_exceptions=True)

            del found[cancelled]
            expected = [840, 420, 280]
            del expected[cancelled]
            assert found == expected
            assert await read_for(db, "later", QUOTIENT, 4) == 210

    beside_a_busy_connection(database_url, test)


def test_a_lost_connection_fails_all_and_the_next_read_finds_another(database_url: str) -> None:
    async def test(db: Any, connection: Any, sent: list[str]) -> None:
        async with db.connection():
            reads = waiting_reads(db, *[(f"caller {by}", ENDING_ITS_OWN_CONNECTION, by) for by in (1, 0, 2)])
            await asyncio.sleep(0)

        found = await asyncio.gather(*reads, return_exceptions=True)

        assert [type(each) for each in found] == [DatabaseUnavailable] * 3
        assert await read_for(db, "later", QUOTIENT, 4) == 210
        assert (db.turns.free, len(db.turns.waiting.items)) == (1, 0)

    beside_a_busy_connection(database_url, test)
