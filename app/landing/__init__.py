"""Routes that need no token: the start page, the OpenAPI description, the schema, the documentation.

Development adds the recent requests, and a page for other paths."""

from collections.abc import Callable
from datetime import datetime
from functools import cache
from pathlib import Path

import orjson
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route

from app.dev.assets import NOWHERE, built_page, shell
from app.dev.building import Built, Document
from app.dev.quickstart import homework, quickstart_text
from app.dev.requests import RecentRequests
from app.dev.tokens import is_local, tokens_for_visitor
from app.landing.page import start_page
from app.rest_compat.deprecation import deprecation_notice
from app.schema.schema import Schema, schema_text
from app.settings import Settings
from app.version import own_version

LLMS = """\
# Care Gateway

> Care sessions, homework and answers over GraphQL, and over four legacy REST paths.

- [GraphQL schema](/schema.graphql)
- [OpenAPI description of the legacy paths](/openapi.yaml)
"""  # https://llmstxt.org
NOT_FOUND, NOT_LOCAL = (
    (Path(__file__).parent / f"{name}.html").read_text(encoding="utf-8")
    for name in ("not_found", "not_local")
)
YAML = (Path(__file__).parents[1] / "rest_compat/openapi.yaml").read_bytes()


def landing_routes(
    settings: Settings,
    schema: Schema,
    built: Built | None,
    clock: Callable[[], datetime],
    recent: RecentRequests | None,
) -> list[Route]:
    """Production serves plain text only."""

    async def start(request: Request) -> Response:
        tokens = tokens_for_visitor(settings, request.scope)
        if settings.in_development and "text/html" in request.headers.get("accept", ""):
            response: Response = shell(built, "/", Document("Home", start_page(settings, tokens, clock())))
        else:
            text = plain_text(settings)
            commands = quickstart_text(str(request.base_url).rstrip("/"), tokens) if tokens else ""
            response = PlainTextResponse(text + commands)
        response.headers["vary"] = "Accept"
        return response

    async def rest(request: Request) -> Response:
        if not settings.in_development:
            return PlainTextResponse(plain_text(settings))
        tokens = {role.lower(): token for role, token in tokens_for_visitor(settings, request.scope).items()}
        return built_page(built, "/openapi.html", {"tokens": tokens, "homework": homework(clock())})

    async def document(request: Request) -> Response:
        """A page that the build has rendered; below its path and `.md` its text."""
        path = request.scope["path"].rstrip("/")
        name = path.removesuffix(".md")
        found = built.documents.get(name) if built else None
        if built and (not found or (name != path and not found.text)):
            raise HTTPException(404)
        if found and name != path:
            return PlainTextResponse(found.text, media_type="text/markdown")
        return built_page(built, "/schema" if path == "/schema" else "/docs", document=found)

    async def requests(request: Request) -> Response:
        html = recent.page() if recent and is_local(request.scope) else NOT_LOCAL
        return shell(built, "/requests", Document("Requests", html))

    async def llms(request: Request) -> Response:
        """An index for programs that read text."""
        docs = built.documents["/docs"].text if built else ""
        text = LLMS + docs.partition("\n")[2]
        return PlainTextResponse(text.replace("](/", f"]({request.base_url}"))

    sdl = cache(lambda: schema_text(schema))

    async def schema_graphql(request: Request) -> Response:
        return PlainTextResponse(sdl())

    routes = [
        Route("/", start),
        Route("/openapi.html", rest),
        Route("/openapi.yaml", openapi_yaml),
        Route("/openapi.json", openapi_json),
    ]
    if settings.in_development:
        routes += [Route(path, document) for path in ("/docs", "/docs.md", "/docs/{path:path}")]
        routes += [Route("/requests", requests), Route("/llms.txt", llms)]
    if settings.shows_schema_to_anyone:
        routes += [Route("/schema.graphql", schema_graphql), Route("/schema", document)]
    return routes


def not_found_page(built: Built | None) -> Callable[[Request, Exception], Response]:
    def not_found(request: Request, fault: Exception) -> Response:
        if "text/html" not in request.headers.get("accept", ""):
            return PlainTextResponse("Not Found", 404)
        page = shell(built, NOWHERE, Document("Page not found", NOT_FOUND))
        page.status_code = 404
        return page

    return not_found


async def openapi_yaml(request: Request) -> Response:
    return Response(YAML, media_type="application/yaml")  # RFC 9512


async def openapi_json(request: Request) -> Response:
    return Response(openapi_as_json(), media_type="application/json")


@cache
def openapi_as_json() -> bytes:
    import yaml  # a slow import that most processes do not need

    document = yaml.load(YAML, getattr(yaml, "CSafeLoader", yaml.SafeLoader))
    return orjson.dumps(document, option=orjson.OPT_INDENT_2)


def plain_text(settings: Settings) -> str:
    name = f"Care Gateway {own_version()}" if settings.in_development else "Care Gateway"
    lines = [
        f"{name}: care sessions over GraphQL and four legacy REST paths.",
        "",
        "/graphql        GraphQL: POST with a bearer token",
        *(["/schema.graphql GraphQL schema"] if settings.shows_schema_to_anyone else []),
        "/openapi.yaml   OpenAPI description of the legacy paths; also /openapi.json",
        "/livez          liveness",
        "/readyz         readiness",
        "",
    ]
    if notice := deprecation_notice(settings):
        lines += [f"{notice} {settings.legacy_notice}".strip(), ""]
    return "\n".join(lines)
