"""What an error of asyncpg means: the database is unavailable, the server is lost, or it is a bug. And for a
host that cannot be used: whether a later attempt may succeed."""

import asyncio
import errno
import socket
import sqlite3
import ssl
from contextlib import closing
from types import SimpleNamespace
from typing import Any

import pytest

from app.db.drivers.connections import ACQUIRE_SECONDS, Primary, leads_through_pooler
from app.db.drivers.faults import is_lost, is_unavailable
from app.db.drivers.hosts import (
    NEEDS_NEWER_POOLER,
    Host,
    Server,
    addresses_of,
    asyncpg,
    connect_to_host,
    notice_silence,
    reason_of_fault,
    reject_unreadable_files,
)
from app.db.drivers.interface import (
    DatabaseAway,
    DatabaseError,
    DatabaseUnavailable,
    OutcomeUnknown,
    is_fault_of_database,
    reason_of,
)
from tests.patience import PATIENCE

UNAVAILABLE = [
    asyncpg.SerializationError("could not serialize access"),
    asyncpg.DeadlockDetectedError("deadlock detected"),
    asyncpg.TransactionRollbackError("rolled back"),
    asyncpg.DiskFullError("no space left"),
    asyncpg.OutOfMemoryError("out of memory"),
    asyncpg.TooManyConnectionsError("too many clients"),
    asyncpg.LockNotAvailableError("lock timeout"),
    asyncpg.PostgresIOError("could not read"),
    asyncpg.UndefinedFileError("could not open"),
    asyncpg.IdleInTransactionSessionTimeoutError("idle in transaction"),
    TimeoutError("of a statement"),
    asyncpg.InternalServerError("failure on connection marked as essential: worker:5432"),
]
LOST = [
    ConnectionResetError("reset"),
    OSError(errno.EHOSTUNREACH, "no route to host"),
    asyncpg.ConnectionDoesNotExistError("connection was closed in the middle of operation"),
    asyncpg.ConnectionFailureError("could not send"),
    asyncpg.AdminShutdownError("terminating connection"),
    asyncpg.CrashShutdownError("another process crashed"),
    asyncpg.DatabaseDroppedError("the database was dropped"),
    asyncpg.CannotConnectNowError("the database system is starting up"),
    asyncpg.ReadOnlySQLTransactionError("read-only transaction"),
    asyncpg.StatementCompletionUnknownError("unknown"),
    asyncpg.InternalClientError("cannot switch to state"),
    asyncpg.InterfaceError("connection is closed"),
    asyncpg.InterfaceError("the underlying connection has been released back to the pool"),
    asyncpg.InternalServerError("postmaster was shut down, exiting"),
]
BUGS = [
    asyncpg.UniqueViolationError("duplicate key"),
    asyncpg.UndefinedColumnError("no such column"),
    asyncpg.InterfaceError("cannot perform operation: another operation is in progress"),
    asyncpg.exceptions._base.DataError("invalid input for query argument $1: 'disclosed'"),
    asyncpg.RaiseError("postmaster was shut down"),
    asyncpg.InternalServerError("cache lookup failed"),
    ValueError("of Python"),
]


@pytest.mark.parametrize("error", [*UNAVAILABLE, *LOST, *BUGS], ids=lambda error: f"{type(error).__name__}")
def test_an_error_is_unavailable_lost_or_a_bug(error: Exception) -> None:
    assert (is_unavailable(error), is_lost(error)) == (error not in BUGS, error in LOST)


def caused(fault: DatabaseUnavailable, cause: Exception) -> DatabaseUnavailable:
    fault.__cause__ = cause
    return fault


@pytest.mark.parametrize(
    ("error", "is_of_database"),
    [
        (DatabaseUnavailable(), True),
        (OutcomeUnknown("unknown"), True),
        (sqlite3.OperationalError("locked"), True),
        (TimeoutError("of a statement"), True),
        (asyncpg.UndefinedTableError("no such table"), True),
        (sqlite3.IntegrityError("unique"), False),
        (OSError("a file"), False),
        (ValueError("of Python"), False),
    ],
    ids=lambda each: "" if isinstance(each, bool) else type(each).__name__,
)
def test_a_fault_of_the_database_is_no_bug(error: Exception, is_of_database: bool) -> None:
    assert is_fault_of_database(error) == is_of_database


@pytest.mark.parametrize(
    ("fault", "reason"),
    [
        (DatabaseUnavailable(), "the database cannot take this now; nothing was changed"),
        (caused(DatabaseUnavailable(), OSError("database is locked")), "database is locked"),
        (caused(OutcomeUnknown("perhaps kept"), OSError("disk I/O error")), "perhaps kept: disk I/O error"),
    ],
)
def test_the_reason_of_a_fault_is_that_of_the_database(fault: DatabaseUnavailable, reason: str) -> None:
    assert reason_of(fault) == reason


def certificate(reason: str) -> ssl.SSLCertVerificationError:
    fault = ssl.SSLCertVerificationError("certificate verify failed (_ssl.c:1000)")
    fault.verify_message = reason
    return fault


