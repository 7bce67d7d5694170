"""Backups of the SQLite database: copies it while other processes use it, and replaces it by a copy
(docs/operations.md, Restore)."""

import fcntl
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from datetime import datetime
from functools import partial
from glob import escape
from itertools import chain, count
from pathlib import Path

from app.db.admin.migrate import reject_newer, reject_too_old
from app.db.admin.tombstones import FIND_TOMBSTONES, Tombstones, tombstones_of
from app.db.drivers.interface import DatabaseError
from app.db.drivers.sqlite import check_sqlite, code_of, connect_sqlite
from app.db.tables import MAX_ID

PAGES_PER_STEP = 1000  # after each step the progress is reported and Ctrl-C is checked
SKIPPED_IDS = 1_000_000  # so that ids assigned after the backup are not assigned again
SHARED_LOCK = (0x40000002, 510)  # the bytes of a database file that each open connection of SQLite locks
LOG_SUFFIXES = ("-wal", "-shm")
TOMBSTONES_OF_ROWS = """
    SELECT 'CLIENT', id, 'ERASED', erase_date FROM client WHERE erase_date IS NOT NULL
    UNION ALL SELECT 'CLIENT', id, 'DISABLED', '1970-01-01T00:00:00.000000Z' FROM client
    WHERE is_disabled AND erase_date IS NULL
    UNION ALL SELECT 'CAREGIVER', id, 'DISABLED', '1970-01-01T00:00:00.000000Z' FROM caregiver
    WHERE is_disabled
"""


def marker_of(path: Path) -> Path:
    """An empty file beside the database; `care_backup_timestamp_seconds` is when it was last changed."""
    return path.with_name(f"{path.name}.backed-up")


# --- the copy -------------------------------------------------------------------------------------


def copy_sqlite(path: Path, copy: Path, progress: Callable[[int, int], None]) -> None:
    """Copies the state at the start into `copy`, which must be an empty file. Calls `progress` with the
    number of copied pages and of all pages."""
    check_sqlite(path)
    try:
        with closing(connect_sqlite(path)) as source, closing(sqlite3.connect(copy)) as target:
            target.execute("PRAGMA journal_mode = OFF")  # an incomplete copy is useless
            target.execute("PRAGMA synchronous = OFF")  # the caller syncs the whole file once
            # One snapshot for all steps: without it, each commit of another process would restart the copy.
            # It blocks no other process, but the write-ahead log grows meanwhile.
            source.execute("BEGIN")
            source.execute("SELECT count(*) FROM sqlite_schema").fetchone()
            source.backup(
                target,
                pages=PAGES_PER_STEP,
                progress=lambda _, remaining, total: progress(total - remaining, total),
            )
        damage = damage_of(copy)
    except sqlite3.Error as fault:
        raise DatabaseError(f"the backup cannot be made: {fault}") from None
    if damage:
        raise DatabaseError(f"the database is damaged and was not backed up: {damage}")


def opened_copy(copy: Path) -> closing[sqlite3.Connection]:
    """Opens the file read-only and immutable, so that SQLite creates no log beside it."""
    return closing(sqlite3.connect(f"{copy.absolute().as_uri()}?mode=ro&immutable=1", uri=True))


def damage_of(copy: Path) -> str | None:
    with opened_copy(copy) as connection:
        [found] = connection.execute("PRAGMA integrity_check(1)").fetchone()
        if found == "ok" and connection.execute("PRAGMA foreign_key_check").fetchone():
            return "rows refer to missing rows"
    return None if found == "ok" else str(found)


def check_backup(file: Path) -> None:
    """Rejects a damaged file, and tables that this version cannot migrate."""
    log = file.with_name(f"{file.name}-wal")
    if log.exists() and log.stat().st_size:
        raise DatabaseError(f"{file} has a write-ahead log: it is a database in use or an incomplete copy")
    try:
        damage = damage_of(file)
        with opened_copy(file) as connection:
            version = None if damage else version_in(connection)
    except sqlite3.Error as fault:
        raise DatabaseError(f"{file} cannot be read as a backup: {fault}") from None
    if damage:
        raise DatabaseError(f"{file} is damaged and was not restored: {damage}")
    if version is None:
        raise DatabaseError(f"{file} is not a backup of this service: it has no schema version")
    reject_too_old(version, str(file))
    reject_newer(version, str(file), advice="")


def version_in(connection: sqlite3.Connection) -> str | None:
    if not connection.execute("SELECT 1 FROM sqlite_schema WHERE name = 'alembic_version'").fetchone():
        return None
    row = connection.execute("SELECT version_num FROM alembic_version").fetchone()
    return str(row[0]) if row else None


# --- the database that is replaced ----------------------------------------------------------------


@dataclass
class ReplacedDatabase:
    """What is read from the replaced database; empty if it is damaged or missing."""

    # Renames the first path to that of the database, which keeps the second name. Until that one step the old
    # database is complete, and after it the new one: also for a process that is killed in between.
    replace: Callable[[Path, Path], None]
    last_ids: dict[str, int] | None = None  # of each table
    tombstones: Tombstones = field(default_factory=dict)


