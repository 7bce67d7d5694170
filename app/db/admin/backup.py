"""Copies the SQLite database into one file while other processes use it, and checks the copy."""

import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

from app.db.drivers.interface import DatabaseError
from app.db.drivers.sqlite import check_sqlite, connect_sqlite

PAGES_PER_STEP = 1000  # after each step the progress is reported and Ctrl-C is checked


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
