"""Erases a client in the tables and then in the database files (docs/decisions/0018)."""

import asyncio
import sqlite3
from collections import defaultdict
from contextlib import closing
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from sqlalchemy import or_, select

from app.db.admin.accounts import AccountRejected
from app.db.admin.migrate import connect_postgres
from app.db.admin.tombstones import LOCK_TOMBSTONES, Mark, saving_tombstone
from app.db.answers import as_document, read_answers
from app.db.drivers.citus import using_one_connection
from app.db.drivers.interface import DatabaseError, is_fault_of_database, reason_of, sqlite_path
from app.db.drivers.sqlite import connect_sqlite
from app.db.facts import is_personal
from app.db.interchange.recorded import ERASE_IMPORTED
from app.db.reader.access import CAREGIVERS_OF_CLIENT
from app.db.session_counters import locking_sessions
from app.db.sql import DATABASE_KIND, Statement, Steps, Values, id_parameter, text_parameter
from app.db.statements.erasing import (
    BLANK_FEEDBACKS,
    CLEAR_RESPONSES,
    CLEAR_WEBHOOK_ANSWERS,
    DROP_DRAFTS,
    ERASE_CLIENT,
    ERASE_SESSIONS,
    FIND_ERASED_SESSIONS,
    FIND_SETS,
    LOCK_CLIENT,
    LOCK_IDEMPOTENCY_KEYS,
    LOCK_SESSIONS_OF_CLIENT,
    REWRITE_SET,
    SKIP_REMINDERS,
)
from app.db.statements.events import INSERT_SESSION_EVENTS
from app.db.tables import CLIENT, REMINDER, TABLES, Actor, EventKind, TombstoneState

CHANGED_TABLES = [REMINDER, *(table for table in TABLES if any(map(is_personal, table.columns)))]


@dataclass(frozen=True)
class Erased:
    """The caregivers of the erased client, and the number of erased rows."""

    caregivers: list[int]
    sessions: int
    drafts: int
    answers: int
    feedbacks: int


@dataclass(frozen=True)
class Named:
    id: int
    name: str


FIND_CLIENT = Statement(
    select(CLIENT.c.id, CLIENT.c.name).where(
        or_(CLIENT.c.user_name == text_parameter("user"), CLIENT.c.id == id_parameter("client"))
    )
)


def finding_client(user: str | None, client_id: int | None) -> Steps[Named]:
    """Finds a client by user name or by id. Erased clients have an id only."""
    found = yield FIND_CLIENT, {"user": user, "client": client_id}
    if not found:
        reference = "this id" if user is None else "this user name (--id takes an id)"
        raise AccountRejected(f"there is no client with {reference}")
    return Named(*found[0])


def erasing(client_id: int, now: datetime) -> Steps[Erased]:
    """Erases in one transaction. A repetition erases later data and adds events for new sessions only."""
    values: Values = {"client": client_id, "now": now}
    yield from using_one_connection()
    yield LOCK_TOMBSTONES, {}  # first, because an import locks the rest in another order
    yield LOCK_IDEMPOTENCY_KEYS, values  # then these, as a change that claims a key does
    # Sessions before their client, as a batch does: when a transaction changes a session for the second time,
    # PostgreSQL checks the reference to the client, which locks it.
    yield LOCK_SESSIONS_OF_CLIENT, values
    yield LOCK_CLIENT, values
    yield ERASE_CLIENT, values  # because Citus locks all copies of the row only by a change
    sessions: dict[int, list[int]] = defaultdict(list)
    for session_id, caregiver_id in (yield LOCK_SESSIONS_OF_CLIENT, values):  # with those opened meanwhile
        sessions[caregiver_id].append(session_id)
    if (yield DATABASE_KIND)[0] == "citus":
        yield from locking_sessions({each: caregiver for caregiver, ids in sessions.items() for each in ids})
    related = {row[0] for row in (yield CAREGIVERS_OF_CLIENT, values)}
    values["caregivers"] = sorted({*related, *sessions})
    notified = {row[0] for row in (yield FIND_ERASED_SESSIONS, values)}

    yield ERASE_SESSIONS, values
    yield SKIP_REMINDERS, values
    drafts = yield DROP_DRAFTS, values
    answers = yield from blanking_answers(values)
    feedbacks = yield BLANK_FEEDBACKS, values
    yield CLEAR_RESPONSES, values
    yield CLEAR_WEBHOOK_ANSWERS, values
    yield ERASE_IMPORTED, values
    yield from saving_tombstone("CLIENT", client_id, Mark(TombstoneState.ERASED, now))
    event = {**values, "event": EventKind.CLIENT_ERASED, "actor": Actor.SERVICE}
    for caregiver_id, of_caregiver in sessions.items():
        new = [session_id for session_id in of_caregiver if session_id not in notified]
        yield INSERT_SESSION_EVENTS, {**event, "caregiver": caregiver_id, "sessions": new}
    return Erased(
        values["caregivers"], sum(map(len, sessions.values())), len(drafts), answers, len(feedbacks)
    )


def blanking_answers(values: Values) -> Steps[int]:
    """Returns the number of erased answers."""
    erased = 0
    for caregiver, answer_set, document in (yield FIND_SETS, values):
        answers = read_answers(document)
        if count := sum(one.answer != "" for one in answers):
            blank = as_document(one._replace(answer="") for one in answers)
            yield REWRITE_SET, {"caregiver": caregiver, "answer_set": answer_set, "answers": blank}
            erased += count
    return erased


# --- database files -------------------------------------------------------------------------------


async def clean(url: str, client_id: int) -> None:
    """Removes the erased data from the database files, as far as the database supports it."""
    try:
        if url.startswith("sqlite:///"):
            await asyncio.to_thread(clean_sqlite, sqlite_path(url))
        else:
            await clean_postgres(url)
    except Exception as fault:
        if not (is_fault_of_database(fault) or isinstance(fault, DatabaseError | OSError)):
            raise
        raise DatabaseError(
            f"the client is erased, but the database files still contain the old data ({reason_of(fault)}); "
            f"run `care-gateway erase --id {client_id}` again"
        ) from None


def clean_sqlite(path: Path) -> None:
    """Old pages and the write-ahead log may contain copies of the erased data."""
    with closing(connect_sqlite(path)) as connection:
        connection.execute("VACUUM")
        is_busy = connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()[0]
    if is_busy:
        raise sqlite3.OperationalError("a long read holds the write-ahead log")


async def clean_postgres(url: str) -> None:
    connection = await connect_postgres(url)
    try:
        await connection.execute(f"VACUUM {', '.join(map(str, CHANGED_TABLES))}")
    finally:
        await connection.close()
