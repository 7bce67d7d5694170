"""Promise: `copy` rejects what it cannot copy completely, in one sentence, and changes nothing."""

import asyncio
import re
import sqlite3
import uuid
from contextlib import closing
from pathlib import Path

import pytest
from click.testing import Result

from app.db.admin.migrate import make_sqlite_file
from app.db.drivers.interface import location_of, sqlite_path
from tests.cli.conftest import assert_rejected
from tests.cli.copies import EVERY_TABLE, copy
from tests.db import raw
from tests.db.overlapping import uncommitted, until_blocked
from tests.db.small_steps import adding
from tests.every_table import sqlite_rows
from tests.postgres import create_database, drop_database


def is_empty(target: str) -> bool:
    return all(sqlite_rows(target, table) == [] for table in EVERY_TABLE)


def test_a_second_copy_is_rejected(source: str, target: str) -> None:
    copy(source, target)
    before = {table: sqlite_rows(target, table) for table in EVERY_TABLE}

    result = copy(source, target)

    found = re.match("care-gateway: nothing was copied: the target has rows in (.+); use ", result.stderr)
    assert (result.exit_code, found is not None) == (2, True)
    assert sorted(found[1].split(", ")) == [each for each in EVERY_TABLE if not each.startswith("legacy_")]
    assert {table: sqlite_rows(target, table) for table in EVERY_TABLE} == before


def test_a_single_row_in_the_target_rejects_the_copy(source: str, target: str) -> None:
    raw.run(
        target,
        "INSERT INTO legacy_hour VALUES ('2026-11-20T09', 1)",
        "INSERT INTO module (name) VALUES ('Rest')",
    )

    result = copy(source, target)

    assert_rejected(
        result,
        "nothing was copied: the target has rows in module; use a database without rows, or with only the "
        "rows that a started service writes (legacy_usage, legacy_hour)",
    )
    assert sqlite_rows(target, "session") == []


def test_a_row_that_another_process_is_adding_rejects_the_copy(source: str, target: str) -> None:
    """The copy waits for its transaction."""

    async def copied() -> Result:
        async with uncommitted(target, adding("Rest")):
            copying = asyncio.create_task(asyncio.to_thread(copy, source, target))
            assert await until_blocked(target, copying)
        return await copying

    result = asyncio.run(copied())

    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr.startswith("care-gateway: nothing was copied: the target has rows in module; ")


def test_tables_of_another_application_reject_the_copy(source: str, postgres: str) -> None:
    name = f"foreign_{uuid.uuid4().hex}"
    target = create_database(postgres, name)
    try:
        raw.run(target, "CREATE TABLE invoice (id int)")

        result = copy(source, target)

        assert_rejected(result, f"{location_of(target)}: the database has tables of another application")
        assert raw.run(target, "SELECT count(*) FROM pg_tables WHERE schemaname = 'public'") == [(1,)]
    finally:
        drop_database(postgres, name)


@pytest.mark.parametrize("side", ["source", "target"])
@pytest.mark.parametrize(
    ("version", "message"),
    [
        ("0001", "the tables are of version 0001, and this version needs "),
        ("9999", "the database has the newer schema version 9999; this program supports up to "),
    ],
)
def test_tables_of_another_version_reject_the_copy(
    source: str, target: str, side: str, version: str, message: str
) -> None:
    url = {"source": source, "target": target}[side]
    raw.run(url, f"UPDATE alembic_version SET version_num = '{version}'")

    result = copy(source, target)

    assert (result.exit_code, result.stdout, result.stderr.count("\n")) == (2, "", 1)
    assert result.stderr.startswith(f"care-gateway: {location_of(url)}: {message}")
    assert result.stderr.endswith(f" (with CARE_DATABASE_URL={source})\n") == (side == "source")
    assert is_empty(target)


def test_a_source_without_tables_is_rejected(target: str, tmp_path: Path) -> None:
    make_sqlite_file(tmp_path / "new.db")

    result = copy(f"sqlite:///{tmp_path}/new.db", target)

    assert_rejected(result, f"{tmp_path}/new.db is not a database of this service")


