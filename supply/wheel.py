"""The build hook of the wheel: builds the development pages into it, except in an editable installation."""

import sys
import tempfile
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

NODE_LOCK = Path(__file__).parent.parent / "requirements-node.lock"
HINT = "HATCH_BUILD_NO_HOOKS=true builds a wheel without them."


def locked_node() -> list[str]:
    lines = NODE_LOCK.read_text(encoding="utf-8").splitlines()
    return [line.split(" ")[0] for line in lines if line[:1].isalpha()]


class FullPage(BuildHookInterface[Any]):
    def dependencies(self) -> list[str]:
        return locked_node()

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        if version == "editable":
            return
        sys.path.insert(0, self.root)
        try:
            from app.dev.building import MANIFEST, NotBuilt, build
        finally:
            sys.path.remove(self.root)
        self.work = tempfile.TemporaryDirectory(prefix="care-gateway-wheel-")
        folder = Path(self.work.name, "built")
        try:
            built = build(folder, report=self.app.display_info)
        except NotBuilt as error:
            self.app.abort(f"The pages could not be built: {error}\n{HINT}")
        for name in (MANIFEST, *built.files):
            build_data["force_include"][str(folder / name)] = f"app/dev/built/{name}"

    def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:
        if version != "editable":
            self.work.cleanup()
