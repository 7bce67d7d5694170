"""Every response has the security headers once and contains nothing about the implementation."""

import asyncio
from collections.abc import Iterator
from typing import Any

import pytest
from httpx2 import Response
from starlette.types import Message

from app.dev.assets import POLICY
from app.http.messages import header, with_default_headers
from app.main import create_app
from app.settings import Environment, Settings
from tests.callers import Gateway, opened
from tests.db import raw
from tests.factories import NOW, a_world
from tests.schema.listening import streaming
from tests.test_main import UNAVAILABLE, take_away

SECURITY_HEADERS = {
    "cache-control": "no-store",
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "content-security-policy": "default-src 'none'; frame-ancestors 'none'",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
}
CONTENT_HEADERS = {"content-type", "content-length"}
JSON = {"content-type": "application/json"}
QUERY = b'{"query": "{ viewer { role } }"}'
LONG = b'{"query": "#' + b"x" * (256 * 1024) + b'"}'

# What is sent to /graphql, with which status it is answered, and which other headers that answer has.
RESPONSES: dict[str, tuple[str, dict[str, Any], int, set[str]]] = {
    "an answer": ("POST", {"content": QUERY, "headers": JSON}, 200, set()),
    "an answer by GET": ("GET", {"params": {"query": "{ viewer { role } }"}}, 200, set()),
    "errors": ("POST", {"json": {"query": "{ nope }"}}, 200, set()),
    "no JSON": ("POST", {"content": b"{", "headers": JSON}, 400, set()),
    "text": ("POST", {"content": QUERY, "headers": {"content-type": "text/plain"}}, 415, set()),
    "too long": ("POST", {"content": LONG, "headers": JSON}, 413, set()),
    "another method": ("DELETE", {}, 405, {"allow"}),
    "a question whether one may ask": (
        "OPTIONS",
        {"headers": {"origin": "https://app.test", "access-control-request-method": "POST"}},
        403,
        {"vary"},
    ),
    "a bad token": (
        "POST",
        {"content": QUERY, "headers": {**JSON, "authorization": "x"}},
        401,
        {"www-authenticate"},
    ),
}


@pytest.mark.sqlite_only
@pytest.mark.parametrize("name", RESPONSES)
def test_every_graphql_response_has_the_security_headers_once(standing: Gateway, name: str) -> None:
    method, request, status, others = RESPONSES[name]

    response = standing.as_client(1).request(method, "/graphql", **request)

    assert response.status_code == status
    has_headers(response, SECURITY_HEADERS, CONTENT_HEADERS | others | {"x-request-id"})


OTHER_PATHS = {
    "/livez": 200,
    "/readyz": 200,
    "/openapi.yaml": 200,
    "/openapi.json": 200,
    "/nowhere": 404,
    "/graphql/": 404,
    "/assets/none.js": 404,
}


@pytest.mark.sqlite_only
@pytest.mark.parametrize("path", OTHER_PATHS)
def test_health_and_unknown_paths_have_the_security_headers(standing: Gateway, path: str) -> None:
    response = standing.as_anonymous().get(path)

    assert response.status_code == OTHER_PATHS[path]
    has_headers(response, SECURITY_HEADERS, {*CONTENT_HEADERS, "content-type"} & set(response.headers))


@pytest.mark.sqlite_only
def test_the_graphiql_page_has_its_own_content_security_policy(standing: Gateway) -> None:
    """The page loads its own script and style, calls its own host, and must not be framed."""
    page = standing.as_anonymous().get("/graphql", headers={"accept": "text/html"})

    own = {**SECURITY_HEADERS, "content-security-policy": POLICY}
    has_headers(page, own, {*CONTENT_HEADERS, "x-request-id"})
    sent = dict(part.strip().split(" ", 1) for part in POLICY.split(";"))
    assert {sent[name] for name in ("default-src", "frame-ancestors", "base-uri", "form-action")} == {
        "'none'"
    }


