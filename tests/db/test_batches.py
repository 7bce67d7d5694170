"""PostgreSQL runs the same short read of several callers in one batch. Each caller gets its own rows. An
error of one read fails its own caller only."""

import asyncio
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any

import pytest
from sqlalchemy import case, func, literal_column, select, true

from app.db.drivers.batches import MAX_BATCH, MAX_CHANGES, BatchItem, run_batch
from app.db.drivers.factory import open_database
from app.db.drivers.fair_turns import CALLER, CONNECTED, FairTurns
from app.db.drivers.interface import DatabaseUnavailable, OutcomeUnknown
from app.db.reader.reads import get_rows, list_rows
from app.db.reader.selection import AccessScope, Link, PageRequest, Selection
from app.db.sql import (
    NUMBER,
    Batchable,
    DatabaseKind,
    FastPath,
    LongWork,
    OnlyStatement,
    Statement,
    Steps,
    id_parameter,
    repeatable,
)
from app.db.tables import Session
from tests.db import raw
from tests.factories import NOW
from tests.patience import PATIENCE

pytestmark = pytest.mark.parametrize("kind", ["postgresql"], indirect=True)
READS_AT_ONCE = 2  # of the driver, which the suite on SQLite does without

QUOTIENT = Statement(select(NUMBER, literal_column("840") / id_parameter("by")))
DOUBLE = Statement(select(NUMBER, literal_column("2") * id_parameter("by")))

ENDING_ITS_OWN_CONNECTION = Statement(
    select(
        NUMBER,
        case((id_parameter("by") == 0, func.pg_terminate_backend(func.pg_backend_pid())), else_=true()),
    )
)


LOCK = 7  # an advisory lock
WAITING = "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND NOT granted"
WAITING_FOR_LOCK = Statement(
    select(NUMBER, id_parameter("by")).select_from(func.pg_advisory_xact_lock_shared(LOCK).alias("locked"))
)
WRONG_NUMBER = Statement(select((NUMBER.element + 7).label("number"), id_parameter("by")))
OTHER_ORDER = Statement(select((1 - NUMBER.element).label("number"), id_parameter("by")))  # of two


def reading(statement: Statement, by: int) -> Steps[int]:
    [(_, value)] = yield Batchable(statement, {"by": by, "number": 0})
    return int(value)


async def read_for(db: Any, caller: str, statement: Statement, by: int) -> int:
    CALLER.state = {"budget": caller}  # until the first await that waits
    try:
        return await db.read(reading(statement, by))
    finally:
        CALLER.state = None


Reads = list["asyncio.Task[int]"]


def with_one_connection(url: str, test: Callable[[Any, list[str]], Awaitable[None]]) -> None:
    """Passes a database with one connection and the list of the statements that it sends. Afterwards no
    request has a turn or the connection."""

    async def main() -> None:
        db: Any = await open_database(url, 1)
        try:
            async with asyncio.timeout(PATIENCE):
                async with db.connection() as connection:
                    sent: list[str] = []
                    connection.add_query_logger(lambda query: sent.append(query.query))
                await test(db, sent)
                if db.announcing is not None:
                    await db.announcing
                reading = [turns.free for turns in db.turns_to_read.values()]
                assert (CONNECTED, db.in_use, reading) == (set(), {}, [READS_AT_ONCE] * len(reading))
                assert [turns.free for turns in (db.turns, db.turns_to_change, db.fast_path_turn)] == [1] * 3
        finally:
            await db.close()

    asyncio.run(main())


def waiting_reads(db: Any, *reads: tuple[str, Statement, int]) -> Reads:
    return [asyncio.create_task(read_for(db, *each)) for each in reads]


