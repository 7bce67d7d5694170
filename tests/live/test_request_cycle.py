"""Whatever an application sends, the client receives a complete response or sees that it is incomplete."""

import gc
import logging
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from contextvars import ContextVar
from typing import Any
from weakref import ref

import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.routing import Route
from starlette.types import Receive, Scope, Send

from app.server.admission import AdmissionControl
from app.server.protocol import EdgeProtocol
from app.server.sockets import EdgeConnection, EdgeSocket
from app.settings import Environment, Settings
from tests.live.edge import Edge, behind_the_edge, request
from tests.live.processes import PATIENCE

pytestmark = pytest.mark.live

PLAIN = (b"content-type", b"text/plain")
FAILED = (500, "close", b"Internal Server Error")
NOTE = ContextVar("NOTE", default="nothing")
MUCH = bytes(8 * 1024 * 1024)
UPGRADE = (
    b"connection: upgrade\r\nupgrade: websocket\r\nsec-websocket-version: 13\r\n"
    b"sec-websocket-key: dGhlIHNhbXBsZSBub25jZQ==\r\n"
)
heard: list[dict[str, Any]] = []


async def told(request: Request) -> Response:
    """Returns what the application received of the request."""
    scope = request.scope
    body = (await request.body()).decode()
    return Response(repr([scope["path"], scope["raw_path"], scope["query_string"], body]))


async def noted(request: Request) -> Response:
    """Returns what an earlier request left in the context."""
    found = NOTE.get()
    NOTE.set("left behind")
    return Response(found)


async def in_pieces(request: Request) -> Response:
    async def pieces() -> AsyncIterator[str]:
        yield "one, "
        yield "two"

    return StreamingResponse(pieces())


async def sends(scope: Scope, receive: Receive, send: Send) -> None:
    """Starts a response, then does what the path says."""
    does = scope["path"].rpartition("/")[2]
    length = (b"content-length", b"10")
    extra = [(b"x-name", b"a\r\nx-other: b")] if does == "header" else []
    if does == "nothing":
        return
    await send({"type": "http.response.start", "status": 200, "headers": [PLAIN, length, *extra]})
    if does == "fails":
        raise LookupError
    await send({"type": "http.response.body", "body": b"12345", "more_body": True})
    if does == "ends":
        return
    await send({"type": "http.response.body", "body": b"67" if does == "short" else b"67890"})
    if does == "listens":
        heard.append(await receive())
        heard.append(await receive())
    if does == "twice":
        await send({"type": "http.response.body", "body": b"67890"})


async def sends_much(scope: Scope, receive: Receive, send: Send) -> None:
    """Sends one long websocket message; the websocket stays open or is closed."""
    await receive()
    await send({"type": "websocket.accept"})
    await send({"type": "websocket.send", "bytes": MUCH})
    if scope["path"].endswith("stays"):
        await receive()


@asynccontextmanager
async def lifespan(app: Starlette) -> AsyncIterator[dict[str, AdmissionControl]]:
    yield {"admission": AdmissionControl(Settings(env=Environment.DEVELOPMENT))}


@pytest.fixture(scope="module")
def edge() -> Iterator[Edge]:
    routes = [
        Route("/in-pieces", in_pieces),
        Route("/noted", noted),
        Route("/told{rest:path}", told, methods=["GET", "POST"]),
    ]
    app = Starlette(routes=routes, lifespan=lifespan)
    app.mount("/sends", sends)
    app.mount("/much", sends_much)
    with behind_the_edge(app, timeout=0.5) as address:
        yield Edge(*address, "")


@pytest.fixture(autouse=True)
def faults_are_expected(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.CRITICAL, "uvicorn.error")


@pytest.mark.parametrize(
    "target, path, query",
    [
        ("/told", "/told", ""),
        ("/told/a%2Fb%20c?x=%20&y", "/told/a/b c", "x=%20&y"),
        ("/told?a?b", "/told", "a?b"),
        ("http://care.example.test/told?x", "/told", "x"),
    ],
)
def test_the_application_receives_path_query_and_body(edge: Edge, target: str, path: str, query: str) -> None:
    answer = edge.ask(request("POST", target, body=b"Hello"))

    raw = target.removeprefix("http://care.example.test").partition("?")[0].encode()
    assert answer.body.decode() == repr([path, raw, query.encode(), "Hello"])


def test_a_response_of_unknown_length_is_chunked_and_keeps_the_connection(edge: Edge) -> None:
    with edge.line() as line:
        line.say(request("GET", "/in-pieces"))
        head = line.read(until=b"\r\n\r\n")
        body = line.read(until=b"0\r\n\r\n")

        assert head.startswith(b"HTTP/1.1 200 OK\r\n")
        assert head.endswith(b"transfer-encoding: chunked")
        assert body == b"5\r\none, \r\n3\r\ntwo\r\n"
        assert line.ask(request("GET", "/told")).status == 200


