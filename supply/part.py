"""`python -m supply.part run postgres`: what of the lock some groups of pyproject.toml need, with its hashes.

Stands on nothing but Python: it says what to install first.
"""

import re
import sys
import tomllib
from collections.abc import Iterable, Iterator
from pathlib import Path

ROOT = Path(__file__).parent.parent
NAME = re.compile(r"[A-Za-z0-9._-]+")
BROUGHT = re.compile(r"^    #   (?:via )?(\S+)$|^    # via (\S+)$", re.MULTILINE)


def part(lock: str, names: Iterable[str]) -> str:
    """The blocks of these packages, and of all that they bring."""
    blocks = dict(blocks_of(lock))
    brought_by = {
        name: {one or other for one, other in BROUGHT.findall(text)} for name, text in blocks.items()
    }
    found = set(names)
    if missing := found - blocks.keys():
        raise SystemExit(f"the lock does not hold {', '.join(sorted(missing))}: make lock")
    while more := {name for name, by in brought_by.items() if by & found} - found:
        found |= more
    return "".join(text for name, text in blocks.items() if name in found)


def blocks_of(lock: str) -> Iterator[tuple[str, str]]:
    for block in re.split(r"(?m)^(?=[a-z0-9])", lock):
        if match := re.match(r"([a-z0-9-]+)==", block):
            yield match[1], block


def named(project: str, groups: Iterable[str]) -> set[str]:
    said = tomllib.loads(project)
    every = {
        "run": said["project"]["dependencies"],
        "build": said["build-system"]["requires"],
        **said["project"]["optional-dependencies"],
    }
    asked = list(groups)
    if unknown := sorted(set(asked) - every.keys()):
        raise SystemExit(
            f"pyproject.toml has no group {', '.join(unknown)}; it has {', '.join(sorted(every))}"
        )
    return {canonical(text) for group in asked for text in every[group]}


def canonical(requirement: str) -> str:
    match = NAME.match(requirement)
    assert match is not None
    return re.sub(r"[-_.]+", "-", match[0]).lower()


if __name__ == "__main__":
    wanted = named((ROOT / "pyproject.toml").read_text(), sys.argv[1:])
    print(part((ROOT / "requirements.lock").read_text(), wanted), end="")
