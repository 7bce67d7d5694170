"""Copies all rows of a SQLite database to an empty PostgreSQL database, in one transaction."""

import sqlite3
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any

import orjson
from sqlalchemy import Boolean, DateTime, Table, inspect, select, text

from app.db.admin.backup import last_ids_of, lock_file
from app.db.admin.migrate import connected, migrate
from app.db.admin.sequences import set_last_id
from app.db.drivers.factory import open_database
from app.db.drivers.interface import DatabaseError
from app.db.drivers.sqlite import check_sqlite
from app.db.moments import as_moment, moment_as_text
from app.db.sql import DATABASE_KIND, Bulk, Statement, Steps
from app.db.statements.usage import adding_minutes, adding_usage, reading_usage
from app.db.tables import AUDIT_CHECKPOINT, LEGACY_HOUR, LEGACY_USAGE, TABLES
from app.telemetry.wording import counted

ROWS_PER_FETCH = 500

Convert = Callable[[Any], Any]
Progress = Callable[[int], None]

LOCK_TABLES = Statement(text(f"LOCK TABLE {', '.join(map(str, TABLES))} IN EXCLUSIVE MODE"))
# Of legacy calls: the only rows that a service writes to an empty database.
COUNTS = (LEGACY_USAGE, LEGACY_HOUR)
FIND_TABLES_WITH_ROWS = Statement(
    text(
        " UNION ALL ".join(
            f"SELECT '{table}' WHERE EXISTS (SELECT FROM {table})" for table in TABLES if table not in COUNTS
        )
    )
)
REMOVE_COUNTS = tuple(Statement(text(f"DELETE FROM {table}")) for table in COUNTS)
# Checks that the seal of a checkpoint exists. Retention has removed the seals of older checkpoints.
DISABLE_CHECK, ENABLE_CHECK = (
    Statement(text(f"ALTER TABLE {AUDIT_CHECKPOINT} {verb} TRIGGER audit_checkpoint_insert"))
    for verb in ("DISABLE", "ENABLE")
)
ANALYZE = Statement(text(f"ANALYZE {', '.join(map(str, TABLES))}"))


@dataclass
class Content:
    """The number of rows and the sum of their hashes: the databases sort texts differently."""

    rows: int = 0
    hash: int = 0

    def __str__(self) -> str:
        return f"{counted(self.rows, 'row')} with the hash {self.hash:064x}"

    def add(self, row: tuple[Any, ...]) -> None:
        """Receives the values of a row as SQLite stores them."""
        self.rows += 1
        self.hash = (self.hash + int.from_bytes(sha256(orjson.dumps(row)).digest())) % 2**256


# --- before the copy ------------------------------------------------------------------------------


@contextmanager
def locked_source(path: Path) -> Iterator[sqlite3.Connection]:
    """Raises DatabaseError while another process has the database open, and keeps others out of it."""
    check_sqlite(path, if_missing="`--from` must name an existing file")
    try:
        with closing(lock_file(path)) as source:
            yield source
    except sqlite3.Error as fault:
        raise DatabaseError(f"the database at {path} cannot be read: {fault}") from None


async def migrate_empty(url: str) -> None:
    """Creates the tables in a PostgreSQL database without tables."""
    await (await open_database(url, 1)).close()  # raises DatabaseError if it cannot be opened
    async with connected(url) as connection:
        tables = await connection.run_sync(lambda sync: inspect(sync).get_table_names())
    if not tables:
        await migrate(url)
    elif "alembic_version" not in tables:
        raise DatabaseError("the database has tables of another application")


def count_rows(source: sqlite3.Connection) -> int:
    return sum(source.execute(f"SELECT count(*) FROM {table}").fetchone()[0] for table in TABLES)


# --- the copy -------------------------------------------------------------------------------------


def copying(source: sqlite3.Connection, progress: Progress) -> Steps[dict[str, int]]:
    """Returns the number of rows of each table. `progress` receives 1 for each row that was copied, and
    again for each row that was read back."""
    if (yield DATABASE_KIND)[0] == "citus":
        raise DatabaseError("nothing was copied: the target is distributed; copy first, then distribute")
    yield LOCK_TABLES, {}
    if found := (yield FIND_TABLES_WITH_ROWS, {}):
        names = ", ".join(row[0] for row in found)
        raise DatabaseError(
            f"nothing was copied: the target has rows in {names}; use a database without rows, or with only "
            f"the rows that a started service writes ({', '.join(map(str, COUNTS))})"
        )
    stored = yield from reading_usage()
    for remove in REMOVE_COUNTS:
        yield remove, {}
    yield DISABLE_CHECK, {}
    contents = {table: Content() for table in TABLES}
    for table, content in contents.items():
        rows = read_rows(source, table, content, progress)
        yield Bulk(table.name, tuple(table.columns.keys()), converted(table, rows, bool, as_moment))
    yield ENABLE_CHECK, {}
    for name, last_id in last_ids_to_copy(source):
        yield set_last_id(name), {"newest": last_id}
    for table, content in contents.items():
        if (copied := (yield from reading_back(table, progress))) != content:
            raise DatabaseError(f"nothing was copied: {table} has {content}, and the copy has {copied}")
    yield from adding_usage(stored.usage)
    yield from adding_minutes(stored.hours)
    yield ANALYZE, {}  # without statistics the first requests are slow
    return {table.name: content.rows for table, content in contents.items()}


def read_rows(
    source: sqlite3.Connection, table: Table, content: Content, progress: Progress
) -> Iterator[tuple[Any, ...]]:
    """One by one, so that the largest table needs no more memory than the smallest."""
    for row in source.execute(Statement(select(table)).for_("sqlite").sql):
        content.add(row)
        progress(1)
        yield row


def reading_back(table: Table, progress: Progress) -> Steps[Content]:
    """The content of the table in PostgreSQL."""
    rows_of_table = Statement(select(table)).for_("postgresql").sql
    yield Statement(text(f"DECLARE copied_{table} NO SCROLL CURSOR FOR {rows_of_table}")), {}
    fetch = Statement(text(f"FETCH {ROWS_PER_FETCH} FROM copied_{table}"))
    content = Content()
    while rows := (yield fetch, {}):
        for row in converted(table, rows, int, moment_as_text):
            content.add(row)
        progress(len(rows))
    return content


def converted(
    table: Table, rows: Iterable[Any], of_boolean: Convert, of_moment: Convert
) -> Iterator[tuple[Any, ...]]:
    """The rows with the values of the columns that the databases store differently."""
    kinds = {Boolean: of_boolean, DateTime: of_moment}
    found = ((position, kinds.get(type(column.type))) for position, column in enumerate(table.columns))
    converts = [(position, convert) for position, convert in found if convert is not None]
    for row in rows:
        values = list(row)
        for position, convert in converts:
            if values[position] is not None:
                values[position] = convert(values[position])
        yield tuple(values)


def last_ids_to_copy(source: sqlite3.Connection) -> Iterator[tuple[str, int]]:
    """Continues the ids after the last id of SQLite, which may belong to a deleted row."""
    last_ids = last_ids_of(source)
    for table in TABLES:
        if table.autoincrement_column is None:
            continue
        last_id = last_ids.get(table.name) or source.execute(f"SELECT max(id) FROM {table}").fetchone()[0]
        if last_id:
            yield table.name, last_id
