"""`make audit`: checks the licences and the known vulnerabilities of the locked packages.

Exit code 0: no findings. 1: findings. 3: no findings, but some packages could not be looked up, for example
without a network; pip-audit alone reports success in that case.
"""

import json
import re
import subprocess
import sys
import venv
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import Any

from supply.lock import LOCK, NODE_LOCK, ROOT, LockedPackage, read_lock

AUDITOR = "pip-audit==2.10.1"
FOLDER = ROOT / ".venv" / AUDITOR.replace("==", "-")  # isolated from the service's own packages
TIMEOUT_SECONDS = 600
FOUND, INCOMPLETE = 1, 3
PERMISSIVE = {"MIT", "MIT-0", "Apache-2.0", "BSD-2-Clause", "BSD-3-Clause", "BSD", "PSF-2.0", "MPL-2.0"}
SPDX = {
    "MIT License": "MIT",
    "Apache 2.0": "Apache-2.0",
    "Apache Software License": "Apache-2.0",
    "BSD License": "BSD",
    "PSFL": "PSF-2.0",
    "Mozilla Public License 2.0 (MPL 2.0)": "MPL-2.0",
}


@dataclass(frozen=True)
class AuditResult:
    vulnerabilities: list[str]
    unknown: list[str]  # packages that could not be looked up
    total: int


def main() -> int:
    lock = read_lock(LOCK.read_text())
    print(f"requirements.lock: {len(lock)} packages")
    findings = list(check_licences(lock))
    result = run_auditor()
    if result is not None:
        print(f"vulnerabilities: {result.total - len(result.unknown)} of {result.total} packages looked up")
        findings += result.vulnerabilities
    for finding in findings:
        print(f"FOUND: {finding}")
    if not findings:
        print("no findings")
    is_complete = result is not None and not result.unknown
    if not is_complete:
        print(f"NOT LOOKED UP: {incomplete_reason(result)}")
    return FOUND if findings else 0 if is_complete else INCOMPLETE


# --- licences -------------------------------------------------------------------------------------


def check_licences(lock: list[LockedPackage]) -> Iterator[str]:
    """Prints all licences and yields the licences that need a review."""
    by_licence = defaultdict(list)
    for one in lock:
        by_licence[licence_of(one.name) or "not installed on this machine"].append(one)
    print("licences:")
    for licence, packages in sorted(by_licence.items(), key=lambda item: -len(item[1])):
        print(f"  {licence}: {', '.join(one.name for one in packages)}")
        for one in packages:
            if not is_permissive(licence) and not (one.marker and licence_of(one.name) is None):
                yield f"{one.name} {one.version} has the licence: {licence}"


def licence_of(name: str) -> str | None:
    """The SPDX licence of an installed package, or None if the package is not installed."""
    try:
        package: Any = metadata.metadata(name)  # typed without the methods of an e-mail message
    except metadata.PackageNotFoundError:
        return None
    classified = [
        line.rpartition(" :: ")[2]
        for line in package.get_all("Classifier", [])
        if line.startswith("License ::")
    ]
    short = (
        package.get("License-Expression")
        or package.get("License")
        or " AND ".join(SPDX.get(licence, licence) for licence in classified)
    ).strip()
    return SPDX.get(short, short) if short and "\n" not in short else "unknown"


def is_permissive(licence: str) -> bool:
    return set(re.split(r"[()\s]+|\bAND\b|\bOR\b", licence)) - {""} <= PERMISSIVE and licence != ""


# --- known vulnerabilities ------------------------------------------------------------------------


def run_auditor() -> AuditResult | None:
    """None if pip-audit cannot be installed or does not finish."""
    try:
        program = install_auditor()
        locks = ["--requirement", str(LOCK), "--requirement", str(NODE_LOCK)]
        command = [str(program), "--require-hashes", "--disable-pip", *locks, "--format", "json"]
        process = subprocess.run(
            [*command, "--progress-spinner", "off"], capture_output=True, text=True, timeout=TIMEOUT_SECONDS
        )
    except (OSError, subprocess.SubprocessError):
        return None
    return read_result(process.stdout)


def install_auditor() -> Path:
    program = FOLDER / "bin" / "pip-audit"
    if not program.exists():
        print(f"installing {AUDITOR} into {FOLDER.relative_to(ROOT)}")
        venv.create(FOLDER, clear=True, with_pip=True)
        install = [str(FOLDER / "bin" / "python"), "-m", "pip", "install", "--quiet", AUDITOR]
        subprocess.run(install, check=True, capture_output=True, timeout=TIMEOUT_SECONDS)
    return program


def read_result(text: str) -> AuditResult | None:
    """pip-audit reports packages that it could not look up as skipped."""
    try:
        packages = json.loads(text)["dependencies"]
    except (ValueError, KeyError):
        return None  # pip-audit failed and printed a traceback
    vulnerabilities = [describe(package, one) for package in packages for one in package.get("vulns", ())]
    unknown = [package["name"] for package in packages if "skip_reason" in package]
    return AuditResult(vulnerabilities, unknown, len(packages))


def describe(package: dict[str, str], vulnerability: dict[str, list[str]]) -> str:
    fixed = ", ".join(vulnerability["fix_versions"]) or "no version yet"
    return f"{package['name']} {package['version']}: {vulnerability['id']}, fixed in {fixed}"


def incomplete_reason(result: AuditResult | None) -> str:
    if result is None or len(result.unknown) == result.total:
        return "the vulnerability database cannot be reached from this machine"
    return f"the vulnerability database has no entry for {', '.join(result.unknown)}"


if __name__ == "__main__":
    sys.exit(main())
