"""Serves the GraphQL page and its assets, with demo tokens for a visitor on the same machine."""

import html
import json
import re
from collections.abc import Callable
from dataclasses import asdict
from ipaddress import ip_address
from pathlib import Path

from starlette.requests import Request
from starlette.responses import FileResponse, HTMLResponse, Response
from starlette.routing import Route
from starlette.types import Scope

from app.care.context import Role, utc_now
from app.db.admin.demo import CAREGIVER, CLIENT
from app.dev.ide.building import MEDIA_TYPES, Built
from app.dev.ide.examples import EXAMPLES, SUBSCRIPTION_EXAMPLES
from app.dev.tokens import has_own_keys, mint_token
from app.http.messages import header
from app.settings import Settings

FOLDER = Path(__file__).parent
ASSET_PATH = "/graphql/ide"
ASSETS = {
    name: ((FOLDER / name).read_bytes(), MEDIA_TYPES[Path(name).suffix]) for name in ("page.js", "page.css")
}
HASHED_NAME = re.compile(r"-[A-Z0-9]{8}\.(?:js|css)")
IMMUTABLE = {"cache-control": "public, max-age=31536000, immutable"}  # the name contains a hash
REVALIDATED = {"cache-control": "no-cache"}

CLOSED = "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
PLAIN_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
    f"{CLOSED}"
)
# GraphiQL's editor writes inline styles, runs in workers and has fonts inside its style sheet.
FULL_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; font-src 'self' data:; "
    f"img-src 'self' data:; connect-src 'self'; worker-src 'self'; {CLOSED}"
)
# Characters that could end the script element or a line of a script. JSON has them only in strings.
UNSAFE_IN_SCRIPT = str.maketrans({char: f"\\u{ord(char):04x}" for char in "<>&\u2028\u2029"})
LOCAL_HOST = re.compile(r"(?:localhost|127\.0\.0\.1|\[::1\])(?::[0-9]{1,5})?", re.IGNORECASE)


def page_maker(settings: Settings, built: Built | None) -> Callable[[Scope], HTMLResponse]:
    if built is None:
        file, policy, examples = "page.html", PLAIN_POLICY, EXAMPLES
        urls = {"assets": ASSET_PATH}
    else:
        file, policy, examples = "full.html", FULL_POLICY, EXAMPLES + SUBSCRIPTION_EXAMPLES
        urls = {"script": f"{ASSET_PATH}/{built.script}", "style": f"{ASSET_PATH}/{built.style}"}
    template = (FOLDER / file).read_text(encoding="utf-8")

    def page(scope: Scope) -> HTMLResponse:
        config = {
            "endpoint": "/graphql",
            "tokens": {role.lower(): token for role, token in demo_tokens(settings, scope).items()},
            "examples": [asdict(example) for example in examples],
        }
        values = {name: html.escape(url) for name, url in urls.items()}
        values["config"] = json.dumps(config, ensure_ascii=False).translate(UNSAFE_IN_SCRIPT)
        text = re.sub(r"{{(\w+)}}", lambda found: values[found[1]], template)
        return HTMLResponse(text, headers={"content-security-policy": policy})

    return page


def asset_route(built: Built | None) -> Route:
    files = built.files if built else {}

    async def asset(request: Request) -> Response:
        """Looks names up, so that no path leads to another file."""
        name = request.path_params["name"]
        if path := files.get(name):
            caching = IMMUTABLE if HASHED_NAME.search(name) else REVALIDATED
            return FileResponse(path, media_type=MEDIA_TYPES[path.suffix], headers=caching)
        if name in ASSETS:
            content, media_type = ASSETS[name]
            return Response(content, media_type=media_type, headers=REVALIDATED)
        return Response(status_code=404)

    return Route(f"{ASSET_PATH}/{{name}}", asset)


def demo_tokens(settings: Settings, scope: Scope) -> dict[Role, str]:
    """Uses the system clock, because tokens are verified against it."""
    if not (has_own_keys(settings) and is_local(scope)):
        return {}
    people = {Role.CAREGIVER: CAREGIVER, Role.CLIENT: CLIENT}
    return {role: mint_token(settings, role, user, utc_now()) for role, user in people.items()}


def is_local(scope: Scope) -> bool:
    """Whether the visitor is on this machine and the Host header is local.

    The Host check prevents DNS rebinding: a page of another site could resolve its own name to this machine.
    """
    client = scope.get("client")
    try:
        is_loopback = client is not None and ip_address(client[0]).is_loopback
    except ValueError:
        return False
    return is_loopback and LOCAL_HOST.fullmatch(header(scope, b"host") or "") is not None
