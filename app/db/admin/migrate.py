"""Migrates a database to the newest schema version, in one or in two phases: a process serves the tables of
its own version, and of the next one until something is removed (docs/decisions/0042-rolling-upgrades.md)."""

import sqlite3
from collections import defaultdict
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, closing
from enum import StrEnum
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sqlalchemy import URL, Connection, delete, event, insert, select, text
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine, create_async_engine

from app.db.drivers.factory import open_database
from app.db.drivers.interface import Database, DatabaseError, DatabaseUnavailable, sqlite_path
from app.db.drivers.sqlite import prepare_sqlite
from app.db.sql import Statement, Steps
from app.db.statements.books import words_of
from app.db.tables import BOOK, BOOK_WORD

if TYPE_CHECKING:
    from alembic.config import Config

FOLDER = Path(__file__).parent.parent / "migrations"
MIGRATE_LOCK = 4_207_190_211  # an advisory lock: a second `migrate` waits for the first
NEWER_ADVICE = (
    "start the newer version again, or restore the backup from before the upgrade "
    '(docs/upgrading.md, "Rolling back")'
)
NUMBER = 4  # digits
LOCK_SECONDS = 2  # an expansion that waits for a lock lets all later requests wait too
VERSION = Statement(text("SELECT version_num FROM alembic_version"))


class Phase(StrEnum):
    BOTH = "both"  # while no process runs
    EXPAND = "expand"  # while processes of the version before run
    CONTRACT = "contract"  # after they have ended


def config(connection: Connection | None = None) -> "Config":
    from alembic.config import Config  # imported here because Alembic loads slowly

    found = Config()
    found.set_main_option("script_location", str(FOLDER))
    found.attributes["connection"] = connection
    return found


@cache
def versions() -> list[str]:
    """From the names of the files: `0013_...` expands the tables, and `0013c_...` contracts them."""
    return sorted(path.name.partition("_")[0] for path in (FOLDER / "versions").glob("*.py"))


def newest_version() -> str:
    return versions()[-1]


def number_of(version: str) -> int:
    return int(version[:NUMBER])


def serves(version: str | None) -> bool:
    """Can a process of this program use these tables?"""
    if version is None:
        return False
    ahead = number_of(version) - number_of(newest_version())
    return ahead == 0 or (ahead == 1 and len(version) == NUMBER)


def stored_version() -> Steps[str | None]:
    rows = yield VERSION, {}
    return rows[0][0] if rows else None


async def version_of(db: Database) -> str | None:
    """None if the database has no tables."""
    try:
        return await db.read(stored_version())
    except DatabaseUnavailable:
        raise
    except Exception:  # there is no such table
        return None


async def migrate(url: str, phase: Phase = Phase.BOTH) -> str | None:
    """Returns the previous version, or None if there were no tables."""
    if url.startswith("sqlite:///"):
        make_sqlite_file(sqlite_path(url))
    else:
        await (await open_database(url, 1)).close()  # raises DatabaseError if it cannot be opened
    async with connected(url) as connection:
        return await connection.run_sync(upgrade, phase)


def upgrade(connection: Connection, phase: Phase = Phase.BOTH) -> str | None:
    from alembic import command
    from alembic.runtime.migration import MigrationContext

    if connection.dialect.name == "postgresql":  # on SQLite the transaction has locked the database
        connection.execute(text(f"SELECT pg_advisory_xact_lock({MIGRATE_LOCK})"))
    before = MigrationContext.configure(connection).get_current_revision()
    reject_newer(before)
    reject_too_old(before)
    reject_phase(before, phase)
    if phase is Phase.EXPAND and connection.dialect.name == "postgresql":
        connection.execute(text(f"SET LOCAL lock_timeout = '{LOCK_SECONDS}s'"))
    target = target_of(phase)
    if before is None or before < target:
        command.upgrade(config(connection), target)
    renew_words(connection)
    return before


