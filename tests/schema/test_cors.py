"""Promise: a page of another site may call either contract only if its origin is on the list, exactly as it
is written there; for everybody else nothing is different, and no cookies are ever asked for."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from httpx2 import Response
from starlette.websockets import WebSocketDisconnect

from app.main import create_app
from tests.callers import Gateway, opened
from tests.given import NOW
from tests.rest_compat.legacy import ASSIGNMENTS
from tests.schema.listening import connected, streaming
from tests.schema.test_headers import OF_BROWSERS

APP, LOCAL = "https://app.example.test", "http://localhost:3000"
STRANGERS = [
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
PATHS = {"/graphql": ("POST", "GET, POST"), ASSIGNMENTS: ("PUT", "GET, HEAD, PUT")}
SHOWN = "X-Request-Id, Retry-After, RateLimit, RateLimit-Policy, Idempotency-Replayed"


@pytest.fixture(scope="module")
def allowing(standing: Gateway) -> Iterator[Gateway]:
    settings = standing.settings.model_copy(update={"cors_origins": f"{APP} {LOCAL}"})
    with opened(create_app(settings, clock=lambda: NOW)) as client:
        yield Gateway(client, settings)


def for_browsers(response: Response) -> dict[str, str]:
    names = ("access-control-", "vary")
    return {name: value for name, value in response.headers.items() if name.startswith(names)}


def ask_first(gateway: Gateway, path: str, origin: str, **headers: str) -> Response:
    said = {"origin": origin, "access-control-request-method": PATHS[path][0], **headers}
    return gateway.as_nobody().request("OPTIONS", path, headers=said)


@pytest.mark.parametrize("origin", [APP, LOCAL])
@pytest.mark.parametrize("path", PATHS)
def test_a_page_of_the_list_may_ask_first(allowing: Gateway, path: str, origin: str) -> None:
    wanted = "authorization,content-type,idempotency-key,x-request-id,offset"
    wanted += ",apollographql-client-name,apollographql-client-version"  # Apollo's clients tell them unasked

    response = ask_first(allowing, path, origin, **{"access-control-request-headers": wanted})

    assert (response.status_code, response.content) == (204, b"")
    assert for_browsers(response) == {
        "access-control-allow-origin": origin,
        "access-control-allow-methods": PATHS[path][1],
        "access-control-allow-headers": wanted.replace(",", ", "),
        "access-control-expose-headers": SHOWN,
        "access-control-max-age": "7200",
        "vary": "Origin",
    }
    assert OF_BROWSERS.items() <= dict(response.headers).items()


ANSWERS: dict[str, tuple[str, str, dict[str, Any], int]] = {
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


@pytest.mark.parametrize("name", ANSWERS)
def test_a_page_of_the_list_may_read_every_answer_refusals_too(allowing: Gateway, name: str) -> None:
    method, path, request, status = ANSWERS[name]
    request = {**request, "headers": {**request.get("headers", {}), "origin": APP}}

    response = allowing.as_caregiver(1).request(method, path, **request)

    assert response.status_code == status
    assert for_browsers(response) == {
        "access-control-allow-origin": APP,
        "access-control-expose-headers": SHOWN,
        "vary": "Origin",
    }


@pytest.mark.parametrize("origin", STRANGERS)
@pytest.mark.parametrize("path", PATHS)
def test_for_a_page_that_is_not_on_the_list_nothing_is_different(
    allowing: Gateway, standing: Gateway, path: str, origin: str
) -> None:
    asked = ask_first(allowing, path, origin)
    answered = allowing.as_caregiver(1).get(path, headers={"origin": origin})

    assert asked.status_code == ask_first(standing, path, origin).status_code == 405
    assert for_browsers(asked) == for_browsers(answered) == {"vary": "Origin"}


def test_without_an_origin_it_is_only_said_that_the_answer_depends_on_it(allowing: Gateway) -> None:
    assert for_browsers(allowing.as_caregiver(1).get(ASSIGNMENTS)) == {"vary": "Origin"}


@pytest.mark.parametrize("path", PATHS)
def test_by_default_there_is_no_list(standing: Gateway, path: str) -> None:
    assert for_browsers(ask_first(standing, path, APP)) == {}
    assert for_browsers(standing.as_caregiver(1).get(path, headers={"origin": APP})) == {}


def test_an_event_stream_may_be_read_too(allowing: Gateway) -> None:
    with from_page(allowing, APP), streaming(allowing.as_client(1), "{ viewer { role } }") as stream:
        assert for_browsers(stream.answer)["access-control-allow-origin"] == APP


@contextmanager
def from_page(gateway: Gateway, origin: str) -> Iterator[None]:
    gateway.client.headers["origin"] = origin
    yield
    del gateway.client.headers["origin"]


def test_a_fault_that_nobody_caught_may_be_read_too(allowing: Gateway) -> None:
    """As when the process is closing and the door is gone."""
    door = allowing.client.app_state.pop("door")
    query = {"query": "{ viewer { role } }"}

    response = allowing.as_caregiver(1).get("/graphql", params=query, headers={"origin": APP})
    allowing.client.app_state["door"] = door

    assert (response.status_code, response.text) == (500, "Internal error")
    assert for_browsers(response)["access-control-allow-origin"] == APP
    assert OF_BROWSERS.items() <= dict(response.headers).items()


# --- websockets ------------------------------------------------------------------------------------


@pytest.mark.parametrize("origin", [APP, LOCAL])
def test_a_page_of_the_list_comes_in_by_websocket(allowing: Gateway, origin: str) -> None:
    with connected(allowing.as_caregiver(1), origin=origin) as listener:
        listener.say(type="connection_init")

        assert listener.hear() == {"type": "connection_ack"}


@pytest.mark.parametrize("origin", [each for each in STRANGERS if each.lower() == each and each[-1:] != "/"])
def test_a_page_that_is_not_on_the_list_does_not(allowing: Gateway, origin: str) -> None:
    with (
        pytest.raises(WebSocketDisconnect) as refused,
        connected(allowing.as_caregiver(1), origin=origin),
    ):
        pass

    assert refused.value.code == 1008  # before it was accepted: the server says 403
