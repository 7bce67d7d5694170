"""On PostgreSQL a change that waits for a locked row leaves connections to reads, to their audit records and
to the check of readiness, and does not wait for long."""

import asyncio
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from typing import Any

import pytest
from sqlalchemy import text

from app.db.drivers.interface import Database, DatabaseUnavailable, reason_of
from app.db.drivers.waiting_commits import reading_waiting_commits
from app.db.sql import NUMBER, FastPath, OnlyStatement, Statement, Steps
from app.http import health
from app.settings import Settings
from tests.answers import a_world_to_answer_in
from tests.callers import Caller, Gateway
from tests.db import raw
from tests.db.small_steps import adding, counting, modules, running, sql, with_database
from tests.factories import starting_with
from tests.schema.test_assign_homework import ASSIGN, homework
from tests.schema.test_statement_counts import NESTED

pytestmark = pytest.mark.parametrize("kind", ["postgresql"], indirect=True)
CONNECTIONS = 4
WAITING = (
    "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'"
)


@pytest.fixture
def settings(settings: Settings) -> Settings:
    return settings.model_copy(update={"read_threads": CONNECTIONS})


@contextmanager
def locking(url: str, statement: str) -> Iterator[None]:
    """Keeps the locks of the statement for the block."""
    import asyncpg

    with asyncio.Runner() as runner:
        connection = runner.run(asyncpg.connect(url))
        runner.run(connection.execute(f"BEGIN; {statement}"))
        yield
        runner.run(connection.close())


def wait_for(url: str, number: int) -> None:
    """Returns when this number of transactions waits for a lock."""
    while raw.run(url, WAITING) != [(number,)]:
        pass


def assign(caller: Caller) -> Any:
    return caller.post_graphql(ASSIGN, input=homework())


