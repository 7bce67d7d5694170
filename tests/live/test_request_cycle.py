"""Whatever an application sends, the client receives a complete response or sees that it is incomplete."""

import asyncio
import gc
import logging
import socket
import threading
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import ExitStack, asynccontextmanager, contextmanager, suppress
from contextvars import ContextVar
from itertools import combinations
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
from app.server.request_cycle import RequestCycle
from app.server.sockets import MESSAGE_BYTES, MESSAGES_AT_ONCE, EdgeConnection, EdgeSocket
from app.server.timeouts import MIN_PROGRESS
from app.settings import Environment, Settings
from app.telemetry import counters
from tests.leftovers import in_memory
from tests.live.edge import Connection, Edge, request, serve_app
from tests.live.processes import PATIENCE

pytestmark = pytest.mark.live

PLAIN = (b"content-type", b"text/plain")
FAILED = (500, "close", b"Internal Server Error")
NOTE = ContextVar("NOTE", default="nothing")
MUCH = bytes(8 * 1024 * 1024)
FRAME = len(MUCH) + 10  # bytes of a websocket frame with it and the head
TIMEOUT = 0.5  # seconds, of the service
PART, NUMBER_OF_PARTS = MUCH[: 2 * 1024 * 1024], 10  # together more than a viewer's unsent bytes may be
UPGRADE = (
    b"connection: upgrade\r\nupgrade: websocket\r\nsec-websocket-version: 13\r\n"
    b"sec-websocket-key: dGhlIHNhbXBsZSBub25jZQ==\r\n"
)
events: list[dict[str, Any]] = []
made: list[int] = []  # the lengths of long responses; what a client has not read of failed messages
CANCELLED = threading.Event()  # three messages, before the client begins to read


async def echo(request: Request) -> Response:
    """Returns what the application received of the request."""
    scope = request.scope
    body = (await request.body()).decode()
    return Response(repr([scope["path"], scope["raw_path"], scope["query_string"], body]))


async def context_note(request: Request) -> Response:
    """Returns what an earlier request remaining in the context."""
    found = NOTE.get()
    NOTE.set("remaining behind")
    return Response(found)


async def much(request: Request) -> Response:
    made.append(len(MUCH))
    return Response(MUCH)


async def much_in_pieces(request: Request) -> Response:
    async def pieces() -> AsyncIterator[bytes]:
        yield MUCH
        yield MUCH

    return StreamingResponse(pieces())


async def unsent(request: Request) -> Response:
    return Response(str(request.state.budget.unsent))


async def incomplete(request: Request) -> Response:
    """Returns the bytes of the heads and bodies that have not arrived completely."""
    admission = request.state.admission
    return Response(f"{admission.heads.bytes} {admission.bodies.bytes}")


async def in_chunks(request: Request) -> Response:
    async def pieces() -> AsyncIterator[str]:
        yield "one, "
        yield "two"

    return StreamingResponse(pieces())


async def misbehaves(scope: Scope, receive: Receive, send: Send) -> None:
    """Starts a response, then action what the path says."""
    action = scope["path"].rpartition("/")[2]
    length = (b"content-length", b"10")
    extra = [(b"x-name", b"a\r\nx-other: b")] if action.startswith("header") else []
    if action == "nothing":
        return
    is_long = action in ("header-of-chunks", "ends-without-length")
    headers = [PLAIN, *extra] if is_long else [PLAIN, length, *extra]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    if action == "fails":
        raise LookupError
    await send({"type": "http.response.body", "body": b"12345", "more_body": True})
    if action.startswith("ends"):
        return
    await send({"type": "http.response.body", "body": b"67" if action == "short" else b"67890"})
    if action == "listens":
        events.append(await receive())
        events.append(await receive())
    if action == "twice":
        await send({"type": "http.response.body", "body": b"67890"})


