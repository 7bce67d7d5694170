"""The build hook of the wheel: adds its bill of materials, and with HATCH_BUILD_HOOK_ENABLE_CUSTOM=true the
built pages."""

import os
import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface
from hatchling.builders.utils import get_reproducible_timestamp

PAGES = "app/dev/built"
NPM_LOCK = "app/dev/web/package-lock.json"
BILL = "care-gateway.cdx.json"  # in the folder `sboms` of the metadata (PEP 770)


class WheelContents(BuildHookInterface[Any]):
    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        self.folder = TemporaryDirectory()
        if version == "editable":
            return
        has_pages = os.environ.get("HATCH_BUILD_HOOK_ENABLE_CUSTOM") == "true"
        if has_pages:
            build_data["force_include"][f"{self.root}/{PAGES}"] = PAGES
        bill = Path(self.folder.name, BILL)
        bill.write_text(self.bill(has_pages))
        build_data["sbom_files"].append(str(bill))

    def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:
        self.folder.cleanup()

    def bill(self, has_pages: bool) -> str:
        sys.path.insert(0, self.root)
        from supply.bill import write_bill  # here, because an editable installation needs no library for it

        root, metadata = Path(self.root), self.metadata
        return write_bill(
            metadata.core.name,
            metadata.version,
            (root / "pyproject.toml").read_text(),
            (root / "requirements.lock").read_text(),
            (root / NPM_LOCK).read_text() if has_pages else None,
            get_reproducible_timestamp(),
        )
