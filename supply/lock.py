"""What requirements.lock holds, what pyproject.toml names, and where the two do not fit each other."""

import re
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import Any

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parent.parent
LOCK = ROOT / "requirements.lock"
NODE_LOCK = ROOT / "requirements-node.lock"
PROJECT = ROOT / "pyproject.toml"

FIRST_LINE = re.compile(r"^(?P<name>[a-z0-9-]+)==(?P<version>[^ \\]+)(?: ; (?P<only_where>[^\\]+?))? ?\\?$")
BROUGHT = re.compile(r"^    #   (?:via )?(.+)$|^    # via (.+)$")
USUAL = {"MIT", "MIT-0", "Apache-2.0", "BSD-2-Clause", "BSD-3-Clause", "BSD", "PSF-2.0", "MPL-2.0"}
CALLED = {
    "MIT License": "MIT",
    "Apache 2.0": "Apache-2.0",
    "Apache Software License": "Apache-2.0",
    "BSD License": "BSD",
    "Mozilla Public License 2.0 (MPL 2.0)": "MPL-2.0",
}


@dataclass(frozen=True)
class Locked:
    """A package of the lock; `only_where` is the kind of machine it is for, if not for all."""

    name: str
    version: str
    only_where: str
    hashes: int
    brought_by: tuple[str, ...]


def read_lock(text: str) -> list[Locked]:
    return [locked_of(block) for block in re.split(r"\n(?=[a-z0-9])", text.strip()) if block]


def locked_of(block: str) -> Locked:
    lines = block.splitlines()
    first = FIRST_LINE.match(lines[0])
    if first is None:
        raise ValueError(f"the lock has a line that pins nothing: {lines[0]}")
    brought_by = tuple(
        brought[1] or brought[2] for line in lines if (brought := BROUGHT.match(line)) is not None
    )
    hashes = sum("--hash=sha256:" in line for line in lines)
    return Locked(first["name"], first["version"], first["only_where"] or "", hashes, brought_by)


def named_requirements(project: str) -> dict[str, list[Requirement]]:
    """What pyproject.toml names: to run, by extra, and to build."""
    said = tomllib.loads(project)
    groups = {
        "run": said["project"]["dependencies"],
        **said["project"].get("optional-dependencies", {}),
        "build": said["build-system"]["requires"],
    }
    return {group: [Requirement(text) for text in texts] for group, texts in groups.items()}


def named_packages(named: Mapping[str, list[Requirement]]) -> set[str]:
    return {canonicalize_name(one.name) for requirements in named.values() for one in requirements}


def misfits(lock: list[Locked], named: Mapping[str, list[Requirement]]) -> Iterator[str]:
    """Everything about the lock that should not be, in sentences."""
    versions = {one.name: one.version for one in lock}
    for one in lock:
        if not one.hashes:
            yield f"{one.name} {one.version} has no hash"
    for group, requirements in named.items():
        for requirement in requirements:
            name: str = canonicalize_name(requirement.name)
            if name not in versions:
                yield f"{name} is named in pyproject.toml ({group}) and not in the lock"
            elif not requirement.specifier.contains(versions[name], prereleases=True):
                yield f"{name} {versions[name]} is not what pyproject.toml ({group}) asks for"
    for orphan in sorted(versions.keys() - reached(lock, named_packages(named))):
        yield f"{orphan} is in the lock, and nothing that pyproject.toml names brings it"


def reached(lock: list[Locked], roots: set[str]) -> set[str]:
    found = roots
    while more := {one.name for one in lock if found.intersection(one.brought_by)} - found:
        found = found | more
    return found


def licence_of(name: str) -> str | None:
    """What an installed package says of its licence, in the short words of SPDX; None if it is not here."""
    try:
        said: Any = metadata.metadata(name)  # an e-mail message, whose type does not say what it can
    except metadata.PackageNotFoundError:
        return None
    classified = [
        line.rpartition(" :: ")[2] for line in said.get_all("Classifier", []) if line.startswith("License ::")
    ]
    short = said.get("License-Expression") or said.get("License") or " AND ".join(map(called, classified))
    return called(short.strip()) if short and "\n" not in short.strip() else "not said"


def called(licence: str) -> str:
    return CALLED.get(licence, licence)


def is_usual(licence: str) -> bool:
    """Whether it asks for nothing but to be named, or for changes to the package's own files to be shown."""
    return set(re.split(r"[()\s]+|\bAND\b|\bOR\b", licence)) - {""} <= USUAL and licence != ""
