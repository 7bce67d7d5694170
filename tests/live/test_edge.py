"""Limits of the server: slow clients are disconnected, a client receives the rejection of a too long
request, and an overloaded process rejects requests in the format of their contract, except for health
checks."""

import json
import socket
from collections.abc import Iterator
from contextlib import ExitStack
from itertools import count
from typing import Any

import pytest

from app.server.protocol import MAX_PIPELINED
from tests.live.edge import (
    ASSIGNMENTS,
    HOMEWORK,
    JSON,
    MAY,
    Edge,
    Line,
    at_the_edge,
    graphql,
    homework,
    nobody_else_may_write,
    request,
)

pytestmark = pytest.mark.live

LIVE = request("GET", "/livez")
READY = request("GET", "/readyz")
BODY = json.dumps(HOMEWORK).encode()
NAME = '{ __type(name: "Query") { name } }'
LATE = "the request did not arrive in time"
BUSY = "server overloaded"
MIB = 1024 * 1024


@pytest.fixture(scope="module")
def edge(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Edge]:
    with at_the_edge(tmp_path_factory.mktemp("edge")) as one:
        yield one


@pytest.fixture(scope="module")
def hasty(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Edge]:
    with at_the_edge(tmp_path_factory.mktemp("hasty"), timeout=0.2) as one:
        yield one


# --- slow clients ---------------------------------------------------------------------------------


def test_a_silent_connection_is_closed_without_a_response(hasty: Edge) -> None:
    with hasty.line() as line:
        assert line.rest() == b""


HALF = {
    "headers": (b"GET /livez HTTP/1.1\r\nhost: care\r\n",),
    "first line": (b"GET /gateway/prof",),
    "body": (request("POST", "/graphql", JSON, b"content-length: 10\r\n"), b"{"),
    "legacy body": (request("PUT", ASSIGNMENTS, JSON, b"content-length: 10\r\n"),),
    "chunk": (request("PUT", ASSIGNMENTS, JSON, b"transfer-encoding: chunked\r\n"), b"5\r\nab"),
    "body after it was asked for": (
        request("POST", "/graphql", JSON, b"expect: 100-continue\r\ncontent-length: 9\r\n"),
    ),
}


@pytest.mark.parametrize("said", HALF.values(), ids=list(HALF))
@pytest.mark.parametrize("is_first", [True, False], ids=["first", "second"])
def test_an_incomplete_request_is_answered_with_408(
    hasty: Edge, said: tuple[bytes, ...], is_first: bool
) -> None:
    with hasty.line() as line:
        if not is_first:
            assert line.ask(LIVE).status == 200
        line.say(*said)
        heard = line.hear()
        if heard.status == 100:
            heard = line.hear()

        assert (heard.status, heard.message, heard.headers["connection"]) == (408, LATE, "close")
        assert line.rest() == b""


def test_empty_lines_do_not_keep_a_connection_open(hasty: Edge) -> None:
    with hasty.line() as line:
        assert line.ask(LIVE).status == 200
        line.say(b"\r\n")

        assert line.rest() == b""


UPGRADE = (
    b"connection: upgrade\r\nupgrade: websocket\r\nsec-websocket-version: 13\r\n"
    b"sec-websocket-key: dGhlIHNhbXBsZSBub25jZQ==\r\nsec-websocket-protocol: graphql-transport-ws\r\n"
)
ALL = "{ __schema { types { name description fields { name description args { name description } } } } }"


def test_a_client_that_does_not_read_responses_is_disconnected(hasty: Edge) -> None:
    with hasty.line(room=4096) as line, pytest.raises(ConnectionError):
        line.say(graphql(ALL) * 12)
        while True:
            line.say(b"\r\n")
            line.wait()


