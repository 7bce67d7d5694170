"""Promise: `backup` leaves a whole, checked copy of the embedded database that its owner alone may read, or
nothing and a sentence; it never holds half of what somebody else commits meanwhile."""

import fcntl
import os
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from app.db.admin.backup import copy_sqlite
from app.db.drivers.interface import sqlite_path
from app.settings import Settings
from tests.callers import load
from tests.cli.conftest import Command, assert_sentence
from tests.db import raw
from tests.factories import a_world

embedded = pytest.mark.parametrize("kind", ["sqlite"], indirect=True)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """In a folder where nothing else is."""
    (tmp_path / "backups").mkdir()
    return tmp_path / "backups" / "care.backup"


def beside(file: Path) -> list[str]:
    return sorted(each.name for each in file.parent.iterdir())


@embedded
def test_a_backup_is_a_copy_that_its_owner_alone_may_read(
    command: Command, settings: Settings, file: Path
) -> None:
    load(settings.database, a_world())

    said = command("backup", str(file))

    assert (said.exit_code, said.stderr) == (0, "")
    assert said.stdout == f"{file}: {file.stat().st_size:,} bytes, integrity checked\n"
    assert raw.row_counts(f"sqlite:///{file}") == raw.row_counts(settings.database)
    assert (beside(file), file.stat().st_mode & 0o777) == ([file.name], 0o600)


