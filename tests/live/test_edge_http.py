"""The server parses requests by RFC 9112, and every part of a request has a limit."""

import json
import os
import select
import signal
import socket
import time
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from contextlib import ExitStack, asynccontextmanager
from typing import Any

import pytest
import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.routing import Route

from app.server.admission import AdmissionControl
from app.server.protocol import EdgeProtocol
from app.settings import Environment, Settings
from tests.live.edge import (
    ASSIGNMENTS,
    AUTHORIZATION,
    HOMEWORK,
    JSON,
    Connection,
    Edge,
    graphql,
    homework,
    request,
    serve_app,
    serve_service,
)
from tests.live.processes import LOADED
from tests.patience import PATIENCE

pytestmark = pytest.mark.live

LIVEZ = request("GET", "/livez")
BODY = json.dumps(HOMEWORK).encode()
NAME = '{ __type(name: "Query") { name } }'
KIB = 1024
MIB = 1024 * 1024


@pytest.fixture(scope="module")
def edge(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Edge]:
    with serve_service(tmp_path_factory.mktemp("edge")) as one:
        yield one


# --- parts without a limit of their own -----------------------------------------------------------

CHUNKED = b"transfer-encoding: chunked\r\n"
ENDLESS = {
    "trailer": (b"2\r\n{}\r\n0\r\nx-late: ", b"a" * KIB),
    "trailers": (b"2\r\n{}\r\n0\r\n", b"x-late: a\r\n" * 100),
    "chunk extension": (b"2;x=", b"a" * KIB),
    "chunk size": (b"", b"0" * KIB),
}


