"""A backup taken during writes contains every change that was acknowledged before, is consistent, and can be
served again as docs/operations.md describes."""

import shutil
import subprocess
import uuid
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from tests.crash.changes import compare, effects, is_sound
from tests.crash.crashes import Crashes
from tests.live.processes import PATIENCE, run
from tests.postgres import VERSION, create_database, drop_database, wheel

pytestmark = pytest.mark.live


def is_served_again(crashes: Crashes, back_up: Callable[[], None], restore: Callable[[], str]) -> None:
    with crashes.running() as (_, futures):
        crashes.wait_for(100, futures)
        acknowledged = {id(one) for one in crashes.requests if one.answer is not None}
        back_up()
        crashes.wait_for(50, futures)
    url = restore()
    migrated, verified = (run(step, **crashes.care | {"database_url": url}) for step in ("migrate", "verify"))

    assert (migrated.returncode, verified.returncode, verified.stdout) == (0, 0, "0 differences\n")
    assert "the schema is already at version" in migrated.stdout
    there = [one if id(one) in acknowledged else replace(one, answer=None) for one in crashes.requests]
    assert compare(there, effects(url)) == []
    again = replace(crashes, care=crashes.care | {"database_url": url})
    with again.started() as (process, port):
        again.wait_until_ready(process, port)
        again.check_counts(port)


@pytest.mark.parametrize("kind", ["sqlite"], indirect=True)
def test_a_backup_taken_during_writes_is_restored(crashes: Crashes, tmp_path: Path) -> None:
    file, restored = tmp_path / "backups" / "care.db", tmp_path / "restored" / "care.db"
    file.parent.mkdir()
    restored.parent.mkdir()

    def back_up() -> None:
        result = run("backup", str(file), **crashes.care)
        assert (result.returncode, result.stderr) == (0, "")

    def restore() -> str:
        shutil.copyfile(file, restored)
        return f"sqlite:///{restored}"

    is_served_again(crashes, back_up, restore)

    assert [one.name for one in file.parent.iterdir()] == ["care.db"]
    assert is_sound(restored)


@pytest.mark.soak
@pytest.mark.parametrize("kind", ["postgresql"], indirect=True)
def test_a_dump_taken_during_writes_is_restored(crashes: Crashes, postgres: str, tmp_path: Path) -> None:
    binaries = wheel() / VERSION / "bin"
    file, name = tmp_path / "care.dump", f"restored_{uuid.uuid4().hex}"

    def tool(*words: str) -> None:
        done = subprocess.run([binaries / words[0], *words[1:]], capture_output=True, timeout=PATIENCE)
        assert (done.returncode, done.stderr) == (0, b"")

    def restore() -> str:
        url = create_database(postgres, name)
        tool("pg_restore", "--single-transaction", "--no-owner", f"--dbname={url}", str(file))
        return url

    try:
        dump = ["pg_dump", "--format=custom", f"--file={file}", f"--dbname={crashes.url}"]
        is_served_again(crashes, lambda: tool(*dump), restore)
    finally:
        drop_database(postgres, name)
