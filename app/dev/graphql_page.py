"""The GraphQL page in development, and the demo tokens that it contains."""

import re
from collections.abc import Callable
from ipaddress import ip_address

from starlette.responses import HTMLResponse
from starlette.types import Scope

from app.care.context import Role, utc_now
from app.db.admin.demo import CAREGIVER, CLIENT
from app.dev import ide
from app.dev.tokens import has_own_keys, mint_token
from app.http.messages import header
from app.settings import Settings

LOCAL = re.compile(r"(?:localhost|127\.0\.0\.1|\[::1\])(?::[0-9]{1,5})?", re.IGNORECASE)


def page_maker(settings: Settings, built: ide.Built | None) -> Callable[[Scope], HTMLResponse]:
    def page(scope: Scope) -> HTMLResponse:
        tokens = {role.lower(): token for role, token in demo_tokens(settings, scope).items()}
        if built is None:
            config = ide.PageConfig("/graphql", "/graphql/ide", tokens, ide.EXAMPLES)
            return HTMLResponse(ide.page(config), headers={"content-security-policy": ide.PLAIN_POLICY})
        config = ide.PageConfig("/graphql", "/graphql/ide", tokens, ide.EXAMPLES + ide.LISTENING)
        headers = {"content-security-policy": ide.FULL_POLICY}
        return HTMLResponse(ide.full_page(config, built), headers=headers)

    return page


def demo_tokens(settings: Settings, scope: Scope) -> dict[Role, str]:
    """Uses the system clock, because tokens are verified against it."""
    if not (has_own_keys(settings) and is_local(scope)):
        return {}
    people = {Role.CAREGIVER: CAREGIVER, Role.CLIENT: CLIENT}
    return {role: mint_token(settings, role, user, utc_now()) for role, user in people.items()}


def is_local(scope: Scope) -> bool:
    """Whether the client is on this machine and the Host header is local.

    The Host check prevents DNS rebinding: a page of another site could resolve its own name to this machine.
    """
    client = scope.get("client")
    try:
        is_near = client is not None and ip_address(client[0]).is_loopback
    except ValueError:
        return False
    return is_near and LOCAL.fullmatch(header(scope, b"host") or "") is not None