def test_a_websocket_client_that_does_not_read_is_disconnected(hasty: Edge) -> None:
    with hasty.line(room=4096) as line, pytest.raises(ConnectionError):
        assert line.ask(request("GET", "/graphql", MAY, UPGRADE)).status == 101
        line.say(frame(type="connection_init"))
        for number in count():
            line.say(frame(type="subscribe", id=str(number), payload={"query": ALL}))
            line.wait()


def frame(**message: Any) -> bytes:
    said = json.dumps(message).encode().ljust(126)
    return b"\x81\xfe" + len(said).to_bytes(2, "big") + bytes(4) + said


def test_a_request_in_many_small_pieces_is_answered(edge: Edge) -> None:
    whole = homework()
    asks_first = request(
        "PUT", ASSIGNMENTS, JSON, MAY, b"expect: 100-continue\r\ncontent-length: %d\r\n" % len(BODY)
    )
    chunked = request("PUT", ASSIGNMENTS, JSON, MAY, b"transfer-encoding: chunked\r\n")

    with edge.line() as line:
        line.say(*(whole[at : at + 1] for at in range(len(whole))))
        one = line.hear()
        more = line.ask(asks_first)
        asked_first = line.ask(BODY)
        in_chunks = line.ask(
            chunked + b"5\r\n%b\r\n%x\r\n%b\r\n0\r\nx-late: 1\r\n\r\n" % (BODY[:5], len(BODY) - 5, BODY[5:])
        )

    assert (more.status, one.status, one.body) == (
        100,
        200,
        b'{"message":"The assignments were added to the session."}',
    )
    assert (asked_first.body, in_chunks.body) == (one.body, one.body)


# --- what is too long -----------------------------------------------------------------------------

LONG_LEGACY = "the body may have at most 65536 bytes"
LONG_GRAPHQL = "The request may have at most 262144 bytes."
CONTRACTS = {"legacy": ("PUT", ASSIGNMENTS, LONG_LEGACY), "GraphQL": ("POST", "/graphql", LONG_GRAPHQL)}


@pytest.mark.parametrize(("method", "path", "message"), CONTRACTS.values(), ids=list(CONTRACTS))
@pytest.mark.parametrize("is_chunked", [False, True], ids=["declared", "in chunks"])
def test_a_client_that_keeps_sending_a_too_long_body_receives_the_413(
    edge: Edge, method: str, path: str, message: str, is_chunked: bool
) -> None:
    length = b"transfer-encoding: chunked\r\n" if is_chunked else b"content-length: %d\r\n" % (8 * MIB)
    piece = b"10000\r\n%b\r\n" % (b" " * 65536) if is_chunked else b" " * 65536

    with edge.line() as line:
        line.say(request(method, path, JSON, MAY, length), *[piece] * 128)
        heard = line.hear()

        assert (heard.status, heard.message, heard.headers["connection"]) == (413, message, "close")
        assert line.rest() == b""


@pytest.mark.parametrize(("method", "path", "message"), CONTRACTS.values(), ids=list(CONTRACTS))
@pytest.mark.parametrize("asks", [b"", b"expect: 100-continue\r\n"], ids=["silently", "asked"])
def test_a_declared_length_over_the_limit_is_rejected_before_the_body(
    edge: Edge, method: str, path: str, message: str, asks: bytes
) -> None:
    heard = edge.ask(request(method, path, JSON, MAY, asks, b"content-length: 67108864\r\n"))

    assert (heard.status, heard.message, heard.headers["connection"]) == (413, message, "close")


def test_authentication_is_checked_before_the_body_length(edge: Edge) -> None:
    heard = edge.ask(request("PUT", ASSIGNMENTS, JSON, b"content-length: 67108864\r\n"))

    assert (heard.status, heard.message) == (401, "sign in with a valid bearer token")


def test_the_start_of_a_too_long_body_is_not_executed(edge: Edge) -> None:
    whole = graphql(NAME).partition(b"\r\n\r\n")[2]

    heard = edge.ask(request("POST", "/graphql", JSON, MAY, b"content-length: 300000\r\n") + whole)

    assert (heard.status, heard.message) == (413, LONG_GRAPHQL)