REFUSED = "refuses connections (check the port, and that PostgreSQL runs and listens there)"
REASONS = {
    socket.gaierror("Name or service not known"): (
        "is not known to the name service (check the host, and write `@` in a password as %40)"
    ),
    TimeoutError(): "does not respond (check the host, the port, and firewalls)",
    ConnectionRefusedError(errno.ECONNREFUSED, "Connect call failed"): REFUSED,
    OSError(
        f"Multiple exceptions: [Errno {errno.ECONNREFUSED}] one, [Errno {errno.ECONNREFUSED}] two"
    ): REFUSED,
    certificate("self-signed certificate"): (
        "has a certificate that is not valid: self-signed certificate (check sslrootcert)"
    ),
    asyncpg.InvalidPasswordError("password authentication failed"): (
        "rejects the user or the password (only this user may have access to the file of PGPASSFILE)"
    ),
    asyncpg.InvalidAuthorizationSpecificationError("no entry in pg_hba.conf"): (
        "cannot be used: no entry in pg_hba.conf"
    ),
    asyncpg.TooManyConnectionsError("too many clients"): "cannot be used: too many clients",
    FileNotFoundError(errno.ENOENT, "No such file", "root.pem"): "cannot be used: No such file: root.pem",
}


@pytest.mark.parametrize("fault", REASONS, ids=lambda fault: type(fault).__name__)
def test_the_reason_why_a_host_cannot_be_used_is_a_sentence(fault: Exception) -> None:
    assert reason_of_fault(fault) == REASONS[fault]


HOSTS = {
    ConnectionRefusedError("refused"): True,
    TimeoutError("silent"): True,
    socket.gaierror("not known"): True,
    OSError(errno.EHOSTUNREACH, "no route to host"): True,
    asyncpg.ConnectionDoesNotExistError("connection was closed in the middle of operation"): True,
    asyncpg.CannotConnectNowError("starting up"): True,
    asyncpg.AdminShutdownError("terminating connection"): True,
    asyncpg.TooManyConnectionsError("too many clients"): True,
    asyncpg.OutOfMemoryError("out of memory"): True,
    asyncpg.InternalClientError("cannot switch to state"): True,
    PermissionError("a key file"): False,
    certificate("self-signed certificate"): False,
    ConnectionError("PostgreSQL server at host rejected SSL upgrade"): False,
    ssl.SSLError("a record"): False,
    asyncpg.InvalidPasswordError("password"): False,
    asyncpg.InvalidCatalogNameError("no such database"): False,
}


@pytest.mark.parametrize("fault", HOSTS, ids=lambda fault: f"{type(fault).__name__}")
def test_only_a_host_that_may_come_back_is_away(fault: Exception, monkeypatch: pytest.MonkeyPatch) -> None:
    async def connect(*_: object, **options: object) -> None:
        raise fault

    monkeypatch.setattr(asyncpg, "connect", connect)

    host = asyncio.run(connect_to_host("host", "postgresql://care@127.0.0.1/care", PATIENCE))

    assert host == Host("host", fault=reason_of_fault(fault), is_away=HOSTS[fault])


@pytest.mark.parametrize("name", ["sslrootcert", "sslcert", "sslkey", "sslcrl"])
def test_each_file_that_an_address_names_has_to_be_readable(name: str) -> None:
    reason = f"{name} names /nowhere/file, which cannot be read: no such file or directory$"

    with pytest.raises(DatabaseError, match=reason) as rejected:
        reject_unreadable_files(f"postgresql://care@127.0.0.1/care?sslmode=require&{name}=/nowhere/file")

    assert rejected.type is DatabaseError  # no later attempt succeeds


@pytest.mark.parametrize(
    ("url", "names"),
    [
        ("postgresql://care:a@one,two:6000/care", ["one:5432", "two:6000"]),
        ("postgresql://[::1],[::2]:6000/care", ["[::1]:5432", "[::2]:6000"]),
        ("postgresql:///care?host=/run/one&host=/run/two", ["/run/two"]),  # asyncpg uses the last one too
        ("postgresql:///care", ["the default host"]),
    ],
)
def test_each_host_has_the_name_that_errors_and_logs_show(url: str, names: list[str]) -> None:
    assert [name for name, _ in addresses_of(url)] == names


@pytest.mark.parametrize(
    ("are_away", "raised"), [([True, False], DatabaseAway), ([False, False], DatabaseError)]
)
def test_the_database_is_away_if_one_of_its_hosts_is(are_away: list[bool], raised: type[Exception]) -> None:
    hosts = [
        Host(f"host {number}", fault="fails", is_away=is_away) for number, is_away in enumerate(are_away)
    ]

    with pytest.raises(DatabaseError, match="host 0 fails; host 1 fails") as rejected:
        Primary("postgresql:///care").choose(hosts)

    assert rejected.type is raised


