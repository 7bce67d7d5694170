"""Overlapping transactions on PostgreSQL, in an order that the test decides."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, TypeVar

from app.db.sql import Repeatable, Steps
from tests.patience import PATIENCE

Result = TypeVar("Result")

BLOCKED = """
    SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'
"""


@asynccontextmanager
async def uncommitted(url: str, steps: Steps[Result] | Repeatable[Result]) -> AsyncIterator[Result]:
    """Runs the steps on its own connection; the end of the block commits it."""
    import asyncpg  # not installed where the suite runs on SQLite only

    from app.db.drivers.postgres import run_steps

    connection = await asyncpg.connect(url)
    try:
        async with connection.transaction():
            yield await run_steps(connection, "postgresql", iter(steps))
    finally:
        await connection.close()


async def until_blocked(url: str, task: asyncio.Task[Any], transactions: int = 1) -> bool:
    """Returns whether so many transactions of this database wait for locks; False if the task has ended."""
    import asyncpg

    connection = await asyncpg.connect(url)
    try:
        async with asyncio.timeout(PATIENCE):
            while not task.done():
                if await connection.fetchval(BLOCKED) >= transactions:
                    return True
            return False
    finally:
        await connection.close()
