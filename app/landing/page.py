"""The front page: what this is, where things are, and the four legacy calls beside what replaces them."""

from collections.abc import Mapping
from dataclasses import dataclass

import orjson

from app.care.context import Role
from app.landing.asking import Answer
from app.landing.calls import Call
from app.landing.markup import (
    Html,
    block,
    document,
    inline,
    link,
    prose,
    spread,
    table,
    tag,
    together,
)
from app.landing.shapes import shape_of

PEOPLE = {Role.CAREGIVER: "a caregiver, Mara Lind", Role.CLIENT: "a client, Jonas Berg"}  # of the demo world
WHAT_THIS_IS = """\
Care Gateway connects caregivers with their clients. In a *session* the caregiver assigns homework, the client
answers, and the caregiver responds. The service speaks GraphQL, and answers the four documented REST paths of
the service it replaces."""
DOCS = (
    ("README.md", "the first steps"),
    ("docs/legacy-contract.md", "the four legacy paths in full"),
    ("docs/leaving-the-legacy-paths.md", "from them to GraphQL, and who still calls them"),
    ("docs/clients.md", "setting up Apollo Client, urql, Relay and others"),
    ("docs/domain.md", "who may do what when"),
    ("docs/subscriptions.md", "listening to what happens"),
    ("docs/limits.md", "how much may be asked for"),
    ("docs/operations.md", "how the service is run"),
)
TOKENS = """\
For development, good for 24 hours. One click selects a whole token.

They are sent as `Authorization: bearer <token>`."""
LEAVING = (
    "Numbers of the legacy paths are `legacyId` here, and every argument that takes an `id` takes them too.",
    "Moments are RFC 3339 in UTC; `2026/11/21 09:00` was a wall time of the service, to the minute.",
    "A page is `first` and `after` (or `offset`); `totalCount` is `totalElements`.",
    "A refusal has a code: in `errors`, or, where a person can mend it, in `userErrors`.",
    "`latestAssignment` stands for a session's `assignmentId`, `assignmentName` and `bookId`.",
    "`answerSets` has every attempt; the legacy paths show that of the current one alone.",
)


@dataclass(frozen=True)
class Seen:
    """What the page shows: all of it is known before it is written."""

    versions: Mapping[str, str]
    ready: Answer
    in_development: bool
    has_schema: bool
    has_own_keys: bool
    end: str  # of the legacy paths, where a date is set, in a sentence
    notice: str  # the address of the page that tells of it
    tokens: Mapping[Role, str]  # empty where they may not be shown
    calls: tuple[Call, ...]
    answers: Mapping[str, tuple[Answer, Answer]]  # by operation: the legacy path's and GraphQL's


def front_page(seen: Seen) -> str:
    return document(
        "Care Gateway",
        tag("a", "To the content", class_="skip", href="#content"),
        tag("header", tag("h1", "Care Gateway"), prose(WHAT_THIS_IS)),
        tag(
            "main",
            section("places", "Where things are", places(seen)),
            section("tokens", "Tokens", tokens(seen)),
            section("calls", "The four legacy calls, and what replaces them", calls(seen)),
            section("state", "State", state(seen)),
            section("docs", "Documentation", docs()),
            id="content",
        ),
    )


def section(name: str, title: str, *content: object) -> Html:
    return tag("section", tag("h2", title, id=name), *content, aria_labelledby=name)


# --- state and places ---


def state(seen: Seen) -> Html:
    said = orjson.loads(seen.ready.body)["status"]
    is_ready = seen.ready.status == 200
    pairs: list[tuple[object, object]] = [
        (link("/livez", "/livez"), tag("span", "live", class_="status")),
        (link("/readyz", "/readyz"), tag("span", said, class_="status" if is_ready else "status bad")),
        *seen.versions.items(),
    ]
    return tag("dl", *(together(tag("dt", name), tag("dd", value)) for name, value in pairs))


def places(seen: Seen) -> Html:
    rows: list[tuple[object, ...]] = []
    if seen.in_development:
        rows.append((link("/graphql", "/graphql"), "GraphQL in the browser, with examples for each role"))
    rows.append((tag("code", "POST /graphql"), "GraphQL for programs; websockets and event streams too"))
    if seen.has_schema:
        rows.append((link("/schema", "/schema"), "the GraphQL schema to read: every type and field"))
        rows.append((link("/schema.graphql", "/schema.graphql"), "the same for tools"))
    rows += [
        (
            link("/openapi.html", "/openapi.html"),
            "the four legacy paths, to read: members, statuses, examples",
        ),
        (
            together(link("/openapi.yaml", "/openapi.yaml"), ", ", link("/openapi.json", "/openapi.json")),
            "the same for tools (OpenAPI 3.1)",
        ),
        (tag("code", "legacy.http"), "in the checkout: the same requests, for an editor that sends them"),
    ]
    return table(("Where", "What"), rows)


