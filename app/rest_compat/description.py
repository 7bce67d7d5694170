"""openapi.yaml, served as YAML and as JSON."""

from functools import cache
from pathlib import Path
from typing import Any

import orjson

YAML = (Path(__file__).parent / "openapi.yaml").read_bytes()


@cache
def document() -> dict[str, Any]:
    import yaml  # a slow import that most processes do not need

    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    found: dict[str, Any] = yaml.load(YAML, loader)
    return found


@cache
def as_json() -> bytes:
    return orjson.dumps(document(), option=orjson.OPT_INDENT_2)