@pytest.fixture
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Changes wait for as long as the test takes."""
    from app.db.drivers import postgres  # here, because the suite on SQLite does without the driver

    monkeypatch.setattr(postgres, "LIMITED_CHANGE", postgres.CHANGE)
    monkeypatch.setattr(postgres, "ACQUIRE_SECONDS", 60)


@pytest.mark.usefixtures("patient")
@starting_with(a_world_to_answer_in)
def test_changes_that_wait_for_a_row_leave_connections_to_reads(gateway: Gateway) -> None:
    url, caregiver = gateway.settings.database, gateway.as_caregiver(1)
    expected = caregiver.data(NESTED)
    with ThreadPoolExecutor(2 * CONNECTIONS) as pool:
        with locking(url, "SELECT FROM session FOR UPDATE"):
            changes = [pool.submit(assign, caregiver) for _ in range(2 * CONNECTIONS)]
            wait_for(url, CONNECTIONS - 1)
            found = [caregiver.data(NESTED) for _ in range(10)]  # of answers: each stores an audit record
            ready = gateway.as_anonymous().get("/readyz")
            still_waiting = raw.run(url, WAITING)
        made = [change.result().json() for change in changes]

    assert (found, ready.status_code) == ([expected] * 10, 200)
    assert still_waiting == [(CONNECTIONS - 1,)]
    assert [one["data"]["assignHomework"]["userErrors"] for one in made] == [[]] * 2 * CONNECTIONS


@pytest.mark.usefixtures("patient")
@starting_with(a_world_to_answer_in)
def test_a_slow_fast_path_and_waiting_changes_leave_a_connection_to_reads(gateway: Gateway) -> None:
    """A trigger delays the homework of session 4, whose statement itself waits for no row."""
    url, caregiver = gateway.settings.database, gateway.as_caregiver(1)
    expected = caregiver.data(NESTED)
    raw.run(
        url,
        "CREATE FUNCTION delay() RETURNS trigger LANGUAGE plpgsql"
        " AS $$ BEGIN PERFORM pg_advisory_xact_lock_shared(7); RETURN new; END $$",
        "CREATE TRIGGER delay AFTER INSERT ON assignment FOR EACH ROW WHEN (new.session_id = 4)"
        " EXECUTE FUNCTION delay()",
    )

    def assign_with_key(number: int) -> Any:
        body = {"query": ASSIGN, "variables": {"input": homework()}}
        headers = {"idempotency-key": f'"{number}"'}
        return caregiver.request("POST", "/graphql", json=body, headers=headers)

    with ThreadPoolExecutor(2 * CONNECTIONS) as pool:
        with locking(
            url, "SELECT pg_advisory_xact_lock(7) FROM (SELECT FROM session WHERE id = 1 FOR UPDATE)"
        ):
            given = homework(sessionId="4", bookIds=["5"])
            slow = pool.submit(caregiver.post_graphql, ASSIGN, input=given)
            wait_for(url, 1)
            changes = [pool.submit(assign_with_key, number) for number in range(CONNECTIONS)]
            wait_for(url, CONNECTIONS - 1)
            found = [caregiver.data(NESTED) for _ in range(10)]
            still_waiting = raw.run(url, WAITING)
        made = [change.result().json() for change in (slow, *changes)]

    assert found == [expected] * 10
    assert still_waiting == [(CONNECTIONS - 1,)]
    assert [one["data"]["assignHomework"]["userErrors"] for one in made] == [[]] * (1 + CONNECTIONS)


def test_the_check_of_readiness_does_not_wait_for_a_table(
    gateway: Gateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    url, anonymous = gateway.settings.database, gateway.as_anonymous()

    with locking(url, "LOCK TABLE alembic_version"), monkeypatch.context() as patched:
        patched.setattr(health, "READ_SECONDS", 0.2)
        waiting = anonymous.get("/readyz")

    assert (waiting.status_code, waiting.json()) == (503, {"status": "the database does not respond"})
    assert anonymous.get("/readyz").status_code == 200


@starting_with(a_world_to_answer_in)
def test_a_change_does_not_wait_for_a_row_for_long(gateway: Gateway) -> None:
    url = gateway.settings.database
    before = raw.run(url, "SELECT count(*) FROM assignment")
    with locking(url, "SELECT FROM session FOR UPDATE"):
        response = assign(gateway.as_caregiver(1))

    [error] = response.json()["errors"]
    assert (response.status_code, response.headers["retry-after"]) == (503, "1")
    assert (error["message"], error["extensions"]["code"]) == (str(DatabaseUnavailable()), "OVERLOADED")
    assert raw.run(url, "SELECT count(*) FROM assignment") == before


def limits_of_a_change(url: str, **options: Any) -> list[str]:
    async def use(db: Database) -> list[str]:
        names = ("lock_timeout", "idle_in_transaction_session_timeout")
        return [await db.write(running(f"SHOW {name}")) for name in names]

    return with_database(url, use, **options)


def test_a_command_waits_for_a_row(database_url: str) -> None:
    assert limits_of_a_change(database_url) == ["3s", "10s"]
    assert limits_of_a_change(database_url, patience=None) == ["0", "0"]


@pytest.mark.parametrize(("patience", "expected"), [(60, (10, 5, True)), (None, (None, None, False))])
def test_a_command_has_time_to_connect_and_to_commit(
    database_url: str, patience: float | None, expected: tuple[int | None, int | None, bool]
) -> None:
    async def use(db: Any) -> tuple[int | None, int | None, bool]:
        return db.acquire_seconds, db.commit_seconds, db.watching is not None

    assert with_database(database_url, use, patience=patience) == expected


def test_no_limit_is_left_in_a_session_that_a_pooler_shares(database_url: str) -> None:
    async def use(db: Database) -> list[str]:
        await db.write(adding("one"))
        return [
            await db.read(running(f"SHOW {name}"))
            for name in ("lock_timeout", "idle_in_transaction_session_timeout")
        ]

    assert with_database(database_url, use, readers=1) == ["0", "0"]


def test_a_process_that_stops_within_a_change_does_not_keep_rows_locked(
    database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    from app.db.drivers import postgres

    limited = postgres.LIMITED_CHANGE.replace("'10s'", "'50ms'")
    monkeypatch.setattr(postgres, "LIMITED_CHANGE", limited)

    def stopping() -> Any:
        yield from adding("never")
        while raw_count(database_url):  # blocks the event loop
            pass
        yield from adding("never either")

    def raw_count(url: str) -> bool:
        query = "SELECT count(*) FROM pg_stat_activity WHERE state = 'idle in transaction'"
        with ThreadPoolExecutor(1) as pool:
            condition = "AND datname = current_database()"
            return bool(pool.submit(raw.run, url, f"{query} {condition}").result()[0][0])

    async def use(db: Any) -> str:
        with pytest.raises(DatabaseUnavailable, match="nothing was changed"):
            await db.write(stopping())
        db.begin_change = postgres.CHANGE
        return await db.write(adding("next"))

    assert with_database(database_url, use) == "next"


ADD_ONE = Statement(
    text(
        "WITH added AS (INSERT INTO module (name) VALUES ('one') RETURNING 1)"
        " SELECT CAST(:number AS int), 1 FROM added"
    ).bindparams(NUMBER.element)
)


def adding_alone() -> Steps[None]:
    yield OnlyStatement(ADD_ONE, {"number": 0})


def adding_on_fast_path() -> Steps[None]:
    yield FastPath(ADD_ONE, ADD_ONE, {"caregiver": 1})


@pytest.mark.parametrize("change", [partial(adding, "one"), adding_alone, adding_on_fast_path])
def test_commits_that_may_wait_are_counted_until_none_does(
    database_url: str, change: Callable[[], Steps[Any]]
) -> None:
    """After an unconfirmed commit, each change first asks for the commits that wait for a standby."""

    async def use(db: Any) -> bool:
        db.has_unconfirmed = True
        await db.write(change())
        return bool(db.has_unconfirmed)

    assert with_database(database_url, use) is False
    assert modules(database_url) == ["one"]


@pytest.mark.parametrize("change", [partial(adding, "one"), adding_alone, adding_on_fast_path])
def test_changes_are_rejected_while_commits_wait(
    database_url: str, monkeypatch: pytest.MonkeyPatch, change: Callable[[], Steps[Any]]
) -> None:
    """A commit that has just begun may not have to wait for long."""
    from app.db.drivers import postgres

    def waiting(seconds: float) -> Steps[tuple[int, float]]:
        yield from ()
        return 1, seconds

    async def use(db: Any) -> list[Any]:
        db.has_unconfirmed = True
        made: list[Any] = []
        for seconds in (0.6, 0.6, 0.5):
            monkeypatch.setattr(postgres, "reading_waiting_commits", partial(waiting, seconds))
            changes = [db.write(change()) for _ in range(3)]
            made += await asyncio.gather(*changes, return_exceptions=True)
        return made

    *rejected, _, _, _ = made = with_database(database_url, use)

    assert [reason_of(each) for each in rejected] == ["earlier changes wait for a synchronous standby"] * 6
    assert [each for each in made[6:] if isinstance(each, Exception)] == []
    assert modules(database_url) == ["one"] * 3


# A temporary table hides the view of the same name. One of the transactions waits for a row.
WAITING_FOR_HOURS = sql(
    "CREATE TEMPORARY TABLE pg_stat_activity ON COMMIT DROP AS"
    " SELECT wait_event, now() - hours * interval '1 hour' AS query_start FROM"
    " (VALUES ('SyncRep', 1), ('SyncRep', 3), ('SyncRep', 2), ('transactionid', 5)) AS of (wait_event, hours)"
)


def test_of_several_commits_that_wait_the_first_one_counts(database_url: str) -> None:
    """A commit that has just begun to wait does not hide one that waits for long."""

    def counting_waiting() -> Steps[tuple[int, float]]:
        yield WAITING_FOR_HOURS, {}
        return (yield from reading_waiting_commits())

    waiting, seconds = with_database(database_url, lambda db: db.write(counting_waiting()))

    assert (waiting, round(seconds / 3600)) == (3, 3)


def test_a_commit_that_waits_is_completed_although_its_request_is_cancelled(database_url: str) -> None:
    """asyncpg would cancel the statement, and PostgreSQL then does not wait for a standby. The commit may
    still wait for one, so the next change first reads which commits wait."""
    waiting = sql("INSERT INTO module (name) SELECT 'one' FROM pg_advisory_xact_lock_shared(7)")
    still_runs = (
        "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND query LIKE '%{}%'"
    )

    def adding_after_lock() -> Steps[None]:
        yield OnlyStatement(waiting, {})

    async def use(db: Any) -> tuple[int, bool]:
        async with db.connection() as locking:
            await locking.execute("SELECT pg_advisory_lock(7)")
            change = asyncio.create_task(db.write(adding_after_lock()))
            while await locking.fetchval(WAITING) != 1:
                pass
            change.cancel()
            await asyncio.wait([change])
            await locking.execute("SELECT pg_advisory_unlock(7)")
            while await locking.fetchval(still_runs.format("lock_shared(7)")) > 1:  # it and this one
                pass
        return await db.read(counting()), db.has_unconfirmed

    assert with_database(database_url, use) == (1, True)
