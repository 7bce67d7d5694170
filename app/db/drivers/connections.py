"""Opens connections to PostgreSQL: to the host that accepts changes, directly or through PgBouncer."""

import asyncio
import socket
from typing import Any
from urllib.parse import parse_qs, urlsplit

from app.db.drivers.interface import DatabaseError

try:
    import asyncpg as asyncpg  # also for the other modules of this driver
except ImportError:
    raise DatabaseError("PostgreSQL needs asyncpg; install the project with its extra `postgres`") from None

OLDEST_POSTGRES = 15  # the oldest major version that PostgreSQL supports
ACQUIRE_SECONDS = 10  # to get a connection; the same as the lock timeout of SQLite
SILENCE_SECONDS = 5  # until a host that acknowledges nothing counts as lost
STANDBY = "it is a standby or read-only; name the primary in CARE_DATABASE_URL, or all hosts"
WITHOUT_STATEMENT = (asyncpg.InvalidSQLStatementNameError, asyncpg.DuplicatePreparedStatementError)
NEEDS_NEWER_POOLER = (
    "it is behind a pooler that does not support prepared statements; "
    "use PgBouncer 1.21 or newer with pool_mode = transaction and max_prepared_statements above 0"
)


async def connect_postgres(url: str, **options: Any) -> Any:
    """Connects to the first host that responds in time and accepts changes. asyncpg alone would spend all the
    time on a first host that does not respond."""
    attributes = None if "target_session_attrs" in parse_qs(urlsplit(url).query) else "read-write"
    addresses = address_of_each_host(url)
    seconds = ACQUIRE_SECONDS / (1 + len(addresses))  # all hosts together take less than ACQUIRE_SECONDS
    faults: dict[str, str] = {}
    for address in addresses:
        try:
            async with asyncio.timeout(seconds):
                connection = await asyncpg.connect(address, target_session_attrs=attributes, **options)
            notice_silence(connection)
            return connection
        except ValueError:  # the address is invalid; also an InterfaceError
            raise
        except (OSError, asyncpg.PostgresError, asyncpg.InterfaceError, asyncpg.InternalClientError) as fault:
            faults[urlsplit(address).netloc.rpartition("@")[2]] = reason_of_host(fault)
    named = faults.values() if len(faults) == 1 else (f"{host}: {why}" for host, why in faults.items())
    raise cannot_be_opened("; ".join(named))


def cannot_be_opened(reason: str) -> DatabaseError:
    return DatabaseError(f"the PostgreSQL database cannot be opened: {reason}")


def notice_silence(connection: Any) -> None:
    """Closes the connection if its host acknowledges nothing, as after a power failure. Without these options
    a request would wait for the time limit of its statement."""
    options = connection._transport.get_extra_info("socket")
    if options.family != socket.AF_UNIX and hasattr(socket, "TCP_USER_TIMEOUT"):  # on Linux
        options.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        options.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, SILENCE_SECONDS)
        options.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, SILENCE_SECONDS)
        options.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, SILENCE_SECONDS * 1000)


def address_of_each_host(url: str) -> list[str]:
    parts = urlsplit(url)
    user, at, hosts = parts.netloc.rpartition("@")
    return [parts._replace(netloc=f"{user}{at}{host}").geturl() for host in hosts.split(",")]


def reason_of_host(fault: Exception) -> str:
    if isinstance(fault, asyncpg.TargetServerAttributeNotMatched):
        return STANDBY
    if isinstance(fault, WITHOUT_STATEMENT):
        return NEEDS_NEWER_POOLER
    return str(fault) or "it does not respond"


async def open_pool(url: str, connections: int, patience: float | None) -> tuple[Any, bool]:
    """Returns a pool, and whether its connections lead through a pooler."""
    try:
        pool = await asyncpg.create_pool(
            url,
            min_size=0,
            max_size=connections,
            command_timeout=patience,
            connect=connect_postgres,
            init=use_generic_plans,
            reset=keep_session,
        )
        return pool, await check_server(pool)
    except ValueError as error:  # its text may quote a part of the password
        if str(error).startswith("`sslmode` parameter must be"):  # does not quote the address
            raise DatabaseError(f"the address of the PostgreSQL database cannot be used: {error}") from None
        raise DatabaseError(
            "the address of the PostgreSQL database cannot be read; "
            "write special characters in the user name and password as %XX"
        ) from None


async def use_generic_plans(connection: Any) -> None:
    """Otherwise PostgreSQL plans some reads at every run, which takes longer than the read: it compares their
    estimated costs, and a generic plan expects a tenth of all rows where a page has a limit."""
    await connection.execute("SET plan_cache_mode = force_generic_plan")


async def keep_session(connection: Any) -> None:
    """Runs before a connection returns to the pool, in place of a round trip that resets the session: no
    operation sets a parameter, listens, or takes an advisory lock. asyncpg has ended an open transaction."""


async def check_server(pool: Any) -> bool:
    """Returns whether a connection leads through a pooler. Closes the pool if the server is not supported."""
    try:
        async with pool.acquire() as connection:
            refuse_old_server(connection)
            return await leads_through_pooler(connection)
    except BaseException:
        pool.terminate()
        raise


def refuse_old_server(connection: Any) -> None:
    version = connection.get_server_version()
    if version.major < OLDEST_POSTGRES:
        raise DatabaseError(
            f"PostgreSQL {version.major}.{version.minor} is too old; {OLDEST_POSTGRES} or newer is needed"
        )


async def leads_through_pooler(connection: Any) -> bool:
    """Rejects a pooler that gives statements to a server that has not prepared them. Such a pooler passes on
    the names of prepared statements; PgBouncer from 1.21 on replaces them by names of its own."""
    try:
        found = await connection.fetch("SELECT pg_backend_pid(), name FROM pg_prepared_statements")
    except WITHOUT_STATEMENT:
        raise cannot_be_opened(NEEDS_NEWER_POOLER) from None
    if {process for process, _ in found} == {connection.get_server_pid()}:
        return False
    if not any(name.startswith("PGBOUNCER_") for _, name in found):
        raise cannot_be_opened(NEEDS_NEWER_POOLER)
    return True