@contextmanager
def locked_database(path: Path) -> Iterator[ReplacedDatabase]:
    """Locks the current database exclusively. Raises DatabaseError while another process has it open."""
    if not path.exists():
        yield ReplacedDatabase(partial(replace_unreadable, path))
        return
    try:
        connection = lock_file(path)
    except sqlite3.DatabaseError:
        with locked_unreadable(path) as current:
            yield current
    else:
        with closing(connection):
            yield read_current(connection, path)


def in_use(path: Path) -> DatabaseError:
    return DatabaseError(f"the database at {path} is in use; stop `serve`, `worker` and other commands first")


def lock_file(path: Path) -> sqlite3.Connection:
    """Locks before the first read, because a shared log would stay shared. Raises DatabaseError while another
    process has the database open."""
    connection = sqlite3.connect(
        f"{path.absolute().as_uri()}?mode=rw", uri=True, isolation_level=None, timeout=0
    )
    try:
        connection.execute("PRAGMA locking_mode = EXCLUSIVE")
        connection.execute("BEGIN EXCLUSIVE")
        connection.execute("COMMIT")  # the lock stays
    except sqlite3.Error as fault:
        connection.close()
        if code_of(fault) == sqlite3.SQLITE_BUSY:
            raise in_use(path) from None
        raise
    return connection


def read_current(connection: sqlite3.Connection, path: Path) -> ReplacedDatabase:
    def replace(part: Path, aside: Path) -> None:
        aside.hardlink_to(path)
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")  # an empty log changes no other file
        with closing(lock_file(part)):  # until its log is gone: SQLite would apply the old one
            part.replace(path)
            connection.execute("PRAGMA journal_mode = MEMORY")
            remove_logs(path)

    remove_links(path)
    try:
        return ReplacedDatabase(replace, last_ids_of(connection), tombstones_in(connection))
    except sqlite3.DatabaseError:  # damaged, or without tables
        return ReplacedDatabase(replace)


def remove_links(path: Path) -> None:
    """Removes other names of the database that a killed command has left."""
    for link in path.parent.glob(f"{escape(path.name)}.replaced-*"):
        if link.samefile(path):
            link.unlink()


def tombstones_in(connection: sqlite3.Connection) -> Tombstones:
    """An earlier version has none; then the rows show the same."""
    known = connection.execute("SELECT 1 FROM sqlite_schema WHERE name = 'tombstone'").fetchone()
    sql = FIND_TOMBSTONES.for_("sqlite").sql if known else TOMBSTONES_OF_ROWS
    return tombstones_of(connection.execute(sql))


def is_later(current: ReplacedDatabase, file: Path) -> bool:
    """Is the current database a later state of the backup? A new database has no record of erasures."""
    with opened_copy(file) as connection:
        before = last_ids_of(connection)
    now = current.last_ids
    return now is not None and all(now.get(table, 0) >= last_id for table, last_id in before.items())


def last_ids_of(connection: sqlite3.Connection) -> dict[str, int]:
    return dict(connection.execute("SELECT name, seq FROM sqlite_sequence").fetchall())


def remove_logs(path: Path) -> None:
    for suffix in LOG_SUFFIXES:
        path.with_name(path.name + suffix).unlink(missing_ok=True)


@contextmanager
def locked_unreadable(path: Path) -> Iterator[ReplacedDatabase]:
    """Locks a file that SQLite cannot read."""
    start, length = SHARED_LOCK
    with path.open("rb+") as file:
        try:
            fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB, length, start)
        except OSError:
            raise in_use(path) from None
        yield ReplacedDatabase(partial(replace_unreadable, path))


def replace_unreadable(path: Path, part: Path, aside: Path) -> None:
    """The replaced database, or what is left of it, keeps its logs, which SQLite would apply to any file."""
    for suffix in ("", *LOG_SUFFIXES):
        file = path.with_name(path.name + suffix)
        if file.exists():
            aside.with_name(aside.name + suffix).hardlink_to(file)
    remove_logs(path)
    part.replace(path)


# --- the restored database ------------------------------------------------------------------------


def skip_ids(copy: Path) -> None:
    """Raises the next id of every table, also of tables without rows."""
    with closing(connect_sqlite(copy)) as connection:
        connection.execute("BEGIN IMMEDIATE")
        last_ids = last_ids_of(connection)
        numbered = "SELECT name FROM sqlite_schema WHERE type = 'table' AND sql LIKE '%AUTOINCREMENT%'"
        tables = [row[0] for row in connection.execute(numbered)]
        connection.execute("DELETE FROM sqlite_sequence")
        connection.executemany(
            "INSERT INTO sqlite_sequence (name, seq) VALUES (?, ?)",
            [(table, min(last_ids.get(table, 0) + SKIPPED_IDS, MAX_ID - 1)) for table in tables],
        )
        connection.execute("COMMIT")


def new_path_of(path: Path, now: datetime) -> Path:
    """The name that the replaced database gets, with a number after the first of one second."""
    name = f"{path.name}.replaced-{now:%Y%m%dT%H%M%SZ}"
    names = chain([name], (f"{name}-{number}" for number in count(2)))
    return next(new for each in names if not (new := path.with_name(each)).exists())
