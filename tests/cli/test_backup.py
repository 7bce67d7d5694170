"""Promise: `backup` creates a complete, checked and private copy of the SQLite database, or no file. The copy
contains no part of a transaction that commits meanwhile."""

import errno
import fcntl
import io
import os
import re
import sqlite3
import stat
from contextlib import ExitStack, closing
from itertools import pairwise
from pathlib import Path

import pytest

from app.cli.backup import copy_with_progress, unfinished
from app.db.admin.backup import copy_sqlite, marker_of
from app.db.drivers.interface import DatabaseError, sqlite_path
from app.settings import Settings
from tests.callers import load
from tests.cli.conftest import Command, assert_rejected
from tests.db import raw
from tests.factories import a_world

on_sqlite = pytest.mark.parametrize("kind", ["sqlite"], indirect=True)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """A path in an empty folder."""
    (tmp_path / "backups").mkdir()
    return tmp_path / "backups" / "care.backup"


def files_beside(file: Path) -> list[str]:
    return sorted(each.name for each in file.parent.iterdir())


@on_sqlite
def test_a_backup_is_a_complete_and_private_copy(command: Command, settings: Settings, file: Path) -> None:
    load(settings.database, a_world())

    result = command("backup", str(file))

    assert (result.exit_code, result.stderr) == (0, "")
    assert result.stdout == f"{file}: {file.stat().st_size:,} bytes, integrity checked\n"
    assert raw.row_counts(f"sqlite:///{file}") == raw.row_counts(settings.database)
    assert (files_beside(file), file.stat().st_mode & 0o777) == ([file.name], 0o600)
    marker = marker_of(sqlite_path(settings.database))  # for the metric
    assert (marker.stat().st_mode & 0o777, marker.stat().st_size) == (0o600, 0)