async def sends_long_message(scope: Scope, receive: Receive, send: Send) -> None:
    """Sends one long websocket message; the websocket stays open or is closed."""
    await receive()
    await send({"type": "websocket.accept"})
    if scope["path"].endswith("one-by-one"):
        for _ in range(NUMBER_OF_PARTS):
            await send({"type": "websocket.send", "bytes": PART})
    if scope["path"].endswith("cancelled"):
        await send({"type": "websocket.send", "bytes": MUCH})
        for _ in range(3):  # each while the client has not read the message before them
            waiting = asyncio.create_task(send({"type": "websocket.send", "bytes": PART}))
            await asyncio.sleep(0)
            waiting.cancel()
            await asyncio.wait([waiting])
        CANCELLED.set()
        await send({"type": "websocket.send", "text": "end"})
        return
    count = 4 if scope["path"].endswith("several") else 1
    sending = [send({"type": "websocket.send", "bytes": MUCH}) for _ in range(count)]
    failed = [fault for fault in await asyncio.gather(*sending, return_exceptions=True) if fault]
    if failed:
        made.append(scope["state"]["budget"].unsent)
        return
    if scope["path"].endswith("stays"):
        await receive()
    if scope["path"].endswith("counts"):
        await receive()
        await send({"type": "websocket.send", "text": str(scope["state"]["budget"].unsent)})


async def sends_note(scope: Scope, receive: Receive, send: Send) -> None:
    await receive()
    await send({"type": "websocket.accept"})
    await send({"type": "websocket.send", "text": NOTE.get()})


async def answers_messages(scope: Scope, receive: Receive, send: Send) -> None:
    await receive()
    scope["state"]["on_sign_in"]()
    await send({"type": "websocket.accept"})
    while (await receive())["type"] == "websocket.receive":
        await send({"type": "websocket.send", "text": "answer"})


@asynccontextmanager
async def lifespan(app: Starlette) -> AsyncIterator[dict[str, AdmissionControl]]:
    yield {"admission": AdmissionControl(Settings(env=Environment.DEVELOPMENT))}


@pytest.fixture(scope="module")
def app() -> Starlette:
    routes = [
        Route("/in-pieces", in_chunks),
        Route("/context_note", context_note),
        Route("/much", much),
        Route("/much-in-pieces", much_in_pieces),
        Route("/unsent", unsent),
        Route("/incomplete", incomplete),
        Route("/echo{rest:path}", echo, methods=["GET", "POST"]),
    ]
    app = Starlette(routes=routes, lifespan=lifespan)
    app.mount("/misbehaves", misbehaves)
    app.mount("/much", sends_long_message)
    app.mount("/sends_note", sends_note)
    app.mount("/answers_messages", answers_messages)
    return app


@pytest.fixture(scope="module")
def edge(app: Starlette) -> Iterator[Edge]:
    with serve_app(app, timeout=TIMEOUT) as address:
        yield Edge(*address, "")


@pytest.fixture(autouse=True)
def hide_expected_errors(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.CRITICAL, "uvicorn.error")


@pytest.mark.parametrize(
    "target, path, query",
    [
        ("/echo", "/echo", ""),
        ("/echo/a%2Fb%20c?x=%20&y", "/echo/a/b c", "x=%20&y"),
        ("/echo?a?b", "/echo", "a?b"),
        ("http://care.example.test/echo?x", "/echo", "x"),
    ],
)
def test_the_application_receives_path_query_and_body(edge: Edge, target: str, path: str, query: str) -> None:
    response = edge.fetch(request("POST", target, body=b"Hello"))

    raw = target.removeprefix("http://care.example.test").partition("?")[0].encode()
    assert response.body.decode() == repr([path, raw, query.encode(), "Hello"])


def test_a_response_of_unknown_length_is_chunked_and_keeps_the_connection(edge: Edge) -> None:
    with edge.connection() as connection:
        connection.send(request("GET", "/in-pieces"))
        head = connection.read(until=b"\r\n\r\n")
        body = connection.read(until=b"0\r\n\r\n")

        assert head.startswith(b"HTTP/1.1 200 OK\r\n")
        assert head.endswith(b"transfer-encoding: chunked")
        assert body == b"5\r\none, \r\n3\r\ntwo\r\n"
        assert connection.fetch(request("GET", "/echo")).status == 200


def test_a_head_response_has_the_content_length_of_the_get(edge: Edge) -> None:
    with edge.connection() as connection:
        head = connection.fetch(request("HEAD", "/echo"))
        response = connection.fetch(request("GET", "/echo"))

    length = len(response.body)
    assert (head.status, int(head.headers["content-length"]), head.body) == (200, length, b"")


def test_connection_close_is_confirmed_and_closes(edge: Edge) -> None:
    with edge.connection() as connection:
        response = connection.fetch(request("GET", "/echo", b"connection: close\r\n"))

        assert response.headers["connection"] == "close"
        assert connection.read_to_end() == b""


