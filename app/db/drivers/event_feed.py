"""How a process notices that events were written, by itself or by another: each database in its own way."""

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from contextlib import suppress
from functools import partial

from sqlalchemy import func, select
from sqlalchemy.sql.elements import ClauseElement

from app.db.drivers.interface import Database
from app.db.drivers.sqlite import SqliteDatabase
from app.db.reader.entities import table_of
from app.db.sql import (
    DatabaseKind,
    Operation,
    Statement,
    count_parameter,
    id_parameter,
)
from app.db.statements.events import CHANNEL
from app.db.tables import Event

# Of which caregivers and clients something was written; None where nobody knows, and all have to look.
Parties = Iterable[tuple[int, int]] | None
Tell = Callable[[Parties], None]
Follow = Callable[[Tell], Awaitable[None]]  # until it is cancelled, or cannot go on

PAUSE_SECONDS = 0.25  # between two looks at SQLite, for what other processes write
MOST_AT_ONCE = 1000
CHECK_SECONDS = 10  # between two questions whether PostgreSQL is still there

EVENT = table_of(Event).c


def following(url: str, db: Database) -> Follow:
    if isinstance(db, SqliteDatabase):
        return partial(follow_sqlite, db)
    return partial(follow_postgres, url)


# --- SQLite: the tail of the table ----------------------------------------------------------------
#
# Of all events whatever the relationship: the embedded database is never distributed, and the primary key
# leads.


def newest_event(kind: DatabaseKind) -> ClauseElement:
    return select(func.coalesce(func.max(EVENT.id), 0))


def events_after(kind: DatabaseKind) -> ClauseElement:
    return (
        select(EVENT.id, EVENT.caregiver_id, EVENT.client_id)
        .where(EVENT.id > id_parameter("last"))
        .order_by(EVENT.id)
        .limit(count_parameter("limit"))
    )


NEWEST_EVENT = Statement(newest_event)
EVENTS_AFTER = Statement(events_after)


def reading_newest() -> Operation[int]:
    rows = yield NEWEST_EVENT, {}
    newest: int = rows[0][0]
    return newest


def reading_after(last: int) -> Operation[list[tuple[int, int, int]]]:
    return (yield EVENTS_AFTER, {"last": last, "limit": MOST_AT_ONCE})


async def follow_sqlite(db: SqliteDatabase, tell: Tell) -> None:
    last = await db.read(reading_newest())
    tell(None)
    while True:
        db.written.clear()
        found = await db.read(reading_after(last))
        if found:
            last = found[-1][0]
            tell((caregiver_id, client_id) for _, caregiver_id, client_id in found)
        if len(found) < MOST_AT_ONCE:
            with suppress(TimeoutError):
                await asyncio.wait_for(db.written.wait(), PAUSE_SECONDS)


# --- PostgreSQL: its notifications ----------------------------------------------------------------


async def follow_postgres(url: str, tell: Tell) -> None:
    """On a connection of its own. Raises when that is lost: nobody knows then what was missed."""
    import asyncpg  # loaded only where it is used, as by open_database

    def heard(connection: object, process: int, channel: str, said: str) -> None:
        caregiver_id, _, client_id = said.partition(" ")
        try:
            tell([(int(caregiver_id), int(client_id))])
        except ValueError:  # somebody else's word
            tell(None)

    connection = await asyncpg.connect(url, timeout=CHECK_SECONDS, command_timeout=CHECK_SECONDS)
    try:
        lost = asyncio.Event()
        connection.add_termination_listener(lambda _: lost.set())
        await connection.add_listener(CHANNEL, heard)
        tell(None)
        while not lost.is_set():
            with suppress(TimeoutError):
                await asyncio.wait_for(lost.wait(), CHECK_SECONDS)
            await connection.execute("SELECT 1")
    finally:
        with suppress(Exception):
            await connection.close(timeout=1)
