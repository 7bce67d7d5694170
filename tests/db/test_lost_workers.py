"""Promise: while a worker of Citus is down, only reads of its caregivers fail. Runs by `make distributed`."""

import asyncio
from typing import Any

import pytest

from app.db.drivers.factory import open_database
from app.db.drivers.interface import DatabaseUnavailable
from app.db.reader.reads import list_rows
from app.db.reader.selection import AccessScope, PageRequest, Selection
from app.db.tables import Session
from tests import citus
from tests.callers import load
from tests.db import raw
from tests.factories import NOW, a_caregiver, a_client, a_session
from tests.ports import free_port

CAREGIVERS = range(1, 9)
PORT_OF_CAREGIVER = """
SELECT nodeport FROM pg_dist_shard_placement
WHERE shardid = get_shard_id_for_distribution_column('session', {})
"""


@pytest.mark.skipif(not citus.COORDINATOR, reason="make distributed names a cluster")
def test_reads_that_wait_together_fail_only_for_the_caregivers_of_the_worker(database_url: str) -> None:
    load(
        database_url,
        [
            a_client(),
            *map(a_caregiver, CAREGIVERS),
            *(a_session(each, caregiver=each) for each in CAREGIVERS),
        ],
    )
    ports = [raw.run(database_url, PORT_OF_CAREGIVER.format(each))[0][0] for each in CAREGIVERS]
    lost = min(ports)
    raw.run(database_url, f"UPDATE pg_dist_node SET nodeport = {free_port()} WHERE nodeport = {lost}")

    found = asyncio.run(titles_at_once(database_url))

    titles = [[f"Session {each}"] for each in CAREGIVERS]
    assert len(set(ports)) == 2
    assert [type(one) is DatabaseUnavailable for one in found] == [port == lost for port in ports]
    assert [one for one in found if isinstance(one, list)] == [
        title for title, port in zip(titles, ports, strict=True) if port != lost
    ]


async def titles_at_once(url: str) -> list[Any]:
    """The titles of each caregiver's sessions, or the error, of reads that wait for one connection."""
    db: Any = await open_database(url, 1)
    try:
        async with db.connection():
            reads = [asyncio.create_task(read_titles(db, each)) for each in CAREGIVERS]
            await asyncio.sleep(0)
        return await asyncio.gather(*reads, return_exceptions=True)
    finally:
        await db.close()


async def read_titles(db: Any, caregiver: int) -> list[str]:
    access = AccessScope(NOW, caregiver=caregiver)
    page = await db.read(list_rows(Session, access, PageRequest(), Selection(frozenset({"title"}))))
    return [row.title for row in page.rows]
