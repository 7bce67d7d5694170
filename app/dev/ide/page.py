"""Serves GraphiQL at /graphql to browsers, with demo tokens for a visitor on the same machine."""

import re
from collections.abc import Callable
from dataclasses import asdict
from ipaddress import ip_address

from starlette.responses import HTMLResponse
from starlette.types import Scope

from app.care.context import Role, utc_now
from app.db.admin.demo import CAREGIVER, CLIENT
from app.dev.assets import built_page
from app.dev.building import Built
from app.dev.ide.examples import EXAMPLES
from app.dev.tokens import has_own_keys, mint_token
from app.http.messages import header
from app.settings import Settings

PROXY_HEADERS = (
    b"forwarded",
    b"via",
    b"x-forwarded-",
    b"x-real-ip",
    b"x-client-ip",
    b"true-client-ip",
    b"cf-",
)
LOCAL_HOST = re.compile(r"(?:localhost|127\.0\.0\.1|\[::1\])(?::[0-9]{1,5})?", re.IGNORECASE)


def page_maker(settings: Settings, built: Built | None) -> Callable[[Scope], HTMLResponse]:
    examples = [asdict(example) for example in EXAMPLES]

    def page(scope: Scope) -> HTMLResponse:
        tokens = {role.lower(): token for role, token in demo_tokens(settings, scope).items()}
        config = {"endpoint": "/graphql", "tokens": tokens, "examples": examples}
        return built_page(built, "/graphql", config)

    return page


def demo_tokens(settings: Settings, scope: Scope) -> dict[Role, str]:
    """Uses the system clock, because tokens are verified against it."""
    if not (has_own_keys(settings) and is_local(scope)):
        return {}
    people = {Role.CAREGIVER: CAREGIVER, Role.CLIENT: CLIENT}
    return {role: mint_token(settings, role, user, utc_now()) for role, user in people.items()}


def is_local(scope: Scope) -> bool:
    """Whether the visitor is on this machine, the Host header is local, and no proxy forwarded the request.

    The Host check prevents DNS rebinding: a page of another site could resolve its own name to this machine.
    A proxy or tunnel on this machine connects from a local address for visitors from everywhere.
    """
    if any(name.startswith(PROXY_HEADERS) for name, _ in scope["headers"]):
        return False
    client = scope.get("client")
    try:
        is_loopback = client is not None and ip_address(client[0]).is_loopback
    except ValueError:
        return False
    return is_loopback and LOCAL_HOST.fullmatch(header(scope, b"host") or "") is not None
