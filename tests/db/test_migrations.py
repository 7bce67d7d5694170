"""A migrated database equals the models, also one of version 0010. Older tables are not migrated."""

import asyncio
import re
import sqlite3
from collections.abc import Callable
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from alembic import command
from alembic.autogenerate import compare_metadata
from alembic.runtime.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import JSON, Column, Connection, Inspector, create_engine, inspect
from sqlmodel import SQLModel

from app.db.admin.migrate import (
    config,
    connected,
    make_sqlite_file,
    migrate,
    newest_version,
    stored_version,
    upgrade,
)
from app.db.admin.tombstones import Mark, reading_tombstones
from app.db.drivers.interface import DatabaseError, sqlite_path
from app.db.tables import TombstoneState, table_of
from tests.callers import load, run_read
from tests.db import raw
from tests.db.overlapping import until_blocked
from tests.factories import NOW, a_book, a_module, a_world

# Indexes of expressions: SQLAlchemy does not reflect them on SQLite, and PostgreSQL rewrites the expressions.
BY_EXPRESSION = {"ix_assignment_caregiver_due"}
pytestmark = pytest.mark.filterwarnings(
    "ignore:Skipped unsupported reflection of expression-based index",
    "ignore:autogenerate skipping metadata-specified expression-based index",
)

TABLES = {table.name for table in SQLModel.metadata.tables.values()}


def with_connection(url: str, use: Callable[[Connection], Any]) -> Any:
    async def used() -> Any:
        async with connected(url) as connection:
            return await connection.run_sync(use)

    return asyncio.run(used())


def compared(connection: Connection) -> list[Any]:
    """The differences between the database and the models, without the indexes of expressions."""

    def is_compared(_: Any, name: str | None, *__: Any) -> bool:
        return name not in BY_EXPRESSION

    def compare_default(_: Any, __: Any, column: Column[Any], *___: Any) -> bool | None:
        return False if isinstance(column.type, JSON) else None  # PostgreSQL has no equality of JSON

    options = {"compare_type": True, "compare_server_default": compare_default, "include_object": is_compared}
    context = MigrationContext.configure(connection, opts=options)
    return compare_metadata(context, SQLModel.metadata)


def index_definitions(connection: Connection) -> dict[str, str]:
    """The SQL text of every index."""
    of_database = {
        "sqlite": "SELECT name, sql FROM sqlite_master WHERE type = 'index' AND sql IS NOT NULL",
        "postgresql": "SELECT indexname, indexdef FROM pg_indexes WHERE schemaname = 'public'",
    }
    rows = connection.exec_driver_sql(of_database[connection.dialect.name]).all()
    return {name: " ".join(definition.split()) for name, definition in rows}


def drop_everything(connection: Connection) -> None:
    if connection.dialect.name == "postgresql":
        connection.exec_driver_sql("DROP SCHEMA public CASCADE")
        connection.exec_driver_sql("CREATE SCHEMA public")
    else:
        SQLModel.metadata.drop_all(connection)
        connection.exec_driver_sql("DROP TABLE IF EXISTS alembic_version")


def start_at(url: str, version: str | None) -> None:
    """Makes empty tables of this version, or none."""

    def started(connection: Connection) -> None:
        drop_everything(connection)
        if version is not None:
            command.upgrade(config(connection), version)

    with_connection(url, started)


def outline(connection: Connection) -> dict[str, Any]:
    """Columns, keys, constraints and indexes of every table, without the order of the columns."""
    found: Inspector = inspect(connection)
    columns, keys = found.get_multi_columns(), found.get_multi_pk_constraint()
    unique, foreign = found.get_multi_unique_constraints(), found.get_multi_foreign_keys()
    indexes = found.get_multi_indexes()
    return {
        table[1]: {
            "columns": sorted(
                (one["name"], str(one["type"]), one["nullable"], str(one["default"]))
                for one in columns[table]
            ),
            "key": keys[table]["constrained_columns"],
            "unique": sorted(one["column_names"] for one in unique[table]),
            "foreign": sorted(
                (one["constrained_columns"], one["referred_table"], one["referred_columns"])
                for one in foreign[table]
            ),
            "indexes": sorted((one["name"], one["column_names"]) for one in indexes[table]),
        }
        for table in columns
        if table[1] != "alembic_version"
    }


def test_a_migrated_database_equals_the_models(database_url: str) -> None:
    assert with_connection(database_url, compared) == []


def test_tables_made_by_the_models_equal_the_migrated_tables(database_url: str) -> None:
    """Also compares nullability and keys, which Alembic does not."""
    migrated = with_connection(database_url, outline)

    def made_by_models(connection: Connection) -> dict[str, Any]:
        drop_everything(connection)
        SQLModel.metadata.create_all(connection)
        return outline(connection)

    assert set(migrated) == TABLES
    assert migrated == with_connection(database_url, made_by_models)


