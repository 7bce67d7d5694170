"""`python -m supply.lock run postgres`: prints the locked packages that these groups of pyproject.toml need.

Imports only the standard library, because the image build runs it before anything is installed.
"""

import re
import sys
import tomllib
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parent.parent
LOCK = ROOT / "requirements.lock"
NODE_LOCK = ROOT / "requirements-node.lock"
PROJECT = ROOT / "pyproject.toml"

PIN = re.compile(r"(?P<name>[a-z0-9-]+)==(?P<version>[^ \\]+)(?: ; (?P<marker>[^\\]+?))? ?\\?\n")
VIA = re.compile(r"^    #   (?:via )?(\S+)$|^    # via (\S+)$", re.MULTILINE)


@dataclass(frozen=True)
class LockedPackage:
    name: str
    version: str
    marker: str  # environment marker, empty for all platforms
    required_by: frozenset[str]
    text: str

    @property
    def is_hashed(self) -> bool:
        return "--hash=sha256:" in self.text


def read_lock(text: str) -> list[LockedPackage]:
    return [read_package(block) for block in re.split(r"(?m)^(?=[a-z0-9])", text) if PIN.match(block)]


def read_package(block: str) -> LockedPackage:
    pin = PIN.match(block)
    assert pin is not None
    required_by = frozenset(one or other for one, other in VIA.findall(block))
    return LockedPackage(pin["name"], pin["version"], pin["marker"] or "", required_by, block)


def read_groups(project: str) -> dict[str, list[str]]:
    """The requirements of pyproject.toml: to run, by extra, and to build."""
    content = tomllib.loads(project)
    return {
        "run": content["project"]["dependencies"],
        **content["project"].get("optional-dependencies", {}),
        "build": content["build-system"]["requires"],
    }


def package_name(requirement: str) -> str:
    return re.sub(r"[-_.]+", "-", re.split(r"[^A-Za-z0-9._-]", requirement)[0]).lower()


def names_of_groups(project: str, groups: Iterable[str]) -> set[str]:
    known = read_groups(project)
    if unknown := sorted(set(groups) - known.keys()):
        raise SystemExit(
            f"pyproject.toml has no group {', '.join(unknown)}; it has {', '.join(sorted(known))}"
        )
    return {package_name(requirement) for group in groups for requirement in known[group]}


def select(lock: str, names: Iterable[str]) -> str:
    """The lock entries of these packages and of everything that they require."""
    packages = read_lock(lock)
    found = set(names)
    if missing := found - {one.name for one in packages}:
        raise SystemExit(f"the lock does not contain {', '.join(sorted(missing))}: run make lock")
    while more := {one.name for one in packages if one.required_by & found} - found:
        found |= more
    return "".join(one.text for one in packages if one.name in found)


if __name__ == "__main__":
    wanted = names_of_groups(PROJECT.read_text(), sys.argv[1:])
    print(select(LOCK.read_text(), wanted), end="")