@embedded
def test_a_backup_is_on_the_disk_before_it_has_its_name_and_the_name_before_the_command_ends(
    command: Command, settings: Settings, file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    load(settings.database, a_world())
    fsync, replace = os.fsync, os.replace
    seen: list[tuple[str, int, int]] = []  # what was done, to which file or folder, of which size it was then

    def seen_fsync(opened: int) -> None:
        found = os.fstat(opened)
        seen.append(("sync", found.st_ino, found.st_size))
        fsync(opened)

    def seen_replace(source: Path, target: Path) -> None:
        found = os.stat(source)
        seen.append(("rename", found.st_ino, found.st_size))
        replace(source, target)

    monkeypatch.setattr(os, "fsync", seen_fsync)
    monkeypatch.setattr(os, "replace", seen_replace)
    said = command("backup", str(file))
    folder, copy = file.parent.stat(), file.stat()

    assert said.exit_code == 0
    assert [one[:2] for one in seen] == [
        ("sync", copy.st_ino),
        ("rename", copy.st_ino),
        ("sync", folder.st_ino),
    ]
    assert seen[0][2] == copy.st_size  # the whole of it


@embedded
def test_a_copy_is_of_the_moment_it_was_begun_whatever_is_committed_meanwhile(
    settings: Settings, file: Path
) -> None:
    path = sqlite_path(settings.database)
    raw.run(settings.database, "CREATE TABLE page (bytes)", f"INSERT INTO page VALUES (zeroblob({8 << 20}))")
    file.touch()
    looks = []

    def somebody_writes(done: int, total: int) -> None:
        looks.append(done)
        if len(looks) < 4:  # for ever, a copying that begins anew each time would not end
            raw.run(settings.database, "INSERT INTO page VALUES (1), (2)")

    copy_sqlite(path, file, somebody_writes)

    assert raw.run(f"sqlite:///{file}", "SELECT count(*) FROM page") == [(1,)]
    assert raw.run(settings.database, "SELECT count(*) FROM page") == [(7,)]


@embedded
def test_a_database_with_the_tables_of_another_version_is_backed_up_too(
    command: Command, settings: Settings, file: Path
) -> None:
    raw.run(settings.database, "UPDATE alembic_version SET version_num = '0001'")

    assert command("backup", str(file)).exit_code == 0
    assert raw.run(f"sqlite:///{file}", "SELECT * FROM alembic_version") == [("0001",)]


@embedded
def test_a_file_that_is_there_is_replaced_only_where_that_is_said(command: Command, file: Path) -> None:
    file.write_text("an older one")
    file.chmod(0o644)

    refused = command("backup", str(file))
    before = file.read_text()
    said = command("backup", "--force", str(file))

    assert_sentence(refused, f"{file} already exists; --force replaces it")
    assert (before, said.exit_code) == ("an older one", 0)
    assert raw.run(f"sqlite:///{file}", "SELECT count(*) FROM client") == [(0,)]
    assert (beside(file), file.stat().st_mode & 0o777) == ([file.name], 0o600)


@embedded
def test_the_database_itself_is_not_replaced(command: Command, settings: Settings) -> None:
    path = sqlite_path(settings.database)

    assert_sentence(command("backup", "--force", str(path)), f"{path} is the database itself")


@embedded
def test_a_log_that_would_be_read_into_the_copy_is_refused(command: Command, file: Path) -> None:
    file.with_name(f"{file.name}-wal").write_bytes(b"of another database")

    refused = command("backup", "--force", str(file))

    assert_sentence(refused, f"{file}-wal is the write-ahead log of a database; choose another name")


@embedded
def test_what_a_dead_command_left_is_written_over(command: Command, file: Path) -> None:
    left = file.with_name(f"{file.name}.part")
    left.write_bytes(b"half a backup" * 100_000)
    left.chmod(0o644)

    said = command("backup", str(file))

    assert (said.exit_code, beside(file), file.stat().st_mode & 0o777) == (0, [file.name], 0o600)


@embedded
def test_a_link_at_the_unfinished_name_is_not_gone_through(
    command: Command, file: Path, tmp_path: Path
) -> None:
    target = tmp_path / "letter.txt"
    target.write_text("Dear all")
    file.with_name(f"{file.name}.part").symlink_to(target)

    refused = command("backup", str(file))

    sentence = f"the backup at {file} cannot be written: Too many levels of symbolic links"
    assert_sentence(refused, sentence)
    assert target.read_text() == "Dear all"


@embedded
def test_two_commands_do_not_write_to_one_file(command: Command, file: Path) -> None:
    with file.with_name(f"{file.name}.part").open("w") as part:
        fcntl.flock(part, fcntl.LOCK_EX)
        refused = command("backup", str(file))

    assert_sentence(refused, f"another backup is being written to {file}")
    assert beside(file) == [f"{file.name}.part"]


@embedded
def test_a_folder_that_is_not_there_is_told(command: Command, tmp_path: Path) -> None:
    file = tmp_path / "none" / "care.backup"

    sentence = f"the backup at {file} cannot be written: No such file or directory"
    assert_sentence(command("backup", str(file)), sentence)


def test_a_database_that_is_not_there_is_told(command: Command, tmp_path: Path, file: Path) -> None:
    refused = command("backup", str(file), database_url=f"sqlite:///{tmp_path}/none.db")

    assert_sentence(refused, f"there is no database at {tmp_path}/none.db; run `care-gateway migrate` first")
    assert beside(file) == []


DAMAGE = {
    "rows refer to rows that are missing": ("PRAGMA foreign_keys = OFF", "DELETE FROM client WHERE id = 1"),
    "row 1 missing from index ix_session_client": (
        "PRAGMA writable_schema = ON",
        "CREATE TABLE kept AS SELECT sql FROM sqlite_schema WHERE name = 'ix_session_client'",
        "UPDATE sqlite_schema SET sql = 'CREATE INDEX ix_session_client ON session (client_id, id) "
        "WHERE id > 99' WHERE name = 'ix_session_client'",
        "PRAGMA schema_version = 9999",
        "REINDEX ix_session_client",
        "UPDATE sqlite_schema SET sql = (SELECT sql FROM kept) WHERE name = 'ix_session_client'",
    ),
}


@embedded
@pytest.mark.parametrize("reason", DAMAGE)
def test_a_damaged_database_is_told_and_replaces_no_backup(
    command: Command, settings: Settings, file: Path, reason: str
) -> None:
    load(settings.database, a_world())
    with closing(sqlite3.connect(sqlite_path(settings.database), isolation_level=None)) as connection:
        for statement in DAMAGE[reason]:
            connection.execute(statement)
    file.write_text("an older one")

    refused = command("backup", "--force", str(file))

    assert_sentence(refused, f"the database is damaged and was not backed up: {reason}")
    assert (beside(file), file.read_text()) == ([file.name], "an older one")


@pytest.mark.parametrize("kind", ["postgresql"], indirect=True)
def test_a_server_is_backed_up_by_its_own_tools(command: Command, settings: Settings, file: Path) -> None:
    sentence = (
        "back up PostgreSQL with its own tools: "
        'pg_dump --format=custom --file=FILE "$CARE_DATABASE_URL" (docs/operations.md)'
    )

    assert_sentence(command("backup", str(file)), sentence)
    assert beside(file) == []
