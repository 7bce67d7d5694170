"""Promise: `restore` replaces the SQLite database with a complete backup, or changes nothing. Clients erased
and accounts disabled since the backup stay erased and disabled."""

import asyncio
import errno
import os
import shutil
import sqlite3
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import closing, contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from app.db.admin.backup import marker_of, new_path_of
from app.db.admin.migrate import migrate, newest_version
from app.db.drivers.interface import sqlite_path
from app.settings import Settings
from tests.audit.audit_log import audited
from tests.callers import load
from tests.cli.conftest import Command, assert_rejected
from tests.db import raw
from tests.factories import NOW, a_caregiver, a_client, a_module, a_world, an_assignment

pytestmark = pytest.mark.parametrize("kind", ["sqlite"], indirect=True)
PRIVATE = "über Nacht"  # in every answer of `a_world`


@pytest.fixture
def file(command: Command, settings: Settings, tmp_path: Path) -> Path:
    """A backup of `a_world`."""
    load(settings.database, a_world())
    file = tmp_path / "backups" / "care.backup"
    file.parent.mkdir()
    assert command("backup", str(file)).exit_code == 0
    return file


def files(settings: Settings) -> dict[str, bytes]:
    """The files of the database and of replaced ones."""
    path = sqlite_path(settings.database)
    found = {one.name: one.read_bytes() for one in path.parent.glob(f"{path.name}*") if one.is_file()}
    found.pop(marker_of(path).name, None)
    return found


def aside(settings: Settings) -> Path:
    path = sqlite_path(settings.database)
    [found] = path.parent.glob(f"{path.name}.replaced-*Z")
    return found


@contextmanager
def unchanged(settings: Settings) -> Iterator[None]:
    before = files(settings)
    yield
    assert files(settings) == before


# --- restored ---------------------------------------------------------------------------------------


def test_a_backup_replaces_the_database_and_the_old_one_is_kept(
    command: Command, settings: Settings, file: Path
) -> None:
    load(settings.database, [an_assignment(6)])
    before = raw.row_counts(f"sqlite:///{file}")

    result = command("restore", str(file))

    path, replaced = sqlite_path(settings.database), aside(settings)
    assert (result.exit_code, result.stderr) == (0, "")
    assert result.stdout.splitlines() == [
        f"{path} was restored from {file}",
        "clients erased again: none",
        f"the replaced database was kept as {replaced}; remove it as you would a backup",
    ]
    assert raw.row_counts(settings.database) == before
    assert raw.run(f"sqlite:///{replaced}", "SELECT max(id) FROM assignment") == [(6,)]
    assert raw.run(settings.database, "PRAGMA journal_mode") == [("wal",)]
    assert path.stat().st_mode & 0o777 == 0o600
    assert audited(settings.database) == [("OPERATOR", None, "restore", "DONE", [])]
    assert [command(*words).exit_code for words in (("verify",), ("audit", "verify"))] == [0, 0]


def test_the_database_that_an_earlier_restore_replaced_is_kept(
    command: Command, settings: Settings, file: Path
) -> None:
    load(settings.database, [an_assignment(6)])
    command("restore", str(file))
    first, path = aside(settings), sqlite_path(settings.database)
    os.truncate(first, path.stat().st_size)  # two databases can have one size
    before = first.read_bytes()

    assert command("restore", str(file)).exit_code == 0

    assert len(list(path.parent.glob(f"{path.name}.replaced-*"))) == 2
    assert first.read_bytes() == before
    other = first.with_name(f"{path.name}.replaced-{NOW:%Y%m%dT%H%M%SZ}")
    for number in ("", "-2", "-3"):
        assert new_path_of(path, NOW) == other.with_name(f"{other.name}{number}")
        new_path_of(path, NOW).touch()


