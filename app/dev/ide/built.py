"""The full GraphQL page as `make ide` leaves it: a manifest, and files with a hash in their names."""

import json
from dataclasses import dataclass
from pathlib import Path

BUILT = Path(__file__).parent / "built"
MANIFEST = "manifest.json"
LICENCES = "licences.txt"
KINDS = {
    ".js": "text/javascript; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".txt": "text/plain; charset=utf-8",
}


class Incomplete(Exception):
    """The build is not whole; the message says in what way."""


@dataclass(frozen=True)
class Built:
    script: str
    style: str
    files: dict[str, Path]  # by name: nothing else of the folder is given to anybody

    @property
    def size(self) -> int:
        return sum(path.stat().st_size for path in self.files.values())


def read_built(folder: Path) -> Built | None:
    """None where there is no whole build: the plain page then stands in."""
    try:
        return check_built(folder)
    except Incomplete:
        return None


def check_built(folder: Path) -> Built:
    try:
        said = json.loads((folder / MANIFEST).read_text(encoding="utf-8"))
        script, style, names = str(said["script"]), str(said["style"]), [str(name) for name in said["files"]]
    except (OSError, ValueError, KeyError, TypeError):
        raise Incomplete(f"there is no readable {MANIFEST}") from None
    for name in {script, style, LICENCES, *names}:
        if name not in names:
            raise Incomplete(f"{name} is not in {MANIFEST}")
        if Path(name).name != name or Path(name).suffix not in KINDS:
            raise Incomplete(f"{name} is not the name of an asset")
        if not (folder / name).is_file() or not (folder / name).stat().st_size:
            raise Incomplete(f"{name} is missing")
    return Built(script, style, {name: folder / name for name in names})
