"""Runs SQL on either database without the drivers, to insert inconsistent rows and to read the tables."""

import asyncio
import sqlite3
from collections.abc import Sequence
from contextlib import closing
from typing import Any

from app.db.drivers.interface import sqlite_path
from app.db.tables import TABLES as ALL_TABLES

NAMES = [table.name for table in ALL_TABLES]
BEYOND_32_BITS = 3_000_000_000
# Not in TABLES: a rejected request adds an audit record and changes nothing else.
AUDIT_TABLES = [name for name in NAMES if name.startswith("audit_")]
# Not in TABLES: the counts of the legacy paths.
USAGE_TABLES = [name for name in NAMES if name.startswith("legacy_")]
TABLES = [name for name in NAMES if name not in (*AUDIT_TABLES, *USAGE_TABLES)]


def run(url: str, *statements: str) -> list[tuple[Any, ...]]:
    """The rows of the last statement; foreign keys are checked as always."""
    if url.startswith("sqlite:///"):
        with closing(sqlite3.connect(sqlite_path(url), isolation_level=None)) as connection:
            connection.execute("PRAGMA foreign_keys = ON")
            return [connection.execute(statement).fetchall() for statement in statements][-1]
    return asyncio.run(run_on_postgres(url, statements))


async def run_on_postgres(url: str, statements: Sequence[str]) -> list[tuple[Any, ...]]:
    import asyncpg  # not installed where the suite runs on SQLite only

    connection = await asyncpg.connect(url)
    try:
        return [[tuple(row) for row in await connection.fetch(statement)] for statement in statements][-1]
    finally:
        await connection.close()


def begin_large_ids(url: str) -> None:
    """The next rows get ids that no integer of 32 bits can hold."""
    numbered = [table.name for table in ALL_TABLES if table.autoincrement_column is not None]
    if url.startswith("sqlite:///"):
        run(url, "DELETE FROM sqlite_sequence")
        rows = ", ".join(f"('{name}', {BEYOND_32_BITS})" for name in numbered)
        run(url, f"INSERT INTO sqlite_sequence (name, seq) VALUES {rows}")
    else:
        run(url, *(f"SELECT setval('{name}_id_seq', {BEYOND_32_BITS})" for name in numbered))


def row_counts(url: str) -> dict[str, int]:
    return {name: int(number) for name, number in run(url, row_counts_sql())}


def row_counts_sql() -> str:
    return " UNION ALL ".join(f"SELECT '{name}', count(*) FROM {name}" for name in TABLES)
