"""A killed `restore` leaves the old database or the restored one, and the next `restore` completes."""

import os
import shutil
import signal
import sqlite3
import sys
from collections.abc import Iterator
from contextlib import closing
from functools import partial
from pathlib import Path
from tempfile import TemporaryFile
from typing import Any

import pytest

from app.db.drivers.interface import sqlite_path
from app.db.drivers.sqlite import check_sqlite
from app.db.session_counters import differences
from app.settings import Settings
from tests.callers import load, run_read
from tests.db import raw
from tests.factories import a_world
from tests.live.processes import Process, run

pytestmark = [pytest.mark.live, pytest.mark.parametrize("kind", ["sqlite"], indirect=True)]
FILE_EVENTS = {"os.rename", "os.link", "os.remove", "open", "sqlite3.connect"}
NAMES = "SELECT name FROM client WHERE id = 1 UNION ALL SELECT name FROM caregiver WHERE id = 1"
OLD, RESTORED = [("In the log",), ("In the file",)], [("Zoë Client 1",), ("Caregiver 1",)]


def kill_at(folder: str, first: str, number: int) -> None:
    """Kills this process before its n-th statement or action on a file of the folder, counted from the first
    action of a kind."""
    count = 0

    def take(event: str) -> None:
        nonlocal count
        count += 1 if count else first in event
        if count == number:
            os.kill(os.getpid(), signal.SIGKILL)

    def watch(event: str, arguments: tuple[object, ...]) -> None:
        if event in FILE_EVENTS and any(folder in str(each) for each in arguments):
            take(event)

    def traced(*arguments: Any, **options: Any) -> sqlite3.Connection:
        connection = connect(*arguments, **options)
        connection.set_trace_callback(take)
        return connection

    sys.addaudithook(watch)
    connect, sqlite3.connect = sqlite3.connect, traced


def killed_restore(database: str, file: Path, first: str, number: int) -> int:
    """Returns the exit code; -9 if the process was killed."""
    folder = sqlite_path(database).parent
    care = {"env": "development", "database_url": database, "var": str(folder)}
    kill = partial(kill_at, str(folder), first, number)
    with TemporaryFile("w+") as output:
        return Process(["restore", str(file)], care, output, prepare=kill).wait()


def moments(folder: Path, database: str, file: Path, first: str) -> Iterator[tuple[int, str]]:
    """Restores into copies of the database, each killed one step later, until one is not killed."""
    number, code = 0, -9
    while code != 0:
        number += 1
        copy = folder / str(number)
        copy.mkdir()
        for name in ("care.db", "care.db-wal"):
            shutil.copyfile(sqlite_path(database).with_name(name), copy / name)
        url = f"sqlite:///{copy / 'care.db'}"
        code = killed_restore(url, file, first, number)
        assert code in (0, -9)
        yield number, url


@pytest.mark.parametrize("first", ["os.link", pytest.param("", marks=pytest.mark.soak)])
def test_a_restore_that_is_killed_at_any_moment(settings: Settings, tmp_path: Path, first: str) -> None:
    """From the second name of the old database on, or from the beginning. Every command opens what is left,
    with the old rows and then, from one moment on, with the restored. Some of the old ones are in a log,
    which a killed service has left. All are in a replaced database at the end."""
    care = {"env": "development", "var": str(tmp_path)}
    file, copies = tmp_path / "backup", tmp_path / "copies"
    load(settings.database, a_world())
    assert run("backup", str(file), database_url=settings.database, **care).returncode == 0
    copies.mkdir()
    found = []

    with closing(sqlite3.connect(sqlite_path(settings.database), isolation_level=None)) as service:
        service.execute("UPDATE caregiver SET name = 'In the file' WHERE id = 1")
        service.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        service.execute("UPDATE client SET name = 'In the log' WHERE id = 1")
        for number, url in moments(copies, settings.database, file, first):
            check_sqlite(sqlite_path(url))
            assert run_read(url, differences()) == [], number
            found.append(raw.run(url, NAMES))
            assert run("restore", str(file), database_url=url, **care).returncode == 0
            assert raw.run(url, NAMES) == RESTORED
            replaced = (copies / str(number)).glob("care.db.replaced-*")
            assert OLD in [raw.run(f"sqlite:///{each}", NAMES) for each in replaced], number
            assert left_over(copies / str(number)) == []

    count = found.index(RESTORED)
    assert found == [OLD] * count + [RESTORED] * (len(found) - count)
    assert 1 < count < len(found) - 1


def left_over(folder: Path) -> list[str]:
    """Returns the files that are neither the database nor a replaced one, and other names of the database."""
    database = folder / "care.db"
    return [
        one.name
        for one in folder.iterdir()
        if one != database and (not one.name.startswith("care.db.replaced-") or one.samefile(database))
    ]
