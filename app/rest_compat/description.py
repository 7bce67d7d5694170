"""openapi.yaml, served as YAML and as JSON."""

from functools import cache
from pathlib import Path

import orjson

YAML = (Path(__file__).parent / "openapi.yaml").read_bytes()


@cache
def as_json() -> bytes:
    import yaml  # a slow import that most processes do not need

    document = yaml.load(YAML, getattr(yaml, "CSafeLoader", yaml.SafeLoader))
    return orjson.dumps(document, option=orjson.OPT_INDENT_2)
