"""A standby was promoted, and the old primary runs again with the data of before. Both accept changes. A
process keeps to one of them, and a new process rejects both."""

import asyncio
import json
import logging
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from app.db.admin.migrate import migrate
from app.db.drivers.faults import is_open
from app.db.drivers.interface import DatabaseError, DatabaseUnavailable
from tests import keys
from tests.crash.server import Server, own_postgres, standby_of
from tests.db import raw
from tests.db.small_steps import running, with_database
from tests.live.processes import run

pytestmark = pytest.mark.live
OTHER = "has older data than the server in use, or is another database system"
REFUSES = "refuses connections (check the port, and that PostgreSQL runs and listens there)"
CLOSE_OTHERS = (
    "SELECT pg_terminate_backend(pid, 10000) FROM pg_stat_activity"
    " WHERE pid <> pg_backend_pid() AND datname = current_database()"
)
ALLOW = "ALTER DATABASE postgres ALLOW_CONNECTIONS {}"


@dataclass
class Split:
    old: Server
    new: Server
    url_of_old: str

    @property
    def url_of_new(self) -> str:
        return self.url_of_old.replace(f":{self.old.port}/", f":{self.new.port}/")

    @property
    def url(self) -> str:
        """Names the old primary first."""
        return self.url_of_old.replace(f":{self.old.port}/", f":{self.old.port},127.0.0.1:{self.new.port}/")


@pytest.fixture(scope="module")
def promoted() -> Iterator[Split]:
    with own_postgres(in_memory=True) as (old, url), standby_of(old, url) as new:
        asyncio.run(migrate(url))
        raw.run(url, "ALTER SYSTEM RESET synchronous_standby_names", "SELECT pg_reload_conf()")
        new.run("pg_ctl", "promote", "--pgdata=data")
        yield Split(old, new, url)


@pytest.fixture
def split(promoted: Split) -> Iterator[Split]:
    yield promoted
    for server in (promoted.old, promoted.new):
        if server.keeper is None:
            server.start()


async def port_of(db: Any) -> str:
    """Reads again if the server was closing the connection: such a request gets 503."""
    while True:
        with suppress(DatabaseUnavailable):
            return str(await db.read(running("SELECT inet_server_port()")))


async def reason_of_refusal(db: Any) -> str:
    """Why no connection can be opened. The read before it may still get one that the server was closing."""
    while True:
        with pytest.raises(DatabaseUnavailable) as unavailable:
            await db.read(running("SELECT 1"))
        if isinstance(unavailable.value.__cause__, DatabaseError):
            return str(unavailable.value.__cause__)


def test_a_process_does_not_return_to_the_old_primary(split: Split, caplog: pytest.LogCaptureFixture) -> None:
    split.old.stop()
    caplog.set_level(logging.INFO, "care.database")

    async def use(db: Any) -> list[str]:
        split.old.start()
        ports = []
        for _ in range(2):
            await asyncio.to_thread(raw.run, split.url_of_new, CLOSE_OTHERS)
            ports.append(await port_of(db))
        await asyncio.to_thread(split.new.stop)
        assert await reason_of_refusal(db) == (
            f"the PostgreSQL database cannot be opened: 127.0.0.1:{split.new.port} {REFUSES}; "
            f"127.0.0.1:{split.old.port} {OTHER}"
        )
        await asyncio.to_thread(split.new.start)
        return [*ports, await port_of(db)]

    assert with_database(split.url, use) == [split.new.port] * 3
    [(version,)] = raw.run(split.url_of_new, "SHOW server_version")
    assert [record.getMessage() for record in caplog.records if record.name == "care.database"] == [
        f"the database is PostgreSQL {version} at 127.0.0.1:{split.new.port}/postgres, timeline 16",
        f"127.0.0.1:{split.old.port} (timeline 15) {OTHER}; to use it, restart the process",
    ]


def test_a_process_changes_to_a_newer_timeline_and_closes_its_older_connections(split: Split) -> None:
    split.new.stop()
    template = split.url_of_old.replace("/postgres", "/template1")

    async def use(db: Any) -> tuple[bool, str, int]:
        split.new.start()
        await asyncio.to_thread(raw.run, template, ALLOW.format("false"))  # refuses new connections only
        async with db.connection() as older:
            port = await port_of(db)
            return is_open(older), port, db.occupancy().open

    try:
        assert with_database(split.url, use) == (False, split.new.port, 1)
    finally:
        raw.run(template, ALLOW.format("true"))


