"""`restore` rejects a database that is in use, even if the service receives no requests."""

from pathlib import Path

import pytest

from app.db.drivers.interface import sqlite_path
from tests import keys
from tests.callers import load
from tests.factories import a_world
from tests.live.processes import run, serving

pytestmark = pytest.mark.live


@pytest.mark.parametrize("kind", ["sqlite"], indirect=True)
def test_restore_rejects_a_database_in_use(database_url: str, tmp_path: Path) -> None:
    load(database_url, a_world())
    care = {"database_url": database_url, "token_key": keys.public_pem()}
    file, path = tmp_path / "care.backup", sqlite_path(database_url)

    with serving(tmp_path / "log", dispatcher="off", **care):
        saved = run("backup", str(file), **care)
        before = path.stat().st_ino
        refused = run("restore", str(file), **care)
        after = path.stat().st_ino
    restored = run("restore", str(file), **care)

    in_use = f"the database at {path} is in use; stop `serve`, `worker` and other commands first"
    assert (saved.returncode, saved.stderr) == (0, "")
    assert (refused.returncode, refused.stderr) == (2, f"care-gateway: {in_use}\n")
    assert (before, restored.returncode) == (after, 0)
