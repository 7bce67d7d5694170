"""SQLAlchemy engines, for migrations and copies."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from sqlalchemy import event
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine, create_async_engine

from app.db.drivers.sqlite import prepare_sqlite


def make_engine(url: str) -> AsyncEngine:
    if not url.startswith("sqlite:///"):
        # asyncpg parses the address, as in the driver: SQLAlchemy supports other parameters.
        return create_async_engine("postgresql+asyncpg://", async_creator=lambda: connect_postgres(url))
    engine = create_async_engine(f"sqlite+aiosqlite:///{url.removeprefix('sqlite:///')}")

    @event.listens_for(engine.sync_engine, "connect")
    def prepare(connection: Any, _: Any) -> None:
        connection.isolation_level = None  # transactions begin explicitly below
        prepare_sqlite(connection)

    @event.listens_for(engine.sync_engine, "begin")
    def begin(connection: Any) -> None:
        connection.exec_driver_sql("BEGIN IMMEDIATE")

    return engine


async def connect_postgres(url: str) -> Any:
    from app.db.drivers.connections import Primary  # imports an optional dependency

    return await Primary(url).connect()


@asynccontextmanager
async def connected(url: str) -> AsyncIterator[AsyncConnection]:
    """One transaction: committed at the end of the block, rolled back when the block raises."""
    engine = make_engine(url)
    try:
        async with engine.begin() as connection:
            yield connection
    finally:
        await engine.dispose()