def test_each_caller_gets_its_own_rows(database_url: str) -> None:
    async def test(db: Any, sent: list[str]) -> None:
        async with db.connection():
            reads = waiting_reads(
                db, *[(f"caller {by % 3}", DOUBLE if by == 4 else QUOTIENT, by) for by in range(1, 9)]
            )
            await asyncio.sleep(0)

        assert await asyncio.gather(*reads) == [840, 420, 280, 8, 168, 140, 120, 105]

        await asyncio.sleep(0)  # asyncpg calls the logger in the next turn of the loop
        statements = [QUOTIENT.for_("postgresql").sql, DOUBLE.for_("postgresql").sql]
        # Two reads of QUOTIENT wait for the connection. The first of them also runs the other five.
        assert [statements.index(one) for one in sent if one in statements] == [0, 0, 1]
        assert (db.turns.free, len(db.turns.waiting.items)) == (1, 0)

    with_one_connection(database_url, test)


def test_a_third_read_of_a_statement_waits_and_reads_of_others_do_not(database_url: str) -> None:
    async def main() -> None:
        db: Any = await open_database(database_url, 4)
        try:
            async with asyncio.timeout(PATIENCE), db.connection() as locking:
                await locking.execute(f"SELECT pg_advisory_lock({LOCK})")
                reads = waiting_reads(db, *[(f"caller {by}", WAITING_FOR_LOCK, by) for by in (1, 2, 3, 4)])
                while await locking.fetchval(WAITING) < 2:  # connections open one after the other
                    await asyncio.sleep(0)
                assert await read_for(db, "another", QUOTIENT, 4) == 210
                in_use = len(db.in_use) - 1
                await locking.execute(f"SELECT pg_advisory_unlock({LOCK})")

            assert (in_use, await asyncio.gather(*reads)) == (2, [1, 2, 3, 4])
        finally:
            await db.close()

    asyncio.run(main())