def test_clients_and_accounts_stay_erased_and_disabled(
    command: Command, settings: Settings, file: Path
) -> None:
    load(settings.database, [a_caregiver(3)])
    assert command("erase", "--id", "2", "--yes").exit_code == 0
    for role, user in (("caregiver", "caregiver-2"), ("caregiver", "caregiver-3"), ("client", "client-1")):
        assert command("account", "disable", "--role", role, "--user", user).exit_code == 0

    result = command("restore", str(file))

    assert result.stdout.splitlines()[1:4] == [
        "clients erased again: 2",
        "caregiver accounts disabled again: 2",
        "client accounts disabled again: 1",
    ]
    assert raw.run(settings.database, "SELECT id, name, is_disabled FROM client ORDER BY id") == [
        (1, "Zoë Client 1", 1),
        (2, "erased", 1),
    ]
    assert raw.run(settings.database, "SELECT id, is_disabled FROM caregiver") == [(1, 0), (2, 1)]
    assert [one[2:5:2] for one in audited(settings.database)] == [
        ("erase", [[1, 2, {}], [2, 2, {}]]),
        ("account disable", [[2, None, {}]]),
        ("account disable", [[None, 1, {}]]),
        ("restore", []),
    ]
    assert command("verify").output == "0 differences\n"


def test_every_erasure_and_switch_since_the_backup_is_repeated_on_record(
    command: Command, settings: Settings, tmp_path: Path
) -> None:
    people = [*map(a_client, range(1, 7)), *map(a_caregiver, range(1, 5))]
    load(settings.database, people)

    def switch_all(action: str, role: str, *ids: int) -> None:
        for id in ids:
            assert command("account", action, "--role", role, "--user", f"{role}-{id}").exit_code == 0

    for role in ("client", "caregiver"):
        switch_all("disable", role, 1, 2)
    assert command("backup", str(tmp_path / "care.backup")).exit_code == 0
    for id in (5, 6):
        assert command("erase", "--id", str(id), "--yes").exit_code == 0
    for role in ("client", "caregiver"):
        switch_all("enable", role, 1, 2)
        switch_all("disable", role, 3, 4)
    done = Counter(str(record[2:]) for record in audited(settings.database)[4:])

    assert sorted(restore_again(command, settings, tmp_path / "care.backup")) == [
        "caregiver accounts disabled again: 3, 4",
        "caregiver accounts enabled again: 1, 2",
        "client accounts disabled again: 3, 4",
        "client accounts enabled again: 1, 2",
        "clients erased again: 5, 6",
    ]
    [*again, restore] = audited(settings.database)[4:]
    assert Counter(str(record[2:]) for record in again) == done
    assert restore[2] == "restore"


def switch(command: Command, *actions: str) -> None:
    for action in actions:
        assert command("account", action, "--role", "caregiver", "--user", "caregiver-2").exit_code == 0


def restore_again(command: Command, settings: Settings, file: Path) -> list[str]:
    """What the command has done again."""
    result = command("restore", str(file))
    assert (result.exit_code, result.stderr) == (0, "")
    return result.stdout.splitlines()[1:-1]


@pytest.fixture
def empty_backup(command: Command, settings: Settings, tmp_path: Path) -> Path:
    """A backup of the time before `a_world`."""
    empty = tmp_path / "empty.backup"
    assert command("backup", str(empty)).exit_code == 0
    return empty


def test_the_wrong_backup_and_then_the_right_one_bring_nobody_back(
    command: Command, settings: Settings, empty_backup: Path, file: Path
) -> None:
    """The wrong one contains none of these people."""
    command("erase", "--id", "2", "--yes")
    switch(command, "disable")

    wrong = restore_again(command, settings, empty_backup)
    people_in_wrong = raw.run(settings.database, "SELECT count(*) FROM client")
    right = restore_again(command, settings, file)

    assert (wrong, people_in_wrong) == (["clients erased again: none"], [(0,)])
    assert right == ["clients erased again: 2", "caregiver accounts disabled again: 2"]
    assert raw.run(settings.database, "SELECT id, name FROM client ORDER BY id") == [
        (1, "Zoë Client 1"),
        (2, "erased"),
    ]
    assert raw.run(settings.database, "SELECT title FROM session WHERE client_id = 2") == [("",), ("",)]
    assert raw.run(settings.database, "SELECT id, is_disabled FROM caregiver") == [(1, 0), (2, 1)]


