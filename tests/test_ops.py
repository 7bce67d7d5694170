"""The systemd units are valid and name what exists; the backup script makes backups and removes old ones."""

import asyncio
import os
import re
import shutil
import subprocess
import sys
import uuid
from collections.abc import Iterator
from configparser import ConfigParser
from pathlib import Path
from urllib.parse import quote, unquote, urlsplit

import pytest

from app.cli import main
from app.db.admin.migrate import migrate
from tests import pages
from tests.callers import load
from tests.db import raw
from tests.factories import a_world
from tests.postgres import VERSION, create_database, drop_database, execute, wheel

OPS = pages.ROOT / "ops"
UNITS = sorted((OPS / "systemd").iterdir())
SERVICES = [unit for unit in UNITS if unit.suffix == ".service"]


def read_unit(path: Path) -> ConfigParser:
    parser = ConfigParser(strict=False, interpolation=None)
    parser.optionxform = str  # type: ignore[assignment,method-assign]
    parser.read_string(path.read_text())
    return parser


@pytest.mark.skipif(not shutil.which("systemd-analyze"), reason="systemd is not installed")
@pytest.mark.parametrize("unit", UNITS, ids=lambda unit: unit.name)
def test_systemd_accepts_every_unit(unit: Path, tmp_path: Path) -> None:
    text = unit.read_text().replace("/opt/care/venv/bin/care-gateway", sys.executable)
    for other in UNITS:
        shutil.copyfile(other, tmp_path / other.name)
    (tmp_path / unit.name).write_text(text)

    found = subprocess.run(
        ["systemd-analyze", "verify", str(tmp_path / unit.name)],
        capture_output=True,
        text=True,
        env={**os.environ, "SYSTEMD_UNIT_PATH": f"{tmp_path}:"},
    )

    lines = [line for line in found.stderr.splitlines() if str(tmp_path) in line or unit.name in line]
    assert (found.returncode, lines) == (0, [])


@pytest.mark.skipif(not shutil.which("systemd-analyze"), reason="systemd is not installed")
@pytest.mark.parametrize("unit", SERVICES, ids=lambda unit: unit.name)
def test_a_service_has_little_access(unit: Path) -> None:
    found = subprocess.run(
        ["systemd-analyze", "security", "--offline=true", "--threshold=20", str(unit)],
        capture_output=True,
        text=True,
    )

    assert found.returncode == 0, found.stdout[-200:]


@pytest.mark.skipif(not shutil.which("systemd-analyze"), reason="systemd is not installed")
def test_there_is_a_backup_in_the_night_in_which_clocks_go_forward() -> None:
    when = read_unit(OPS / "systemd" / "care-backup.timer")["Timer"]["OnCalendar"]

    found = subprocess.run(
        ["systemd-analyze", "calendar", "--base-time=2027-03-28 00:00:00", when],
        capture_output=True,
        text=True,
        env={**os.environ, "TZ": "Europe/Berlin", "LC_ALL": "C"},
    )

    assert "Next elapse: Sun 2027-03-28 04:30:00 CEST\n" in found.stdout


def test_the_worker_can_have_a_port_of_metrics_of_its_own() -> None:
    """The later file goes before the earlier one."""
    unit = (OPS / "systemd" / "care-worker.service").read_text()

    assert re.findall("^EnvironmentFile=(.*)$", unit, re.MULTILINE) == [
        "/etc/care/environment",
        "-/etc/care/worker-environment",
    ]


def test_a_configuration_error_is_not_repeated() -> None:
    """Exit code 2; a crash has another."""
    for name in ("care-gateway", "care-worker"):
        unit = read_unit(OPS / "systemd" / f"{name}.service")
        service = unit["Service"]
        assert (service["Restart"], service["RestartPreventExitStatus"]) == ("on-failure", "2")
        assert unit["Unit"]["StartLimitIntervalSec"] == "0"  # any other error is, for as long as it lasts
        program, command = service["ExecStart"].split()[:2]
        assert program == "/opt/care/venv/bin/care-gateway"
        assert command in main.commands


def back_up(url: str, folder: Path, days: str = "30") -> "subprocess.CompletedProcess[str]":
    programs = Path(sys.executable).parent
    return subprocess.run(
        ["sh", str(OPS / "backup.sh"), str(folder), days],
        capture_output=True,
        text=True,
        env={"PATH": f"{programs}:{os.environ['PATH']}", "CARE_DATABASE_URL": url, "CARE_ENV": "development"},
    )


