"""The GraphQL page for browsers: GraphiQL where it is built, or else one by hand without dependencies."""

import html
import json
import re
from dataclasses import dataclass
from pathlib import Path

from app.dev.ide.built import BUILT, KINDS, Built, read_built
from app.dev.ide.examples import EXAMPLES, LISTENING, Example

__all__ = [
    "ASSETS",
    "BUILT",
    "EXAMPLES",
    "FULL_POLICY",
    "KINDS",
    "LISTENING",
    "PLAIN_POLICY",
    "Built",
    "Example",
    "PageConfig",
    "full_page",
    "page",
    "read_built",
]

# What is forbidden to both: whatever is not named, and to be embedded.
CLOSED = "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
PLAIN_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
    f"{CLOSED}"
)
# Its editor writes styles as it goes, works in workers, and has its fonts within its style.
FULL_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; font-src 'self' data:; "
    f"img-src 'self' data:; connect-src 'self'; worker-src 'self'; {CLOSED}"
)

FOLDER = Path(__file__).parent
PAGE = (FOLDER / "page.html").read_text(encoding="utf-8")
FULL = (FOLDER / "full.html").read_text(encoding="utf-8")
ASSETS: dict[str, tuple[bytes, str]] = {
    "page.js": ((FOLDER / "page.js").read_bytes(), KINDS[".js"]),
    "page.css": ((FOLDER / "page.css").read_bytes(), KINDS[".css"]),
}

# Only what could end the script tag or a line of script; in JSON they occur in strings alone, where the
# escape means the same.
UNSAFE_IN_SCRIPT = str.maketrans({char: f"\\u{ord(char):04x}" for char in "<>&\u2028\u2029"})


@dataclass(frozen=True)
class PageConfig:
    endpoint: str
    asset_path: str  # the prefix under which assets are served
    tokens: dict[str, str]  # role -> demo token; empty outside development
    examples: tuple[Example, ...]


def page(config: PageConfig) -> str:
    return filled(PAGE, config, {"assets": config.asset_path})


def full_page(config: PageConfig, built: Built) -> str:
    return filled(
        FULL,
        config,
        {"script": f"{config.asset_path}/{built.script}", "style": f"{config.asset_path}/{built.style}"},
    )


def filled(text: str, config: PageConfig, values: dict[str, str]) -> str:
    """In one go, so that nothing inside a value is taken for a placeholder."""
    known = {name: html.escape(value) for name, value in values.items()} | {"config": config_json(config)}
    return re.sub(r"{{(\w+)}}", lambda found: known[found[1]], text)


def config_json(config: PageConfig) -> str:
    shape = {
        "endpoint": config.endpoint,
        "tokens": config.tokens,
        "examples": [
            {
                "role": example.role,
                "title": example.title,
                "query": example.query,
                "variables": example.variables,
                "replaces": example.replaces,
                "hint": example.hint,
            }
            for example in config.examples
        ],
    }
    return json.dumps(shape, ensure_ascii=False).translate(UNSAFE_IN_SCRIPT)