@on_sqlite
def test_a_backup_after_one_of_another_user_is_the_newest(
    command: Command, settings: Settings, file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    marker = marker_of(sqlite_path(settings.database))
    marker.touch()
    os.utime(marker, (0, 0))
    foreign, touch = marker.stat().st_ino, Path.touch

    def touch_own(path: Path, mode: int) -> None:
        if path.exists() and path.stat().st_ino == foreign:  # the user of the tests may be root
            raise PermissionError(errno.EACCES, "Permission denied")
        touch(path, mode)

    monkeypatch.setattr(Path, "touch", touch_own)
    with marker.open():  # so that its inode is not used again
        result = command("backup", str(file))

    assert (result.exit_code, marker.stat().st_mode & 0o777) == (0, 0o600)
    assert marker.stat().st_mtime > 0


@on_sqlite
def test_a_user_who_may_not_write_beside_the_database_makes_a_backup(
    command: Command, settings: Settings, file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The metric then shows the backup before."""
    marker, touch = marker_of(sqlite_path(settings.database)), Path.touch

    def touch_elsewhere(path: Path, mode: int = 0o666) -> None:
        if path == marker:
            raise PermissionError(errno.EACCES, "Permission denied")
        touch(path, mode)

    monkeypatch.setattr(Path, "touch", touch_elsewhere)

    assert (command("backup", str(file)).exit_code, file.exists(), marker.exists()) == (0, True, False)


@on_sqlite
def test_the_file_and_then_its_name_are_synced_to_disk(
    command: Command, settings: Settings, file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    load(settings.database, a_world())
    fsync, replace = os.fsync, os.replace
    calls: list[tuple[str, int, int]] = []  # with the inode and the size at that time

    def recorded_fsync(opened: int) -> None:
        found = os.fstat(opened)
        calls.append(("sync", found.st_ino, found.st_size))
        fsync(opened)

    def recorded_replace(source: Path, target: Path) -> None:
        found = os.stat(source)
        calls.append(("rename", found.st_ino, found.st_size))
        replace(source, target)

    monkeypatch.setattr(os, "fsync", recorded_fsync)
    monkeypatch.setattr(os, "replace", recorded_replace)
    result = command("backup", str(file))
    folder, copy = file.parent.stat(), file.stat()

    assert result.exit_code == 0
    assert [one[:2] for one in calls] == [
        ("sync", copy.st_ino),
        ("rename", copy.st_ino),
        ("sync", folder.st_ino),
    ]
    assert calls[0][2] == copy.st_size  # the complete copy


@on_sqlite
@pytest.mark.parametrize("fails", ["fsync", "replace"])
def test_a_copy_that_is_not_kept_is_not_noted_as_the_newest_backup(
    command: Command, settings: Settings, file: Path, monkeypatch: pytest.MonkeyPatch, fails: str
) -> None:
    def fail(*_: object) -> None:
        raise OSError(errno.EIO, "Input/output error")

    monkeypatch.setattr(os, fails, fail)
    result = command("backup", str(file))
    monkeypatch.undo()

    assert (result.exit_code, files_beside(file)) == (2, [])
    assert not marker_of(sqlite_path(settings.database)).exists()


@on_sqlite
def test_a_copy_contains_nothing_that_is_committed_after_its_start(settings: Settings, file: Path) -> None:
    path = sqlite_path(settings.database)
    raw.run(settings.database, "CREATE TABLE page (bytes)", f"INSERT INTO page VALUES (zeroblob({8 << 20}))")
    file.touch()
    progress = []

    def write_meanwhile(done: int, total: int) -> None:
        progress.append((done, total))
        if len(progress) < 4:  # a copy that restarts after each write would never end
            raw.run(settings.database, "INSERT INTO page VALUES (1), (2)")

    copy_sqlite(path, file, write_meanwhile)

    assert raw.run(f"sqlite:///{file}", "SELECT count(*) FROM page") == [(1,)]
    assert raw.run(settings.database, "SELECT count(*) FROM page") == [(7,)]
    [(pages, _)] = raw.run(f"sqlite:///{file}", "SELECT page_count, 0 FROM pragma_page_count")
    assert progress == [(min(done, pages), pages) for done in range(1000, pages + 1000, 1000)]


@on_sqlite
def test_a_database_of_another_version_is_backed_up(command: Command, settings: Settings, file: Path) -> None:
    raw.run(settings.database, "UPDATE alembic_version SET version_num = '0001'")

    assert command("backup", str(file)).exit_code == 0
    assert raw.run(f"sqlite:///{file}", "SELECT * FROM alembic_version") == [("0001",)]


@on_sqlite
@pytest.mark.parametrize("arguments", [("backup", "--force"), ("tombstones", "save")])
def test_a_pipe_or_device_is_not_replaced(command: Command, file: Path, arguments: tuple[str, ...]) -> None:
    os.mkfifo(file)

    assert_rejected(command(*arguments, str(file)), f"{file} is not a regular file")
    assert file.is_fifo()


@on_sqlite
def test_an_existing_file_is_replaced_only_with_force(command: Command, file: Path) -> None:
    file.write_text("an older one")
    file.chmod(0o644)

    rejected = command("backup", str(file))
    before = file.read_text()
    result = command("backup", "--force", str(file))

    assert_rejected(rejected, f"{file} already exists; --force replaces it")
    assert (before, result.exit_code) == ("an older one", 0)
    assert raw.run(f"sqlite:///{file}", "SELECT count(*) FROM client") == [(0,)]
    assert (files_beside(file), file.stat().st_mode & 0o777) == ([file.name], 0o600)


@on_sqlite
def test_the_database_itself_is_not_replaced(command: Command, settings: Settings, tmp_path: Path) -> None:
    """Also by another name."""
    path, link = sqlite_path(settings.database), tmp_path / "link"
    link.symlink_to(path.parent)

    for file in (path, link / path.name):
        assert_rejected(command("backup", "--force", str(file)), f"{file} is the database itself")


@on_sqlite
def test_a_write_ahead_log_beside_the_target_is_rejected(command: Command, file: Path) -> None:
    file.with_name(f"{file.name}-wal").write_bytes(b"of another database")

    rejected = command("backup", "--force", str(file))

    assert_rejected(rejected, f"{file}-wal is the write-ahead log of a database; choose another name")


@on_sqlite
def test_the_temporary_file_of_a_killed_command_is_overwritten(command: Command, file: Path) -> None:
    left = file.with_name(f"{file.name}.part")
    left.write_bytes(b"half a backup" * 100_000)
    left.chmod(0o644)

    result = command("backup", str(file))

    assert (result.exit_code, files_beside(file), file.stat().st_mode & 0o777) == (0, [file.name], 0o600)


@on_sqlite
def test_a_symbolic_link_at_the_temporary_name_is_not_followed(
    command: Command, file: Path, tmp_path: Path
) -> None:
    target = tmp_path / "letter.txt"
    target.write_text("Dear all")
    file.with_name(f"{file.name}.part").symlink_to(target)

    rejected = command("backup", str(file))

    sentence = f"the backup at {file} cannot be written: Too many levels of symbolic links"
    assert_rejected(rejected, sentence)
    assert target.read_text() == "Dear all"


@on_sqlite
def test_two_commands_do_not_write_to_one_file(command: Command, file: Path) -> None:
    unfinished = file.with_name(f"{file.name}.part")
    unfinished.write_text("written so far")
    with unfinished.open("a") as part:
        fcntl.flock(part, fcntl.LOCK_EX)
        rejected = command("backup", str(file))

    assert_rejected(rejected, f"another command is writing to {file}")
    assert unfinished.read_text() == "written so far"
    assert files_beside(file) == [f"{file.name}.part"]


def test_a_file_that_another_command_renames_before_it_is_locked_is_not_written(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lock = fcntl.flock

    def lock_late(descriptor: int, operation: int) -> None:
        file.with_name(f"{file.name}.part").rename(file)
        lock(descriptor, operation)

    monkeypatch.setattr(fcntl, "flock", lock_late)
    file.with_name(f"{file.name}.part").write_text("a backup")

    with pytest.raises(DatabaseError, match=f"^another command is writing to {file}$"), unfinished(file):
        pass
    assert (files_beside(file), file.read_text()) == ([file.name], "a backup")


def test_a_command_that_ends_leaves_the_temporary_file_of_the_next_one(file: Path) -> None:
    """The next one may begin once the first has renamed its file."""
    with ExitStack() as stack:
        with unfinished(file) as part:
            part.replace(file)
            stack.enter_context(unfinished(file))

        assert stat.S_IMODE(part.stat().st_mode) == 0o600
    assert files_beside(file) == [file.name]


@on_sqlite
def test_a_missing_folder_is_reported(command: Command, tmp_path: Path) -> None:
    file = tmp_path / "none" / "care.backup"

    sentence = f"the backup at {file} cannot be written: No such file or directory"
    assert_rejected(command("backup", str(file)), sentence)


def test_a_missing_database_is_reported_and_replaces_no_backup(
    command: Command, tmp_path: Path, file: Path
) -> None:
    for files in ([], [file.name]):
        rejected = command("backup", "--force", str(file), database_url=f"sqlite:///{tmp_path}/none.db")

        sentence = f"there is no database at {tmp_path}/none.db; run `care-gateway migrate` first"
        assert_rejected(rejected, sentence)
        assert files_beside(file) == files
        file.touch()


@on_sqlite
def test_only_a_terminal_shows_the_progress(
    settings: Settings, file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("app.db.admin.backup.PAGES_PER_STEP", 4)
    shown = []
    for is_terminal in (True, False):
        terminal = io.StringIO()
        monkeypatch.setattr(terminal, "isatty", lambda is_terminal=is_terminal: is_terminal)
        monkeypatch.setattr("sys.stderr", terminal)
        file.unlink(missing_ok=True)
        file.touch()
        copy_with_progress(sqlite_path(settings.database), file)
        shown.append([int(part) for part in re.findall(r"([0-9]+)%", terminal.getvalue())])

    steps, hidden = shown
    lengths = [after - before for before, after in pairwise(steps[:-1])]
    assert (len(lengths) > 3, max(lengths) - min(lengths) <= 1, steps[-1], hidden) == (True, True, 100, [])


DAMAGE = {
    "rows refer to missing rows": ("PRAGMA foreign_keys = OFF", "DELETE FROM client WHERE id = 1"),
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


@on_sqlite
@pytest.mark.parametrize("reason", DAMAGE)
def test_a_damaged_database_is_rejected_and_replaces_no_backup(
    command: Command, settings: Settings, file: Path, reason: str
) -> None:
    load(settings.database, a_world())
    with closing(sqlite3.connect(sqlite_path(settings.database), isolation_level=None)) as connection:
        for statement in DAMAGE[reason]:
            connection.execute(statement)
    file.write_text("an older one")

    rejected = command("backup", "--force", str(file))

    assert_rejected(rejected, f"the database is damaged and was not backed up: {reason}")
    assert (files_beside(file), file.read_text()) == ([file.name], "an older one")
    assert not marker_of(sqlite_path(settings.database)).exists()


@pytest.mark.parametrize("kind", ["postgresql"], indirect=True)
def test_postgresql_is_rejected_with_the_command_to_use(
    command: Command, settings: Settings, file: Path
) -> None:
    sentence = (
        "back up PostgreSQL with its own tools: "
        'pg_dump --format=custom --file=FILE "$CARE_DATABASE_URL" (docs/operations.md), '
        "Citus by restore points (docs/citus.md)"
    )

    assert_rejected(command("backup", str(file)), sentence)
    assert files_beside(file) == []