HEADS = {
    "one": b"x-long: %b\r\n" % (b"y" * 70_000),
    "many": b"".join(b"x-%d: y\r\n" % number for number in range(10_000)),
    "without end": b"x-long: " + b"y" * 400_000,
}


@pytest.mark.parametrize("headers", HEADS.values(), ids=list(HEADS))
@pytest.mark.parametrize("path", ["/graphql", "/gateway/nowhere"])
def test_headers_over_the_limit_are_rejected(edge: Edge, headers: bytes, path: str) -> None:
    with edge.line() as line:
        heard = line.ask(request("GET", path, headers))

        assert (heard.status, heard.message) == (431, "the headers are too long")
        assert line.rest() == b""


def test_headers_below_the_limit_are_accepted(edge: Edge) -> None:
    assert edge.ask(request("GET", "/livez", b"x-long: %b\r\n" % (b"y" * 60_000))).status == 200


# --- what is too much -----------------------------------------------------------------------------


def until_busy(edge: Edge) -> None:
    while edge.ask(READY_OR_BUSY).status != 503:
        pass


READY_OR_BUSY = request("GET", "/gateway/nowhere")


@pytest.fixture(scope="module")
def narrow(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Edge]:
    with at_the_edge(tmp_path_factory.mktemp("narrow"), most_requests=1) as one:
        yield one


def test_an_overloaded_process_rejects_new_requests_and_completes_running_ones(narrow: Edge) -> None:
    with ExitStack() as stack:
        first, second, third = (stack.enter_context(narrow.line()) for _ in range(3))
        with nobody_else_may_write(narrow.database):
            first.say(homework())
            until_busy(narrow)
            refused = [second.ask(graphql(NAME, b"x-request-id: mine\r\n")), second.ask(homework())]
            head = second.ask(request("HEAD", ASSIGNMENTS, MAY))
            health = [third.ask(LIVE).status, third.ask(READY).status]
        begun = first.hear()
        again = second.ask(homework())  # on the same connection

    assert [(each.status, each.message, each.headers["retry-after"]) for each in refused] == [
        (503, BUSY, "1")
    ] * 2
    assert json.loads(refused[0].body)["errors"][0]["extensions"] == {
        "code": "OVERLOADED",
        "requestId": "mine",
    }
    assert (refused[0].headers["x-request-id"], json.loads(refused[1].body)["path"]) == ("mine", ASSIGNMENTS)
    assert (head.status, head.body) == (503, b"")
    assert int(head.headers["content-length"]) > 100
    assert (health, begun.status, again.status) == ([200, 200], 200, 200)


ONE = graphql(NAME)
WHILE_BUSY = {
    "one": (ONE, [503]),
    "with a query string": (request("GET", "/gateway/profile?a=b#"), [400]),
    "two in one read": (ONE * 2, [503, 503]),
    "one and the start of another": (ONE + LIVE[:9], [503]),
    "health": (LIVE, [200]),
    "without the end of its body": (ONE[:-1], []),
    "in chunks": (request("POST", "/graphql", JSON, b"transfer-encoding: chunked\r\n") + b"0\r\n\r\n", [503]),
    "with two lengths": (ONE.replace(b"content-type", b"content-length: 1\r\ncontent-type"), [400]),
    "with a bare line feed": (ONE.replace(b"host: care", b"host: care\nx: y"), [400]),
    "that ends the connection": (graphql(NAME, b"connection: close\r\n"), [503]),
    "that keeps the connection": (graphql(NAME, b"connection: keep-alive\r\n"), [503]),
    "for a websocket": (request("GET", "/graphql", UPGRADE), [503]),
    "HEAD": (request("HEAD", "/graphql"), [503]),
}


