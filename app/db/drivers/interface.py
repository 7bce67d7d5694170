"""The interface, the errors and the helpers that both drivers share."""

import logging
import sqlite3
from asyncio import CancelledError, create_task, shield, wait
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any, NamedTuple, Protocol, TypeVar
from urllib.parse import SplitResult, unquote, urlsplit

from app.db.sql import Repeatable, Steps
from app.telemetry.wording import OperatorError

Result = TypeVar("Result")
# Receives the part of a driver that has ended, and the reason; called from any thread.
Failed = Callable[[str, BaseException], None]

logger = logging.getLogger("care.database")


class DatabaseError(OperatorError):
    """The database cannot be opened or used."""


class DatabaseAway(DatabaseError):
    """The database cannot be reached now; a later attempt may succeed."""


class DatabaseUnavailable(Exception):
    """The database is locked, full or gone; a retry may succeed. The cause has the details."""

    def __init__(self, message: str = "the database cannot take this now; nothing was changed") -> None:
        super().__init__(message)


class OutcomeUnknown(DatabaseUnavailable):
    """A change may have been made. A repetition with the same Idempotency-Key is safe."""


def is_fault_of_database(error: BaseException) -> bool:
    """Is this a fault that an operator can correct, and not a bug?"""
    if isinstance(error, DatabaseUnavailable | sqlite3.OperationalError | TimeoutError):
        return True
    return type(error).__module__.startswith("asyncpg.")  # imported only where PostgreSQL is used


def reason_of(fault: BaseException) -> str:
    """The message of the database, if there is one; and that it is not known whether a change was kept."""
    cause = str(fault.__cause__ or "")
    return f"{fault}: {cause}" if isinstance(fault, OutcomeUnknown) else cause or str(fault)


class Occupancy(NamedTuple):
    """Open connections, idle connections, the maximum of connections, and queued writes."""

    open: int
    idle: int
    limit: int
    writes_waiting: int = 0


class Database(Protocol):
    """Runs steps to their end: a read on one snapshot, a write in one transaction."""

    async def read(self, steps: Steps[Result]) -> Result: ...

    async def write(self, steps: Steps[Result] | Repeatable[Result]) -> Result: ...

    async def close(self) -> None: ...

    def occupancy(self) -> Occupancy: ...


async def to_the_end(work: Coroutine[Any, Any, Result]) -> Result:
    """Ends the work also if the caller is cancelled."""
    task = create_task(work)
    try:
        return await shield(task)
    except CancelledError:
        await wait([task])
        raise


CHANNEL = "care_event"  # on which PostgreSQL announces the caregiver and the client of new events


def log_failure(part: str, fault: BaseException) -> None:
    logger.critical("%s has ended", part, exc_info=fault)


def sqlite_path(url: str) -> Path:
    return Path(url.removeprefix("sqlite:///"))


def location_of(url: str) -> str:
    """The path, or the host and name, of the database, without user, password and parameters."""
    if url.startswith("sqlite:"):
        return str(sqlite_path(url).absolute())
    try:
        parts = split_address(url)
    except ValueError:
        return "PostgreSQL"
    return f"{parts.netloc.rpartition('@')[2]}{unquote(parts.path)}"


def split_address(url: str) -> SplitResult:
    """Raises ValueError if an unescaped character of the password ends the host part. Otherwise callers would
    print the rest of the password as a part of the host or path."""
    parts = urlsplit(url)
    if "@" in parts.path + parts.query + parts.fragment:
        raise ValueError("an @ that is no separator must be written as %40")
    return parts
