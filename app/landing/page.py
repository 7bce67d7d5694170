"""The landing page: links, development tokens, and each legacy call beside its GraphQL replacement."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime

import orjson
from starlette.types import Scope

from app.care.context import Role
from app.landing.example_calls import ExampleCall, InternalResponse, ResponsePair
from app.landing.html_builder import (
    Html,
    block,
    document,
    indented_json,
    inline,
    join,
    link,
    prose,
    table,
    tag,
)
from app.schema.schema import Schema

DEMO_USERS = {Role.CAREGIVER: "a caregiver, Mara Lind", Role.CLIENT: "a client, Jonas Berg"}
INTRODUCTION = """\
Care Gateway connects caregivers with their clients. In a *session* the caregiver assigns homework, the client
answers, and the caregiver gives feedback. The service offers GraphQL and the four documented REST paths of
the service that it replaces."""
TOKENS = """\
Development tokens, valid for 24 hours. One click selects a token.

Send a token as `Authorization: bearer <token>`."""
DIFFERENCES = (
    "A numeric id of the legacy paths is `legacyId` in GraphQL. Every `id` argument also accepts it.",
    "Timestamps are RFC 3339 in UTC. The legacy `2026/11/21 09:00` is local time with minute precision.",
    "Pagination uses `first` and `after` (or `offset`). `totalCount` replaces `totalElements`.",
    "Errors have a code: in `errors`, or in `userErrors` if the user can correct the input.",
    "`latestAssignment` replaces a session's `assignmentId`, `assignmentName` and `bookId`.",
    "`answerSets` contains every attempt. The legacy paths return only the current one.",
)


@dataclass(frozen=True)
class LandingOptions:
    in_development: bool
    has_own_keys: bool
    schema: Schema | None  # None if the schema is not public
    deprecation: str  # a sentence about the legacy paths; empty if no date is set
    notice_url: str
    tokens: Callable[[Scope], Mapping[Role, str]]  # of demo users; empty for visitors who may not see them
    clock: Callable[[], datetime]


@dataclass(frozen=True)
class PageContent:
    options: LandingOptions
    versions: Mapping[str, str]
    readiness: InternalResponse
    tokens: Mapping[Role, str]
    calls: list[tuple[ExampleCall, ResponsePair | None]]


def landing_page(content: PageContent) -> str:
    return document(
        "Care Gateway",
        tag("header", tag("h1", "Care Gateway"), prose(INTRODUCTION)),
        tag(
            "main",
            section("endpoints", "Endpoints", endpoints(content.options)),
            section("tokens", "Tokens", tokens(content)),
            section("calls", "Legacy calls and their GraphQL replacements", *calls(content)),
            section("status", "Status", status(content)),
            section("docs", "Documentation", prose("In the repository: `README.md` and `docs/README.md`.")),
            id="content",
        ),
    )


def section(name: str, title: str, *children: object) -> Html:
    return tag("section", tag("h2", title, id=name), *children, aria_labelledby=name)


def status(content: PageContent) -> Html:
    readiness = orjson.loads(content.readiness.body)["status"]
    css = "status" if content.readiness.status == 200 else "status bad"
    pairs: list[tuple[object, object]] = [
        (link("/livez", "/livez"), tag("span", "live", class_="status")),
        (link("/readyz", "/readyz"), tag("span", readiness, class_=css)),
        *content.versions.items(),
    ]
    return tag("dl", *(join(tag("dt", name), tag("dd", value)) for name, value in pairs))


def endpoints(options: LandingOptions) -> Html:
    rows = [
        ("`POST /graphql`", "GraphQL API; also over websockets and event streams"),
        ("[/openapi.html](/openapi.html)", "the four legacy paths"),
        (
            "[/openapi.yaml](/openapi.yaml), [/openapi.json](/openapi.json)",
            "OpenAPI 3.1 description of the legacy paths",
        ),
        ("`legacy.http`", "in the repository: the same requests for an editor's HTTP client"),
    ]
    if options.schema:
        rows[1:1] = [
            ("[/schema](/schema)", "GraphQL schema with descriptions"),
            ("[/schema.graphql](/schema.graphql)", "GraphQL schema for tools"),
        ]
    if options.in_development:
        rows.insert(0, ("[/graphql](/graphql)", "GraphQL in the browser, with examples for each role"))
    return table(("Endpoint", "Content"), rows)


def tokens(content: PageContent) -> Html:
    if not content.options.in_development:
        return prose("Tokens come from the issuer that this service trusts. This page shows none.")
    if not content.options.has_own_keys:
        return prose("The settings name an external token issuer, so this service issues no tokens.")
    if not content.tokens:
        return prose("Tokens are shown only to a browser on the same machine, under `localhost`.")
    return join(prose(TOKENS), *(token_block(role, token) for role, token in content.tokens.items()))


def token_block(role: Role, token: str) -> Html:
    label = f"Token of the {role.lower()}"
    text = tag("pre", token, class_="token", tabindex=0, role="region", aria_label=label)
    return join(tag("h3", f"For {DEMO_USERS[role]}"), text)


# --- the calls ---


def calls(content: PageContent) -> list[Html]:
    deprecation, url = content.options.deprecation, content.options.notice_url
    if content.tokens:
        intro = "The responses come from this service and use the tokens above; the JSON is indented."
    else:
        intro = "Responses are shown only in development, and only to visitors who also see the tokens."
    details = join(" ", link(url, "Details")) if url else ""
    return [
        tag("p", tag("strong", deprecation), details) if deprecation else Html(""),
        prose(f"{intro} See also [Differences](#differences)."),
        *(call_section(call, responses) for call, responses in content.calls),
        tag("h3", "Differences", id="differences"),
        tag("ul", *(tag("li", inline(each)) for each in DIFFERENCES)),
    ]


def call_section(call: ExampleCall, responses: ResponsePair | None) -> Html:
    legacy = (
        tag("h4", "Legacy"),
        block(legacy_request(call), f"Legacy request: {call.title}", "request"),
        tag("p", link(f"/openapi.html#{call.operation}", "reference of this path")),
    )
    graphql = (
        tag("h4", "GraphQL"),
        block(call.document, f"GraphQL operation: {call.title}"),
        block(indented_json(call.variables), f"Variables: {call.title}"),
    )
    parts = [tag("div", *legacy), tag("div", *graphql)]
    if responses:
        parts.insert(1, response_block(call, responses.legacy, "Legacy"))
        parts.append(response_block(call, responses.graphql, "GraphQL"))
    pair = tag("div", *parts, class_="pair" if responses else "pair forms")
    user = tag("span", f"for a {call.role.lower()}", class_="soft")
    title = tag("h3", call.title, " ", user, id=call.operation)
    return tag("section", title, pair, aria_labelledby=call.operation)


def legacy_request(call: ExampleCall) -> str:
    head = f"{call.method} {call.target}\nAuthorization: bearer <token>"
    if call.body is None:
        return head
    return f"{head}\nContent-Type: application/json\n\n{indented_json(call.body)}"


def response_block(call: ExampleCall, response: InternalResponse, contract: str) -> Html:
    code = tag("span", response.status, class_="status" if response.status == 200 else "status bad")
    is_unauthorized = response.status in (401, 403)
    return tag(
        "div",
        tag("p", f"{contract} response: ", code),
        prose("Load the demo data with `care-gateway demo`.") if is_unauthorized else Html(""),
        block(indented_json(orjson.loads(response.body)), f"{contract} response: {call.title}"),
    )
