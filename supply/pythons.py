"""`python -m supply.pythons`: runs a fast part of the suite on every other version of Python.

It finds the interpreters on the PATH and those of pyenv. Each gets an environment below `var` with the locked
packages, which is kept until the lock changes.
"""

import hashlib
import os
import subprocess
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

from supply.lock import LOCK, ROOT

OLDEST = (3, 11)
NEWEST_TRIED = 30  # minor version up to which the PATH is searched
ENVIRONMENTS = ROOT / "var" / "pythons"
PIP = ("-m", "pip", "install", "--quiet", "--disable-pip-version-check")
# What depends most on the version: the stack, typing, tasks, the event loop, TLS, HTTP clients, the server.
FAST_PART = (
    "tests/engine",
    "tests/server",
    "tests/auth",
    "tests/events",
    "tests/live/test_edge.py",
    "tests/live/test_edge_http.py",
    "tests/schema/test_http.py",
    "tests/schema/test_too_costly.py",
    "tests/schema/test_websockets.py",
)
WITHOUT = "not postgresql"

# Released CPython only: `final` is the release level.
ASK = """
import sys
level = sys.version_info.releaselevel
if sys.implementation.name == "cpython" and level == "final":
    print(*sys.version_info[:3])
"""

Version = tuple[int, ...]


def candidates() -> Iterator[Path]:
    for folder in os.environ.get("PATH", "").split(os.pathsep):
        for minor in range(OLDEST[1], NEWEST_TRIED):
            yield Path(folder, f"python3.{minor}")
    pyenv = Path(os.environ.get("PYENV_ROOT") or Path.home() / ".pyenv")
    yield from pyenv.glob("versions/*/bin/python")


def version_of(interpreter: Path) -> Version | None:
    """None if the interpreter does not start. The commands that pyenv puts on the PATH start only for the
    versions that are enabled."""
    try:
        answer = subprocess.run([interpreter, "-c", ASK], capture_output=True, text=True, timeout=60)
    except (OSError, subprocess.TimeoutExpired):
        return None
    return tuple(map(int, answer.stdout.split())) if answer.returncode == 0 and answer.stdout else None


def find_others(paths: Iterable[Path], own: Version) -> dict[Version, Path]:
    """The latest release of each minor version except the own one."""
    found: dict[Version, tuple[Version, Path]] = {}
    for path in paths:
        version = version_of(path) if path.is_file() else None
        if version is None or version < OLDEST or version[:2] == own[:2]:
            continue
        minor = version[:2]
        if minor not in found or version > found[minor][0]:
            found[minor] = (version, path)
    return dict(sorted(found.values()))


def environment_of(version: Version, interpreter: Path) -> Path:
    """The Python of an environment with the locked packages, and this checkout instead of the service's."""
    folder = ENVIRONMENTS / written(version)
    python, ready = folder / "bin" / "python", folder / "ready"
    lock = hashlib.sha256(LOCK.read_bytes()).hexdigest()
    if not (ready.is_file() and ready.read_text() == lock):
        print(f"installing into {folder}", flush=True)
        subprocess.run([interpreter, "-m", "venv", "--clear", folder], check=True)
        subprocess.run([python, *PIP, "--require-hashes", "--requirement", LOCK], check=True)
        editable = ("--no-deps", "--no-build-isolation", "--editable", ROOT)
        subprocess.run([python, *PIP, *editable], check=True)
        ready.write_text(lock)
    return python


def written(version: Version) -> str:
    return ".".join(map(str, version))


def main(paths: Iterable[Path], tests: Iterable[str]) -> int:
    others = find_others(paths, sys.version_info[:3])
    if not others:
        print(f"skipped: no other Python of at least {written(OLDEST)} was found on the PATH or in pyenv")
    failed = []
    for version, interpreter in others.items():
        print(f"Python {written(version)}", flush=True)
        try:
            python = environment_of(version, interpreter)
            subprocess.run([python, "-m", "pytest", *tests], cwd=ROOT, check=True)
        except subprocess.CalledProcessError:
            failed.append(written(version))
    if failed:
        print(f"FAILED on Python {', '.join(failed)}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(candidates(), ["-v", "-n", "auto", "--dist", "loadfile", "-k", WITHOUT, *FAST_PART]))