@pytest.mark.parametrize("action", ["nothing", "fails", "header", "header-of-chunks"])
def test_an_exception_before_the_response_is_a_500(edge: Edge, action: str) -> None:
    with edge.connection() as connection:
        response = connection.fetch(request("GET", f"/misbehaves/{action}"))

        assert (response.status, response.headers["connection"], response.body) == FAILED
        assert "x-other" not in response.headers
        assert connection.read_to_end() == b""


@pytest.mark.parametrize("action, sent", [("ends", b"12345"), ("short", b"12345")])
def test_an_incomplete_response_closes_the_connection(edge: Edge, action: str, sent: bytes) -> None:
    with edge.connection() as connection:
        connection.send(request("GET", f"/misbehaves/{action}"))
        head = connection.read(until=b"\r\n\r\n")

        assert b"content-length: 10" in head
        assert connection.read_to_end() == sent


def test_an_incomplete_response_that_ends_with_the_connection_resets_it(edge: Edge) -> None:
    """A client of HTTP/1.0 takes a regular end of the connection as the end of the body."""
    asked = request("GET", "/misbehaves/ends-without-length").replace(b"HTTP/1.1", b"HTTP/1.0")
    with edge.connection() as connection:
        connection.send(asked)
        assert b"content-length" not in connection.read(until=b"\r\n\r\n")

        with pytest.raises(ConnectionResetError):
            connection.read_to_end()


def test_a_response_that_a_client_of_http_1_0_does_not_read_in_time_is_reset(edge: Edge) -> None:
    asked = request("GET", "/much-in-pieces").replace(b"HTTP/1.1", b"HTTP/1.0")
    with edge.connection(receive_buffer=65536) as connection:
        connection.send(asked)
        connection.read(until=b"\r\n\r\n")
        until = time.monotonic() + PATIENCE
        for is_unsent in (True, False):
            while (edge.fetch(request("GET", "/unsent")).body != b"0") is not is_unsent:
                assert time.monotonic() < until

        with pytest.raises(ConnectionResetError):
            connection.read_to_end()


def test_the_body_of_a_request_is_not_kept_after_its_response(app: Starlette) -> None:
    """Even if the application did not read it. The connection may stay open for a long time."""
    with serve_app(app) as address, Edge(*address, "").connection() as connection:
        assert connection.fetch(request("POST", "/unsent", body=b"Hello")).status == 405
        assert Edge(*address, "").fetch(request("GET", "/echo")).status == 200  # the other one is complete

        cycles = in_memory(RequestCycle)
        unread = [cycle for cycle in cycles if cycle.scope["method"] == "POST" and not cycle.is_read]
        assert [bytes(cycle.body) for cycle in unread if cycle.scope["path"] == "/unsent"] == [b""]


@pytest.mark.parametrize("count", [1, 3])
def test_invalid_http_closes_the_connection_after_earlier_responses(edge: Edge, count: int) -> None:
    with edge.connection() as connection:
        connection.send(request("GET", "/echo") * count + b"NONSENSE\r\n\r\n")
        responses = [connection.receive() for _ in range(count)]

        assert [response.status for response in responses] == [200] * count
        assert responses[-1].headers["connection"] == "close"
        assert connection.read_to_end() == b""


def test_invalid_http_is_rejected(edge: Edge) -> None:
    with edge.connection() as connection:
        assert connection.fetch(b"NONSENSE\r\n\r\n").status == 400
        assert connection.read_to_end() == b""


def test_requests_on_one_connection_share_no_context(edge: Edge) -> None:
    with edge.connection() as connection:
        connection.send(request("GET", "/context_note") + request("GET", "/context_note"))

        assert [connection.receive().body, connection.receive().body] == [b"nothing", b"nothing"]


@pytest.mark.parametrize("loop", ["asyncio", "auto"])
def test_a_websocket_shares_no_context_with_requests_before_it(app: Starlette, loop: str) -> None:
    """Its tasks would run in the turns of their callers."""
    with serve_app(app, loop=loop) as address, Edge(*address, "").connection() as connection:
        connection.send(request("GET", "/context_note") + request("GET", "/context_note"))
        assert [connection.receive().body, connection.receive().body] == [b"nothing", b"nothing"]
        assert connection.fetch(request("GET", "/sends_note/now", UPGRADE)).status == 101

        assert connection.read(9)[2:] == b"nothing"


