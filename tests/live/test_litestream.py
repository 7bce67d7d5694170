"""Litestream, configured as docs/operations.md shows, restores every change older than its lag."""

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from app.db.drivers.interface import sqlite_path
from tests.crash.changes import compare, effects, is_sound
from tests.crash.conftest import made
from tests.crash.crashes import Crashes
from tests.db import raw
from tests.live.processes import PATIENCE, run
from tests.pages import blocks, read

PROGRAM = shutil.which("litestream", path=f"{Path(sys.executable).parent}:{os.environ.get('PATH', '')}")
pytestmark = [
    pytest.mark.live,
    pytest.mark.skipif(PROGRAM is None, reason="Litestream is not installed; `make litestream` installs it"),
]
[CONFIGURATION] = [block.text for block in blocks(read("docs/operations.md")) if block.kind == "yaml"]


@pytest.fixture
def crashes(sqlite_copy: str, tmp_path: Path) -> Crashes:
    return made(sqlite_copy, tmp_path)


@dataclass(frozen=True)
class Litestream:
    folder: Path
    database: Path

    @property
    def socket(self) -> str:
        return str(self.folder / "litestream.sock")

    def run(self, *words: str) -> subprocess.CompletedProcess[str]:
        done = subprocess.run([str(PROGRAM), *words], capture_output=True, text=True, timeout=PATIENCE)
        assert done.returncode == 0, done.stderr
        return done

    def configured(self, configuration: str = CONFIGURATION) -> tuple[str, str]:
        """The option for the file of the documentation, with paths of this test."""
        file = self.folder / "litestream.yml"
        text = configuration.replace("/srv/care/care.db", str(self.database))
        text = text.replace("/srv/care/litestream.sock", self.socket)
        file.write_text(text.replace("/backups/care", str(self.folder / "replica")))
        return "-config", str(file)

    @contextmanager
    def replicating(self) -> Iterator[subprocess.Popen[str]]:
        """Kills Litestream at the end of the block."""
        command = [str(PROGRAM), "replicate", *self.configured()]
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        try:
            assert process.stdout is not None
            for line in process.stdout:
                if "replicating to" in line:
                    break
            yield process
        finally:
            process.kill()
            process.communicate()

    def last_read(self) -> int:
        return last_number(self.database.with_name(".care.db-litestream"))

    def last_copied(self) -> int:
        return last_number(self.folder / "replica")

    def copy_now(self) -> None:
        """Returns when the replica has everything that was committed before."""
        synced = self.run("sync", "-wait", "-json", "-socket", self.socket, str(self.database))
        assert json.loads(synced.stdout)["replica_txid"] > 0

    def restored(self, name: str) -> Path:
        file = self.folder / name
        self.run("restore", *self.configured(), "-o", str(file), str(self.database))
        return file


def last_number(folder: Path) -> int:
    """Litestream writes a numbered file for each time that it reads the log of SQLite."""
    return max(int(file.stem.partition("-")[2], 16) for file in (folder / "ltx" / "0").glob("*.ltx"))


@pytest.fixture
def litestream(crashes: Crashes, tmp_path: Path) -> Litestream:
    return Litestream(tmp_path, sqlite_path(crashes.url))


def test_every_change_older_than_the_lag_is_restored(
    crashes: Crashes, litestream: Litestream, tmp_path: Path
) -> None:
    with litestream.replicating(), crashes.running() as (_, futures):  # both are killed at the end
        litestream.copy_now()
        crashes.wait_for(200, futures)
        acknowledged = {id(one) for one in crashes.requests if one.answer is not None}
        # The next copy may have begun already. The second one has everything that was acknowledged.
        needed = litestream.last_read() + 2
        while litestream.last_copied() < needed:
            crashes.wait_for(10, futures)
    erased = tmp_path / "erased.txt"
    erased.touch()

    backup = litestream.restored("first.backup")
    for name in ("care.db", "care.db-wal", "care.db-shm"):
        litestream.database.with_name(name).unlink(missing_ok=True)
    accepted = run("restore", str(backup), "--erased", str(erased), **crashes.care)
    verified = run("verify", **crashes.care)

    assert (accepted.returncode, accepted.stderr) == (0, "")
    assert (verified.returncode, verified.stdout) == (0, "0 differences\n")
    assert is_sound(litestream.database)
    there = [one if id(one) in acknowledged else replace(one, answer=None) for one in crashes.requests]
    assert compare(there, effects(crashes.url)) == []

    litestream.run("reset", *litestream.configured(), str(litestream.database))
    with litestream.replicating():
        run("account", "disable", "--role", "client", "--user", "client-1", **crashes.care)
        litestream.copy_now()
    again = f"sqlite:///{litestream.restored('second.backup')}"
    assert effects(again) == effects(crashes.url)
    assert raw.run(again, "SELECT id FROM client WHERE is_disabled") == [(1,)]


def test_changes_without_litestream_are_copied_afterwards(crashes: Crashes, litestream: Litestream) -> None:
    """The service then removes the log itself when it stops."""
    for is_replicating in (True, False, True):
        if is_replicating:
            with litestream.replicating():
                litestream.copy_now()
        else:
            crashes.run_and_kill(100)
            run("verify", **crashes.care)  # the only process: it removes the log
            assert not litestream.database.with_name("care.db-wal").exists()

    assert effects(f"sqlite:///{litestream.restored('care.backup')}") == effects(crashes.url)


def test_doctor_reports_the_replica(crashes: Crashes, litestream: Litestream) -> None:
    def findings() -> list[tuple[str, str]]:
        found = run("doctor", "--json", **crashes.care, litestream_socket=litestream.socket).stdout
        return [
            (one["verdict"], one["message"])
            for one in json.loads(found)["findings"]
            if one["about"] == "replica"
        ]

    with litestream.replicating():
        copied = findings()
        shutil.rmtree(litestream.folder / "replica")
        (litestream.folder / "replica").write_text("in the way")
        run("account", "disable", "--role", "client", "--user", "client-1", **crashes.care)
        [(verdict, message)] = findings()
    [stopped] = findings()

    assert copied == [("ok", "Litestream has copied every change to it")]
    assert verdict == "failed"
    assert re.match(r"the last change was copied to it at 20\d\d-\S+Z: .*not a directory", message)
    message = f"Litestream does not respond at {litestream.socket}: [Errno 111] Connection refused"
    assert stopped == ("failed", message)


def test_the_configuration_for_s3_is_accepted(litestream: Litestream) -> None:
    lines = [line.replace("# ", "", 1) for line in CONFIGURATION.splitlines() if "path: /backups" not in line]

    result = litestream.run("databases", *litestream.configured("\n".join(lines)))

    assert "s3" in result.stdout