def response_to_flood(connection: Connection, piece: bytes, limit: int) -> bytes:
    """Sends until the server responds; fails if it reads more than `limit` bytes."""
    connection.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    received = b""
    for _ in range(limit // len(piece)):
        try:
            connection.send(piece)
            connection.socket.setblocking(False)
            received += connection.socket.recv(4096)
        except BlockingIOError:
            continue
        except ConnectionError:
            break
        finally:
            connection.socket.setblocking(True)
        if received:
            return received
    assert received, f"the server took {limit} bytes"
    return received


@pytest.mark.parametrize(("start", "piece"), ENDLESS.values(), ids=list(ENDLESS))
@pytest.mark.parametrize("path", ["/graphql", ASSIGNMENTS])
def test_endless_framing_is_rejected(edge: Edge, path: str, start: bytes, piece: bytes) -> None:
    with edge.connection() as connection:
        connection.send(request("POST", path, JSON, AUTHORIZATION, CHUNKED) + start)
        received = response_to_flood(connection, piece, 64 * MIB)

    assert received.startswith((b"HTTP/1.1 431 ", b"HTTP/1.1 400 "))


def test_a_body_in_many_small_chunks_is_read(edge: Edge) -> None:
    body = BODY.ljust(20_000)
    chunks = b"".join(b"1;x=%b\r\n%c\r\n" % (b"y" * 20, byte) for byte in body)

    with edge.connection() as connection:
        response = connection.fetch(
            request("PUT", ASSIGNMENTS, JSON, AUTHORIZATION, CHUNKED) + chunks + b"0\r\nx-late: 1\r\n\r\n"
        )

    assert response.status == 200


@pytest.mark.parametrize("size", [70_000, 250_000])
def test_a_long_body_and_the_start_of_the_next_request_share_a_read(edge: Edge, size: int) -> None:
    long = json.dumps({"query": NAME}).encode().ljust(size)
    second = graphql(NAME)

    with edge.connection() as connection:
        connection.send(request("POST", "/graphql", JSON, AUTHORIZATION, body=long) + second[:40])
        first = connection.receive()
        connection.send(second[40:])

        assert (first.status, connection.receive().status) == (200, 200)


def test_headers_after_a_pipelined_request_have_the_same_limit(edge: Edge) -> None:
    with edge.connection() as connection:
        connection.send(LIVEZ + request("GET", "/livez", b"x-long: %b\r\n" % (b"y" * 300_000)))
        response, rest = connection.receive(), connection.read_to_end()

    assert (response.status, rest.count(b"HTTP/1.1 200")) == (200, 0)


@pytest.mark.parametrize(("count", "status"), [(99, 200), (100, 431)])
def test_a_request_has_at_most_a_hundred_headers(edge: Edge, count: int, status: int) -> None:
    headers = b"".join(b"x-%d: y\r\n" % number for number in range(count))

    assert edge.fetch(request("GET", "/livez", headers)).status == status


def test_too_many_headers_are_rejected_before_their_end(edge: Edge) -> None:
    with edge.connection() as connection:
        connection.send(b"GET /livez HTTP/1.1\r\nhost: care\r\n" + b"x: y\r\n" * 200)
        response = connection.receive()

        assert (response.status, response.message) == (431, "the headers are too long")
        assert connection.read_to_end() == b""


# --- heads ----------------------------------------------------------------------------------------

HOSTS = {
    "none": (b"", "the Host header is missing"),
    "two": (b"host: care\r\nhost: care\r\n", "there must be one Host header"),
    "a blank": (b"host: care example\r\n", "the Host header is not a valid host"),
    "a path": (b"host: care/x\r\n", "the Host header is not a valid host"),
    "a user": (b"host: me@care\r\n", "the Host header is not a valid host"),
    "a word as port": (b"host: care:http\r\n", "the Host header is not a valid host"),
}


@pytest.mark.parametrize(("host", "message"), HOSTS.values(), ids=list(HOSTS))
@pytest.mark.parametrize("path", ["/graphql", ASSIGNMENTS])
def test_a_request_names_one_valid_host(edge: Edge, path: str, host: bytes, message: str) -> None:
    with edge.connection() as connection:
        response = connection.fetch(b"GET %b HTTP/1.1\r\n%b\r\n" % (path.encode(), host))

        assert (response.status, response.message, response.headers["connection"]) == (400, message, "close")
        assert connection.read_to_end() == b""


@pytest.mark.parametrize("host", [b"", b"care:8000", b"[::1]:8000", b"127.0.0.1", b"my_service", b"a%20b"])
def test_valid_hosts_are_accepted(edge: Edge, host: bytes) -> None:
    assert edge.fetch(b"GET /livez HTTP/1.1\r\nhost: %b\r\n\r\n" % host).status == 200


def test_http_1_0_needs_no_host(edge: Edge) -> None:
    assert edge.fetch(b"GET /livez HTTP/1.0\r\n\r\n").status == 200


@pytest.mark.parametrize(("version", "status"), [(b"1.2", 200), (b"1.9", 200), (b"2.0", 505), (b"0.9", 505)])
def test_another_minor_version_is_accepted_and_another_major_version_is_rejected(
    edge: Edge, version: bytes, status: int
) -> None:
    response = edge.fetch(b"GET /livez HTTP/%b\r\nhost: care\r\n\r\n" % version)

    assert response.status == status


CODINGS = {
    "gzip, chunked": (b"1.1", (b"gzip, chunked",), 501, "the transfer coding must be chunked"),
    "gzip and chunked": (b"1.1", (b"gzip", b"chunked"), 400, "there must be one Transfer-Encoding header"),
    "chunked in 1.0": (b"1.0", (b"chunked",), 400, "HTTP/1.0 has no Transfer-Encoding"),
}


@pytest.mark.parametrize(("version", "codings", "status", "message"), CODINGS.values(), ids=list(CODINGS))
def test_a_transfer_coding_other_than_chunked_is_rejected(
    edge: Edge, version: bytes, codings: tuple[bytes, ...], status: int, message: str
) -> None:
    start = b"POST /graphql HTTP/%b\r\nhost: care\r\n" % version
    headers = b"".join(b"transfer-encoding: %b\r\n" % coding for coding in codings)
    with edge.connection() as connection:
        response = connection.fetch(start + JSON + AUTHORIZATION + headers + b"\r\n2\r\n{}\r\n0\r\n\r\n")

        assert (response.status, response.message) == (status, message)
        assert connection.read_to_end() == b""


def test_blanks_around_a_value_of_a_header_are_not_part_of_it(edge: Edge) -> None:
    given = (JSON, AUTHORIZATION, b"x-request-id: mine\r\n")
    headers = [each.replace(b": ", b": \t").replace(b"\r\n", b" \t\r\n") for each in given]

    response = edge.fetch(request("POST", "/graphql", *headers, body=b'{"query": "{ viewer { role } }"}'))

    assert (response.status, response.headers["x-request-id"]) == (200, "mine")


GZIP = b"content-encoding: gzip\r\n"


@pytest.mark.parametrize(("method", "path"), [("POST", "/graphql"), ("PUT", ASSIGNMENTS)])
def test_a_compressed_body_is_rejected(edge: Edge, method: str, path: str) -> None:
    compressed = edge.fetch(request(method, path, JSON, AUTHORIZATION, GZIP, body=b"{}"))
    small = edge.fetch(
        request(method, path, JSON, AUTHORIZATION, b"content-encoding: identity\r\n", body=b"{}")
    )

    assert (compressed.status, compressed.message) == (415, "the body must not have a content encoding")
    assert small.status in (400, 404)


def test_an_encoded_slash_does_not_separate_segments(edge: Edge) -> None:
    paths = (f"{ASSIGNMENTS}%2f1", f"{ASSIGNMENTS}%2F1", ASSIGNMENTS.replace("/session", "%2Fsession"))
    answers = [edge.fetch(request("GET", path, AUTHORIZATION)) for path in paths]

    assert [(each.status, each.message) for each in answers] == [(404, "no such path")] * 3
    assert (
        edge.fetch(
            request("GET", ASSIGNMENTS.replace("a", "%61") + "?time-state=RUNNING", AUTHORIZATION)
        ).status
        == 200
    )


def test_a_target_with_a_fragment_is_rejected(edge: Edge) -> None:
    response = edge.fetch(request("GET", f"{ASSIGNMENTS}#x", AUTHORIZATION))

    assert (response.status, response.message) == (400, "the request target must not have a fragment")


@pytest.mark.parametrize("path", ["/graphql", ASSIGNMENTS])
def test_invalid_http_is_rejected_in_the_format_of_its_contract(edge: Edge, path: str) -> None:
    with edge.connection() as connection:
        response = connection.fetch(b"GET %b HTTP/1.1\r\nhost care\r\n\r\n" % path.encode())

        assert (response.status, response.message) == (400, "the request is not valid HTTP")
        assert connection.read_to_end() == b""


@pytest.mark.parametrize("path", ["//gateway", f"/{ASSIGNMENTS}", f"//{ASSIGNMENTS}?page=1"])
def test_a_legacy_path_after_more_slashes_is_unknown(edge: Edge, path: str) -> None:
    response = edge.fetch(request("GET", path, AUTHORIZATION))

    assert (response.status, response.message) == (404, "no such path")
    assert json.loads(response.body)["path"] == path.partition("?")[0]


@pytest.mark.parametrize("path", ["/graphql", ASSIGNMENTS, f"/{ASSIGNMENTS}"])
def test_an_unknown_method_is_rejected_in_the_format_of_its_contract(edge: Edge, path: str) -> None:
    response = edge.fetch(request("GE!T", path, AUTHORIZATION))

    assert (response.status, response.message) == (400, "the request is not valid HTTP")
    assert (b'"path"' in response.body) == (path != "/graphql")


def test_a_client_that_closes_its_sending_side_is_answered(edge: Edge) -> None:
    with edge.connection() as connection:
        connection.send(homework() + LIVEZ)
        connection.socket.shutdown(socket.SHUT_WR)
        received = connection.read_to_end()

    assert received.count(b"HTTP/1.1 200 OK") == 2


@pytest.mark.parametrize("is_begun", [True, False])
@pytest.mark.parametrize("version", [b"1.0", b"1.1"])
def test_an_event_stream_ends_when_its_client_closes_its_sending_side(
    edge: Edge, version: bytes, is_begun: bool
) -> None:
    """A client that has disconnected looks the same."""
    subscription = graphql("subscription { assignmentChanged { id } }", b"accept: text/event-stream\r\n")
    with edge.connection() as connection:
        connection.send(subscription.replace(b"HTTP/1.1", b"HTTP/" + version))
        if is_begun:
            connection.socket.recv(1)
        connection.socket.shutdown(socket.SHUT_WR)
        received = connection.read_to_end()

    assert b": still there" not in received  # the first heartbeat


# --- a stopped process, a stream ---------------------------------------------------------------------


async def pieces(request: Request) -> Response:
    async def parts() -> AsyncIterator[str]:
        yield "one, "
        yield "two"

    return StreamingResponse(parts())


@asynccontextmanager
async def lifespan(app: Starlette) -> AsyncIterator[dict[str, Any]]:
    yield {"admission": AdmissionControl(Settings(env=Environment.DEVELOPMENT))}


async def ready(request: Request) -> Response:
    return Response("ready")


async def busy(request: Request) -> Response:
    time.sleep(0.01)  # blocks the event loop
    return Response("done")


def small_app() -> Starlette:
    routes = [Route(f"/{each.__name__}", each) for each in (busy, pieces, ready)]
    return Starlette(routes=routes, lifespan=lifespan)


def serve_small_app(listener: socket.socket) -> None:
    signal.signal(signal.SIGCONT, lambda number, frame: None)  # as on kernels that end epoll_wait at SIGCONT
    config = uvicorn.Config(small_app(), http=EdgeProtocol, log_config=None, timeout_keep_alive=0.2)  # type: ignore[arg-type]
    uvicorn.Server(config).run([listener])


def test_a_request_that_arrives_while_the_process_is_stopped_is_answered() -> None:
    """The process runs its timers before it reads: the idle timeout has passed, but the request has
    arrived."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        process = LOADED.Process(target=serve_small_app, args=(listener,))
        process.start()
        try:
            with Edge(*listener.getsockname(), "").connection() as idle:
                assert idle.fetch(request("GET", "/ready")).status == 200
                os.kill(process.pid, signal.SIGSTOP)
                idle.send(request("GET", "/ready"))
                assert not select.select([idle.socket], [], [], 0.5)[0]
                os.kill(process.pid, signal.SIGCONT)

                assert idle.receive().status == 200
        finally:
            process.kill()
            process.join()


@pytest.fixture(scope="module")
def small() -> Iterator[Edge]:
    with serve_app(small_app(), keep_alive=PATIENCE) as address:
        yield Edge(*address, "")


def test_a_stream_to_http_1_0_has_no_chunks_and_ends_with_the_connection(small: Edge) -> None:
    with small.connection() as connection:
        connection.send(b"GET /pieces HTTP/1.0\r\n\r\n")
        head, _, body = connection.read_to_end().partition(b"\r\n\r\n")

    assert b"transfer-encoding" not in head
    assert (b"connection: close" in head, body) == (True, b"one, two")


def test_a_request_that_would_wait_too_long_for_the_event_loop_is_rejected(small: Edge) -> None:
    """This happens below the limit of concurrent requests. A HEAD request is not deferred."""
    busy = request("HEAD", "/busy")
    with ExitStack() as stack:
        connections = [stack.enter_context(small.connection()) for _ in range(80)]
        statuses: Counter[int] = Counter()
        while 503 not in statuses and statuses.total() < 800:  # the process has to measure a few first
            for connection in connections:
                connection.send(busy)
            statuses += Counter(connection.receive(is_head=True).status for connection in connections)

        assert statuses.keys() == {200, 503}
        assert small.fetch(request("GET", "/busy")).status == 200