def test_a_closed_connection_leaves_nothing_in_memory(edge: Edge) -> None:
    gc.collect()
    gc.disable()  # it would come in the end; until then every body that anybody sent would be kept
    try:
        with edge.connection() as connection:
            connection.fetch(request("POST", "/echo", body=b"Hello"))
            remaining = [ref(one) for one in in_memory(EdgeProtocol)]
        assert remaining
        until = time.monotonic() + PATIENCE
        while any(one() for one in remaining):
            assert time.monotonic() < until
            time.sleep(0.01)  # between two looks
    finally:
        gc.enable()


def test_a_closed_websocket_leaves_nothing_in_memory(edge: Edge) -> None:
    gc.collect()
    gc.disable()
    try:
        with edge.connection() as connection:
            assert connection.fetch(request("GET", "/much/stays", UPGRADE)).status == 101
            remaining = [ref(one) for one in in_memory(EdgeProtocol, EdgeConnection, EdgeSocket)]
            assert len(remaining) >= 2
            connection.send(b"\x81\x01")  # not masked: the connection fails
        until = time.monotonic() + PATIENCE
        while any(one() for one in remaining):
            assert time.monotonic() < until
            time.sleep(0.01)  # between two looks
    finally:
        gc.enable()


@pytest.mark.parametrize("path", ["/much/stays", "/much/leaves"])
def test_a_websocket_client_that_reads_slowly_is_not_disconnected(edge: Edge, path: str) -> None:
    """Reading takes longer than the timeout for a client that reads nothing. If a busy machine kept it
    from reading enough within the timeout, it connects again."""
    while (slowest := slowest_part_before_disconnection(edge, path)) is not None:
        assert slowest > TIMEOUT / 2


def slowest_part_before_disconnection(edge: Edge, path: str) -> float | None:
    """Reads slowly. Returns None after the whole message, or the longest time for less than MIN_PROGRESS."""
    with edge.connection(receive_buffer=65536) as connection:
        remaining = FRAME
        reads = [(time.monotonic(), remaining)]
        assert connection.fetch(request("GET", path, UPGRADE)).status == 101
        while remaining:
            connection.wait()
            try:
                remaining -= len(connection.read(min(remaining, 65536)))
            except ConnectionError:
                reads.append((time.monotonic(), remaining))
                return max(
                    later - earlier
                    for (earlier, more), (later, less) in combinations(reads, 2)
                    if more - less < MIN_PROGRESS
                )
            reads.append((time.monotonic(), remaining))
    return None


def test_the_next_response_is_made_once_the_client_has_read_the_last_one(edge: Edge) -> None:
    """It would be in memory without being counted."""
    made.clear()
    with edge.connection(receive_buffer=65536) as connection:
        connection.send(request("GET", "/much") + request("GET", "/much"))
        head = connection.read(until=b"\r\n\r\n")
        assert edge.fetch(request("GET", "/echo")).status == 200  # meanwhile
        before = len(made)
        rest = connection.read(len(MUCH))
        second = connection.receive()

    assert (before, len(made)) == (1, 2)
    assert (head.startswith(b"HTTP/1.1 200"), len(rest), len(second.body)) == (True, len(MUCH), len(MUCH))


def test_an_upgrade_leaves_no_unsent_bytes_behind(edge: Edge) -> None:
    with edge.connection(receive_buffer=65536) as connection:
        connection.send(request("GET", "/much"))
        connection.read(until=b"\r\n\r\n")
        assert int(edge.fetch(request("GET", "/unsent")).body) > 0
        connection.send(request("GET", "/sends_note/now", UPGRADE))
        with suppress(ConnectionError):
            connection.read_to_end()

    assert edge.fetch(request("GET", "/unsent")).body == b"0"


