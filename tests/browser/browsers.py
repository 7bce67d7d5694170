"""Which browser the pages are tried in: one that is here, or else one that npm brings."""

import os
import platform
import shutil
import subprocess
import tarfile
from pathlib import Path
from typing import Any

from app.dev.ide.building import find_node, npm_of

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome", "microsoft-edge")
OF_MACS = "/Applications/Google Chrome.app/Contents/MacOS/Google Chrome"
SOURCES = Path(__file__).parent / "chromium"
ROOT = SOURCES.parents[3]
FOLDER = ROOT / ".venv" / "chromium"
# Early releases of Python 3.11 do not have it; what is unpacked has the hash that is locked.
FILTER: dict[str, Any] = {"filter": "data"} if hasattr(tarfile, "data_filter") else {}
NONE = "No Chromium is here, and none can be brought: {why}. Install one, or say BROWSER=/path/to/chrome."


class NoBrowser(Exception):
    """The message says what to do."""


def find_browser() -> Path:
    if named := os.environ.get("BROWSER"):
        if shutil.which(named) is None:
            raise NoBrowser(f"BROWSER={named} is no program.")
        return Path(named)
    for name in NAMES:
        if found := shutil.which(name):
            return Path(found)
    if Path(OF_MACS).exists():
        return Path(OF_MACS)
    return bring_browser()


def bring_browser() -> Path:
    if (platform.system(), platform.machine()) != ("Linux", "x86_64"):
        raise NoBrowser(NONE.format(why="there is a ready one for Linux on x86-64 only"))
    program = FOLDER / "chrome"
    if not program.exists():
        print(f"bringing Chromium into {FOLDER.relative_to(ROOT)}", flush=True)
        shutil.copytree(SOURCES, FOLDER, dirs_exist_ok=True)
        node = find_node()
        for command in ([node, npm_of(node), "ci"], [node, "unpack.mjs", "."]):
            done = subprocess.run(command, cwd=FOLDER, capture_output=True, text=True)
            if done.returncode:
                said = [line for line in done.stderr.splitlines() if line and not line.startswith("npm warn")]
                raise NoBrowser(NONE.format(why="; ".join(said[:3])))
        for name in ("al2023", "fonts", "swiftshader"):
            with tarfile.open(FOLDER / f"{name}.tar") as packed:
                packed.extractall(FOLDER, **FILTER)
            (FOLDER / f"{name}.tar").unlink()
        shutil.rmtree(FOLDER / "node_modules")
        # Libraries that a bare machine does not have lie beside it; last, as it says that all is there.
        program.write_text(f'#!/bin/sh\nLD_LIBRARY_PATH="{FOLDER}/lib" exec "{FOLDER}/chromium" "$@"\n')
        program.chmod(0o755)
    return program
