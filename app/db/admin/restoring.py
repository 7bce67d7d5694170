"""Replaces the SQLite database by a backup (docs/operations.md, Restore)."""

import fcntl
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path

from app.db.admin.backup import damage_of, opened_copy
from app.db.admin.migrate import newest_version
from app.db.drivers.interface import DatabaseError
from app.db.drivers.sqlite import connect_sqlite

GAP = 1_000_000  # added to the next id of each table, so that ids assigned after the backup are not reused
PEOPLE = ("caregiver", "client")
SHARED_LOCK = (0x40000002, 510)  # the bytes of a database file that each open connection of SQLite locks
FILES = ("", "-wal", "-shm")


@dataclass
class Current:
    """Values of the replaced database; empty if it is damaged or missing."""

    numbers: dict[str, int] | None = None  # the last id of each table
    erased: set[int] = field(default_factory=set)  # clients
    disabled: dict[str, set[int]] = field(default_factory=dict)  # by role
    put_aside: Callable[[Path], None] = lambda aside: None


# --- the backup -----------------------------------------------------------------------------------


def check_backup(file: Path) -> None:
    """Rejects a damaged file, and tables that this version cannot migrate."""
    log = file.with_name(f"{file.name}-wal")
    if log.exists() and log.stat().st_size:
        raise DatabaseError(f"{file} has a log beside it, so it is a database in use or a plain copy of one")
    try:
        damage = damage_of(file)
        version = None if damage else version_of(file)
    except sqlite3.Error as fault:
        raise DatabaseError(f"{file} cannot be read as a backup: {fault}") from None
    if damage:
        raise DatabaseError(f"{file} is damaged and was not restored: {damage}")
    if version is None:
        raise DatabaseError(f"{file} is no backup of this service: it has no version of its tables")
    if version > newest_version():
        raise DatabaseError(
            f"{file} has the tables of a newer version, {version}; this one has those of {newest_version()}"
        )


def version_of(file: Path) -> str | None:
    with opened_copy(file) as connection:
        if not connection.execute("SELECT 1 FROM sqlite_schema WHERE name = 'alembic_version'").fetchone():
            return None
        row = connection.execute("SELECT version_num FROM alembic_version").fetchone()
    return str(row[0]) if row else None


# --- the database that is replaced ----------------------------------------------------------------


@contextmanager
def locked_database(path: Path) -> Iterator[Current]:
    """Locks the current database exclusively. Raises DatabaseError while another process has it open."""
    if not path.exists():
        yield Current()
        return
    try:
        connection = lock_file(path)
    except sqlite3.OperationalError as fault:
        if fault.sqlite_errorcode & 0xFF == sqlite3.SQLITE_BUSY:
            raise in_use(path) from None
        connection = None
    except sqlite3.DatabaseError:
        connection = None
    if connection is None:
        with locked_unreadable(path) as current:
            yield current
        return
    with closing(connection):
        yield read_current(connection, path)


def in_use(path: Path) -> DatabaseError:
    return DatabaseError(f"the database at {path} is in use; stop `serve`, `worker` and other commands first")


def lock_file(path: Path) -> sqlite3.Connection:
    """Locks before the first read, because a shared log would stay shared."""
    connection = sqlite3.connect(
        f"{path.absolute().as_uri()}?mode=rw", uri=True, isolation_level=None, timeout=0
    )
    try:
        connection.execute("PRAGMA locking_mode = EXCLUSIVE")
        connection.execute("BEGIN EXCLUSIVE")
        connection.execute("COMMIT")  # the lock stays
    except sqlite3.Error:
        connection.close()
        raise
    return connection


def read_current(connection: sqlite3.Connection, path: Path) -> Current:
    def put_aside(aside: Path) -> None:
        """Moves the log into the file first, because SQLite removes the log by its name on closing."""
        aside.hardlink_to(path)
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        connection.execute("PRAGMA journal_mode = MEMORY")
        remove_logs(path)

    try:
        return Current(
            numbers_of(connection),
            ids_in(connection, "client", "erase_date IS NOT NULL"),
            {role: ids_in(connection, role, "is_disabled") for role in PEOPLE},
            put_aside,
        )
    except sqlite3.DatabaseError:  # damaged, or without tables
        return Current(put_aside=put_aside)


def is_later(current: Current, file: Path) -> bool:
    """Is the current database a later state of the backup? A new database has no record of erasures."""
    with opened_copy(file) as connection:
        before = numbers_of(connection)
    now = current.numbers
    return now is not None and all(now.get(table, 0) >= number for table, number in before.items())


def numbers_of(connection: sqlite3.Connection) -> dict[str, int]:
    return dict(connection.execute("SELECT name, seq FROM sqlite_sequence").fetchall())


def remove_logs(path: Path) -> None:
    for log in FILES[1:]:
        path.with_name(path.name + log).unlink(missing_ok=True)


def ids_in(connection: sqlite3.Connection, table: str, condition: str) -> set[int]:
    return {row[0] for row in connection.execute(f"SELECT id FROM {table} WHERE {condition}")}


@contextmanager
def locked_unreadable(path: Path) -> Iterator[Current]:
    """Locks a file that SQLite cannot read; its files are renamed with the log."""

    def put_aside(aside: Path) -> None:
        for log in reversed(FILES):
            file = path.with_name(path.name + log)
            if file.exists():
                file.rename(aside.with_name(aside.name + log))

    start, length = SHARED_LOCK
    with path.open("rb+") as file:
        try:
            fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB, length, start)
        except OSError:
            raise in_use(path) from None
        yield Current(put_aside=put_aside)


# --- the restored database ------------------------------------------------------------------------


def leave_gap(part: Path) -> None:
    """Raises the next id of every table, also of tables without rows."""
    with closing(connect_sqlite(part)) as connection:
        connection.execute("BEGIN IMMEDIATE")
        numbered = "SELECT name FROM sqlite_schema WHERE type = 'table' AND sql LIKE '%AUTOINCREMENT%'"
        for (table,) in connection.execute(numbered).fetchall():
            found = connection.execute("SELECT seq FROM sqlite_sequence WHERE name = ?", (table,)).fetchone()
            connection.execute("DELETE FROM sqlite_sequence WHERE name = ?", (table,))
            values = (table, (found[0] if found else 0) + GAP)
            connection.execute("INSERT INTO sqlite_sequence (name, seq) VALUES (?, ?)", values)
        connection.execute("COMMIT")


def people_to_treat_again(
    part: Path, current: Current, erased: set[int]
) -> tuple[list[int], dict[str, list[int]]]:
    """Clients to erase again and people to disable again, which the backup has in their earlier state."""
    with closing(connect_sqlite(part)) as connection:
        there = ids_in(connection, "client", "erase_date IS NULL")
        enabled = {role: ids_in(connection, role, "NOT is_disabled") for role in PEOPLE}
    to_erase = there & (current.erased | erased)
    to_disable = {role: enabled[role] & current.disabled.get(role, set()) for role in PEOPLE}
    to_disable["client"] -= to_erase  # an erased client is disabled anyway
    return sorted(to_erase), {role: sorted(ids) for role, ids in to_disable.items() if ids}


def aside_of(path: Path, now: datetime) -> Path:
    """The name that the replaced database gets."""
    aside = path.with_name(f"{path.name}.replaced-{now:%Y%m%dT%H%M%SZ}")
    if aside.exists():
        raise DatabaseError(f"there is a file at {aside} already; try again in a moment")
    return aside