# --- tokens ---


def tokens(seen: Seen) -> Html:
    if not seen.in_development:
        return tag("p", "Tokens come from the issuer that this service trusts. None is shown here.")
    if not seen.has_own_keys:
        return tag(
            "p",
            "This service trusts the tokens of an issuer that its settings name, and has none of its own.",
        )
    if not seen.tokens:
        return tag(
            "p",
            inline("Tokens are shown to a browser on the machine of the service, under `localhost`."),
        )
    return together(
        prose(TOKENS),
        *(token_of(role, token) for role, token in seen.tokens.items()),
    )


def token_of(role: Role, token: str) -> Html:
    label = f"token of the {role.lower()}"
    whole = tag("pre", token, class_="token", tabindex=0, role="region", aria_label=label)
    return together(tag("h3", f"For {PEOPLE[role]}"), whole)


# --- the calls ---


def calls(seen: Seen) -> Html:
    if seen.answers:
        intro = (
            "The answers are those of this service, asked a moment ago with the tokens above and spread out."
        )
    elif seen.in_development:
        intro = "Answers are shown where the tokens are; here stands what each of them is made of."
    else:
        intro = "What the legacy answers are made of; those of GraphQL have the form of the operation."
    return together(
        tag("p", tag("strong", seen.end), *(end_page(seen.notice))) if seen.end else Html(""),
        tag("p", intro, " ", link("#differences", "What is different"), " stands below."),
        *(call_section(seen, call) for call in seen.calls),
        tag("h3", "What is different", id="differences"),
        tag("ul", *(tag("li", inline(each)) for each in LEAVING)),
    )


def end_page(notice: str) -> list[object]:
    return [" ", link(notice, "What this means")] if notice else []


def call_section(seen: Seen, call: Call) -> Html:
    legacy, graphql = seen.answers.get(call.operation, (None, None))
    name = call.operation
    parts = (  # on a wide page the first two stand on the left, and requests and answers side by side
        tag(
            "div",
            tag("h4", "Legacy"),
            block(legacy_text(call), f"legacy request: {call.title}", "request"),
            tag("p", link(f"/openapi.html#{name}", "everything about this path")),
            Html("") if legacy else shape(call),
        ),
        *([tag("div", answered(call, legacy, "legacy"))] if legacy else []),
        tag(
            "div",
            tag("h4", "GraphQL"),
            block(call.document, f"GraphQL operation: {call.title}"),
            block(spread(call.variables), f"its variables: {call.title}") if call.variables else Html(""),
        ),
        *([tag("div", answered(call, graphql, "GraphQL"))] if graphql else []),
    )
    title = tag("h3", call.title, " ", tag("span", f"for a {call.role.lower()}", class_="soft"), id=name)
    return tag(
        "section", title, tag("div", *parts, class_="pair" if legacy else "pair forms"), aria_labelledby=name
    )


def legacy_text(call: Call) -> str:
    head = f"{call.method} {call.target}\nAuthorization: bearer <token>"
    return head if call.body is None else f"{head}\nContent-Type: application/json\n\n{spread(call.body)}"


def answered(call: Call, answer: Answer, contract: str) -> Html:
    status = tag("span", answer.status, class_="status" if answer.status == 200 else "status bad")
    hint = "Is the demo world loaded? `care-gateway demo` loads it." if answer.status in (401, 403) else ""
    return together(
        tag("p", f"The {contract} answer: ", status),
        prose(hint) if hint else Html(""),
        block(spread(orjson.loads(answer.body)), f"{contract} answer: {call.title}"),
    )


def shape(call: Call) -> Html:
    said = "An answer is made of" if call.method == "GET" else "It is not asked here. An answer is made of"
    return together(tag("p", f"{said}:"), block(shape_of(call.operation), f"shape: {call.title}"))


def docs() -> Html:
    items = (tag("li", tag("code", path), ": ", what) for path, what in DOCS)
    return together(tag("p", "In the checkout:"), tag("ul", *items))
