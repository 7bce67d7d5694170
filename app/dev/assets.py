"""Serves the built pages: the HTML that loads a page, and the files it loads."""

import html
import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from starlette.requests import Request
from starlette.responses import FileResponse, HTMLResponse, Response
from starlette.routing import Route

from app.dev.building import MEDIA_TYPES, Built, Document

FOLDER = Path(__file__).parent
SHELL = (FOLDER / "shell.html").read_text(encoding="utf-8")
NOT_BUILT = (FOLDER / "not_built.html").read_text(encoding="utf-8")
PAGES = {  # by path: the name in the header, and the name of the build's page
    "/": ("Home", "site"),
    "/graphql": ("GraphQL", "graphiql"),
    "/openapi.html": ("REST", "rest"),
    "/schema": ("Schema", "site"),
    "/docs": ("Docs", "site"),
    "/requests": ("Requests", "site"),
}
NOWHERE = ""  # no page of `PAGES`
CURRENT = ' aria-current="page"'
LOADING = "<p>Loading…</p><noscript>This page needs JavaScript.</noscript>"
PLAIN_STYLE = (
    "<style>body { max-width: 48rem; margin: auto; padding: 1rem; font: 1rem/1.5 system-ui, sans-serif } "
    "pre { overflow: auto; user-select: all }</style>"
)
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


def built_page(
    built: Built | None, here: str, config: dict[str, Any] | None = None, document: Document | None = None
) -> HTMLResponse:
    """A page of `PAGES`: its script reads `config`, and shows the document or renders into `page`.

    Without a build the response explains how to build it.
    """
    if built is None:
        return shell(None, here, Document("Not built", NOT_BUILT))
    return shell(built, here, document or Document(PAGES[here][0], LOADING), config)


def shell(
    built: Built | None, here: str, document: Document, config: dict[str, Any] | None = None
) -> HTMLResponse:
    head = PLAIN_STYLE
    if built:
        page = built.pages["site" if here == NOWHERE else PAGES[here][1]]
        data = json.dumps(config or {}, ensure_ascii=False).translate(UNSAFE_IN_SCRIPT)
        head = (
            f'<link rel="stylesheet" href="{PREFIX}/{page.style}">\n'
            f'<script type="application/json" id="config">{data}</script>\n'
            f'<script type="module" src="{PREFIX}/{page.script}"></script>'
        )
    values = {
        "title": html.escape(document.title),
        "head": head,
        "links": "\n".join(
            f'<a href="{path}"{CURRENT if path == here else ""}>{name}</a>'
            for path, (name, _) in PAGES.items()
        ),
        "body": document.html,
    }
    return HTMLResponse(fill(SHELL, values), headers={"content-security-policy": POLICY})


def fill(template: str, values: Mapping[str, str]) -> str:
    return re.sub(r"{{(\w+)}}", lambda found: values[found[1]], template)


def asset_route(built: Built | None) -> Route:
    async def asset(request: Request) -> Response:
        """Looks names up, so that no path leads to another file."""
        name = request.path_params["name"]
        if built is None or name not in built.files:
            return Response(status_code=404)
        path = built.folder / name
        caching = IMMUTABLE if HASHED_NAME.search(name) else REVALIDATED
        return FileResponse(path, media_type=MEDIA_TYPES[path.suffix], headers=caching)

    return Route(f"{PREFIX}/{{name}}", asset)
