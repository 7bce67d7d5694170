"""docs/clients.md links the setups that `make clients` runs, and their packages are pinned."""

import json
import re
from pathlib import Path

from clients.run import FILES

ROOT = Path(__file__).parent.parent
CLIENTS = ROOT / "clients"
PAGE = (ROOT / "docs" / "clients.md").read_text()


def test_every_setup_is_linked() -> None:
    setups = {path.name for path in (CLIENTS / "setups").iterdir() if path.is_file()} - {"__init__.py"}

    assert set(re.findall(r"\]\(\.\./clients/setups/([^)]+)\)", PAGE)) == setups


def test_every_test_file_is_run() -> None:
    tests = CLIENTS / "tests"

    assert FILES.keys() == {path.name for path in (*tests.glob("*.test.js"), *tests.glob("test_*.py"))}


def test_every_package_has_a_hash_and_no_url() -> None:
    lock = (CLIENTS / "package-lock.json").read_text()
    packages = json.loads(lock)["packages"]
    del packages[""]

    assert [name for name, one in packages.items() if not one.get("integrity") or "resolved" in one] == []
    assert "://" not in re.sub(r'"url": "https://[^"]*"', "", lock)


def test_every_package_has_one_exact_version_and_none_is_overridden() -> None:
    package = json.loads((CLIENTS / "package.json").read_text())

    versions = package["devDependencies"].items()
    assert [name for name, version in versions if not re.fullmatch(r"\d+\.\d+\.\d+", version)] == []
    assert "overrides" not in package


def test_the_page_installs_the_tested_versions() -> None:
    tested = json.loads((CLIENTS / "package.json").read_text())["devDependencies"]

    shown = re.findall(r"(@?[\w/-]+)@(\d+\.\d+\.\d+)", PAGE)
    assert {name: tested.get(name) for name, _ in shown} == dict(shown)