@pytest.mark.parametrize(("number", "batches"), [(2 * MAX_BATCH, 2), (2 * MAX_BATCH + 1, 3)])
def test_reads_that_arrive_together_make_whole_batches(database_url: str, number: int, batches: int) -> None:
    sent: list[str] = []
    reads = [(f"caller {by}", QUOTIENT, by) for by in range(1, number + 1)]

    async def main() -> list[int]:
        db: Any = await open_database(database_url, 4)
        try:
            async with asyncio.timeout(PATIENCE):
                async with db.connection() as one, db.connection() as another:
                    for connection in (one, another):
                        connection.add_query_logger(lambda query: sent.append(query.query))
                found = await asyncio.gather(*waiting_reads(db, *reads))
                await asyncio.sleep(0)  # asyncpg calls the logger in the next turn of the loop
                return found
        finally:
            await db.close()

    assert asyncio.run(main()) == [840 // by for _, _, by in reads]
    assert sent.count(QUOTIENT.for_("postgresql").sql) == batches


def test_reads_and_changes_join_a_batch_until_it_has_a_connection(database_url: str) -> None:
    async def test(db: Any, sent: list[str]) -> None:
        async with db.connection():
            reads: Reads = []
            changes: Reads = []
            for arriving in ((1, 2, 3), (4, 5)):  # 1 and 2 have the turns and wait for the connection
                reads += waiting_reads(db, *[(f"caller {by}", QUOTIENT, by) for by in arriving])
                changes += [asyncio.create_task(db.write(changing_at_once())) for _ in arriving]
                for _ in range(3):
                    await asyncio.sleep(0)

        assert await asyncio.gather(*reads, *changes) == [840, 420, 280, 210, 168, 1, 1, 1, 1, 1]

        await asyncio.sleep(0)
        assert [sent.count(each.for_("postgresql").sql) for each in (QUOTIENT, DONE)] == [2, 1]

    with_one_connection(database_url, test)


def test_a_read_does_not_wait_for_a_batch_for_ever(database_url: str) -> None:
    async def test(db: Any, sent: list[str]) -> None:
        db.acquire_seconds = 0.01
        turns = db.turns_to_read[QUOTIENT] = FairTurns(0)

        with pytest.raises(DatabaseUnavailable):
            await read_for(db, "caller", QUOTIENT, 4)

        for _ in range(READS_AT_ONCE):
            turns.release()  # passes over the read that has given up
        assert await read_for(db, "caller", QUOTIENT, 4) == 210

    with_one_connection(database_url, test)


def test_an_error_fails_its_own_caller_only(database_url: str) -> None:
    async def test(db: Any, sent: list[str]) -> None:
        for by in ([0, 1, 2], [1, 0, 2], [1, 2, 0]):
            async with db.connection():
                reads = waiting_reads(db, *[(f"caller {each}", QUOTIENT, each) for each in by])
                await asyncio.sleep(0)

            found = dict(zip(by, await asyncio.gather(*reads, return_exceptions=True), strict=True))

            assert str(found.pop(0)) == "division by zero"
            assert found == {1: 840, 2: 420}

    with_one_connection(database_url, test)


@pytest.mark.parametrize("cancelled", [0, 1, 2])
def test_a_cancelled_caller_does_not_cancel_the_others(database_url: str, cancelled: int) -> None:
    async def test(db: Any, sent: list[str]) -> None:
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

    with_one_connection(database_url, test)


def test_a_lost_connection_fails_the_batch_and_the_next_read_gets_another_connection(
    database_url: str,
) -> None:
    async def test(db: Any, sent: list[str]) -> None:
        async with db.connection():
            of_batch = [(f"caller {by}", ENDING_ITS_OWN_CONNECTION, by) for by in (1, 0, 2)]
            reads = waiting_reads(db, of_batch[0], ("other", ENDING_ITS_OWN_CONNECTION, 1), *of_batch[1:])
            await asyncio.sleep(0)

        found = await asyncio.gather(*reads, return_exceptions=True)

        assert found.pop(1) == 1  # the second read with a connection
        assert [type(each) for each in found] == [DatabaseUnavailable] * 3
        assert await read_for(db, "later", QUOTIENT, 4) == 210
        assert (db.turns.free, len(db.turns.waiting.items)) == (1, 0)

    with_one_connection(database_url, test)


def test_a_connection_that_is_lost_before_the_batch_fails_all_of_it(database_url: str) -> None:
    """Its request has the connection already. A request that waits for the batch would wait for ever."""

    async def test(db: Any, sent: list[str]) -> None:
        loop = asyncio.get_running_loop()
        first, cancelled, waiting = (
            BatchItem(QUOTIENT, values={"by": by}, turn=loop.create_future()) for by in (1, 2, 3)
        )
        assert cancelled.turn is not None and cancelled.turn.cancel()  # its caller
        with pytest.raises(DatabaseUnavailable):
            async with db.connection() as connection:
                connection.terminate()
                await asyncio.sleep(0)
                await run_batch(connection, [first, cancelled, waiting])

        assert waiting.turn is not None
        assert type(waiting.turn.exception()) is DatabaseUnavailable
        assert await read_for(db, "later", QUOTIENT, 4) == 210

    with_one_connection(database_url, test)


@pytest.mark.parametrize("statement", [WRONG_NUMBER, OTHER_ORDER])
def test_reads_whose_rows_do_not_match_run_again_one_by_one(database_url: str, statement: Statement) -> None:
    async def test(db: Any, sent: list[str]) -> None:
        async with db.connection():
            reads = waiting_reads(db, *[(f"caller {by}", statement, by) for by in (1, 2, 3)])
            await asyncio.sleep(0)

        assert await asyncio.gather(*reads) == [1, 2, 3]

        await asyncio.sleep(0)
        assert sent.count(statement.for_("postgresql").sql) == 4

    with_one_connection(database_url, test)


def changing(by: int) -> Steps[None]:
    yield FastPath(WRONG_NUMBER, WRONG_NUMBER, {"by": by})
    raise AssertionError("the change is made again")


def test_changes_whose_rows_do_not_match_have_an_unknown_outcome(database_url: str) -> None:
    async def test(db: Any, sent: list[str]) -> None:
        async with db.connection():
            changes = [asyncio.create_task(db.write(changing(by))) for by in (1, 2, 3)]
            await asyncio.sleep(0)

        found = await asyncio.gather(*changes, return_exceptions=True)

        assert [type(each) for each in found] == [OutcomeUnknown] * 3

    with_one_connection(database_url, test)


FAIL_ONCE = (
    "CREATE SEQUENCE tries",
    "CREATE FUNCTION fail_once() RETURNS int LANGUAGE plpgsql AS $$ BEGIN"
    " IF nextval('tries') = 1 THEN RAISE SQLSTATE '40001'; END IF; RETURN 1; END $$",
)
CONFLICTING_ONCE = Statement(select(NUMBER, func.fail_once(), id_parameter("by")))


@repeatable
def changing_again(by: int) -> Steps[int]:
    values = {"by": by, "caregiver": 1}
    [(_, _, value)] = yield FastPath(CONFLICTING_ONCE, CONFLICTING_ONCE, values)
    return int(value)


def test_each_change_of_a_batch_with_a_conflict_is_made_again(database_url: str) -> None:
    raw.run(database_url, *FAIL_ONCE)

    async def test(db: Any, sent: list[str]) -> None:
        async with db.connection():
            changes = [asyncio.create_task(db.write(changing_again(by))) for by in (1, 2, 3)]
            await asyncio.sleep(0)

        assert await asyncio.gather(*changes) == [1, 2, 3]

    with_one_connection(database_url, test)


def test_a_change_that_no_batch_takes_in_time_was_not_made(database_url: str) -> None:
    async def test(db: Any, sent: list[str]) -> None:
        db.acquire_seconds = 0.01
        turns = db.fast_path_turn = FairTurns(0)

        with pytest.raises(DatabaseUnavailable) as rejected:
            await db.write(changing(4))

        turns.release()
        assert rejected.type is DatabaseUnavailable
        assert (turns.free, len(turns.waiting.items)) == (1, 0)

    with_one_connection(database_url, test)


DONE = Statement(select(NUMBER, literal_column("1")))


def changing_at_once() -> Steps[int]:
    return len((yield FastPath(DONE, DONE, {"caregiver": 1})))


@pytest.mark.parametrize(("number", "commits"), [(MAX_CHANGES, 1), (MAX_CHANGES + 1, 2)])
def test_a_limited_number_of_changes_shares_a_commit(database_url: str, number: int, commits: int) -> None:
    async def test(db: Any, sent: list[str]) -> None:
        changes = [asyncio.create_task(db.write(changing_at_once())) for _ in range(number)]

        assert await asyncio.gather(*changes) == [1] * number

        await asyncio.sleep(0)
        assert sent.count(DONE.for_("postgresql").sql) == commits

    with_one_connection(database_url, test)


@pytest.mark.parametrize("is_change", [False, True], ids=["read", "change"])
def test_the_wait_for_a_batch_is_a_part_of_the_wait_for_a_connection(
    database_url: str, is_change: bool
) -> None:
    async def test(db: Any, sent: list[str]) -> None:
        async with db.connection():
            db.acquire_seconds = 0.05
            run = db.write(changing_at_once()) if is_change else read_for(db, "caller", QUOTIENT, 4)
            waiting = asyncio.create_task(run)
            await asyncio.sleep(0)  # until its batch begins
            db.acquire_seconds = None
            with pytest.raises(DatabaseUnavailable):
                await waiting

    with_one_connection(database_url, test)


NAMES = Selection(frozenset({"title"}))
PAGE_IN_PAGE = Selection(
    frozenset({"title"}), (Link("assignments", Selection(frozenset({"id"})), PageRequest()),)
)


@pytest.mark.parametrize(
    ("read", "is_short"),
    [
        (partial(get_rows, ids=list(range(50)), selection=NAMES), True),
        (partial(get_rows, ids=list(range(51)), selection=NAMES), False),
        (partial(list_rows, request=PageRequest(first=50), selection=NAMES), True),
        (partial(list_rows, request=PageRequest(first=51), selection=NAMES), False),
        (partial(list_rows, request=PageRequest(first=1, offset=50), selection=NAMES), False),
        (partial(list_rows, request=PageRequest(first=1), selection=PAGE_IN_PAGE), False),
    ],
)
def test_only_short_reads_are_batched(
    kind: DatabaseKind, read: Callable[..., Steps[Any]], is_short: bool
) -> None:
    steps = read(Session, AccessScope(NOW, caregiver=1))
    step = next(steps)
    while not isinstance(step, OnlyStatement):
        step = steps.send([step.function() if isinstance(step, LongWork) else kind])

    assert isinstance(step, Batchable) == is_short