def test_every_index_equals_its_definition_in_the_models(database_url: str) -> None:
    migrated = with_connection(database_url, index_definitions)

    def made_by_models(connection: Connection) -> dict[str, str]:
        drop_everything(connection)
        SQLModel.metadata.create_all(connection)
        return index_definitions(connection)

    of_models = with_connection(database_url, made_by_models)
    migrated.pop("alembic_version_pkc", None)
    of_models.pop("alembic_version_pkc", None)
    assert set(migrated) > BY_EXPRESSION
    assert migrated == of_models


@pytest.mark.parametrize("kind", ["sqlite"], indirect=True)
def test_every_sqlite_table_has_the_options_of_its_model(database_url: str) -> None:
    """SQLAlchemy does not reflect AUTOINCREMENT and WITHOUT ROWID."""
    engine = create_engine("sqlite://")
    with engine.connect() as connection:
        SQLModel.metadata.create_all(connection)
        by_models = set(connection.exec_driver_sql("SELECT name, sql FROM sqlite_master").all())
    engine.dispose()

    migrated = set(raw.run(database_url, "SELECT name, sql FROM sqlite_master"))

    def traits(rows: set[Any]) -> dict[str, tuple[bool, bool]]:
        return {
            name: ("AUTOINCREMENT" in text, "WITHOUT ROWID" in text) for name, text in rows if name in TABLES
        }

    assert traits(migrated) == traits(by_models)
    numbered_by_count = {name for name, found in traits(migrated).items() if found == (False, False)}
    assert numbered_by_count == {"audit_record", "audit_seal"}  # whose newest rows are never deleted


@pytest.mark.parametrize("kind", ["postgresql"], indirect=True)
def test_search_words_have_the_c_collation(database_url: str) -> None:
    found = raw.run(
        database_url,
        "SELECT collation_name FROM information_schema.columns"
        " WHERE table_name = 'book_word' AND column_name = 'word'",
    )

    assert found == [("C",)]


@pytest.mark.parametrize("version", ["0010", "0011"])
def test_tables_of_an_earlier_version_become_the_same_tables(database_url: str, version: str) -> None:
    before = with_connection(database_url, lambda one: (outline(one), index_definitions(one)))

    start_at(database_url, version)
    between = with_connection(database_url, outline)

    assert "kept_answer" in between
    assert asyncio.run(migrate(database_url)) == version
    assert with_connection(database_url, lambda one: (outline(one), index_definitions(one))) == before


def test_stored_idempotency_keys_survive_the_migration(database_url: str) -> None:
    start_at(database_url, "0011")
    raw.run(
        database_url,
        "INSERT INTO kept_answer (role, viewer_id, contract, key, fingerprint, result, moment)"
        f" VALUES ('CLIENT', 1, 'GRAPHQL', 'key 1', 'f', '[1]', '{NOW.isoformat()}')",
    )

    asyncio.run(migrate(database_url))

    assert raw.run(database_url, "SELECT key, result FROM idempotency_key") == [("key 1", "[1]")]


def test_migrating_makes_tombstones_of_erased_clients_and_disabled_accounts(database_url: str) -> None:
    start_at(database_url, "0010")
    raw.run(
        database_url,
        "INSERT INTO caregiver (id, name, position, is_disabled)"
        " VALUES (1, 'Mara Lind', '', FALSE), (2, 'Tomás Ferreira', '', TRUE)",
        "INSERT INTO client (id, name, oppt_id, is_disabled, erase_date)"
        " VALUES (1, 'Jonas Berg', 'OPPT-1', FALSE, NULL), (3, 'Zoë Marchetti', 'OPPT-3', TRUE, NULL),"
        f" (2, 'erased', 'erased-2', TRUE, '{NOW.isoformat()}')",
    )

    asyncio.run(migrate(database_url))

    disabled = Mark(TombstoneState.DISABLED, datetime(1970, 1, 1, tzinfo=UTC))
    assert run_read(database_url, reading_tombstones()) == {
        ("CAREGIVER", 2): disabled,
        ("CLIENT", 2): Mark(TombstoneState.ERASED, NOW),
        ("CLIENT", 3): disabled,
    }


def test_migrating_returns_the_previous_version(database_url: str) -> None:
    start_at(database_url, "0010")

    assert [asyncio.run(migrate(database_url)) for _ in range(2)] == ["0010", newest_version()]


def test_migrating_again_changes_nothing(database_url: str) -> None:
    load(database_url, a_world())
    before = raw.row_counts(database_url), with_connection(database_url, outline)

    asyncio.run(migrate(database_url))

    assert (raw.row_counts(database_url), with_connection(database_url, outline)) == before


@pytest.mark.parametrize("start", [None, "0010"])
def test_a_second_migrate_waits_for_the_first_and_finds_nothing_to_do(
    database_url: str, kind: str, start: str | None
) -> None:
    start_at(database_url, start)

    async def both() -> list[str | None]:
        async with connected(database_url) as connection:
            first = await connection.run_sync(upgrade)
            second = asyncio.create_task(migrate(database_url))
            if kind == "postgresql":  # SQLite waits for its one lock
                assert await until_blocked(database_url, second)
            else:
                await asyncio.wait([second], timeout=0)
        return [first, await second]

    assert asyncio.run(both()) == [start, newest_version()]
    assert run_read(database_url, stored_version()) == newest_version()


