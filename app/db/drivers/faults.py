"""What the errors of PostgreSQL and asyncpg mean for the driver."""

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

from app.db.drivers.hosts import asyncpg
from app.db.drivers.interface import DatabaseUnavailable

# The server is gone, or no longer the primary.
LOST = (
    OSError,
    asyncpg.PostgresConnectionError,
    asyncpg.OperatorInterventionError,  # the server stops or starts
    asyncpg.ReadOnlySQLTransactionError,  # the server has become a standby
    asyncpg.StatementCompletionUnknownError,
    asyncpg.InternalClientError,  # "cannot switch to state": the server died within a response
)
CONFLICTS = (asyncpg.SerializationError, asyncpg.DeadlockDetectedError)
UNAVAILABLE = (
    asyncpg.TransactionRollbackError,  # also a conflict that an attempt could not avoid
    asyncpg.InsufficientResourcesError,  # a full disk, too many connections
    asyncpg.LockNotAvailableError,  # another transaction holds the lock for long
    asyncpg.PostgresSystemError,  # an I/O error
    asyncpg.IdleInTransactionSessionTimeoutError,  # this process did not run for long
    TimeoutError,  # of a statement, whose server may only be slow
)
# Citus reports both as internal errors.
COORDINATOR_STOPS = "postmaster was shut down"
WORKER_STOPS = "failure on connection marked as essential"


@contextmanager
def raising_unavailable() -> Iterator[None]:
    try:
        yield
    except Exception as error:
        if is_unavailable(error):
            raise DatabaseUnavailable from error
        raise


def is_unavailable(error: Exception) -> bool:
    return isinstance(error, UNAVAILABLE) or is_lost(error) or is_internal(error, WORKER_STOPS)


def is_lost(error: BaseException | None) -> bool:
    if isinstance(error, TimeoutError):  # which is an OSError
        return False
    return isinstance(error, LOST) or is_closed(error) or is_internal(error, COORDINATOR_STOPS)


def is_of_worker(error: BaseException | None, connection: Any) -> bool:
    """Citus reports a worker that is down on a connection to the coordinator, which stays usable."""
    return isinstance(error, asyncpg.PostgresConnectionError) and is_open(connection)


def is_open(connection: Any) -> bool:
    with suppress(asyncpg.InterfaceError):  # a closed connection has returned to the pool by itself
        return not connection.is_closed()
    return False


def close_at_once(connection: Any) -> None:
    if connection and is_open(connection):
        connection.terminate()


def is_closed(error: BaseException | None) -> bool:
    """asyncpg raises the same class for a closed connection and for a wrong call; only the text differs. A
    connection that is closed between two calls returns to the pool."""
    is_interface_error = type(error) is asyncpg.InterfaceError
    return is_interface_error and any(text in str(error) for text in ("clos", "released back to the pool"))


def is_internal(error: BaseException | None, text: str) -> bool:
    return type(error) is asyncpg.InternalServerError and text in str(error)
