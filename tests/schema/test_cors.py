"""CORS: only pages of the configured origins may call either contract, by exact comparison and without
cookies."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from httpx2 import Response
from starlette.websockets import WebSocketDisconnect

from app.http.cors import HOUR, MAX_LOGGED_ORIGINS, AllowedOrigins
from app.main import create_app
from app.settings import Environment
from app.telemetry import counters
from tests.callers import Gateway, opened
from tests.factories import NOW
from tests.rest_compat.legacy import ASSIGNMENTS
from tests.schema.listening import connected, streaming
from tests.schema.test_headers import SECURITY_HEADERS

pytestmark = pytest.mark.sqlite_only

APP, LOCAL = "https://app.example.test", "http://localhost:3000"
OTHER_ORIGINS = [
    "https://elsewhere.example.test",
    "http://app.example.test",
    "https://app.example.test:8443",
    "https://app.example.test.elsewhere.test",
    "https://sub.app.example.test",
    "https://APP.example.test",
    "https://app.example.test/",
    "null",
    "*",
    "",
]
NOT_ALLOWED = "pages of this origin may not call the service: it is not in CARE_CORS_ORIGINS"
REASONS: dict[str, dict[str, Any]] = {
    "/graphql": {"errors": [{"message": NOT_ALLOWED, "extensions": {"code": "FORBIDDEN", "requestId": "r"}}]},
    ASSIGNMENTS: {"status": 403, "error": "Forbidden", "message": NOT_ALLOWED, "path": ASSIGNMENTS},
}
PATHS = {"/graphql": ("POST", "GET, POST"), ASSIGNMENTS: ("PUT", "GET, HEAD, PUT")}
EXPOSED = "X-Request-Id, Retry-After, RateLimit, RateLimit-Policy, Idempotency-Replayed"


@pytest.fixture(scope="module")
def allowed_service(standing: Gateway) -> Iterator[Gateway]:
    settings = standing.settings.model_copy(update={"cors_origins": f"{APP}, {LOCAL}"})
    with opened(create_app(settings, clock=lambda: NOW)) as client:
        yield Gateway(client, settings)


@pytest.fixture(scope="module")
def closed_service(standing: Gateway) -> Iterator[Gateway]:
    """A service in production without allowed origins."""
    settings = standing.settings.model_copy(update={"env": Environment.PRODUCTION})
    with opened(create_app(settings, clock=lambda: NOW)) as client:
        yield Gateway(client, settings)


def cors_headers(response: Response) -> dict[str, str]:
    names = ("access-control-", "vary")
    return {name: value for name, value in response.headers.items() if name.startswith(names)}


def send_preflight(gateway: Gateway, path: str, origin: str, **headers: str) -> Response:
    headers_sent = {"origin": origin, "access-control-request-method": PATHS[path][0], **headers}
    return gateway.as_anonymous().request("OPTIONS", path, headers=headers_sent)


@pytest.mark.parametrize("origin", [APP, LOCAL])
@pytest.mark.parametrize("path", PATHS)
def test_the_preflight_of_an_allowed_origin_succeeds(
    allowed_service: Gateway, path: str, origin: str
) -> None:
    wanted = "authorization,content-type,idempotency-key,x-request-id,offset"
    wanted += ",apollographql-client-name,apollographql-client-version,apollo-require-preflight"
    wanted += ",traceparent,tracestate,baggage,sentry-trace"  # which tracing libraries add

    measured = counters.requests[path, "OPTIONS", 204]
    before = sum(measured.counts)
    headers = {"access-control-request-headers": wanted, "x-request-id": "r"}
    response = send_preflight(allowed_service, path, origin, **headers)

    assert (response.status_code, response.content, response.headers["x-request-id"]) == (204, b"", "r")
    assert sum(measured.counts) == before + 1
    assert cors_headers(response) == {
        "access-control-allow-origin": origin,
        "access-control-allow-methods": PATHS[path][1],
        "access-control-allow-headers": wanted.replace(",", ", "),
        "access-control-expose-headers": EXPOSED,
        "access-control-max-age": "7200",
        "vary": "Origin",
    }
    assert SECURITY_HEADERS.items() <= dict(response.headers).items()


def test_development_allows_localhost_beside_the_configured_origins(allowed_service: Gateway) -> None:
    local = "http://127.0.0.1:5173"

    response = send_preflight(allowed_service, "/graphql", local)

    assert (response.status_code, response.headers["access-control-allow-origin"]) == (204, local)


RESPONSES: dict[str, tuple[str, str, dict[str, Any], int]] = {
    "an answer": ("POST", "/graphql", {"json": {"query": "{ viewer { role } }"}}, 200),
    "no request": ("POST", "/graphql", {"json": []}, 400),
    "another method": ("OPTIONS", "/graphql", {}, 405),
    "too long": ("POST", "/graphql", {"json": {"query": "#" * 262_145}}, 413),
    "a list": ("GET", f"{ASSIGNMENTS}?time-state=RUNNING", {}, 200),
    "nobody": ("GET", ASSIGNMENTS, {"headers": {"authorization": ""}}, 401),
    "an unknown path": ("GET", "/gateway/nowhere", {}, 404),
    "a method not there": ("OPTIONS", ASSIGNMENTS, {}, 405),
    "another type": ("PUT", ASSIGNMENTS, {"headers": {"content-type": "text/plain"}}, 415),
}


@pytest.mark.parametrize("name", RESPONSES)
def test_an_allowed_origin_may_read_every_response(allowed_service: Gateway, name: str) -> None:
    method, path, request, status = RESPONSES[name]
    request = {**request, "headers": {**request.get("headers", {}), "origin": APP}}

    response = allowed_service.as_caregiver(1).request(method, path, **request)

    assert response.status_code == status
    assert cors_headers(response) == {
        "access-control-allow-origin": APP,
        "access-control-expose-headers": EXPOSED,
        "vary": "Origin",
    }


@pytest.mark.parametrize("origin", OTHER_ORIGINS)
@pytest.mark.parametrize("path", PATHS)
def test_the_preflight_of_another_origin_is_rejected_with_the_reason(
    allowed_service: Gateway, closed_service: Gateway, path: str, origin: str
) -> None:
    for gateway, expected in ((allowed_service, {"vary": "Origin"}), (closed_service, {})):
        rejected = send_preflight(gateway, path, origin, **{"x-request-id": "r"})
        response_to_get = gateway.as_caregiver(1).get(path, headers={"origin": origin})

        assert rejected.status_code == 403
        assert reason(rejected) == REASONS[path]
        assert cors_headers(rejected) == cors_headers(response_to_get) == expected
        assert SECURITY_HEADERS.items() <= dict(rejected.headers).items()


def reason(response: Response) -> dict[str, Any]:
    body: dict[str, Any] = response.json()
    body.pop("timestamp", None)
    return body


@pytest.mark.parametrize("path", PATHS)
def test_options_without_a_preflight_is_405(
    allowed_service: Gateway, closed_service: Gateway, path: str
) -> None:
    for gateway in (allowed_service, closed_service):
        for headers in ({}, {"origin": OTHER_ORIGINS[0]}, {"access-control-request-method": "PUT"}):
            assert gateway.as_caregiver(1).request("OPTIONS", path, headers=headers).status_code == 405


def test_a_response_without_an_origin_has_only_vary(allowed_service: Gateway) -> None:
    assert cors_headers(allowed_service.as_caregiver(1).get(ASSIGNMENTS)) == {"vary": "Origin"}


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("origin", [APP, LOCAL, "http://127.0.0.1:5173"])
def test_by_default_production_allows_no_origin(closed_service: Gateway, path: str, origin: str) -> None:
    assert send_preflight(closed_service, path, origin).status_code == 403
    assert cors_headers(send_preflight(closed_service, path, origin)) == {}
    assert cors_headers(closed_service.as_caregiver(1).get(path, headers={"origin": origin})) == {}


LOCALHOST = [
    f"{scheme}://{host}{port}"
    for scheme in ("http", "https")
    for host in ("localhost", "127.0.0.1", "[::1]")
    for port in ("", ":5173", ":65535")
]


@pytest.mark.parametrize("origin", LOCALHOST)
def test_development_allows_every_origin_of_localhost(standing: Gateway, origin: str) -> None:
    for path in PATHS:
        preflight = send_preflight(standing, path, origin)
        response_to_get = standing.as_caregiver(1).get(path, headers={"origin": origin})
        for response in (preflight, response_to_get):
            assert cors_headers(response)["access-control-allow-origin"] == origin
        assert preflight.status_code == 204
    with connected(standing.as_caregiver(1), origin=origin) as listener:
        listener.send(type="connection_init")
        assert listener.receive() == {"type": "connection_ack"}


NOT_LOCALHOST = [
    *OTHER_ORIGINS,
    "http://localhost.example.test",
    "http://example.test:5173",
    "http://127.0.0.10",
    "http://127.0.0.1.example.test",
    "http://127-0.0.1",
    "http://127.0-0.1",
    "http://127.0.0-1",
    "http://localhost:655350",
    "http://localhost:5173/",
    "http://localhost:5173@example.test",
    "ws://localhost",
    "http://10.0.0.1",
    "file://",
]


@pytest.mark.parametrize("origin", NOT_LOCALHOST)
def test_development_allows_no_other_origin(standing: Gateway, origin: str) -> None:
    for path in PATHS:
        assert send_preflight(standing, path, origin).status_code == 403
        response_to_get = standing.as_caregiver(1).get(path, headers={"origin": origin})
        assert cors_headers(response_to_get) == {"vary": "Origin"}


# --- the log ---------------------------------------------------------------------------------------


def logged(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [each.getMessage() for each in caplog.records if each.name == "care.cors"]


def test_a_rejected_origin_is_logged_once_and_a_malformed_one_without_its_text(
    closed_service: Gateway, caplog: pytest.LogCaptureFixture
) -> None:
    with fresh_log(closed_service):
        for origin in (
            LOCAL,
            LOCAL,
            "null",
            "bearer secret",
            "https://a.test\x1b[2J",
            f"https://{'a' * 300}.test",
        ):
            send_preflight(closed_service, "/graphql", origin)

    assert logged(caplog) == [
        f"rejected a preflight from origin {name}, which is not in CARE_CORS_ORIGINS"
        for name in (LOCAL, "null", "(malformed)")
    ]


def test_invented_origins_do_not_fill_the_log(
    closed_service: Gateway, caplog: pytest.LogCaptureFixture
) -> None:
    with fresh_log(closed_service) as origins:
        for number in range(100):
            send_preflight(closed_service, ASSIGNMENTS, f"https://page-{number}.example.test")
        assert len(logged(caplog)) == MAX_LOGGED_ORIGINS
        origins.logged_since -= 5 * HOUR
        for _ in range(3):  # the first of which begins the next hour
            send_preflight(closed_service, ASSIGNMENTS, OTHER_ORIGINS[0])

    assert len(logged(caplog)) == MAX_LOGGED_ORIGINS + 1


def test_each_use_of_a_rejected_origin_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    origins = AllowedOrigins([APP])

    allowed = [origins.allows(LOCAL, action) for action in ("a preflight", "a websocket", "a preflight")]

    assert (allowed, len(logged(caplog))) == ([False] * 3, 2)


@contextmanager
def fresh_log(gateway: Gateway) -> Iterator[AllowedOrigins]:
    """Forgets the origins that other tests logged."""
    origins: AllowedOrigins = gateway.client.app.origins
    origins.logged.clear()
    yield origins


def test_an_allowed_origin_may_read_an_event_stream(allowed_service: Gateway) -> None:
    with (
        from_page(allowed_service, APP),
        streaming(allowed_service.as_client(1), "{ viewer { role } }") as stream,
    ):
        assert cors_headers(stream.response)["access-control-allow-origin"] == APP


@contextmanager
def from_page(gateway: Gateway, origin: str) -> Iterator[None]:
    gateway.client.headers["origin"] = origin
    yield
    del gateway.client.headers["origin"]


@pytest.mark.parametrize(
    ("part", "text"), [("open_context", '"code":"INTERNAL"'), ("negotiate", "Internal error")]
)
def test_an_allowed_origin_may_read_an_unexpected_error(
    allowed_service: Gateway, monkeypatch: pytest.MonkeyPatch, part: str, text: str
) -> None:
    """Of what answers in the form of the contract, and of what is outside of that."""
    monkeypatch.setattr(f"app.schema.transport.endpoint.{part}", None)
    query = {"query": "{ viewer { role } }"}

    response = allowed_service.as_caregiver(1).get("/graphql", params=query, headers={"origin": APP})

    assert response.status_code == 500
    assert text in response.text
    assert cors_headers(response)["access-control-allow-origin"] == APP
    assert SECURITY_HEADERS.items() <= dict(response.headers).items()


# --- websockets ------------------------------------------------------------------------------------


@pytest.mark.parametrize("origin", [APP, LOCAL])
def test_an_allowed_origin_may_open_a_websocket(allowed_service: Gateway, origin: str) -> None:
    with connected(allowed_service.as_caregiver(1), origin=origin) as listener:
        listener.send(type="connection_init")

        assert listener.receive() == {"type": "connection_ack"}


@pytest.mark.parametrize(
    "origin", [each for each in OTHER_ORIGINS if each.lower() == each and each[-1:] != "/"]
)
def test_another_origin_may_not_open_a_websocket(allowed_service: Gateway, origin: str) -> None:
    with (
        pytest.raises(WebSocketDisconnect) as rejected,
        connected(allowed_service.as_caregiver(1), origin=origin),
    ):
        pass

    assert rejected.value.code == 1008  # before it was accepted: the server says 403
