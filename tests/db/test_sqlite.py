"""Only a usable SQLite file is opened; every connection is durable and checks foreign keys."""

import asyncio
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import text

from app.db.admin.migrate import connected
from app.db.drivers.factory import open_database
from app.db.drivers.interface import Database, DatabaseAway, DatabaseError, sqlite_path
from app.db.drivers.sqlite import is_unavailable
from app.db.sql import Statement, Steps
from tests.db.small_steps import with_database

on_sqlite = pytest.mark.parametrize("kind", ["sqlite"], indirect=True)


def open_and_close(path: Path) -> None:
    async def opened() -> None:
        await (await open_database(f"sqlite:///{path}")).close()

    asyncio.run(opened())


def no_file(path: Path) -> None: ...


def without_wal(path: Path) -> None:
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("CREATE TABLE caregiver (id INTEGER)")


def no_database(path: Path) -> None:
    path.write_bytes(b"not a database " * 500)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (no_file, "there is no database at {}; run `care-gateway migrate` first"),
        (Path.mkdir, "the database at {} cannot be opened: is a directory"),
        (no_database, "the database at {} cannot be opened: file is not a database"),
        (
            without_wal,
            "the database at {} is not durable or not checked: "
            "{{'journal_mode': 'delete', 'synchronous': 2, 'foreign_keys': 1}}",
        ),
    ],
    ids=["missing", "a directory", "not a database", "without write-ahead log"],
)
def test_an_unusable_file_is_rejected(tmp_path: Path, make: Callable[[Path], None], message: str) -> None:
    path = tmp_path / "care.db"
    make(path)

    with pytest.raises(DatabaseError) as refused:
        open_and_close(path)

    assert str(refused.value) == message.format(path)
    assert path.exists() == (make is not no_file)


@on_sqlite
def test_an_old_sqlite_is_rejected(database_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("app.db.drivers.sqlite.OLDEST_SQLITE", sqlite3.sqlite_version_info)
    open_and_close(sqlite_path(database_url))

    monkeypatch.setattr("app.db.drivers.sqlite.OLDEST_SQLITE", (99, 0, 0))
    with pytest.raises(DatabaseError, match=r"^SQLite [\d.]+ is too old; 3\.38 or newer is needed$"):
        open_and_close(sqlite_path(database_url))


FAULTS = {
    "SQLITE_BUSY": True,
    "SQLITE_BUSY_RECOVERY": True,  # another process recovers the log
    "SQLITE_CANTOPEN": True,
    "SQLITE_CORRUPT": True,
    "SQLITE_FULL": True,
    "SQLITE_IOERR": True,
    "SQLITE_IOERR_FSYNC": True,  # an extended code
    "SQLITE_LOCKED": True,
    "SQLITE_NOTADB": True,
    "SQLITE_PERM": True,
    "SQLITE_PROTOCOL": True,
    "SQLITE_READONLY": True,
    "SQLITE_CONSTRAINT": False,
    "SQLITE_ERROR": False,
    "SQLITE_TOOBIG": False,
}


def test_faults_that_an_operator_can_correct_are_unavailable() -> None:
    found = {}
    for name in FAULTS:
        error = sqlite3.OperationalError(name)
        error.sqlite_errorcode = getattr(sqlite3, name)
        found[name] = is_unavailable(error)

    assert found == FAULTS
    assert is_unavailable(MemoryError())
    assert not is_unavailable(sqlite3.ProgrammingError("of Python"))


def pragmas() -> Steps[dict[str, object]]:
    found = {}
    for name in WRITER:
        rows = yield Statement(lambda kind, name=name: text(f"PRAGMA {name}")), {}
        found[name] = rows[0][0]
    return found


EXPECTED = {
    "journal_mode": "wal",
    "synchronous": 2,
    "foreign_keys": 1,
    "secure_delete": 1,
    "busy_timeout": 10_000,
}
OF_WRITER = {"temp_store": 2, "cache_size": -8000, "wal_autocheckpoint": 4000}
WRITER = EXPECTED | OF_WRITER


@pytest.fixture
def other_defaults(monkeypatch: pytest.MonkeyPatch) -> None:
    """As of an SQLite that is compiled for speed: new connections are not durable."""
    connect = sqlite3.connect

    def connected(*given: Any, **named: Any) -> sqlite3.Connection:
        connection = connect(*given, **named)
        connection.execute("PRAGMA synchronous = OFF")
        connection.execute("PRAGMA secure_delete = OFF").fetchall()
        return connection

    monkeypatch.setattr(sqlite3, "connect", connected)


@on_sqlite
@pytest.mark.usefixtures("other_defaults")
def test_connections_of_the_service_are_durable_and_checked(database_url: str) -> None:
    """A read on the loop that finds a lock continues in a thread and waits there."""

    async def use(db: Database) -> list[dict[str, object]]:
        return [await db.read(pragmas()), await db.write(pragmas())]

    on_the_loop, written = with_database(database_url, use, loop_read_ms=60_000)
    in_a_thread, _ = with_database(database_url, use, loop_read_ms=0)

    defaults = {name: in_a_thread[name] for name in OF_WRITER}
    assert on_the_loop == EXPECTED | defaults | {"busy_timeout": 0}
    assert (in_a_thread, written) == (EXPECTED | defaults, WRITER)


@on_sqlite
@pytest.mark.usefixtures("other_defaults")
def test_connections_of_commands_are_durable_and_checked(database_url: str) -> None:
    async def read_pragmas() -> dict[str, object]:
        async with connected(database_url) as connection:
            return {name: (await connection.exec_driver_sql(f"PRAGMA {name}")).scalar() for name in EXPECTED}

    assert asyncio.run(read_pragmas()) == EXPECTED


@pytest.mark.parametrize("kind", ["sqlite"], indirect=True)
def test_a_database_that_another_process_has_locked_may_be_opened_later(
    database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("app.db.drivers.sqlite.BUSY_SECONDS", 0)
    path = sqlite_path(database_url)
    with closing(sqlite3.connect(path, isolation_level=None)) as other:
        other.execute("PRAGMA locking_mode = EXCLUSIVE")
        other.execute("BEGIN EXCLUSIVE")

        with pytest.raises(DatabaseAway) as rejected:
            asyncio.run(open_database(database_url))

    assert str(rejected.value) == f"the database at {path} cannot be opened: database is locked"


@pytest.mark.parametrize("kind", ["sqlite"], indirect=True)
@pytest.mark.parametrize("name", ["SQLITE_BUSY_RECOVERY", "SQLITE_BUSY_SNAPSHOT"])
def test_a_database_whose_log_another_process_recovers_may_be_opened_later(
    database_url: str, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """SQLite reports each reason for a lock by an extended code."""
    fault = sqlite3.OperationalError("database is locked")
    fault.sqlite_errorcode = getattr(sqlite3, name)

    def connect(*_: Any, **__: Any) -> None:
        raise fault

    monkeypatch.setattr(sqlite3, "connect", connect)

    with pytest.raises(DatabaseAway):
        asyncio.run(open_database(database_url))