@pytest.mark.parametrize("kind", ["sqlite"], indirect=True)
def test_a_backup_removes_those_that_are_older(database_url: str, tmp_path: Path) -> None:
    load(database_url, a_world())
    folder = tmp_path / "backups"
    folder.mkdir()
    for name, age in (
        ("care-20260101T023000Z.db", 40),
        ("care-20260201T023000Z.dump", 20),
        ("own.db", 40),
        ("care-before-restore.dump", 40),
        ("care-2026-02-01.db", 20),
    ):
        (folder / name).touch()
        moment = (folder / name).stat().st_mtime - age * 86_400
        os.utime(folder / name, (moment, moment))

    result = back_up(database_url, folder)

    assert (result.returncode, result.stderr) == (0, "")
    names = {file.name for file in folder.iterdir()}
    [made] = names - {"care-20260201T023000Z.dump", "care-2026-02-01.db", "own.db", "erased.txt"}
    assert re.fullmatch(r"care-\d{8}T\d{6}Z\.db", made)
    assert {(folder / name).stat().st_mode & 0o777 for name in (made, "erased.txt")} == {0o600}
    assert raw.row_counts(f"sqlite:///{folder}/{made}") == raw.row_counts(database_url)


def test_a_backup_that_fails_removes_nothing(tmp_path: Path) -> None:
    old = tmp_path / "care-20260101T023000Z.db"
    old.touch()
    os.utime(old, (0, 0))

    results = [
        back_up(url, tmp_path)
        for url in (f"sqlite:///{tmp_path}/none.db", "postgresql://care@127.0.0.1:1/care")
    ]

    assert [result.returncode != 0 for result in results] == [True, True]
    assert [file.name for file in tmp_path.iterdir()] == [old.name]


# --- PostgreSQL -----------------------------------------------------------------------------------

POSTGRESQL = dict(pages.sections(pages.read("docs/operations.md"), level=3))["On PostgreSQL"]


def without_password(url: str, folder: Path) -> tuple[str, str]:
    """The address without its password, and the name of a file with it."""
    parts = urlsplit(url)
    file = folder / "pgpass"
    file.touch(mode=0o600)
    password = re.sub(r"([:\\])", r"\\\1", unquote(parts.password or ""))
    file.write_text(f"{parts.hostname}:{parts.port}:*:{parts.username}:{password}\n")
    return parts._replace(netloc=parts.netloc.replace(f":{parts.password}@", "@")).geturl(), str(file)


PASSWORD = r"a:long\password"


def create_again(postgres: str, name: str) -> None:
    """As the guide does."""
    sql = dict(pages.sections(pages.read("docs/guides/operator.md")))["Make the database"]
    statements = pages.blocks(sql)[0].text.splitlines()[2:]
    assert [one.split()[0] for one in statements] == ["CREATE", "REVOKE"]
    for one in statements:
        asyncio.run(execute(postgres, re.sub(r"\bcare\b", f'"{name}"', one)))


@pytest.fixture
def own_database(postgres: str) -> Iterator[str]:
    """A database of a role that owns nothing else."""
    name = f"operator_{uuid.uuid4().hex}"
    parts = urlsplit(create_database(postgres, name))
    for statement in (
        f"CREATE ROLE {name} LOGIN PASSWORD '{PASSWORD}'",
        f"ALTER DATABASE {name} OWNER TO {name}",
    ):
        asyncio.run(execute(postgres, statement))
    try:
        yield parts._replace(netloc=f"{name}:{quote(PASSWORD)}@{parts.hostname}:{parts.port}").geturl()
    finally:
        drop_database(postgres, name)
        asyncio.run(execute(postgres, f"DROP ROLE {name}"))


@pytest.mark.parametrize("is_lost", [False, True])
def test_a_dump_is_made_and_restored_without_a_password_in_a_command_line(
    own_database: str, postgres: str, tmp_path: Path, is_lost: bool
) -> None:
    """The commands of the page, as they are."""
    asyncio.run(migrate(own_database))
    load(own_database, a_world())
    before = raw.row_counts(own_database)
    url, passwords = without_password(own_database, tmp_path)
    programs = f"{Path(sys.executable).parent}:{wheel() / VERSION / 'bin'}:{os.environ['PATH']}"
    environment = {"PATH": programs, "PGPASSFILE": passwords, "CARE_ENV": "development"}

    def run(text: str) -> None:
        text = text.replace("/elsewhere", str(tmp_path)).replace("/backups", str(tmp_path))
        done = subprocess.run(
            ["sh", "-e", "-c", text],
            env={**environment, "CARE_DATABASE_URL": url},
            capture_output=True,
            text=True,
        )
        assert (done.returncode, done.stderr) == (0, ""), done.stdout

    run(f"sh {OPS}/backup.sh /backups 30\nmv /backups/care-*.dump /backups/care-2026-11-21.dump")
    save, empty, restore = [block.text for block in pages.blocks(POSTGRESQL)[:3]]
    run(save)
    if is_lost:
        drop_database(postgres, urlsplit(url).path[1:])
        create_again(postgres, urlsplit(url).path[1:])
    else:
        run(empty)
    run(restore)
    assert raw.row_counts(own_database) == before
