"""Promise: a backup that is taken while people write holds all that was acknowledged before, is whole, and is
served again as docs/operations.md says."""

import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from app.db.kept import differences
from tests.callers import run_read
from tests.crash.asked import compare, effects, is_sound
from tests.crash.killing import Crashes
from tests.live.processes import run

pytestmark = [pytest.mark.live, pytest.mark.parametrize("kind", ["sqlite"], indirect=True)]


def test_a_backup_taken_while_people_write_is_restored(crashes: Crashes, tmp_path: Path) -> None:
    file = tmp_path / "backups" / "care.db"
    file.parent.mkdir()
    with crashes.living() as (_, lives):
        crashes.wait_for(100, lives)
        acknowledged = {id(one) for one in crashes.asked if one.answer is not None}
        said = run("backup", str(file), **crashes.care)
        crashes.wait_for(100, lives)

    assert (said.returncode, said.stderr) == (0, "")
    assert [one.name for one in file.parent.iterdir()] == ["care.db"]

    restored = tmp_path / "restored" / "care.db"
    restored.parent.mkdir()
    shutil.copyfile(file, restored)
    url = f"sqlite:///{restored}"
    steps = [run(step, **crashes.care | {"database_url": url}) for step in ("migrate", "verify")]

    assert [(step.returncode, step.stdout) for step in steps] == [(0, ""), (0, "0 differences\n")]
    assert is_sound(restored)
    there = [one if id(one) in acknowledged else replace(one, answer=None) for one in crashes.asked]
    assert compare(there, effects(url)) == []
    assert run_read(url, differences()) == []
    again = replace(crashes, care=crashes.care | {"database_url": url})
    with again.started() as (process, port):
        again.wait_until_ready(process, port)
        again.tells_what_is_there(port)
