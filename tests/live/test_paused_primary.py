"""The primary hangs for a while: all its processes stop, and its kernel still acknowledges what arrives. Its
standby may be promoted meanwhile."""

import asyncio
from contextlib import suppress
from typing import Any

import pytest

from app.db.admin.migrate import migrate
from app.db.drivers import watching
from app.db.drivers.factory import open_database
from app.db.drivers.interface import DatabaseUnavailable
from app.db.sql import Steps
from app.telemetry.metrics.collect import MetricSources, stored_metrics
from tests.crash.server import own_postgres, standby_of
from tests.db.small_steps import adding, counting, running, sql, with_database

pytestmark = pytest.mark.live
SEEN = sql("SELECT inet_server_port(), name FROM module ORDER BY id")


def reading() -> Steps[tuple[str, list[str]]]:
    """The port of the server, and the modules that it has."""
    rows = yield SEEN, {}
    return str(rows[0][0]), [name for _, name in rows]


async def read_until(stopped: asyncio.Event, db: Any, ports: list[str]) -> None:
    while not stopped.is_set():
        with suppress(DatabaseUnavailable):
            ports.append((await db.read(reading()))[0])
        await asyncio.sleep(0)


async def until_written(db: Any, name: str) -> None:
    while True:
        with suppress(DatabaseUnavailable):
            await db.write(adding(name))
            return
        await asyncio.sleep(0)


@pytest.mark.parametrize(
    "seconds", [1, pytest.param(7, marks=pytest.mark.soak), pytest.param(13, marks=pytest.mark.soak)]
)
def test_no_process_stays_at_a_primary_that_was_replaced_while_it_hung(seconds: int) -> None:
    with own_postgres(in_memory=True) as (old, url), standby_of(old, url) as new:
        asyncio.run(migrate(url))
        both = url.replace(f":{old.port}/", f":{old.port},127.0.0.1:{new.port}/")

        async def use() -> list[tuple[list[str], list[str]]]:
            processes = [await open_database(both) for _ in range(3)]
            await processes[0].write(adding("before"))
            stopped = asyncio.Event()
            seen: list[list[str]] = [[] for _ in processes]
            readers = [
                asyncio.create_task(read_until(stopped, db, ports))
                for db, ports in zip(processes, seen, strict=True)
            ]
            while not all(seen):
                await asyncio.sleep(0)
            with old.paused():
                await asyncio.to_thread(new.run, "pg_ctl", "promote", "--pgdata=data")
                await asyncio.sleep(seconds)
            found = []
            for number, db in enumerate(processes):
                await until_written(db, f"of {number}")
                found.append((await db.read(reading()))[1])
            for ports in seen:
                while new.port not in ports:
                    await asyncio.sleep(0)
            stopped.set()
            await asyncio.gather(*readers)
            for db in processes:
                await db.close()
            return list(zip(seen, found, strict=True))

        results = asyncio.run(use())

    for number, (ports, found) in enumerate(results):
        first = ports.index(new.port)
        assert set(ports[:first]) == {old.port} and set(ports[first:]) == {new.port}
        assert found == ["before", *[f"of {one}" for one in range(number + 1)]]


@pytest.fixture
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("app.db.drivers.postgres.SILENT_SECONDS", 0.2)
    monkeypatch.setattr(watching, "WATCH_SECONDS", 0.1)


@pytest.mark.usefixtures("soon")
def test_a_read_does_not_wait_for_a_server_that_hangs(caplog: pytest.LogCaptureFixture) -> None:
    with own_postgres(in_memory=True) as (server, url):
        asyncio.run(migrate(url))

        async def use(db: Any) -> int:
            await db.read(counting())
            with server.paused():
                for operation in (db.read(counting()), db.write(adding("never"))):
                    with pytest.raises(DatabaseUnavailable):
                        await operation
            while True:
                with suppress(DatabaseUnavailable):
                    return int(await db.read(counting()))
                await asyncio.sleep(0)

        assert with_database(url, use, patience=3600) == 0


def test_the_metrics_report_a_database_that_hangs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("app.telemetry.metrics.collect.DATABASE_SECONDS", 0.1)
    with own_postgres(in_memory=True) as (server, url):
        asyncio.run(migrate(url))

        async def use(db: Any) -> list[tuple[str, float]]:
            await db.read(counting())
            with server.paused():
                found = await stored_metrics(MetricSources(url, db))
            return [(metric.name, metric.samples[0].value) for metric in found]

        assert with_database(url, use) == [("care_database_up", 0)]


@pytest.mark.usefixtures("soon")
@pytest.mark.parametrize("kind", ["postgresql"], indirect=True)
def test_a_long_statement_of_a_server_that_responds_is_not_ended(database_url: str) -> None:
    slow = "SELECT 1 FROM pg_sleep(2)"

    assert with_database(database_url, lambda db: db.read(running(slow))) == 1
