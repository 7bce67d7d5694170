"""The build hook of the wheel, run with HATCH_BUILD_HOOK_ENABLE_CUSTOM=true: adds the built pages."""

from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

PAGES = "app/dev/built"


class DevelopmentPages(BuildHookInterface[Any]):
    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        build_data["force_include"][f"{self.root}/{PAGES}"] = PAGES