def test_a_missing_source_is_rejected_and_not_created(
    target: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)

    result = copy("sqlite:///none.db", target)

    missing = f"there is no database at {tmp_path}/none.db"
    assert_rejected(result, f"{missing}; `--from` must name an existing file")
    assert list(tmp_path.iterdir()) == []


def test_a_source_that_is_no_database_is_rejected(target: str, tmp_path: Path) -> None:
    (tmp_path / "letter.db").write_text("Dear operator, " * 100)

    result = copy(f"sqlite:///{tmp_path}/letter.db", target)

    message = f"the database at {tmp_path}/letter.db cannot be opened: file is not a database"
    assert_rejected(result, message)


def test_a_source_in_use_is_rejected(source: str, target: str) -> None:
    with closing(sqlite3.connect(sqlite_path(source))) as connection:
        connection.execute("SELECT count(*) FROM client").fetchone()

        result = copy(source, target)

    advice = "stop `serve`, `worker` and other commands first"
    assert_rejected(result, f"the database at {sqlite_path(source)} is in use; {advice}")


@pytest.mark.parametrize("scheme", ["postgresql", "postgres"])
def test_a_target_that_does_not_respond_is_rejected(source: str, scheme: str) -> None:
    result = copy(source, f"{scheme}://care:secret@127.0.0.1:1/care")

    assert (result.exit_code, result.stdout, result.stderr.count("\n")) == (2, "", 1)
    assert result.stderr.startswith(
        "care-gateway: 127.0.0.1:1/care: the PostgreSQL database cannot be opened: "
    )
    assert "secret" not in result.stderr


@pytest.mark.parametrize("password", ["pa/ss", "pa?ss", "pa#ss", "pa[ss", "p@a/ss", "12/34"])
def test_no_part_of_a_password_is_printed(source: str, password: str) -> None:
    result = copy(source, f"postgresql://care:{password}@127.0.0.1:1/care")

    assert_rejected(
        result,
        "PostgreSQL: the address of the PostgreSQL database cannot be read; write special characters in the "
        "user name and password as %XX",
    )


def test_a_difference_is_found_and_nothing_is_kept(source: str, target: str) -> None:
    """For example, a trigger of the target that changes a text."""
    raw.run(
        target,
        "CREATE FUNCTION shout() RETURNS trigger LANGUAGE plpgsql AS"
        " $$ BEGIN NEW.title = upper(NEW.title); RETURN NEW; END $$",
        "CREATE TRIGGER shout BEFORE INSERT ON session FOR EACH ROW WHEN (NEW.id = 1)"
        " EXECUTE FUNCTION shout()",
    )

    result = copy(source, target)

    [(count,)] = raw.run(source, "SELECT count(*) FROM session")
    rows = f"{count} rows with the hash [0-9a-f]{{64}}"
    assert (result.exit_code, result.stdout) == (2, "")
    assert re.fullmatch(
        f"care-gateway: nothing was copied: session has {rows}, and the copy has {rows}\n", result.stderr
    )
    assert is_empty(target)


def test_a_text_that_postgresql_cannot_store_is_rejected(source: str, target: str) -> None:
    raw.run(source, "UPDATE session SET title = 'before' || char(0) || 'after' WHERE id = 1")

    result = copy(source, target)

    assert_rejected(result, 'database error: invalid byte sequence for encoding "UTF8": 0x00')
    assert is_empty(target)


@pytest.mark.parametrize(
    ("damage", "reason"),
    [
        (f"assignment SET score = {2**40}", "value out of int32 range"),
        ("session SET start_date = 'yesterday'", "Invalid isoformat string: 'yesterday'"),
    ],
)
def test_a_value_that_postgresql_cannot_store_is_rejected(
    source: str, target: str, damage: str, reason: str
) -> None:
    raw.run(source, f"UPDATE {damage} WHERE id = 1")

    result = copy(source, target)

    assert_rejected(result, f"nothing was copied: PostgreSQL cannot store a value: {reason}")
    assert is_empty(target)