@pytest.mark.parametrize("is_complete", [True, False])
def test_a_request_in_pieces_leaves_no_counted_bytes_behind(app: Starlette, is_complete: bool) -> None:
    whole = request("POST", "/echo", body=b"Hello, world")
    other = request("GET", "/incomplete")
    until = time.monotonic() + PATIENCE
    with ExitStack() as stack:
        edge = Edge(*stack.enter_context(serve_app(app)), "")  # whose timeout is longer
        slow, connection = (stack.enter_context(edge.connection()) for _ in range(2))
        for _ in range(2):
            slow.send(whole[:30])
            while (heads := connection.fetch(other).body) == b"0 0":
                assert time.monotonic() < until
            slow.send(whole[30:-7])
            while (bodies := connection.fetch(other).body) in (b"0 0", heads):
                assert time.monotonic() < until
            assert bodies.startswith(b"0 ")  # of the head and of the body
            slow.send(whole[-7:-3])
            while connection.fetch(other).body == bodies:
                assert time.monotonic() < until
            if not is_complete:
                slow.socket.shutdown(socket.SHUT_WR)
                assert slow.read_to_end() == b""
                break
            assert slow.fetch(whole[-3:]).status == 200

        assert connection.fetch(other).body == b"0 0"


def test_messages_that_wait_for_a_client_count_for_its_viewer(edge: Edge) -> None:
    limit = "unsent bytes of a viewer"
    made.clear()
    before = counters.limits[limit]
    with edge.connection(receive_buffer=65536) as connection:
        assert connection.fetch(request("GET", "/much/several", UPGRADE)).status == 101
        while not made:
            connection.wait()

    assert (counters.limits[limit] - before > 0, made) == (True, [0])


@contextmanager
def reading_slowly(app: Starlette, path: str) -> Iterator[Connection]:
    """A websocket with a small buffer, at a server whose timeout is longer than that of `edge`."""
    with serve_app(app) as address, Edge(*address, "").connection(receive_buffer=65536) as connection:
        assert connection.fetch(request("GET", path, UPGRADE)).status == 101
        yield connection


def test_messages_that_the_client_has_read_count_no_more(app: Starlette) -> None:
    length = NUMBER_OF_PARTS * (len(PART) + 10)  # with the heads of the frames

    with reading_slowly(app, "/much/one-by-one") as connection:
        assert len(connection.read(length)) == length


def test_a_message_that_the_client_has_read_leaves_no_unsent_bytes_behind(app: Starlette) -> None:
    message = b"\x81\x81" + bytes(4) + b"?"

    with reading_slowly(app, "/much/counts") as connection:
        assert len(connection.read(FRAME)) == FRAME
        connection.send(message)
        assert connection.read(3) == b"\x81\x010"


def test_messages_that_are_cancelled_while_they_wait_count_no_more(app: Starlette) -> None:
    with reading_slowly(app, "/much/cancelled") as connection:
        assert CANCELLED.wait(PATIENCE)
        assert len(connection.read(FRAME)) == FRAME
        assert connection.read(5) == b"\x81\x03end"


@pytest.mark.parametrize(("length", "cost"), [(MESSAGE_BYTES - 1, 1), (15 * MESSAGE_BYTES, 16)])
def test_a_long_message_counts_as_several(
    edge: Edge, monkeypatch: pytest.MonkeyPatch, length: int, cost: int
) -> None:
    """After the first burst no message is read any more, because the clock stands still."""
    monkeypatch.setattr("app.server.sockets.monotonic", lambda: 1e9)
    monkeypatch.setattr("app.server.sockets.MESSAGES_PER_SECOND", 0.001)
    message = b"\x82\xfe" + length.to_bytes(2, "big") + bytes(4 + length)
    expected = MESSAGES_AT_ONCE // cost + 1
    answer = b"\x81\x06answer"
    with edge.connection() as connection:
        assert connection.fetch(request("GET", "/answers_messages/all", UPGRADE)).status == 101
        connection.send(message * (expected + 4))
        received = connection.read(expected * len(answer))
        for _ in range(20):  # in which further messages would be answered
            assert edge.fetch(request("GET", "/echo")).status == 200
        connection.socket.setblocking(False)
        with pytest.raises(BlockingIOError):
            connection.read(1)

    assert received == answer * expected


def test_messages_after_the_end_of_a_response_are_ignored(edge: Edge) -> None:
    with edge.connection() as connection:
        first = connection.fetch(request("GET", "/misbehaves/twice"))
        second = connection.fetch(request("GET", "/echo"))

    assert (first.body, second.status) == (b"1234567890", 200)


def test_receive_returns_a_disconnect_after_the_response(edge: Edge) -> None:
    events.clear()
    with edge.connection() as connection:
        connection.fetch(request("GET", "/misbehaves/listens"))
        connection.fetch(request("GET", "/echo"))

    assert events == [{"type": "http.disconnect"}, {"type": "http.disconnect"}]