def test_a_head_response_has_the_content_length_of_the_get(edge: Edge) -> None:
    with edge.line() as line:
        head = line.ask(request("HEAD", "/told"))
        answer = line.ask(request("GET", "/told"))

    length = len(answer.body)
    assert (head.status, int(head.headers["content-length"]), head.body) == (200, length, b"")


def test_connection_close_is_confirmed_and_closes(edge: Edge) -> None:
    with edge.line() as line:
        answer = line.ask(request("GET", "/told", b"connection: close\r\n"))

        assert answer.headers["connection"] == "close"
        assert line.rest() == b""


@pytest.mark.parametrize("does", ["nothing", "fails", "header"])
def test_an_exception_before_the_response_is_a_500(edge: Edge, does: str) -> None:
    with edge.line() as line:
        answer = line.ask(request("GET", f"/sends/{does}"))

        assert (answer.status, answer.headers["connection"], answer.body) == FAILED
        assert "x-other" not in answer.headers
        assert line.rest() == b""


@pytest.mark.parametrize("does, sent", [("ends", b"12345"), ("short", b"12345")])
def test_an_incomplete_response_closes_the_connection(edge: Edge, does: str, sent: bytes) -> None:
    with edge.line() as line:
        line.say(request("GET", f"/sends/{does}"))
        head = line.read(until=b"\r\n\r\n")

        assert b"content-length: 10" in head
        assert line.rest() == sent


@pytest.mark.parametrize("count", [1, 3])
def test_invalid_http_closes_the_connection_after_earlier_responses(edge: Edge, count: int) -> None:
    with edge.line() as line:
        line.say(request("GET", "/told") * count + b"NONSENSE\r\n\r\n")
        answers = [line.hear() for _ in range(count)]

        assert [answer.status for answer in answers] == [200] * count
        assert answers[-1].headers["connection"] == "close"
        assert line.rest() == b""


def test_invalid_http_is_rejected(edge: Edge) -> None:
    with edge.line() as line:
        assert line.ask(b"NONSENSE\r\n\r\n").status == 400
        assert line.rest() == b""


def test_requests_on_one_connection_share_no_context(edge: Edge) -> None:
    with edge.line() as line:
        line.say(request("GET", "/noted") + request("GET", "/noted"))

        assert [line.hear().body, line.hear().body] == [b"nothing", b"nothing"]


def test_a_closed_connection_leaves_nothing_in_memory(edge: Edge) -> None:
    gc.collect()
    gc.disable()  # it would come in the end; until then every body that anybody sent would be kept
    try:
        with edge.line() as line:
            line.ask(request("POST", "/told", body=b"Hello"))
            left = [ref(one) for one in gc.get_objects() if isinstance(one, EdgeProtocol)]
        assert left
        until = time.monotonic() + PATIENCE
        while any(one() for one in left):
            assert time.monotonic() < until
            time.sleep(0.01)  # between two looks
    finally:
        gc.enable()


def test_a_closed_websocket_leaves_nothing_in_memory(edge: Edge) -> None:
    gc.collect()
    gc.disable()
    try:
        with edge.line() as line:
            assert line.ask(request("GET", "/much/stays", UPGRADE)).status == 101
            kinds = EdgeProtocol | EdgeConnection | EdgeSocket
            left = [ref(one) for one in gc.get_objects() if isinstance(one, kinds)]
            assert len(left) >= 2
            line.say(b"\x81\x01")  # not masked: the connection fails
        until = time.monotonic() + PATIENCE
        while any(one() for one in left):
            assert time.monotonic() < until
            time.sleep(0.01)  # between two looks
    finally:
        gc.enable()


@pytest.mark.parametrize("path", ["/much/stays", "/much/leaves"])
def test_a_websocket_client_that_reads_slowly_is_not_disconnected(edge: Edge, path: str) -> None:
    """Reading takes longer than the timeout for a client that reads nothing."""
    with edge.line(room=65536) as line:
        assert line.ask(request("GET", path, UPGRADE)).status == 101
        left = len(MUCH) + 10  # with the head of the frame
        while left:
            line.wait()
            left -= len(line.read(min(left, 65536)))


def test_messages_after_the_end_of_a_response_are_ignored(edge: Edge) -> None:
    with edge.line() as line:
        first = line.ask(request("GET", "/sends/twice"))
        second = line.ask(request("GET", "/told"))

    assert (first.body, second.status) == (b"1234567890", 200)


def test_receive_returns_a_disconnect_after_the_response(edge: Edge) -> None:
    heard.clear()
    with edge.line() as line:
        line.ask(request("GET", "/sends/listens"))
        line.ask(request("GET", "/told"))

    assert heard == [{"type": "http.disconnect"}, {"type": "http.disconnect"}]
