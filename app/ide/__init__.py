"""The GraphQL page for browsers: hand-written, without dependencies, and at home behind a strict CSP."""

import html
import json
from dataclasses import dataclass
from pathlib import Path

from app.ide.examples import EXAMPLES, Example

__all__ = ["ASSETS", "CONTENT_SECURITY_POLICY", "EXAMPLES", "Example", "PageConfig", "page"]

CONTENT_SECURITY_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)

FOLDER = Path(__file__).parent
PAGE = (FOLDER / "page.html").read_text(encoding="utf-8")
ASSETS: dict[str, tuple[bytes, str]] = {
    "page.js": ((FOLDER / "page.js").read_bytes(), "text/javascript; charset=utf-8"),
    "page.css": ((FOLDER / "page.css").read_bytes(), "text/css; charset=utf-8"),
}

# Only what could end the script tag or a line of script; in JSON they occur in strings alone, where the
# escape means the same.
UNSAFE_IN_SCRIPT = str.maketrans({char: f"\\u{ord(char):04x}" for char in "<>&\u2028\u2029"})


@dataclass(frozen=True)
class PageConfig:
    endpoint: str
    asset_path: str  # the prefix under which ASSETS are served
    tokens: dict[str, str]  # role -> demo token; empty outside development
    examples: tuple[Example, ...]


def page(config: PageConfig) -> str:
    with_assets = PAGE.replace("{{assets}}", html.escape(config.asset_path))
    # Last, so that nothing inside the config is taken for a placeholder.
    return with_assets.replace("{{config}}", config_json(config))


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
            }
            for example in config.examples
        ],
    }
    return json.dumps(shape, ensure_ascii=False).translate(UNSAFE_IN_SCRIPT)