def target_of(phase: Phase) -> str:
    return newest_version()[:NUMBER] if phase is Phase.EXPAND else newest_version()


def reject_phase(before: str | None, phase: Phase) -> None:
    own = number_of(newest_version())
    behind = own - number_of(before) if before else 0
    if phase is Phase.EXPAND and behind > 1:
        raise DatabaseError(
            f"the tables are of version {before}, whose processes do not serve version {own:04}: first "
            "upgrade to the version between, or stop all processes and run `care-gateway migrate`"
        )
    if phase is Phase.CONTRACT and (before is None or behind):
        raise DatabaseError(
            f"the tables are not those of version {own:04} yet; run `care-gateway migrate --expand` first"
        )


def renew_words(connection: Connection) -> None:
    """Stores the words of the books whose words an earlier version has found in another way."""
    stored: dict[int, set[str]] = defaultdict(set)
    for word, book in connection.execute(select(BOOK_WORD.c.word, BOOK_WORD.c.book_id)):
        stored[book].add(word)
    for book, name in connection.execute(select(BOOK.c.id, BOOK.c.name)).all():
        words = set(words_of(name))
        if words != stored[book]:
            connection.execute(delete(BOOK_WORD).where(BOOK_WORD.c.book_id == book))
            if words:
                rows = [{"word": word, "book_id": book} for word in sorted(words)]
                connection.execute(insert(BOOK_WORD), rows)


def reject_newer(version: str | None, name: str = "the database", advice: str = f": {NEWER_ADVICE}") -> None:
    """Tables are never migrated back, because this version does not know the newer schema."""
    if is_newer(version):
        raise DatabaseError(
            f"{name} has the newer schema version {version}; this program supports up to "
            f"{newest_version()}{advice}"
        )


def is_newer(version: str | None) -> bool:
    return version is not None and number_of(version) > number_of(newest_version())


def reject_too_old(version: str | None, name: str = "the database") -> None:
    if version is not None and version < versions()[0]:
        raise DatabaseError(
            f"{name} has the schema version {version}, from before 1.0.0-rc1, which this program cannot "
            "migrate: export each client with the version that made it (`care-gateway export`; "
            'docs/upgrading.md, "Version numbers")'
        )


def make_sqlite_file(path: Path) -> None:
    """Write-ahead logging is a property of the file: readers and the writer do not wait for each other."""
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        path.touch(mode=0o600)
        with closing(sqlite3.connect(path)) as connection:
            connection.execute("PRAGMA journal_mode = WAL")
        path.chmod(0o600)
    except (OSError, sqlite3.Error) as error:
        raise DatabaseError(f"the database at {path} cannot be created: {error}") from None


# --- SQLAlchemy engines, for migrations and copies ------------------------------------------------


def make_engine(url: str) -> AsyncEngine:
    if not url.startswith("sqlite:///"):
        # asyncpg parses the address, as in the driver: SQLAlchemy supports other parameters.
        return create_async_engine("postgresql+asyncpg://", async_creator=lambda: connect_postgres(url))
    engine = create_async_engine(URL.create("sqlite+aiosqlite", database=str(sqlite_path(url))))

    @event.listens_for(engine.sync_engine, "connect")
    def prepare(connection: Any, _: Any) -> None:
        connection.isolation_level = None  # transactions begin explicitly below
        prepare_sqlite(connection)

    @event.listens_for(engine.sync_engine, "begin")
    def begin(connection: Any) -> None:
        connection.exec_driver_sql("BEGIN IMMEDIATE")

    return engine


async def connect_postgres(url: str) -> Any:
    from app.db.drivers.connections import Primary  # imports an optional dependency

    return await Primary(url).connect()


@asynccontextmanager
async def connected(url: str) -> AsyncIterator[AsyncConnection]:
    """One transaction: committed at the end of the block, rolled back when the block raises."""
    engine = make_engine(url)
    try:
        async with engine.begin() as connection:
            yield connection
    finally:
        await engine.dispose()
