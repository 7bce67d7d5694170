"""The public pages, which need no token: the landing page, the OpenAPI description and the schema."""

import platform
from functools import cache
from importlib.metadata import version

from starlette.requests import Request
from starlette.responses import HTMLResponse, PlainTextResponse, Response
from starlette.routing import Route

from app.db.admin.migrate import newest_version
from app.dev.quickstart import quickstart_text
from app.landing.example_calls import example_calls, send_both, send_request
from app.landing.html_builder import CONTENT_SECURITY_POLICY
from app.landing.page import LandingOptions, PageContent, landing_page
from app.landing.reference import openapi_page, schema_page
from app.rest_compat.description import YAML, as_json
from app.schema.schema import Schema, schema_text
from app.version import own_version

__all__ = ["LandingOptions", "landing_routes"]

PAGE_HEADERS = {"content-security-policy": CONTENT_SECURITY_POLICY}
VARY = {"vary": "Accept"}


def landing_routes(options: LandingOptions) -> list[Route]:
    async def landing(request: Request) -> Response:
        if "text/html" not in request.headers.get("accept", ""):
            return PlainTextResponse(plain_text(options, request), headers=VARY)
        content = await collect_content(options, request)
        return HTMLResponse(landing_page(content), headers=PAGE_HEADERS | VARY)

    routes = [
        Route("/", landing),
        Route("/openapi.html", openapi_html),
        Route("/openapi.yaml", openapi_yaml),
        Route("/openapi.json", openapi_json),
    ]
    return routes if options.schema is None else [*routes, *schema_routes(options.schema)]


def schema_routes(schema: Schema) -> list[Route]:
    sdl = cache(lambda: schema_text(schema))

    async def text(request: Request) -> Response:
        return PlainTextResponse(sdl())

    async def page(request: Request) -> Response:
        return HTMLResponse(schema_page(sdl()), headers=PAGE_HEADERS)

    return [Route("/schema.graphql", text), Route("/schema", page)]


async def openapi_html(request: Request) -> Response:
    return HTMLResponse(openapi_page(), headers=PAGE_HEADERS)


async def openapi_yaml(request: Request) -> Response:
    return Response(YAML, media_type="application/yaml")  # RFC 9512


async def openapi_json(request: Request) -> Response:
    return Response(as_json(), media_type="application/json")


# --- the landing page ---


async def collect_content(options: LandingOptions, request: Request) -> PageContent:
    """Collects responses only of calls that read, because viewing the page must not change data."""
    tokens = options.tokens(request.scope)
    calls = [
        (call, await send_both(request, call, tokens[call.role]) if tokens and call.body is None else None)
        for call in example_calls(options.clock())
    ]
    readiness = await send_request(request, "GET", "/readyz")
    return PageContent(options, versions(options), readiness, tokens, calls)


def versions(options: LandingOptions) -> dict[str, str]:
    """Production does not disclose library versions."""
    found = {"Care Gateway": own_version(), "Database schema": newest_version()}
    if options.in_development:
        found |= {"Python": platform.python_version(), "Strawberry": version("strawberry-graphql")}
    return found


def plain_text(options: LandingOptions, request: Request) -> str:
    lines = [
        f"Care Gateway {own_version()}: care sessions over GraphQL and four legacy REST paths.",
        "",
        "/graphql        GraphQL: POST with a bearer token",
        *(["/schema.graphql GraphQL schema; as a page: /schema"] if options.schema else []),
        "/openapi.yaml   OpenAPI description of the legacy paths; also /openapi.json and /openapi.html",
        "/livez          liveness",
        "/readyz         readiness",
        "",
    ]
    if options.deprecation:
        lines += [f"{options.deprecation} {options.notice_url}".strip(), ""]
    tokens = options.tokens(request.scope)
    commands = quickstart_text(str(request.base_url).rstrip("/"), tokens) if tokens else ""
    return "\n".join(lines) + commands
