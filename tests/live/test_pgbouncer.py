"""Several gateways share the connections of PgBouncer in transaction mode: statements that one server has
prepared run on the others. A PgBouncer that cannot do that is rejected at start."""

import asyncio
import uuid
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, suppress
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from app.db.admin.migrate import migrate, newest_version
from app.db.drivers.interface import DatabaseUnavailable
from tests import keys
from tests.callers import load
from tests.crash.server import own_postgres, standby_of
from tests.db import raw
from tests.db.small_steps import adding, modules, with_database
from tests.factories import a_world
from tests.live.people import Person
from tests.live.pooler import POOL_SIZE, pgbouncer, pooling
from tests.live.processes import run, serving
from tests.live.subscribers import assign, change, receive, subscribe_by_websocket
from tests.postgres import create_database, drop_database
from tests.schema.test_statement_counts import NESTED

pytestmark = pytest.mark.live
FOUND = pgbouncer()
any_version = pytest.mark.skipif(FOUND is None, reason="pgbouncer is not installed")
with_prepared_statements = pytest.mark.skipif(
    FOUND is None or FOUND[1] < (1, 21), reason="needs PgBouncer 1.21 or newer"
)
OWN_CONNECTIONS = "SELECT count(*) FROM pg_stat_activity WHERE datname = '{}'"


@pytest.fixture
def database(postgres: str) -> Iterator[str]:
    """The address of an empty database, without PgBouncer."""
    name = f"pooled_{uuid.uuid4().hex}"
    yield create_database(postgres, name)
    drop_database(postgres, name)


def through(pooler: str, url: str) -> str:
    parts = urlsplit(url)
    return parts._replace(netloc=f"{parts.netloc.rpartition('@')[0]}@{pooler}").geturl()


def read_everything(url: str) -> tuple[Any, Any]:
    sessions = Person(url, "CLIENT", "client-1").legacy("/client/session", **{"time-state": "RUNNING"})
    return Person(url, "CAREGIVER", "caregiver-1").query(NESTED), sessions


@with_prepared_statements
def test_gateways_work_through_pgbouncer(tmp_path: Path, postgres: str, database: str) -> None:
    assert FOUND is not None
    with pooling(FOUND[0], postgres, "max_prepared_statements = 20") as pooler, ExitStack() as stack:
        url = through(pooler, database)
        versions = [asyncio.run(migrate(url)) for _ in range(2)]
        load(url, a_world())
        care = {"database_url": url, "token_key": keys.public_pem()}
        one, other = (stack.enter_context(serving(tmp_path / name, **care)).url for name in "ab")
        reads = [partial(read_everything, url) for url in (one, other)]
        expected = read_everything(one)
        with ThreadPoolExecutor(8) as pool:
            found = list(pool.map(lambda at: reads[at % 2](), range(40)))
        used = raw.run(postgres, OWN_CONNECTIONS.format(urlsplit(database).path[1:]))
        with subscribe_by_websocket(other, "client") as socket:
            created = assign(one)
            _, what, assignment = change(receive(socket))

    assert versions == [None, newest_version()]
    assert found == [expected] * 40
    assert used[0][0] <= POOL_SIZE
    assert (what, assignment) == ("ASSIGNED", created)


@with_prepared_statements
def test_a_process_follows_a_promotion_behind_pgbouncer(tmp_path: Path) -> None:
    """PgBouncer reports the standby that it knew, for a minute and longer."""
    assert FOUND is not None
    with ExitStack() as stack:
        primary, single = stack.enter_context(own_postgres(in_memory=True))
        standby = stack.enter_context(standby_of(primary, single))
        servers = [single, single.replace(f":{primary.port}/", f":{standby.port}/")]
        poolers = [
            stack.enter_context(pooling(FOUND[0], url, "max_prepared_statements = 20")) for url in servers
        ]
        url = through(",".join(poolers), single)
        asyncio.run(migrate(url))
        behind = through(poolers[1], single)
        assert raw.run(behind, "SELECT pg_is_in_recovery()") == [(True,)]

        async def use(db: Any) -> str:
            await db.write(adding("before"))
            await asyncio.to_thread(primary.kill)
            await asyncio.to_thread(standby.run, "pg_ctl", "promote", "--pgdata=data")
            while True:
                with suppress(DatabaseUnavailable):
                    return await db.write(adding("after"))

        with_database(url, use)
        reported = asyncio.run(reported_role(behind))
        new = with_database(url, lambda db: db.write(adding("of a new process")))

        assert (reported, new) == ("on", "of a new process")
        assert modules(behind) == ["before", "after", new]


async def reported_role(url: str) -> str:
    import asyncpg

    connection = await asyncpg.connect(url)
    reported = str(connection.get_settings().in_hot_standby)
    await connection.close()
    return reported


@any_version
def test_pgbouncer_without_prepared_statements_is_rejected(
    tmp_path: Path, postgres: str, database: str
) -> None:
    assert FOUND is not None
    settings = ["max_prepared_statements = 0"] if FOUND[1] >= (1, 21) else []
    with pooling(FOUND[0], postgres, *settings) as pooler:
        url = through(pooler, database)
        refused = [run(command, env="development", database_url=url) for command in ("migrate", "serve")]

    sentence = (
        "care-gateway: the PostgreSQL database cannot be opened: it is behind a pooler that does not support "
        "prepared statements; use PgBouncer 1.21 or newer with pool_mode = transaction and "
        "max_prepared_statements above 0\n"
    )
    assert [(one.returncode, one.stderr) for one in refused] == [(2, sentence)] * 2