@pytest.mark.sqlite_only
def test_an_event_stream_is_not_cached(standing: Gateway) -> None:
    with streaming(standing.as_client(1), "{ viewer { role } }") as stream:
        has_headers(
            stream.response,
            {**SECURITY_HEADERS, "cache-control": "no-store, no-transform"},
            {"content-type", "x-accel-buffering", "x-request-id"},
        )


def has_headers(response: Response, wanted: dict[str, str], others: set[str]) -> None:
    """Checks these headers, each once, and the names of the other headers."""
    names = [name for name, _ in response.headers.multi_items()]
    assert sorted(names) == sorted({*wanted, *others})
    assert {name: response.headers[name] for name in wanted} == wanted


# --- unavailable database ---------------------------------------------------------------------------


def test_an_unavailable_database_is_a_503_with_retry_after(gateway: Gateway) -> None:
    take_away(gateway.settings.database)

    response = gateway.as_caregiver(1).post_graphql("{ viewer { role } }")

    assert response.status_code == 503
    has_headers(response, {**SECURITY_HEADERS, "retry-after": "1"}, CONTENT_HEADERS | {"x-request-id"})
    assert response.json()["errors"][0]["message"] == UNAVAILABLE


# --- production ------------------------------------------------------------------------------------


@pytest.fixture
def production(settings: Settings) -> Iterator[Gateway]:
    own = settings.model_copy(update={"env": Environment.PRODUCTION})
    with opened(create_app(own, clock=lambda: NOW)) as client:
        gateway = Gateway(client, own)
        gateway.import_records(a_world())
        yield gateway


PATHS_WITH_HEAD = {("HEAD", "/"), ("HEAD", "/livez")}


@pytest.mark.sqlite_only
@pytest.mark.parametrize("method", ["TRACE", "CONNECT", "BREW", "HEAD", "PUT", "PATCH", "DELETE"])
@pytest.mark.parametrize("path", ["/graphql", "/", "/livez", "/nowhere"])
def test_an_unsupported_method_echoes_no_header(production: Gateway, method: str, path: str) -> None:
    sent = {"cookie": "x=1", "x-secret": "what-nobody-echoes"}

    response = production.as_caregiver(1).request(method, path, headers=sent)

    status = 404 if path == "/nowhere" else 200 if (method, path) in PATHS_WITH_HEAD else 405
    assert response.status_code == status
    assert "what-nobody-echoes" not in response.text + str(response.headers)


@pytest.mark.sqlite_only
def test_an_internal_error_contains_only_the_request_id(production: Gateway) -> None:
    raw.run(production.settings.database, "ALTER TABLE session RENAME TO elsewhere")

    answers = [production.as_caregiver(1).post_graphql("{ sessions { nodes { title } } }") for _ in range(2)]

    for answer in answers:
        assert answer.json() == {
            "data": None,
            "errors": [
                {
                    "message": "Internal error",
                    "locations": [{"line": 1, "column": 3}],
                    "path": ["sessions"],
                    "extensions": {"code": "INTERNAL", "requestId": answer.headers["x-request-id"]},
                }
            ],
        }


def test_a_response_keeps_its_own_headers_in_any_case() -> None:
    own = [(b"Cache-Control", b"max-age=1"), (b"content-security-policy", POLICY.encode())]
    scope: dict[str, Any] = {"state": {}}
    sent: list[Message] = []

    async def send(message: Message) -> None:
        sent.append(message)

    asyncio.run(
        with_default_headers(scope, send)({"type": "http.response.start", "status": 200, "headers": own})
    )

    headers = [(name.decode(), value.decode()) for name, value in sent[0]["headers"]]
    replaced = ("cache-control", "content-security-policy")
    others = [each for each in SECURITY_HEADERS.items() if each[0] not in replaced]
    assert headers == [("Cache-Control", "max-age=1"), ("content-security-policy", POLICY), *others]
    assert scope["state"] == {"status": 200}


def test_the_values_of_a_repeated_header_are_joined() -> None:
    scope = {"headers": [(b"a", b"1"), (b"b", b"x"), (b"a", b"2"), (b"a", b"3")]}

    assert [header(scope, name) for name in (b"a", b"b", b"c")] == ["1, 2, 3", "x", None]
