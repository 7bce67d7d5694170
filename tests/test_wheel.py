"""The wheel is the same, byte for byte, wherever it is built, and contains its bill of materials."""

import json
import os
import shutil
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path
from typing import Any

import pytest

from supply.bill import write_bill
from supply.lock import LOCK, PROJECT, ROOT, names_of_groups, read_lock, select

SOURCES = ("app", "moving_over", "supply", "pyproject.toml", "README.md", "requirements.lock", ".gitignore")
NPM_LOCK = (ROOT / "app/dev/web/package-lock.json").read_text()
VERSION = tomllib.loads(PROJECT.read_text())["project"]["version"]
MOMENT = 1_580_601_600
NOT_SOURCES = shutil.ignore_patterns("__pycache__", "built", "node_modules")


def build(folder: Path, moment: int, mode: int) -> Path:
    """Builds a copy whose files have this time of change and these permissions."""
    for name in SOURCES:
        source, target = ROOT / name, folder / name
        if source.is_dir():
            shutil.copytree(
                source, target, ignore=shutil.ignore_patterns("__pycache__", "built", "node_modules")
            )
        else:
            target.parent.mkdir(exist_ok=True)
            shutil.copyfile(source, target)
    for path in folder.rglob("*"):
        path.chmod(0o700 if path.is_dir() else mode)
        os.utime(path, (moment, moment))
    command = [sys.executable, "-m", "hatchling", "build", "--target", "wheel", "--directory", "dist"]
    subprocess.run(command, cwd=folder, check=True, capture_output=True)
    [wheel] = (folder / "dist").iterdir()
    return wheel


@pytest.fixture(scope="module")
def wheels(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    return [
        build(tmp_path_factory.mktemp("one") / "checkout", 1_600_000_000, 0o644),
        build(tmp_path_factory.mktemp("other") / "a longer name", 1_700_000_000, 0o600),
    ]


def test_two_wheels_of_the_same_files_are_byte_equal(wheels: list[Path]) -> None:
    one, other = wheels

    assert one.name == other.name == f"care_gateway-{VERSION}-py3-none-any.whl"
    assert one.read_bytes() == other.read_bytes()


def bill_in(wheel: Path) -> Any:
    with zipfile.ZipFile(wheel) as archive:
        return json.loads(archive.read(f"care_gateway-{VERSION}.dist-info/sboms/care-gateway.cdx.json"))


def test_the_wheel_contains_its_bill_of_materials(wheels: list[Path]) -> None:
    bill = bill_in(wheels[0])

    assert (bill["bomFormat"], bill["specVersion"]) == ("CycloneDX", "1.6")
    assert (bill["metadata"]["component"]["name"], bill["metadata"]["component"]["version"]) == (
        "care-gateway",
        VERSION,
    )
    project, lock = PROJECT.read_text(), LOCK.read_text()
    needed = read_lock(select(lock, names_of_groups(project, ["run", "postgres", "telemetry"])))
    assert sorted(each["purl"] for each in bill["components"]) == sorted(
        f"pkg:pypi/{one.name}@{one.version}" for one in needed
    )
    scopes = {each["name"]: each["scope"] for each in bill["components"]}
    assert (scopes["starlette"], scopes["asyncpg"]) == ("required", "optional")


def test_the_bill_names_who_needs_each_package(wheels: list[Path]) -> None:
    bill = bill_in(wheels[0])
    names = {each["bom-ref"]: each["name"] for each in [*bill["components"], bill["metadata"]["component"]]}

    needs = {
        names[each["ref"]]: {names[one] for one in each.get("dependsOn", ())} for each in bill["dependencies"]
    }

    assert {"starlette", "asyncpg", "opentelemetry-sdk"} <= needs["care-gateway"]
    assert "anyio" not in needs["care-gateway"] and "anyio" in needs["starlette"]
    assert set().union(*needs.values()) == set(names.values()) - {"care-gateway"}


def test_the_bill_of_a_wheel_with_pages_has_the_packages_in_them() -> None:
    bill = json.loads(
        write_bill("care-gateway", VERSION, PROJECT.read_text(), LOCK.read_text(), NPM_LOCK, MOMENT)
    )

    urls = {each["purl"].partition("@")[0] for each in bill["components"]}
    assert {"pkg:npm/graphiql", "pkg:npm/%40graphiql/react"} <= urls and "pkg:npm/esbuild" not in urls
