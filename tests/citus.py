"""Distributed databases for the test suite, on a cluster of Citus that `make distributed` is given."""

import asyncio
import os
import uuid
from typing import Any
from urllib.parse import urlsplit

from app.db.admin.distributing import distribute
from app.db.admin.migrate import migrate
from tests.postgres import execute, quoted, url_of

COORDINATOR = os.environ.get("TEST_DISTRIBUTED_URL", "")
SHARDS = 4  # of each table; more make every copy slower
# Two tests at once cannot copy the roles of the coordinator to a worker, which has them anyway.
WITHOUT_ROLES = "".join(f"SET citus.enable_{verb}_role_propagation = off; " for verb in ("create", "alter"))


def servers() -> list[str]:
    """The URLs of the coordinator and of its workers, with the same account and the same database."""
    import asyncpg  # not installed where the suite runs on SQLite only

    async def read() -> list[Any]:
        connection = await asyncpg.connect(COORDINATOR)
        try:
            return await connection.fetch(  # type: ignore[no-any-return]
                "SELECT nodename, nodeport FROM pg_dist_node WHERE groupid <> 0 AND isactive ORDER BY nodeid"
            )
        finally:
            await connection.close()

    parts = urlsplit(COORDINATOR)
    account = parts.netloc.rpartition("@")[0]
    workers = [parts._replace(netloc=f"{account}@{name}:{port}") for name, port in asyncio.run(read())]
    return [COORDINATOR, *(worker.geturl() for worker in workers)]


def create_distributed(urls: list[str]) -> str:
    """The name of a new database with distributed tables, of which copies can be made on every server."""
    name = create_database(urls)
    url = url_of(urls[0], name)
    asyncio.run(migrate(url))
    asyncio.run(distribute(url, SHARDS, lambda *_: None))
    for each in urls:  # a database with connections cannot be copied, and Citus keeps one to every database
        end = f"SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity WHERE datname = '{name}'"
        asyncio.run(execute(each, f"ALTER DATABASE {quoted(name)} ALLOW_CONNECTIONS false"))
        asyncio.run(execute(each, end))
    return name


def create_database(urls: list[str], has_workers: bool = True) -> str:
    """The name of a new database with Citus and without tables."""
    name = f"distributed_{uuid.uuid4().hex}"
    coordinator, *workers = [urlsplit(url) for url in urls]
    nodes = [f"SELECT citus_set_coordinator_host('{coordinator.hostname}', {coordinator.port})"]
    for worker in workers if has_workers else ():
        nodes.append(f"{WITHOUT_ROLES}SELECT citus_add_node('{worker.hostname}', {worker.port})")
    for url in urls:
        asyncio.run(execute(url, f"CREATE DATABASE {quoted(name)}"))
        asyncio.run(execute(url_of(url, name), "CREATE EXTENSION citus"))
    for statement in nodes:
        asyncio.run(execute(url_of(urls[0], name), statement))
    return name


def drop_database(urls: list[str], name: str) -> None:
    for url in urls:
        asyncio.run(execute(url, f"DROP DATABASE IF EXISTS {quoted(name)} WITH (FORCE)"))
