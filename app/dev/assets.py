"""Serves the built pages: the HTML that loads a page, and the files it loads."""

import html
import json
import re
from pathlib import Path
from typing import Any

from starlette.requests import Request
from starlette.responses import FileResponse, HTMLResponse, Response
from starlette.routing import Route

from app.dev.building import MEDIA_TYPES, Built

FOLDER = Path(__file__).parent
SHELL = (FOLDER / "shell.html").read_text(encoding="utf-8")
NOT_BUILT = (FOLDER / "not_built.html").read_text(encoding="utf-8")
PREFIX = "/assets"
HASHED_NAME = re.compile(r"-[A-Z0-9]{8}\.(?:js|css)")
IMMUTABLE = {"cache-control": "public, max-age=31536000, immutable"}  # the name contains a hash
REVALIDATED = {"cache-control": "no-cache"}
# GraphiQL's editor writes inline styles, runs in workers and has fonts inside its style sheet.
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; font-src 'self' data:; "
    "img-src 'self' data:; connect-src 'self'; worker-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
# Characters that could end the script element or a line of a script. JSON has them only in strings.
UNSAFE_IN_SCRIPT = str.maketrans({char: f"\\u{ord(char):04x}" for char in "<>&\u2028\u2029"})


def built_page(built: Built | None, name: str, title: str, config: dict[str, Any]) -> HTMLResponse:
    """The script of the page reads `config` from the element of that id and renders into `page`.

    Without a build the response explains how to build the page.
    """
    template, values = NOT_BUILT, {"title": html.escape(title)}
    if built:
        page = built.pages[name]
        template = SHELL
        values["script"] = f"{PREFIX}/{page.script}"
        values["style"] = f"{PREFIX}/{page.style}"
        values["config"] = json.dumps(config, ensure_ascii=False).translate(UNSAFE_IN_SCRIPT)
    text = re.sub(r"{{(\w+)}}", lambda found: values[found[1]], template)
    return HTMLResponse(text, headers={"content-security-policy": POLICY})


def asset_route(built: Built | None) -> Route:
    files = built.files if built else {}

    async def asset(request: Request) -> Response:
        """Looks names up, so that no path leads to another file."""
        path = files.get(request.path_params["name"])
        if path is None:
            return Response(status_code=404)
        caching = IMMUTABLE if HASHED_NAME.search(path.name) else REVALIDATED
        return FileResponse(path, media_type=MEDIA_TYPES[path.suffix], headers=caching)

    return Route(f"{PREFIX}/{{name}}", asset)
