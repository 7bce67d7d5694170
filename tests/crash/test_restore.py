"""A killed `restore` leaves the old database or the restored one, and the next `restore` completes."""

import os
import shutil
import signal
import sys
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from tempfile import TemporaryFile

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
OLD, RESTORED = [("Since the backup",)], [("Zoë Client 1",)]


def kill_at(folder: str, first: str, number: int) -> None:
    """Kills this process before its n-th action on a file of the folder, counted from the first action of a
    kind."""
    count = 0

    def watch(event: str, arguments: tuple[object, ...]) -> None:
        nonlocal count
        if event in FILE_EVENTS and any(folder in str(each) for each in arguments):
            count += 1 if count else first in event
            if count == number:
                os.kill(os.getpid(), signal.SIGKILL)

    sys.addaudithook(watch)


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
        url = f"sqlite:///{shutil.copyfile(sqlite_path(database), copy / 'care.db')}"
        code = killed_restore(url, file, first, number)
        assert code in (0, -9)
        yield number, url


@pytest.mark.parametrize("first", ["os.link", pytest.param("", marks=pytest.mark.soak)])
def test_a_restore_that_is_killed_at_any_moment(settings: Settings, tmp_path: Path, first: str) -> None:
    """From the second name of the old database on, or from the beginning. Every command opens what is left,
    with the old rows and then, from one moment on, with the restored."""
    care = {"env": "development", "var": str(tmp_path)}
    file, copies = tmp_path / "backup", tmp_path / "copies"
    load(settings.database, a_world())
    assert run("backup", str(file), database_url=settings.database, **care).returncode == 0
    raw.run(settings.database, "UPDATE client SET name = 'Since the backup' WHERE id = 1")
    raw.run(settings.database, "PRAGMA wal_checkpoint(TRUNCATE)")
    copies.mkdir()
    found = []

    for number, url in moments(copies, settings.database, file, first):
        check_sqlite(sqlite_path(url))
        assert run_read(url, differences()) == [], number
        found.append(raw.run(url, "SELECT name FROM client WHERE id = 1"))
        assert run("restore", str(file), database_url=url, **care).returncode == 0
        assert raw.run(url, "SELECT name FROM client WHERE id = 1") == RESTORED
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