@pytest.mark.parametrize("is_new_first", [False, True])
def test_a_process_changes_to_a_server_that_was_promoted_while_its_own_runs(
    split: Split, is_new_first: bool, caplog: pytest.LogCaptureFixture
) -> None:
    """It does not wait for its connections to fail."""
    split.new.stop()
    caplog.set_level(logging.INFO, "care.database")
    port = f":{split.new.port}/"
    newer_first = split.url_of_new.replace(port, f":{split.new.port},127.0.0.1:{split.old.port}/")

    async def use(db: Any) -> list[str]:
        split.new.start()
        ports = [await port_of(db)]
        while ports[-1] == split.old.port:
            ports.append(await port_of(db))
        await asyncio.to_thread(raw.run, split.url_of_new, CLOSE_OTHERS)
        return [*ports, *[await port_of(db) for _ in range(10)]]

    ports = with_database(newer_first if is_new_first else split.url, use)
    assert ports == [*[split.old.port] * ports.count(split.old.port), *[split.new.port] * 11]


def test_another_database_system_is_rejected(split: Split) -> None:
    split.new.stop()
    with own_postgres(in_memory=True) as (other, url):
        account = split.url_of_old.partition("@")[0]
        raw.run(url, f"ALTER ROLE care PASSWORD '{account.rpartition(':')[2]}'")

        async def use(db: Any) -> str:
            other.start()
            await asyncio.to_thread(split.old.stop)
            return await reason_of_refusal(db)

        other.stop()
        reason = with_database(f"{account}@127.0.0.1:{split.old.port},127.0.0.1:{other.port}/postgres", use)

    assert reason == (
        f"the PostgreSQL database cannot be opened: 127.0.0.1:{split.old.port} {REFUSES}; "
        f"127.0.0.1:{other.port} {OTHER}"
    )


def both(split: Split) -> str:
    return f"127.0.0.1:{split.old.port} (timeline 15) and 127.0.0.1:{split.new.port} (timeline 16)"


@pytest.mark.parametrize("command", [("serve",), ("worker",), ("migrate",), ("verify",)])
def test_a_new_process_rejects_two_primaries(split: Split, command: tuple[str, ...]) -> None:
    refused = run(*command, env="development", database_url=split.url)

    assert (refused.returncode, refused.stdout) == (2, "")
    assert refused.stderr == (
        f"care-gateway: the PostgreSQL database cannot be opened: {both(split)} accept changes; "
        "stop the server with the older data\n"
    )


def test_two_hosts_of_one_server_are_accepted(split: Split) -> None:
    one = split.url_of_new.replace(f":{split.new.port}/", f":{split.new.port},localhost:{split.new.port}/")

    assert with_database(one, port_of) == split.new.port


def test_an_account_that_cannot_identify_the_server_can_use_it(split: Split, tmp_path: Path) -> None:
    raw.run(
        split.url_of_new,
        "REVOKE EXECUTE ON FUNCTION pg_control_system() FROM PUBLIC",
        "CREATE ROLE plain LOGIN PASSWORD 'plain'",
    )
    plain = f"postgresql://plain:plain@127.0.0.1:{split.new.port}/postgres"

    assert with_database(plain, port_of) == split.new.port
    _, found = findings(tmp_path, plain)
    assert found == [["ok", f"127.0.0.1:{split.new.port} is of an unknown role"]]


# --- doctor


def findings(tmp_path: Path, url: str) -> tuple[int, list[list[str]]]:
    care = {"database_url": url, "token_key": keys.public_pem(), "var": str(tmp_path)}
    completed = run("doctor", "--json", **care)
    found = json.loads(completed.stdout)["findings"]
    hosts = [one for one in found if one["about"] == "hosts"]
    return completed.returncode, [[one["verdict"], one["message"]] for one in hosts]


def test_doctor_reports_two_primaries(split: Split, tmp_path: Path) -> None:
    with standby_of(split.new, split.url_of_new) as standby:
        url = split.url.replace("/postgres", f",127.0.0.1:{standby.port}/postgres")
        found = findings(tmp_path, url)
        raw.run(split.url_of_new, "ALTER SYSTEM RESET synchronous_standby_names", "SELECT pg_reload_conf()")

    assert found == (
        1,
        [
            ["failed", f"127.0.0.1:{split.old.port} (timeline 15) is one of 2 primaries"],
            ["failed", f"127.0.0.1:{split.new.port} (timeline 16) is one of 2 primaries"],
            ["ok", f"127.0.0.1:{standby.port} is a standby"],
        ],
    )


def test_doctor_shows_the_role_of_each_host(tmp_path: Path) -> None:
    with own_postgres(in_memory=True) as (primary, url), standby_of(primary, url) as standby:
        asyncio.run(migrate(url))
        named = url.replace(f":{primary.port}/", f":1,127.0.0.1:{primary.port},127.0.0.1:{standby.port}/")
        _, found = findings(tmp_path, named)

    assert found == [
        ["warning", f"127.0.0.1:1 {REFUSES}"],
        ["ok", f"127.0.0.1:{primary.port} (timeline 15) is the primary"],
        ["ok", f"127.0.0.1:{standby.port} is a standby"],
    ]
