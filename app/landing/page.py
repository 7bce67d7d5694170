"""The landing page: links, development tokens, and each legacy call beside its GraphQL replacement."""

from collections.abc import Mapping
from dataclasses import dataclass

import orjson

from app.care.context import Role
from app.landing.example_calls import ExampleCall
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
from app.landing.internal_requests import InternalResponse

DEMO_USERS = {Role.CAREGIVER: "a caregiver, Mara Lind", Role.CLIENT: "a client, Jonas Berg"}
INTRODUCTION = """\
Care Gateway connects caregivers with their clients. In a *session* the caregiver assigns homework, the client
answers, and the caregiver gives feedback. The service offers GraphQL and the four documented REST paths of
the service that it replaces."""
DOCS = (
    ("README.md", "getting started, commands, settings"),
    ("docs/legacy-contract.md", "reference of the four legacy paths"),
    ("docs/guides/legacy-client.md", "migration from the legacy paths to GraphQL"),
    ("docs/clients.md", "setup of Apollo Client, urql, Relay and others"),
    ("docs/domain.md", "domain rules and permissions"),
    ("docs/subscriptions.md", "subscriptions"),
    ("docs/limits.md", "request limits"),
    ("docs/operations.md", "operation of the service"),
)
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
class PageContent:
    versions: Mapping[str, str]
    readiness: InternalResponse
    in_development: bool
    has_schema: bool
    has_own_keys: bool
    deprecation: str  # one sentence, empty without a date
    notice_url: str
    tokens: Mapping[Role, str]  # empty if the visitor may not see them
    calls: tuple[ExampleCall, ...]
    responses: Mapping[str, tuple[InternalResponse, InternalResponse]]  # legacy and GraphQL, by operation


def front_page(content: PageContent) -> str:
    return document(
        "Care Gateway",
        tag("header", tag("h1", "Care Gateway"), prose(INTRODUCTION)),
        tag(
            "main",
            section("places", "Endpoints", endpoints(content)),
            section("tokens", "Tokens", tokens(content)),
            section("calls", "Legacy calls and their GraphQL replacements", calls(content)),
            section("state", "Status", status(content)),
            section("docs", "Documentation", docs()),
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


def endpoints(content: PageContent) -> Html:
    rows: list[tuple[object, ...]] = []
    if content.in_development:
        rows.append((link("/graphql", "/graphql"), "GraphQL in the browser, with examples for each role"))
    rows.append((tag("code", "POST /graphql"), "GraphQL API; also over websockets and event streams"))
    if content.has_schema:
        rows.append((link("/schema", "/schema"), "GraphQL schema with descriptions"))
        rows.append((link("/schema.graphql", "/schema.graphql"), "GraphQL schema for tools"))
    rows += [
        (link("/openapi.html", "/openapi.html"), "the four legacy paths"),
        (
            join(link("/openapi.yaml", "/openapi.yaml"), ", ", link("/openapi.json", "/openapi.json")),
            "OpenAPI 3.1 description of the legacy paths",
        ),
        (tag("code", "legacy.http"), "in the repository: the same requests for an editor's HTTP client"),
    ]
    return table(("Endpoint", "Content"), rows)


# --- tokens ---


def tokens(content: PageContent) -> Html:
    if not content.in_development:
        return tag("p", "Tokens come from the issuer that this service trusts. This page shows none.")
    if not content.has_own_keys:
        return tag("p", "The settings name an external token issuer, so this service issues no tokens.")
    if not content.tokens:
        return tag("p", inline("Tokens are shown only to a browser on the same machine, under `localhost`."))
    return join(prose(TOKENS), *(token_block(role, token) for role, token in content.tokens.items()))


def token_block(role: Role, token: str) -> Html:
    label = f"Token of the {role.lower()}"
    text = tag("pre", token, class_="token", tabindex=0, role="region", aria_label=label)
    return join(tag("h3", f"For {DEMO_USERS[role]}"), text)


# --- the calls ---


def calls(content: PageContent) -> Html:
    if content.responses:
        intro = "The responses come from this service and use the tokens above; the JSON is indented."
    else:
        intro = "The page shows responses only in development and only together with tokens."
    return join(
        tag("p", tag("strong", content.deprecation), *notice_link(content.notice_url))
        if content.deprecation
        else Html(""),
        tag("p", intro, " See also ", link("#differences", "Differences"), "."),
        *(call_section(content, call) for call in content.calls),
        tag("h3", "Differences", id="differences"),
        tag("ul", *(tag("li", inline(each)) for each in DIFFERENCES)),
    )


def notice_link(url: str) -> list[object]:
    return [" ", link(url, "Details")] if url else []


def call_section(content: PageContent, call: ExampleCall) -> Html:
    legacy, graphql = content.responses.get(call.operation, (None, None))
    name = call.operation
    parts = (
        tag(
            "div",
            tag("h4", "Legacy"),
            block(legacy_request(call), f"Legacy request: {call.title}", "request"),
            tag("p", link(f"/openapi.html#{name}", "reference of this path")),
        ),
        *([tag("div", response_part(call, legacy, "Legacy"))] if legacy else []),
        tag(
            "div",
            tag("h4", "GraphQL"),
            block(call.document, f"GraphQL operation: {call.title}"),
            block(indented_json(call.variables), f"Variables: {call.title}") if call.variables else Html(""),
        ),
        *([tag("div", response_part(call, graphql, "GraphQL"))] if graphql else []),
    )
    title = tag("h3", call.title, " ", tag("span", f"for a {call.role.lower()}", class_="soft"), id=name)
    return tag(
        "section", title, tag("div", *parts, class_="pair" if legacy else "pair forms"), aria_labelledby=name
    )


def legacy_request(call: ExampleCall) -> str:
    head = f"{call.method} {call.target}\nAuthorization: bearer <token>"
    if call.body is None:
        return head
    return f"{head}\nContent-Type: application/json\n\n{indented_json(call.body)}"


def response_part(call: ExampleCall, response: InternalResponse, contract: str) -> Html:
    shown = tag("span", response.status, class_="status" if response.status == 200 else "status bad")
    is_unauthorized = response.status in (401, 403)
    return join(
        tag("p", f"{contract} response: ", shown),
        prose("Load the demo data with `care-gateway demo`.") if is_unauthorized else Html(""),
        block(indented_json(orjson.loads(response.body)), f"{contract} response: {call.title}"),
    )


def docs() -> Html:
    items = (tag("li", tag("code", path), ": ", topic) for path, topic in DOCS)
    return join(tag("p", "In the repository:"), tag("ul", *items))
