"""The hosts that an address of PostgreSQL names: connects to each one and identifies its server."""

import asyncio
import errno
import re
import socket
import ssl
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import parse_qs, urlsplit

from app.db.drivers.interface import DatabaseAway, DatabaseError, split_address

try:
    import asyncpg as asyncpg  # also for the other modules of this driver
except ImportError:
    raise DatabaseError("PostgreSQL needs asyncpg; install the project with its extra `postgres`") from None

PASSWORD_FIELDS = 5  # of a line: host, port, database, user, password
SILENCE_SECONDS = 5  # until a host that acknowledges nothing counts as lost
WITHOUT_STATEMENT = (asyncpg.InvalidSQLStatementNameError, asyncpg.DuplicatePreparedStatementError)
NEEDS_NEWER_POOLER = (
    "it is behind a pooler that does not support prepared statements; "
    "use PgBouncer 1.21 or newer with pool_mode = transaction and max_prepared_statements above 0"
)
FILES = ("sslrootcert", "sslcert", "sslkey", "sslcrl")  # parameters
NO_ROOT = "root certificate file"  # begins the message of asyncpg, which names the default file
STANDBY = "is a standby or read-only (name the primary in CARE_DATABASE_URL, or all hosts)"
SILENT = "does not respond (check the host, the port, and firewalls)"
# A later attempt may succeed: the host or the server starts or stops, or has too many connections.
AWAY = (
    OSError,
    asyncpg.PostgresConnectionError,
    asyncpg.OperatorInterventionError,
    asyncpg.InsufficientResourcesError,
    asyncpg.InternalClientError,
)
NOT_AWAY = (PermissionError, ssl.SSLError)  # of files and certificates
NO_TLS = "rejected SSL upgrade"
INVALID_PASSWORD = "28P01"  # SQLSTATE, also of an unknown user
REFUSED = f"[Errno {errno.ECONNREFUSED}]"  # of one address of the host, or within the list of several

# The parameter that the server reports may be older than a promotion if PgBouncer passes it on.
IS_READ_ONLY = "SELECT current_setting('transaction_read_only')::boolean"
# The timeline of the last checkpoint, in pg_control_checkpoint(), is still the old one after a promotion.
IDENTIFY = """
SELECT system_identifier, pg_postmaster_start_time(),
    CASE WHEN pg_is_in_recovery() THEN 0
    ELSE ('x' || left(pg_walfile_name(pg_current_wal_lsn()), 8))::bit(32)::int END
FROM pg_control_system()
"""


class Server(NamedTuple):
    system: int  # a copy, such as a standby, has the system identifier of its original
    started: object
    timeline: int  # each promotion of a standby starts a new one; 0 on a standby

    def has_data_of(self, other: "Server | None") -> bool:
        return other is not None and (self.system, self.timeline) == (other.system, other.timeline)

    def follows(self, other: "Server | None") -> bool:
        return other is None or (self.system == other.system and self.timeline > other.timeline)


UNIDENTIFIED = Server(0, None, 0)  # the account may not call the functions


class Host(NamedTuple):
    """A host with an open connection, or with the reason why there is none."""

    name: str
    server: Server = UNIDENTIFIED
    connection: Any = None
    fault: str = ""
    is_away: bool = False

    @property
    def timeline(self) -> int | str:
        return self.server.timeline or "unknown"

    def __str__(self) -> str:
        return f"{self.name} (timeline {self.timeline})"


def cannot_be_opened(reason: str, is_away: bool = False) -> DatabaseError:
    kind = DatabaseAway if is_away else DatabaseError
    return kind(f"the PostgreSQL database cannot be opened: {reason}")


def addresses_of(url: str) -> list[tuple[str, str]]:
    """The name and the address of each host."""
    try:
        parts = split_address(url)
        user, at, hosts = parts.netloc.rpartition("@")
        return [
            (name_of(host, parts.query), parts._replace(netloc=f"{user}{at}{host}").geturl())
            for host in hosts.split(",")
        ]
    except ValueError as fault:
        raise cannot_be_read(str(fault)) from None


def name_of(host: str, query: str) -> str:
    if not host:
        return parse_qs(query).get("host", ["the default host"])[-1]
    return host if urlsplit(f"//{host}").port else f"{host}:5432"


