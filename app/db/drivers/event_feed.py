"""Notifies a process of events that this or another process has written."""

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from contextlib import suppress
from functools import partial
from typing import Any

from sqlalchemy import func, select

from app.db.drivers.interface import CHANNEL, Database, DatabaseError, DatabaseUnavailable
from app.db.drivers.sqlite import SqliteDatabase
from app.db.sql import Statement, count_parameter, id_parameter, selecting
from app.db.tables import EVENT

# The caregivers and clients of the new events; None if they are unknown and every subscription must check.
Parties = Iterable[tuple[int, int]] | None
Notify = Callable[[Parties], None]
EventFeed = Callable[[Notify], Awaitable[None]]  # runs until it is cancelled or fails

PAUSE_SECONDS = 0.25  # between two polls of SQLite for events of other processes
BATCH_SIZE = 1000  # events of one poll
CHECK_SECONDS = 10  # between two checks of the PostgreSQL connection


def event_feed_of(db: Database) -> EventFeed:
    if isinstance(db, SqliteDatabase):
        return partial(follow_sqlite, db)
    from app.db.drivers.postgres import PostgresDatabase  # imports an optional dependency

    assert isinstance(db, PostgresDatabase)
    return rely_on_polling if db.is_pooled else partial(follow_postgres, db.primary.connect)


# --- SQLite: the tail of the table ----------------------------------------------------------------
#
# These statements read the events of all relationships, because SQLite is never distributed. They search the
# primary key.


NEWEST_EVENT = Statement(select(func.coalesce(func.max(EVENT.c.id), 0)))
EVENTS_AFTER = Statement(
    select(EVENT.c.id, EVENT.c.caregiver_id, EVENT.c.client_id)
    .where(EVENT.c.id > id_parameter("last"))
    .order_by(EVENT.c.id)
    .limit(count_parameter("limit"))
)


async def follow_sqlite(db: SqliteDatabase, notify: Notify) -> None:
    [[last]] = await db.read(selecting(NEWEST_EVENT))
    notify(None)
    while True:
        db.written.clear()
        found = await db.read(selecting(EVENTS_AFTER, last=last, limit=BATCH_SIZE))
        if found:
            last = found[-1][0]
            notify((caregiver_id, client_id) for _, caregiver_id, client_id in found)
        if len(found) < BATCH_SIZE:
            with suppress(TimeoutError):
                async with asyncio.timeout(PAUSE_SECONDS):
                    await db.written.wait()


# --- PostgreSQL: LISTEN and NOTIFY -------------------------------------------------------------------


async def follow_postgres(connect: Callable[..., Awaitable[Any]], notify: Notify) -> None:
    """Listens on a separate connection. Raises when it is lost, because notifications may be missing."""

    def receive(connection: object, process: int, channel: str, payload: str) -> None:
        caregiver_id, _, client_id = payload.partition(" ")
        try:
            notify([(int(caregiver_id), int(client_id))])
        except ValueError:  # events of several clients
            notify(None)

    try:
        connection = await connect(command_timeout=CHECK_SECONDS)
    except DatabaseError as error:
        raise DatabaseUnavailable from error
    try:
        lost = asyncio.Event()
        connection.add_termination_listener(lambda _: lost.set())
        await connection.add_listener(CHANNEL, receive)
        notify(None)
        while True:
            with suppress(TimeoutError):
                async with asyncio.timeout(CHECK_SECONDS):
                    await lost.wait()
            await connection.execute("SELECT 1")
    finally:
        with suppress(Exception):
            await connection.close(timeout=1)


async def rely_on_polling(notify: Notify) -> None:
    """A pooler passes no notifications on: each subscription reads by itself every few seconds."""
    await asyncio.Event().wait()