@pytest.mark.parametrize(("said", "statuses"), WHILE_BUSY.values(), ids=list(WHILE_BUSY))
def test_rejections_without_the_parser_agree_with_it_on_request_boundaries(
    narrow: Edge, said: bytes, statuses: list[int]
) -> None:
    """A simple request is rejected without the parser."""
    with narrow.line() as first, narrow.line() as line:
        with nobody_else_may_write(narrow.database):
            first.say(homework())
            until_busy(narrow)
            assert line.ask(ONE).status == 503
            line.say(said)
            line.socket.shutdown(socket.SHUT_WR)
            heard = line.rest()
        assert first.hear().status == 200

    assert statuses_in(heard) == statuses


def test_a_client_that_reads_no_rejections_is_disconnected(narrow: Edge) -> None:
    """Otherwise every rejection would stay in memory."""
    requests = graphql(NAME) * 100

    with narrow.line() as first:
        with nobody_else_may_write(narrow.database), narrow.line(room=4096) as line:
            first.say(homework())
            until_busy(narrow)
            with pytest.raises(ConnectionError):
                for _ in range(64 * MIB // len(requests)):
                    line.say(requests)
        assert first.hear().status == 200


def test_an_overloaded_process_rejects_websocket_handshakes(narrow: Edge) -> None:
    with narrow.line() as first:
        with nobody_else_may_write(narrow.database):
            first.say(homework())
            until_busy(narrow)
            refused = narrow.ask(request("GET", "/graphql", UPGRADE))
        assert first.hear().status == 200

    assert (refused.status, refused.message) == (503, BUSY)
    assert narrow.ask(request("GET", "/graphql", UPGRADE)).status == 101


def test_websocket_operations_count_as_requests(narrow: Edge) -> None:
    window = 'startDate: "2026-11-22T09:00:00Z", endDate: "2026-11-25T09:00:00Z"'
    assign = (
        f'mutation {{ assignHomework(input: {{sessionId: "1", bookIds: ["2"], {window}}}) {{ message }} }}'
    )
    listen = {"query": "subscription { assignmentChanged { id } }"}

    with narrow.line() as line, narrow.line() as other:
        assert line.ask(request("GET", "/graphql", MAY, UPGRADE)).status == 101
        line.say(frame(type="connection_init"))
        acknowledged = message_at(line)
        line.say(frame(type="subscribe", id="listens", payload=listen))
        with nobody_else_may_write(narrow.database):
            line.say(frame(type="subscribe", id="changes", payload={"query": assign}))
            line.say(frame(type="subscribe", id="reads", payload={"query": NAME}))
            refused = message_at(line)
            by_http = other.ask(graphql(NAME))
        made = {one["id"]: one for one in (message_at(line), message_at(line), message_at(line))}
        line.say(frame(type="subscribe", id="reads", payload={"query": NAME}))
        read = message_at(line)
        again = other.ask(homework())

    [error] = refused["payload"]
    assert error["extensions"].pop("requestId")
    assert (acknowledged, refused["id"], refused["type"]) == ({"type": "connection_ack"}, "reads", "error")
    assert error == {"message": "server overloaded", "extensions": {"code": "OVERLOADED"}}
    assert made.keys() == {"listens", "changes"}
    assert (read["id"], read["payload"]["data"]) == ("reads", {"__type": {"name": "Query"}})
    assert (by_http.status, again.status) == (503, 200)


def message_at(line: Line) -> Any:
    """The next message of a websocket."""
    _, length = line.read(2)
    return json.loads(line.read(int.from_bytes(line.read(2), "big") if length == 126 else length))


def test_slow_senders_and_open_streams_hold_no_request_slot(narrow: Edge) -> None:
    listen = graphql("subscription { assignmentChanged { id } }", b"accept: text/event-stream\r\n")

    with ExitStack() as stack:
        for said in HALF.values():
            stack.enter_context(narrow.line()).say(*said)
        for _ in range(3):
            listener = stack.enter_context(narrow.line())
            listener.say(listen)
            assert listener.read(15) == b"HTTP/1.1 200 OK"

        assert narrow.ask(graphql(NAME)).status == 200


def test_a_slow_request_is_rejected_if_the_process_is_overloaded_when_it_completes(narrow: Edge) -> None:
    whole = homework()

    with narrow.line() as first, narrow.line() as slow:
        slow.say(whole[:-1])
        with nobody_else_may_write(narrow.database):
            first.say(whole)
            until_busy(narrow)
            refused = slow.ask(whole[-1:])
        assert first.hear().status == 200

        assert (refused.status, refused.message) == (503, BUSY)
        assert slow.ask(whole).status == 200


def test_pipelined_requests_are_answered_in_order(edge: Edge) -> None:
    nowhere = request("GET", "/gateway/nowhere")
    last = request("GET", "/livez", b"connection: close\r\n")

    with edge.line() as line:
        line.say((LIVE + homework() + nowhere) * 12 + last)
        heard = line.rest()

    assert statuses_in(heard) == [200, 200, 404] * 12 + [200]


def test_too_many_pipelined_requests_close_the_connection_after_the_first_responses(edge: Edge) -> None:
    with edge.line() as line:
        line.say(LIVE * 200)
        heard = line.rest()

    assert statuses_in(heard) == [200] * (MAX_PIPELINED + 1)
    assert heard.count(b"connection: close") == 1


def statuses_in(heard: bytes) -> list[int]:
    return [int(each[:3]) for each in heard.split(b"HTTP/1.1 ")[1:]]


# --- other protocols ------------------------------------------------------------------------------

WISHES = {
    "h2c": b"connection: upgrade, http2-settings\r\nupgrade: h2c\r\nhttp2-settings: AAMAAABkAAQAoAAA\r\n",
    "something else": b"connection: upgrade\r\nupgrade: something/1\r\n",
}


@pytest.mark.parametrize("wish", WISHES.values(), ids=WISHES)
@pytest.mark.parametrize("is_whole", [True, False], ids=["at once", "in pieces"])
def test_an_upgrade_to_an_unsupported_protocol_is_ignored(edge: Edge, wish: bytes, is_whole: bool) -> None:
    """The body is not parsed as a request: a proxy would assign its response to another client."""
    inner = b"GET /livez HTTP/1.1\r\nhost: care\r\n\r\n"
    sized = graphql(NAME, wish)
    chunked = request("PUT", ASSIGNMENTS, JSON, MAY, wish, b"transfer-encoding: chunked\r\n")
    said = [
        request("POST", "/nowhere", wish, body=inner),
        request("GET", "/readyz", wish),
        sized,
        chunked + b"%x\r\n%b\r\n0\r\n\r\n" % (len(BODY), BODY),
        request("GET", "/livez", b"connection: close\r\n"),
    ]

    with edge.line() as line:
        if is_whole:
            line.say(b"".join(said))
            heard = line.rest()
        else:
            heard = b""
            for each in said[:-1]:
                head, _, body = each.partition(b"\r\n\r\n")
                line.say(head + b"\r\n\r\n")
                line.wait()
                line.say(body)
                answer = line.hear()
                heard += b"HTTP/1.1 %d" % answer.status
            line.say(said[-1])
            heard += line.rest()

    assert statuses_in(heard) == [404, 200, 200, 200, 200]


NO_HANDSHAKES = {
    "many headers": (b"a: b\r\n" * 200, 431),
    "a long header": (b"a: " + b"b" * 10_000 + b"\r\n", 431),
    "a body": (b"content-length: 5\r\n", 400),
}


@pytest.mark.parametrize(("headers", "status"), NO_HANDSHAKES.values(), ids=NO_HANDSHAKES)
def test_a_malformed_websocket_handshake_is_rejected(edge: Edge, headers: bytes, status: int) -> None:
    with edge.line() as line:
        line.say(request("GET", "/graphql", UPGRADE, headers))
        heard = line.rest()

    assert heard.startswith(b"HTTP/1.1 %d " % status)