async def connect_to_host(
    name: str, address: str, seconds: float, accepts_standby: bool = False, **options: Any
) -> Host:
    """A host that is unknown, silent, a standby and so on has a fault. Raises DatabaseError if the address
    cannot be used for any host."""
    try:
        async with asyncio.timeout(seconds):
            # of any role: asyncpg trusts a parameter that a PgBouncer may have cached
            connection = await asyncpg.connect(address, target_session_attrs="any", **options)
            try:
                notice_silence(connection)
                if not accepts_standby and await connection.fetchval(IS_READ_ONLY):
                    connection.terminate()
                    return Host(name, fault=STANDBY, is_away=True)
                return Host(name, await identify(connection), connection)
            except BaseException:
                connection.terminate()
                raise
    except WITHOUT_STATEMENT:
        raise cannot_be_opened(NEEDS_NEWER_POOLER) from None
    except OSError as fault:  # before ValueError: a certificate that is rejected is both
        reject_unreadable_files(address)
        return Host(name, fault=reason_of_fault(fault), is_away=is_away(fault))
    except ValueError as fault:  # its text may quote a part of the password; also an InterfaceError
        raise cannot_be_read(str(fault)) from None
    except (asyncpg.PostgresError, asyncpg.InterfaceError, asyncpg.InternalClientError) as fault:
        return Host(name, fault=reason_of_fault(fault), is_away=is_away(fault))


def is_away(fault: Exception) -> bool:
    return isinstance(fault, AWAY) and not isinstance(fault, NOT_AWAY) and NO_TLS not in str(fault)


async def identify(connection: Any) -> Server:
    try:
        return Server(*await connection.fetchrow(IDENTIFY))
    except (asyncpg.InsufficientPrivilegeError, asyncpg.FeatureNotSupportedError):
        return UNIDENTIFIED


def notice_silence(connection: Any) -> None:
    """Closes the connection if its host acknowledges nothing, as after a power failure. Without these options
    a request would wait for the time limit of its statement."""
    options = connection._transport.get_extra_info("socket")
    if options.family != socket.AF_UNIX and hasattr(socket, "TCP_USER_TIMEOUT"):  # on Linux
        options.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        options.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, SILENCE_SECONDS)
        options.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, SILENCE_SECONDS)
        options.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, SILENCE_SECONDS * 1000)


# --- reasons --------------------------------------------------------------------------------------


def reason_of_fault(fault: Exception) -> str:
    """What follows the name of the host in a sentence."""
    if isinstance(fault, socket.gaierror):
        return "is not known to the name service (check the host, and write `@` in a password as %40)"
    if isinstance(fault, TimeoutError):
        return SILENT
    if isinstance(fault, ssl.SSLCertVerificationError):
        return f"has a certificate that is not valid: {fault.verify_message} (check sslrootcert)"
    if getattr(fault, "sqlstate", None) == INVALID_PASSWORD:
        return "rejects the user or the password (only this user may have access to the file of PGPASSFILE)"
    if REFUSED in str(fault):
        return "refuses connections (check the port, and that PostgreSQL runs and listens there)"
    file = getattr(fault, "filename", None)
    return f"cannot be used: {getattr(fault, 'strerror', None) or fault}{f': {file}' if file else ''}"


def cannot_be_read(reason: str) -> DatabaseError:
    address = "the address of the PostgreSQL database"
    if reason.startswith(NO_ROOT):
        return DatabaseError(f"{address} needs sslrootcert=FILE: {reason.splitlines()[0]}")
    if reason.startswith("`sslmode` parameter must be"):
        return DatabaseError(f"{address} cannot be used: {reason}")
    advice = "write special characters in the user name and password as %XX"
    return DatabaseError(f"{address} cannot be read; {advice}")


def reject_unreadable_files(address: str) -> None:
    """Names a file of certificates or keys that is missing or damaged; the error of OpenSSL does not."""
    query = parse_qs(urlsplit(address).query)
    for name in FILES:
        for path in query.get(name, []):
            try:
                is_pem = b"-----BEGIN" in Path(path).read_bytes()
            except OSError as error:
                reason = (error.strerror or "").lower()
                raise cannot_be_opened(f"{name} names {path}, which cannot be read: {reason}") from None
            if not is_pem:
                raise cannot_be_opened(f"{name} names {path}, which is not a PEM file")


# --- the password file ----------------------------------------------------------------------------

read_escaped = asyncpg.connect_utils._read_password_file


def read_password_file(path: Path) -> list[tuple[str, ...]]:
    """asyncpg keeps the backslash before `:` and before another backslash, which libpq removes."""
    lines = (tuple(re.sub(r"\\(.)", r"\1", field) for field in line) for line in read_escaped(path))
    return [line for line in lines if len(line) == PASSWORD_FIELDS]


asyncpg.connect_utils._read_password_file = read_password_file
