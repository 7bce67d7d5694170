"""`make audit`: is the lock whole, are its licences known, and what is known against what it names?

Exit code 0: nothing was found. 1: something was. 3: nothing was found, and nobody could be asked about known
vulnerabilities, as without a network; what was not looked at is not said to be fine.
"""

import json
import subprocess
import sys
import venv
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from supply.lock import (
    LOCK,
    NODE_LOCK,
    PROJECT,
    ROOT,
    Locked,
    is_usual,
    licence_of,
    misfits,
    named_requirements,
    read_lock,
)

AUDITOR = "pip-audit==2.10.1"
FOLDER = ROOT / ".venv" / AUDITOR.replace("==", "-")  # its own: what it needs is no part of the service
SECONDS = 600
FOUND, NOT_ASKED = 1, 3


@dataclass(frozen=True)
class Asked:
    """What came of asking about known vulnerabilities: what is known, and who was not known at all."""

    known: list[str]
    unknown: list[str]
    total: int


def main() -> int:
    lock = read_lock(LOCK.read_text())
    findings = [*misfits(lock, named_requirements(PROJECT.read_text()))]
    print(f"requirements.lock: {len(lock)} packages, {sum(one.hashes for one in lock)} hashes")
    findings += told_licences(lock)
    asked = ask()
    if asked is not None:
        print(f"vulnerabilities: {asked.total - len(asked.unknown)} of {asked.total} packages looked up")
        findings += asked.known
    for finding in findings:
        print(f"FOUND: {finding}")
    if not findings:
        print("nothing was found")
    is_asked = asked is not None and not asked.unknown
    if not is_asked:
        print(f"NOT LOOKED UP: {why_not(asked)}")
    return FOUND if findings else 0 if is_asked else NOT_ASKED


def told_licences(lock: list[Locked]) -> Iterator[str]:
    """Prints them; the findings are those that somebody has to read first."""
    by_licence = defaultdict(list)
    for one in lock:
        by_licence[licence_of(one.name) or "not installed on this machine"].append(one)
    print("licences:")
    for licence, packages in sorted(by_licence.items(), key=lambda item: -len(item[1])):
        print(f"  {licence}: {', '.join(one.name for one in packages)}")
        for one in packages:
            if not is_usual(licence) and not (one.only_where and licence_of(one.name) is None):
                yield f"{one.name} {one.version} has the licence: {licence}"


# --- known vulnerabilities ------------------------------------------------------------------------


def ask() -> Asked | None:
    """None where nobody answers."""
    try:
        program = auditor()
        locks = ["--requirement", str(LOCK), "--requirement", str(NODE_LOCK)]
        given = ["--require-hashes", "--disable-pip", *locks]
        shown = ["--format", "json", "--progress-spinner", "off"]
        said = subprocess.run([str(program), *given, *shown], capture_output=True, text=True, timeout=SECONDS)
    except (OSError, subprocess.SubprocessError):
        return None
    return read_answer(said.stdout)


def auditor() -> Path:
    """pip-audit, installed the first time."""
    program = FOLDER / "bin" / "pip-audit"
    if not program.exists():
        print(f"installing {AUDITOR} into {FOLDER.relative_to(ROOT)}")
        venv.create(FOLDER, clear=True, with_pip=True)
        install = [
            str(FOLDER / "bin" / "python"),
            "-m",
            "pip",
            "install",
            "--quiet",
            "--disable-pip-version-check",
        ]
        subprocess.run([*install, AUDITOR], check=True, capture_output=True, timeout=SECONDS)
    return program


def read_answer(text: str) -> Asked | None:
    """pip-audit counts a package that it could not look up as skipped, and its run as a good one."""
    try:
        packages = json.loads(text)["dependencies"]
    except (ValueError, KeyError):
        return None  # it broke off, with a traceback instead
    known = [told(package, one) for package in packages for one in package.get("vulns", ())]
    unknown = [package["name"] for package in packages if "skip_reason" in package]
    return Asked(known, unknown, len(packages))


def told(package: dict[str, str], vulnerability: dict[str, list[str]]) -> str:
    mended = ", ".join(vulnerability["fix_versions"]) or "no version yet"
    return f"{package['name']} {package['version']}: {vulnerability['id']}, mended in {mended}"


def why_not(asked: Asked | None) -> str:
    if asked is None or len(asked.unknown) == asked.total:
        return "the database of known vulnerabilities cannot be reached from here; run it where it can be"
    return f"the database of known vulnerabilities does not know {', '.join(asked.unknown)}"


if __name__ == "__main__":
    sys.exit(main())