PRAGMAS = "SELECT * FROM pragma_foreign_keys, pragma_synchronous, pragma_secure_delete"


def test_a_migration_locks_a_sqlite_database_from_its_beginning(sqlite_copy: str) -> None:
    """Otherwise two migrations would find the same version. It has the settings of every connection."""

    async def look() -> None:
        with closing(sqlite3.connect(sqlite_path(sqlite_copy), timeout=0)) as other:
            async with connected(sqlite_copy) as connection:
                assert (await connection.exec_driver_sql(PRAGMAS)).one() == (1, 2, 1)
                with pytest.raises(sqlite3.OperationalError, match="database is locked"):
                    other.execute("BEGIN IMMEDIATE")
            other.execute("BEGIN IMMEDIATE")

    asyncio.run(look())


def test_a_newer_database_is_not_migrated(database_url: str) -> None:
    raw.run(database_url, "UPDATE alembic_version SET version_num = '9999'")

    newer = (
        "the database has the newer schema version 9999; this program supports up to "
        f"{newest_version()}: start the newer version again, or restore the backup from before the upgrade "
        '(docs/upgrading.md, "Rolling back")'
    )
    with pytest.raises(DatabaseError, match=f"^{re.escape(newer)}$"):
        asyncio.run(migrate(database_url))

    assert raw.run(database_url, "SELECT version_num FROM alembic_version") == [("9999",)]


@pytest.mark.parametrize("version", ["0001", "0009"])
def test_tables_of_an_unreleased_version_are_not_migrated(database_url: str, version: str) -> None:
    raw.run(database_url, f"UPDATE alembic_version SET version_num = '{version}'")

    older = (
        f"the database has the schema version {version}, from before 1.0.0-rc1, which this program cannot "
        "migrate: export each client with the version that made it (`care-gateway export`; "
        'docs/upgrading.md, "Version numbers")'
    )
    with pytest.raises(DatabaseError, match=f"^{re.escape(older)}$"):
        asyncio.run(migrate(database_url))

    assert raw.run(database_url, "SELECT version_num FROM alembic_version") == [(version,)]


def test_a_migrated_database_has_the_newest_version(database_url: str) -> None:
    assert newest_version() == ScriptDirectory.from_config(config()).get_current_head()
    assert run_read(database_url, stored_version()) == newest_version()

    raw.run(database_url, "DELETE FROM alembic_version")
    assert run_read(database_url, stored_version()) is None


def test_a_new_sqlite_file_is_private_and_uses_a_write_ahead_log(tmp_path: Path) -> None:
    path = tmp_path / "new" / "folder" / "care.db"

    asyncio.run(migrate(f"sqlite:///{path}"))

    assert path.stat().st_mode & 0o777 == 0o600
    with closing(sqlite3.connect(path)) as connection:
        assert connection.execute("PRAGMA journal_mode").fetchone() == ("wal",)


def test_a_file_that_others_may_read_becomes_private(sqlite_copy: str) -> None:
    sqlite_path(sqlite_copy).chmod(0o644)

    asyncio.run(migrate(sqlite_copy))

    assert sqlite_path(sqlite_copy).stat().st_mode & 0o777 == 0o600


def test_a_new_folder_and_a_new_file_are_private_from_the_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "some/folder/care.db"
    modes = []
    connect = sqlite3.connect

    def connect_and_look(file: Path) -> sqlite3.Connection:
        connection = connect(file)
        modes.append(path.stat().st_mode & 0o777)
        return connection

    monkeypatch.setattr(sqlite3, "connect", connect_and_look)
    make_sqlite_file(path)

    assert modes == [0o600]
    assert path.parent.stat().st_mode & 0o777 == 0o700


def test_the_table_lists_of_the_tests_are_complete() -> None:
    assert (
        {*raw.TABLES, *raw.AUDIT_TABLES, *raw.USAGE_TABLES}
        == TABLES
        == {table_of(model).name for model in SQLModel.__subclasses__()}
    )


def test_a_database_url_may_have_parameters_of_postgresql(database_url: str, kind: str) -> None:
    url = database_url if kind == "sqlite" else f"{database_url}?application_name=care&sslmode=disable"

    asyncio.run(migrate(url))

    assert run_read(url, stored_version()) == newest_version()


def test_migrating_stores_the_words_that_a_search_finds(database_url: str) -> None:
    """An earlier version may have found other words in the names."""
    load(database_url, [a_module(1), a_book(1, name="Mood"), a_book(2, name="नींद की"), a_book(3, name="…")])
    words = "SELECT book_id, word FROM book_word"
    before = sorted(raw.run(database_url, words))
    raw.run(database_url, "UPDATE book_word SET word = 'क' WHERE word = 'की'")
    raw.run(database_url, "INSERT INTO book_word (word, book_id) VALUES ('old', 3), ('mood', 3)")

    asyncio.run(migrate(database_url))

    assert sorted(raw.run(database_url, words)) == before == [(1, "mood"), (2, "की"), (2, "नींद")]
