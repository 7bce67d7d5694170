"""What a visitor finds without a token: the front page, and the description of the legacy paths."""

import platform
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from functools import cache
from importlib.metadata import version

import orjson
from starlette.requests import Request
from starlette.responses import HTMLResponse, PlainTextResponse, Response
from starlette.routing import Route
from starlette.types import Scope

from app.care.context import Role
from app.db.admin.migrate import newest_version
from app.dev.quickstart import what_to_paste
from app.landing.asking import Answer, ask
from app.landing.calls import Call, the_four_calls
from app.landing.markup import CONTENT_SECURITY_POLICY
from app.landing.page import Seen, front_page
from app.landing.reference import reference_page
from app.landing.schema import schema_page
from app.rest_compat.description import YAML, as_json
from app.schema.schema import Schema, schema_text
from app.version import own_version

PAGE = {"content-security-policy": CONTENT_SECURITY_POLICY}
VARY = {"vary": "Accept"}


@dataclass(frozen=True)
class House:
    """What the front page is told of the service that it stands before."""

    in_development: bool
    has_own_keys: bool
    schema: Schema | None  # where it may be told
    end: str  # of the legacy paths, where a date is set, in a sentence
    notice: str  # the address of the page that tells of it
    tokens: Callable[[Scope], Mapping[Role, str]]  # of the demo world, for whoever may see them
    clock: Callable[[], datetime]


def front_routes(house: House) -> list[Route]:
    async def front(request: Request) -> Response:
        if "text/html" not in request.headers.get("accept", ""):
            return PlainTextResponse(in_short(house, request), headers=VARY)
        return HTMLResponse(front_page(await looked_at(house, request)), headers=PAGE | VARY)

    routes = [
        Route("/", front),
        Route("/openapi.html", reference),
        Route("/openapi.yaml", described_in_yaml),
        Route("/openapi.json", described_in_json),
    ]
    return routes if house.schema is None else [*routes, *schema_routes(house.schema)]


def schema_routes(schema: Schema) -> list[Route]:
    """Both are made when somebody asks for them."""
    as_text, as_page = cache(lambda: schema_text(schema)), cache(lambda: schema_page(schema._schema))

    async def text(request: Request) -> Response:
        return PlainTextResponse(as_text())

    async def page(request: Request) -> Response:
        return HTMLResponse(as_page(), headers=PAGE)

    return [Route("/schema.graphql", text), Route("/schema", page)]


async def reference(request: Request) -> Response:
    return HTMLResponse(reference_text(), headers=PAGE)


@cache
def reference_text() -> str:
    return reference_page()


async def described_in_yaml(request: Request) -> Response:
    return Response(YAML, media_type="application/yaml")  # RFC 9512


async def described_in_json(request: Request) -> Response:
    return Response(as_json(), media_type="application/json")


# --- the front page ---


async def looked_at(house: House, request: Request) -> Seen:
    tokens = house.tokens(request.scope)
    calls = the_four_calls(house.clock())
    reads = [call for call in calls if call.method == "GET"]  # looking at a page changes nothing
    return Seen(
        versions(house),
        await ask(request, "GET", "/readyz"),
        house.in_development,
        house.schema is not None,
        house.has_own_keys,
        house.end,
        house.notice,
        tokens,
        calls,
        {call.operation: await ask_both(request, call, tokens[call.role]) for call in reads if tokens},
    )


async def ask_both(request: Request, call: Call, token: str) -> tuple[Answer, Answer]:
    legacy = await ask(request, call.method, call.target, token)
    body = orjson.dumps({"query": call.document, "variables": call.variables})
    return legacy, await ask(request, "POST", "/graphql", token, body)


def versions(house: House) -> dict[str, str]:
    """Of what it is made with, strangers are told nothing."""
    found = {"Care Gateway": own_version(), "Tables": newest_version()}
    if house.in_development:
        found |= {"Python": platform.python_version(), "Strawberry": version("strawberry-graphql")}
    return found


def in_short(house: House, request: Request) -> str:
    lines = [
        f"Care Gateway {own_version()}: care sessions, by GraphQL and by four legacy paths.",
        "",
        "/graphql        GraphQL, by POST and with a bearer token",
        *(["/schema.graphql its schema; /schema to read"] if house.schema else []),
        "/openapi.yaml   the four legacy paths for tools; /openapi.json likewise, /openapi.html to read",
        "/livez          whether the process answers",
        "/readyz         whether its database does",
        "",
    ]
    if house.end:
        lines += [f"{house.end} {house.notice}".strip(), ""]
    tokens = house.tokens(request.scope)
    said = what_to_paste(str(request.base_url).rstrip("/"), tokens) if tokens else ""
    return "\n".join(lines) + said