def test_a_list_is_remembered_by_later_restores(
    command: Command, settings: Settings, empty_backup: Path, file: Path, tmp_path: Path
) -> None:
    id_list = tmp_path / "erased.txt"
    id_list.write_text("2\n")
    break_database(settings, "missing")

    command("restore", str(empty_backup), "--erased", str(id_list))

    assert restore_again(command, settings, file) == ["clients erased again: 2"]


def test_the_complete_copy_and_then_its_name_are_synced_to_disk(
    command: Command, settings: Settings, file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, fsync = sqlite_path(settings.database), os.fsync
    synced: list[tuple[int, int, bytes]] = []  # with the inode of the database at that time

    def recorded_fsync(opened: int) -> None:
        inode, content = os.fstat(opened).st_ino, b""
        if inode != path.parent.stat().st_ino:
            [synced_file] = [each for each in path.parent.iterdir() if each.stat().st_ino == inode]
            content = synced_file.read_bytes()
        synced.append((inode, path.stat().st_ino, content))
        fsync(opened)

    command("erase", "--id", "2", "--yes")
    old = path.stat().st_ino
    monkeypatch.setattr(os, "fsync", recorded_fsync)

    assert command("restore", str(file)).exit_code == 0

    new, folder = path.stat().st_ino, path.parent.stat().st_ino
    assert synced[-2:] == [(new, old, path.read_bytes()), (folder, new, b"")]


def test_a_list_adds_to_what_the_current_database_shows(
    command: Command, settings: Settings, file: Path, tmp_path: Path
) -> None:
    id_list = tmp_path / "erased.txt"
    id_list.write_text("1\n")
    command("erase", "--id", "2", "--yes")

    result = command("restore", str(file), "--erased", str(id_list))

    assert result.stdout.splitlines() == [
        f"{sqlite_path(settings.database)} was restored from {file}",
        "clients erased again: 1, 2",
        f"the replaced database was kept as {aside(settings)}; remove it as you would a backup",
    ]


def test_a_backup_is_restored_to_a_folder_that_is_missing(
    command: Command, file: Path, tmp_path: Path
) -> None:
    empty, path = tmp_path / "empty", tmp_path / "new" / "folder" / "care.db"
    empty.touch()

    result = command("restore", str(file), "--erased", str(empty), database_url=f"sqlite:///{path}")

    assert (result.exit_code, result.stderr) == (0, "")
    assert raw.run(f"sqlite:///{path}", "SELECT count(*) FROM client") == [(2,)]
    assert path.parent.stat().st_mode & 0o777 == 0o700


def test_a_list_of_a_lost_database_has_its_disabled_accounts(
    command: Command, settings: Settings, file: Path, tmp_path: Path
) -> None:
    saved, id_list = tmp_path / "saved", tmp_path / "erased.txt"
    id_list.write_text("1\n")
    switch(command, "disable")
    command("tombstones", "save", str(saved))
    break_database(settings, "missing")

    result = command("restore", str(file), "--erased", str(id_list), "--erased", str(saved))

    assert result.stdout.splitlines()[1:3] == [
        "clients erased again: 1",
        "caregiver accounts disabled again: 2",
    ]


def test_an_account_stays_as_an_operator_has_set_it_last(
    command: Command, settings: Settings, file: Path, tmp_path: Path
) -> None:
    switch(command, "disable")
    of_disabled = tmp_path / "disabled.backup"
    command("backup", str(of_disabled))
    switch(command, "enable")
    is_disabled = "SELECT is_disabled FROM caregiver WHERE id = 2"

    earlier = restore_again(command, settings, file), raw.run(settings.database, is_disabled)
    disabled = restore_again(command, settings, of_disabled), raw.run(settings.database, is_disabled)
    switch(command, "disable")
    again = restore_again(command, settings, file), raw.run(settings.database, is_disabled)

    none = "clients erased again: none"
    assert earlier == ([none], [(0,)])
    assert disabled == ([none, "caregiver accounts enabled again: 2"], [(0,)])
    assert again == ([none, "caregiver accounts disabled again: 2"], [(1,)])


def test_tables_without_tombstones_show_who_was_erased_and_disabled(
    command: Command, settings: Settings, file: Path
) -> None:
    """A new version restores a backup before it has migrated the database. Client 3 is neither."""
    load(settings.database, [a_client(3)])
    command("backup", "--force", str(file))
    command("erase", "--id", "2", "--yes")
    switch(command, "disable")
    command("account", "disable", "--role", "client", "--user", "client-1")
    make_version_0010(settings.database)

    result = command("restore", str(file))

    assert result.stdout.splitlines()[1:4] == [
        "clients erased again: 2",
        "caregiver accounts disabled again: 2",
        "client accounts disabled again: 1",
    ]


def test_no_file_contains_the_text_of_a_client_that_was_erased_again(
    command: Command, settings: Settings, file: Path
) -> None:
    """Including unused pages of the backup."""
    for client in ("1", "2"):
        assert command("erase", "--id", client, "--yes").exit_code == 0
    with closing(sqlite3.connect(file, isolation_level=None)) as connection:
        connection.execute("PRAGMA secure_delete = OFF")
        connection.execute(f"UPDATE answer_set SET answers = '{PRIVATE * 8000}'")
        connection.execute("UPDATE answer_set SET answers = '[]'")

    restored = command("restore", str(file))

    assert (restored.exit_code, restored.stderr) == (0, "")
    assert PRIVATE.encode() in file.read_bytes()
    assert [name for name, content in files(settings).items() if PRIVATE.encode() in content] == []


def test_ids_assigned_after_the_backup_are_not_reused(
    command: Command, settings: Settings, file: Path
) -> None:
    command("restore", str(file))

    load(settings.database, [{**a_caregiver(), "id": 7, "userName": "seven"}])
    added = command(
        "account",
        "add",
        "--role",
        "caregiver",
        "--user",
        "new",
        "--name",
        "New",
        "--position",
        "Psychologist",
    )
    raw.run(
        settings.database,
        "INSERT INTO event (caregiver_id, client_id, kind, session_id, moment)"
        " VALUES (1, 1, 'ASSIGNED', 1, '')",
    )

    assert added.stdout == "1000003\n"
    assert raw.run(settings.database, "SELECT max(id) FROM event") == [(1_000_001,)]


def test_the_events_of_a_restore_have_new_ids(command: Command, settings: Settings, file: Path) -> None:
    """The receiver of the webhook ignores an event whose id it knows."""
    assert command("erase", "--id", "2", "--yes").exit_code == 0

    command("restore", str(file))

    found = raw.run(settings.database, "SELECT id, kind FROM event ORDER BY id")
    assert found == [(number, "CLIENT_ERASED") for number in (1_000_001, 1_000_002)]


def test_a_database_with_the_largest_id_is_restored(
    command: Command, settings: Settings, tmp_path: Path
) -> None:
    largest = 2**63 - 2
    load(settings.database, [a_module(largest)])
    file = tmp_path / "care.backup"
    command("backup", str(file))

    assert command("restore", str(file)).exit_code == 0

    last = "SELECT seq FROM sqlite_sequence WHERE name = 'module'"
    assert raw.run(settings.database, last) == [(largest,)]


def make_version_0010(url: str) -> None:
    """The tables before tombstones, with the rows of the others."""
    raw.run(
        url,
        "DROP TABLE legacy_hour",
        "CREATE TABLE legacy_day (day TEXT NOT NULL PRIMARY KEY, since TEXT NOT NULL) WITHOUT ROWID",
        "DROP TABLE tombstone",
        "ALTER TABLE idempotency_key RENAME TO kept_answer",
        "DROP INDEX ix_idempotency_key_moment",
        "CREATE INDEX ix_kept_answer_moment ON kept_answer (moment)",
        "UPDATE alembic_version SET version_num = '0010'",
    )


def test_a_backup_with_older_tables_is_migrated(command: Command, settings: Settings, file: Path) -> None:
    make_version_0010(f"sqlite:///{file}")

    result = command("restore", str(file))

    assert result.exit_code == 0
    assert raw.run(settings.database, "SELECT version_num FROM alembic_version") == [(newest_version(),)]
    assert raw.run(settings.database, "SELECT count(*) FROM client") == [(2,)]


def test_the_write_ahead_log_of_a_killed_process_stays_with_the_old_database(
    command: Command, settings: Settings, file: Path, tmp_path: Path
) -> None:
    path = sqlite_path(settings.database)
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute("UPDATE client SET name = 'In the log' WHERE id = 1")
        for log in ("", "-wal"):
            shutil.copyfile(f"{path}{log}", tmp_path / f"crashed{log}")
    for log in ("", "-wal"):
        (tmp_path / f"crashed{log}").replace(f"{path}{log}")

    assert command("restore", str(file)).exit_code == 0

    names = "SELECT name FROM client WHERE id = 1"
    assert raw.run(settings.database, names) == [("Zoë Client 1",)]
    assert raw.run(f"sqlite:///{aside(settings)}", names) == [("In the log",)]


def test_the_write_ahead_log_of_a_missing_database_is_not_applied_to_the_restored_one(
    command: Command, settings: Settings, file: Path, tmp_path: Path
) -> None:
    path, no_ids = sqlite_path(settings.database), tmp_path / "erased.txt"
    no_ids.touch()
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute("UPDATE client SET name = 'In the log' WHERE id = 1")
        log = Path(f"{path}-wal").read_bytes()
    path.unlink()
    Path(f"{path}-wal").write_bytes(log)

    result = command("restore", str(file), "--erased", str(no_ids))

    [kept] = [path.with_name(name) for name, content in files(settings).items() if content == log]
    notice = f"the replaced database was kept as {kept}; remove it as you would a backup"
    assert (result.exit_code, result.stdout.splitlines()[-1]) == (0, notice)
    assert kept.name.endswith("Z-wal")
    assert raw.run(settings.database, "SELECT name FROM client WHERE id = 1") == [("Zoë Client 1",)]


def test_a_backup_with_wrong_counters_is_restored_with_a_warning(
    command: Command, settings: Settings, file: Path
) -> None:
    """It may be the only backup."""
    wrong = "UPDATE session SET assignment_count = 9, completed_assignment_count = 7 WHERE id = 1"
    raw.run(f"sqlite:///{file}", wrong)

    result = command("restore", str(file))

    warning = "care-gateway: warning: `care-gateway verify` finds 2 differences in this backup\n"
    assert (result.exit_code, result.stderr) == (0, warning)
    assert raw.run(settings.database, "SELECT assignment_count FROM session WHERE id = 1") == [(9,)]


def test_the_temporary_files_of_a_killed_command_are_not_read(
    command: Command, settings: Settings, file: Path
) -> None:
    part = Path(f"{sqlite_path(settings.database)}.part")
    shutil.copyfile(file, part)
    with closing(sqlite3.connect(part, isolation_level=None)) as connection:
        connection.execute("UPDATE client SET name = 'Left behind' WHERE id = 1")
        left = Path(f"{part}-wal").read_bytes()
    Path(f"{part}-wal").write_bytes(left)

    result = command("restore", str(file))

    assert (result.exit_code, sorted(files(settings))) == (
        0,
        sorted([sqlite_path(settings.database).name, aside(settings).name]),
    )
    assert raw.run(settings.database, "SELECT name FROM client WHERE id = 1") == [("Zoë Client 1",)]


class FullDisk(sqlite3.Connection):
    def execute(self, sql: str, *values: Any) -> sqlite3.Cursor:
        if sql == "VACUUM":  # needs as much space as the database
            raise sqlite3.OperationalError("database or disk is full")
        return super().execute(sql, *values)


def test_a_disk_that_is_full_for_the_cleaning_of_the_copy_changes_nothing(
    command: Command, settings: Settings, file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sqlite3, "connect", partial(sqlite3.connect, factory=FullDisk))

    with unchanged(settings):
        result = command("restore", str(file))

    path = sqlite_path(settings.database)
    assert_rejected(result, f"the backup cannot be restored to {path}: database or disk is full")


def test_a_disk_that_fails_while_the_copy_is_written_changes_nothing(
    command: Command, settings: Settings, file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(opened: int) -> None:
        raise OSError(errno.EIO, "Input/output error")

    monkeypatch.setattr(os, "fsync", fail)

    with unchanged(settings):
        result = command("restore", str(file))

    path = sqlite_path(settings.database)
    assert_rejected(result, f"the backup cannot be restored to {path}: Input/output error")


def test_another_name_of_the_database_that_a_killed_command_has_left_is_removed(
    command: Command, settings: Settings, file: Path
) -> None:
    """Also of a database whose name is a pattern of file names. The backup has an empty log."""
    path = sqlite_path(settings.database).rename(file.with_name("care [1].db"))
    path.with_name(f"{path.name}.replaced-20261121T090000Z").hardlink_to(path)
    file.with_name(f"{file.name}-wal").touch()

    result = command("restore", str(file), database_url=f"sqlite:///{path}")

    kept = result.stdout.splitlines()[-1].partition("kept as ")[2].partition(";")[0]
    assert result.exit_code == 0
    assert [each for each in path.parent.iterdir() if ".replaced-" in each.name] == [Path(kept)]


# --- when the current database does not show who was erased --------------------------------------

LIST_NEEDED = (
    "the database at {} does not show which clients were erased since the backup: it is missing, damaged or "
    "not a later state; give their ids with --erased LIST (an empty file if there are none)"
)


def break_database(settings: Settings, how: str) -> None:
    path = sqlite_path(settings.database)
    if how == "damaged":
        path.write_bytes(b"no database" * 1000)
    elif how.startswith("damaged "):
        table = how.removeprefix("damaged ")
        [(page, size)] = raw.run(
            settings.database,
            "PRAGMA wal_checkpoint(TRUNCATE)",
            f"SELECT rootpage, page_size FROM sqlite_schema, pragma_page_size WHERE name = '{table}'",
        )
        with path.open("r+b") as opened:
            opened.seek((page - 1) * size)
            opened.write(b"\xff" * size)
    else:
        path.unlink()
    if how == "new":
        asyncio.run(migrate(settings.database))


@pytest.mark.parametrize("how", ["missing", "damaged", "damaged sqlite_sequence", "damaged tombstone", "new"])
def test_an_unreadable_or_new_database_needs_a_list_of_erased_clients(
    command: Command, settings: Settings, file: Path, tmp_path: Path, how: str
) -> None:
    assert command("erase", "--id", "2", "--yes").exit_code == 0
    id_list = tmp_path / "erased.txt"
    id_list.write_text(command("erase", "--list").stdout + "\n77\n")
    break_database(settings, how)

    with unchanged(settings):
        rejected = command("restore", str(file))
    result = command("restore", str(file), "--erased", str(id_list))

    assert_rejected(rejected, LIST_NEEDED.format(sqlite_path(settings.database)))
    assert result.exit_code == 0
    assert result.stdout.splitlines()[1:3] == [
        "clients erased again: 2",
        "accounts disabled since the list may be enabled: check `care-gateway account list`",
    ]
    assert raw.run(settings.database, "SELECT name FROM client WHERE id = 2") == [("erased",)]
    assert result.stdout.count("the replaced database was kept") == (how != "missing")
    if how == "damaged":
        assert aside(settings).read_bytes() == b"no database" * 1000


def test_a_new_database_is_no_later_state_of_a_backup_with_one_row(
    command: Command, settings: Settings, tmp_path: Path
) -> None:
    load(settings.database, [a_client(1)])
    file = tmp_path / "small.backup"
    assert command("backup", str(file)).exit_code == 0
    break_database(settings, "new")

    rejected = command("restore", str(file))

    assert_rejected(rejected, LIST_NEEDED.format(sqlite_path(settings.database)))


def test_the_log_of_a_database_that_cannot_be_opened_stays_with_it(
    command: Command, settings: Settings, file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """SQLite would apply it to the restored database, also after a crash at any moment."""
    path = sqlite_path(settings.database)
    log = path.with_name(f"{path.name}-wal")
    log.write_bytes(b"its log")
    id_list = file.with_name("erased.txt")
    id_list.touch()
    replace, logs = Path.replace, []

    def cannot_open(*_: object) -> None:
        raise sqlite3.OperationalError("disk I/O error")

    def observed_replace(source: Path, target: Path) -> None:
        logs.append(log.exists())
        replace(source, target)

    monkeypatch.setattr("app.db.admin.backup.lock_file", cannot_open)
    monkeypatch.setattr(Path, "replace", observed_replace)
    result = command("restore", str(file), "--erased", str(id_list))

    replaced = aside(settings)
    assert (result.exit_code, logs) == (0, [False])
    assert replaced.with_name(f"{replaced.name}-wal").read_bytes() == b"its log"


def test_an_earlier_state_needs_a_list_although_most_of_its_tables_are_equal(
    command: Command, settings: Settings, file: Path
) -> None:
    """Only one table of the backup has a row that the current database never had."""
    load(f"sqlite:///{file}", [an_assignment(6)])

    with unchanged(settings):
        rejected = command("restore", str(file))

    assert_rejected(rejected, LIST_NEEDED.format(sqlite_path(settings.database)))


def test_a_database_that_only_this_user_cannot_read_is_not_replaced(
    command: Command, settings: Settings, file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The list may be older than the last erasure, which the database shows."""
    id_list = tmp_path / "erased.txt"
    id_list.touch()
    assert command("erase", "--id", "2", "--yes").exit_code == 0
    path = sqlite_path(settings.database)
    log, allowed = path.with_name(f"{path.name}-wal"), os.access
    log.touch()

    def cannot_open(*_: object) -> None:
        raise sqlite3.OperationalError("unable to open database file")

    monkeypatch.setattr("app.db.admin.backup.lock_file", cannot_open)  # the user of the tests may be root
    monkeypatch.setattr(
        os, "access", lambda path, mode: allowed(path, mode) and (path, mode) != (log, os.R_OK)
    )
    with unchanged(settings):
        rejected = [command("restore", str(file), *more) for more in ((), ("--erased", str(id_list)))]

    message = f"this user may not read {log}; make the service's user its owner: chown USER {log}"
    for each in rejected:
        assert_rejected(each, message)


def test_an_invalid_list_is_rejected(
    command: Command, settings: Settings, file: Path, tmp_path: Path
) -> None:
    id_list = tmp_path / "erased.txt"
    id_list.write_text("1\nclient-2\n")

    with unchanged(settings):
        rejected = command("restore", str(file), "--erased", str(id_list))

    assert_rejected(rejected, f"{id_list}, line 2: must be a client id, or a line of `tombstones save`")


def test_a_list_that_is_no_text_is_rejected(command: Command, settings: Settings, file: Path) -> None:
    with unchanged(settings):
        rejected = command("restore", str(file), "--erased", str(file))

    assert_rejected(rejected, f"{file} is no list of erased clients")


def test_erased_clients_are_listed(command: Command, settings: Settings, file: Path) -> None:
    switch(command, "disable")
    empty = command("erase", "--list")
    for client in ("2", "1"):
        command("erase", "--id", client, "--yes")

    listed = command("erase", "--list")

    moments = raw.run(settings.database, "SELECT id, erase_date FROM client ORDER BY id")
    lines = "".join(f"{client}\t{moment}\n" for client, moment in moments)
    assert [(one.exit_code, one.output) for one in (empty, listed)] == [(0, ""), (0, lines)]


# --- rejected -------------------------------------------------------------------------------------


def test_a_database_in_use_is_not_replaced(command: Command, settings: Settings, file: Path) -> None:
    path = sqlite_path(settings.database)
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("SELECT count(*) FROM client").fetchall()
        with unchanged(settings):
            rejected = command("restore", str(file))

    assert_rejected(
        rejected, f"the database at {path} is in use; stop `serve`, `worker` and other commands first"
    )


LOCK_AS_SQLITE = """
import fcntl, sys
file = open(sys.argv[1], "rb")
fcntl.lockf(file, fcntl.LOCK_SH, 510, 0x40000002)
print(flush=True)
sys.stdin.read()
"""


def test_a_damaged_database_in_use_is_not_replaced(
    command: Command, settings: Settings, file: Path, tmp_path: Path
) -> None:
    """A lock of SQLite is one of another process."""
    id_list = tmp_path / "erased.txt"
    id_list.touch()
    break_database(settings, "damaged")
    path = sqlite_path(settings.database)
    words = [sys.executable, "-S", "-c", LOCK_AS_SQLITE, str(path)]

    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.readline()
        with unchanged(settings):
            rejected = command("restore", str(file), "--erased", str(id_list))
        process.communicate()

    assert_rejected(
        rejected, f"the database at {path} is in use; stop `serve`, `worker` and other commands first"
    )


def damage(file: Path, how: str) -> None:
    if how == "damaged":
        [(page, size)] = raw.run(
            f"sqlite:///{file}",
            "SELECT rootpage, page_size FROM sqlite_schema, pragma_page_size WHERE name = 'assignment'",
        )
        with file.open("r+b") as opened:
            opened.seek((page - 1) * size)
            opened.write(b"\xff" * size)
    elif how == "rows missing":
        with closing(sqlite3.connect(file, isolation_level=None)) as connection:
            connection.execute("DELETE FROM client WHERE id = 1")
    elif how == "newer":
        raw.run(f"sqlite:///{file}", "UPDATE alembic_version SET version_num = '9999'")
    elif how == "older":
        raw.run(f"sqlite:///{file}", "UPDATE alembic_version SET version_num = '0009'")
    elif how == "no tables":
        file.unlink()
        raw.run(f"sqlite:///{file}", "CREATE TABLE letter (text)")
    elif how == "no version":
        raw.run(f"sqlite:///{file}", "DELETE FROM alembic_version")
    elif how == "no database":
        file.write_text("Dear all, this is not a database." * 50)
    else:
        file.with_name(f"{file.name}-wal").write_bytes(b"not yet in it")


DAMAGES = {
    "damaged": "is damaged and was not restored: *** in database main ***",
    "rows missing": "is damaged and was not restored: rows refer to missing rows",
    "newer": f"has the newer schema version 9999; this program supports up to {newest_version()}",
    "older": "has the schema version 0009, from before 1.0.0-rc1, which this program cannot migrate: ",
    "no tables": "is not a backup of this service: it has no schema version",
    "no version": "is not a backup of this service: it has no schema version",
    "no database": "cannot be read as a backup: file is not a database",
    "with a log": "has a write-ahead log: it is a database in use or an incomplete copy",
}


@pytest.mark.parametrize("how", DAMAGES)
def test_an_invalid_backup_is_not_restored(
    command: Command, settings: Settings, file: Path, how: str
) -> None:
    damage(file, how)

    with unchanged(settings):
        rejected = command("restore", str(file))

    assert (rejected.exit_code, rejected.stdout) == (2, "")
    assert rejected.stderr.splitlines()[0].startswith(f"care-gateway: {file} {DAMAGES[how]}")


def test_the_database_itself_is_not_a_backup(
    command: Command, settings: Settings, file: Path, tmp_path: Path
) -> None:
    path, link = sqlite_path(settings.database), tmp_path / "a link"
    link.symlink_to(path)

    for name in (path, link):
        with unchanged(settings):
            rejected = command("restore", str(name))

        assert_rejected(rejected, f"{name} is the database itself")


def test_a_backup_with_the_name_of_the_unfinished_file_is_kept(
    command: Command, settings: Settings, file: Path, tmp_path: Path
) -> None:
    part, link = Path(f"{sqlite_path(settings.database)}.part"), tmp_path / "a link"
    shutil.copyfile(file, part)
    link.symlink_to(part)

    for name in (part, link):
        with unchanged(settings):
            rejected = command("restore", str(name))

        assert_rejected(rejected, f"{name} is the file that `restore` writes; rename it first")
        assert part.read_bytes() == file.read_bytes()


def test_postgresql_is_rejected_with_advice(command: Command, tmp_path: Path) -> None:
    (tmp_path / "file").touch()

    rejected = command("restore", str(tmp_path / "file"), database_url="postgresql://care@127.0.0.1:1/care")

    assert_rejected(rejected, "restore PostgreSQL with its own tools: docs/operations.md, Restore")
