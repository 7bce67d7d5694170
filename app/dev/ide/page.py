"""Serves the GraphQL page and its assets, with demo tokens for a visitor on the same machine."""

import re
from collections.abc import Callable
from dataclasses import asdict
from ipaddress import ip_address
from pathlib import Path

from starlette.requests import Request
from starlette.responses import HTMLResponse, Response
from starlette.routing import Route
from starlette.types import Scope

from app.care.context import Role, utc_now
from app.db.admin.demo import CAREGIVER, CLIENT
from app.dev.assets import REVALIDATED, built_page, json_for_script
from app.dev.building import MEDIA_TYPES, Built
from app.dev.ide.examples import EXAMPLES, SUBSCRIPTION_EXAMPLES
from app.dev.tokens import has_own_keys, mint_token
from app.http.messages import header
from app.settings import Settings

FOLDER = Path(__file__).parent
PLAIN_PATH = "/graphql/ide"
PLAIN = (FOLDER / "page.html").read_text(encoding="utf-8").replace("{{assets}}", PLAIN_PATH)
ASSETS = {
    name: ((FOLDER / name).read_bytes(), MEDIA_TYPES[Path(name).suffix]) for name in ("page.js", "page.css")
}
PLAIN_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
LOCAL_HOST = re.compile(r"(?:localhost|127\.0\.0\.1|\[::1\])(?::[0-9]{1,5})?", re.IGNORECASE)


def page_maker(settings: Settings, built: Built | None) -> Callable[[Scope], HTMLResponse]:
    examples = EXAMPLES + SUBSCRIPTION_EXAMPLES if built else EXAMPLES

    def page(scope: Scope) -> HTMLResponse:
        config = {
            "endpoint": "/graphql",
            "tokens": {role.lower(): token for role, token in demo_tokens(settings, scope).items()},
            "examples": [asdict(example) for example in examples],
        }
        if built:
            return built_page(built, "graphiql", "GraphQL", config)
        text = PLAIN.replace("{{config}}", json_for_script(config))
        return HTMLResponse(text, headers={"content-security-policy": PLAIN_POLICY})

    return page


async def plain_asset(request: Request) -> Response:
    content, media_type = ASSETS.get(request.path_params["name"], (None, ""))
    if content is None:
        return Response(status_code=404)
    return Response(content, media_type=media_type, headers=REVALIDATED)


PLAIN_ROUTE = Route(f"{PLAIN_PATH}/{{name}}", plain_asset)


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