def test_each_host_of_an_address_has_its_own_name() -> None:
    url = "postgresql://care:a%40b@one,two:5433,[::1],[::1]:5433/care?sslmode=require"

    assert addresses_of(url) == [
        ("one:5432", "postgresql://care:a%40b@one/care?sslmode=require"),
        ("two:5433", "postgresql://care:a%40b@two:5433/care?sslmode=require"),
        ("[::1]:5432", "postgresql://care:a%40b@[::1]/care?sslmode=require"),
        ("[::1]:5433", "postgresql://care:a%40b@[::1]:5433/care?sslmode=require"),
    ]
    for query, name in (("host=/run/postgresql", "/run/postgresql"), ("host=/one&host=/two", "/two")):
        assert [each for each, _ in addresses_of(f"postgresql:///care?{query}")] == [name]
    assert [name for name, _ in addresses_of("postgresql:///care")] == ["the default host"]


IN_USE = Server(7, "monday", 3)


@pytest.mark.parametrize(
    ("server", "has_its_data", "follows"),
    [
        (IN_USE._replace(started="tuesday"), True, False),
        (IN_USE._replace(timeline=4), False, True),
        (IN_USE._replace(timeline=2), False, False),
        (IN_USE._replace(system=8), False, False),
        (IN_USE._replace(system=8, timeline=4), False, False),
    ],
    ids=["restarted", "promoted", "old primary", "other system", "other system, newer timeline"],
)
def test_a_promoted_standby_of_the_same_system_follows_the_server_in_use(
    server: Server, has_its_data: bool, follows: bool
) -> None:
    assert (server.has_data_of(IN_USE), server.follows(IN_USE)) == (has_its_data, follows)
    assert (server.has_data_of(None), server.follows(None)) == (False, True)


@pytest.mark.parametrize(
    "other",
    [IN_USE._replace(started="tuesday"), IN_USE._replace(timeline=4), IN_USE._replace(system=8)],
    ids=["a copy on the same timeline", "promoted", "other system"],
)
def test_a_new_process_uses_none_of_two_servers_that_accept_changes(other: Server) -> None:
    hosts = [Host("one", IN_USE, object()), Host("two", other, object())]

    with pytest.raises(DatabaseError, match=r"one \(timeline 3\) and two \(timeline [34]\) accept changes"):
        Primary("postgresql:///care").choose(hosts)


@pytest.mark.parametrize("hosts", ["one", "one,two", "one,two,three"])
def test_all_hosts_together_take_less_time_than_a_request_waits(hosts: str) -> None:
    primary = Primary(f"postgresql://care@{hosts}/care")

    assert primary.seconds * len(primary.addresses) < ACQUIRE_SECONDS


class Session:
    """The session of a server, with its process and the names of its prepared statements."""

    def __init__(self, process: int, *names: str, fault: Exception | None = None) -> None:
        self.process, self.names, self.fault = process, names, fault

    def get_server_pid(self) -> int:
        return 7  # of the server, or a number of the pooler

    async def fetch(self, _: str) -> list[tuple[int, str]]:
        if self.fault:
            raise self.fault
        return [(self.process, name) for name in self.names]


@pytest.mark.parametrize(
    ("session", "expected"),
    [
        (Session(7, "__asyncpg_stmt_1__"), False),
        (Session(9, "PGBOUNCER_1"), True),
        (Session(9, "of a former pooler", "PGBOUNCER_1"), True),
        (Session(9, "__asyncpg_stmt_1__"), NEEDS_NEWER_POOLER),
        (Session(9), NEEDS_NEWER_POOLER),
        (Session(9, fault=asyncpg.InvalidSQLStatementNameError("does not exist")), NEEDS_NEWER_POOLER),
        (Session(9, fault=asyncpg.DuplicatePreparedStatementError("exists")), NEEDS_NEWER_POOLER),
    ],
    ids=["none", "newer", "newer, in place of another", "older", "other process", "not found", "found twice"],
)
def test_a_pooler_that_keeps_the_names_of_prepared_statements_is_rejected(
    session: Any, expected: bool | str
) -> None:
    try:
        found: bool | str = asyncio.run(leads_through_pooler(session))
    except DatabaseError as error:
        found = str(error).removeprefix("the PostgreSQL database cannot be opened: ")

    assert found == expected


@pytest.mark.parametrize("is_linux", [True, False])
@pytest.mark.parametrize("family", [socket.AF_UNIX, socket.AF_INET])
def test_only_connections_over_tcp_have_its_options(
    monkeypatch: pytest.MonkeyPatch, family: socket.AddressFamily, is_linux: bool
) -> None:
    """Other systems have no option for the time without an acknowledgement."""
    has_options = is_linux and hasattr(socket, "TCP_USER_TIMEOUT") and family is not socket.AF_UNIX
    if not is_linux:
        monkeypatch.delattr(socket, "TCP_USER_TIMEOUT", raising=False)
    with closing(socket.socket(family)) as of_connection:
        transport = SimpleNamespace(get_extra_info=lambda _: of_connection)

        notice_silence(SimpleNamespace(_transport=transport))

        is_checked = of_connection.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE)
    assert bool(is_checked) == has_options
