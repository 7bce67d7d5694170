"""Limits of the server: slow clients are disconnected, a client receives the rejection of a too long
request, and an overloaded process rejects requests in the format of their contract, except for health
checks."""

import json
import socket
import time
from collections.abc import Iterator
from contextlib import ExitStack
from itertools import count
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from app.schema.transport.request_parsing import GraphQLRequest
from app.server import turns
from app.server.protocol import MAX_PIPELINED
from app.telemetry import counters
from tests.leftovers import in_memory
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
    serve_service,
    write_lock,
)

pytestmark = pytest.mark.live

LIVEZ = request("GET", "/livez")
READYZ = request("GET", "/readyz")
ABSOLUTE_LIVEZ = request("GET", "http://care/livez")
BODY = json.dumps(HOMEWORK).encode()
NAME = '{ __type(name: "Query") { name } }'
TIMED_OUT = "the request did not arrive in time"
OVERLOADED = "server overloaded"
MIB = 1024 * 1024


@pytest.fixture(scope="module")
def edge(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Edge]:
    with serve_service(tmp_path_factory.mktemp("edge")) as one:
        yield one


@pytest.fixture(scope="module")
def short_timeout(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Edge]:
    with serve_service(tmp_path_factory.mktemp("short_timeout"), timeout=0.2) as one:
        yield one


# --- slow clients ---------------------------------------------------------------------------------


def test_a_silent_connection_is_closed_without_a_response(short_timeout: Edge) -> None:
    with short_timeout.connection() as connection:
        assert connection.read_to_end() == b""


RESPONSE_JSON = b"accept: application/graphql-response+json\r\n"  # not for what is no GraphQL response
INCOMPLETE = {
    "headers": (b"GET /livez HTTP/1.1\r\nhost: care\r\n",),
    "first line": (b"GET /gateway/prof",),
    "body": (request("POST", "/graphql", JSON, RESPONSE_JSON, b"content-length: 10\r\n"), b"{"),
    "legacy body": (request("PUT", ASSIGNMENTS, JSON, b"content-length: 10\r\n"),),
    "chunk": (request("PUT", ASSIGNMENTS, JSON, b"transfer-encoding: chunked\r\n"), b"5\r\nab"),
    "body after it was asked for": (
        request("POST", "/graphql", JSON, b"expect: 100-continue\r\ncontent-length: 9\r\n"),
    ),
}


@pytest.mark.parametrize("data", INCOMPLETE.values(), ids=list(INCOMPLETE))
@pytest.mark.parametrize("is_first", [True, False], ids=["first", "second"])
def test_an_incomplete_request_is_answered_with_408(
    short_timeout: Edge, data: tuple[bytes, ...], is_first: bool
) -> None:
    with short_timeout.connection() as connection:
        if not is_first:
            assert connection.fetch(LIVEZ).status == 200
        connection.send(*data)
        response = connection.receive()
        if response.status == 100:
            response = connection.receive()

        assert (response.status, response.message, response.headers["connection"]) == (
            408,
            TIMED_OUT,
            "close",
        )
        assert response.headers["content-type"] == "application/json"
        assert connection.read_to_end() == b""


def test_empty_lines_do_not_keep_a_connection_open(short_timeout: Edge) -> None:
    with short_timeout.connection() as connection:
        assert connection.fetch(LIVEZ).status == 200
        connection.send(b"\r\n")

        assert connection.read_to_end() == b""


WEBSOCKET = (
    b"connection: upgrade\r\nupgrade: websocket\r\nsec-websocket-version: 13\r\n"
    b"sec-websocket-key: dGhlIHNhbXBsZSBub25jZQ==\r\nsec-websocket-protocol: graphql-transport-ws\r\n"
)
ALL = "{ __schema { types { name description fields { name description args { name description } } } } }"


def test_a_client_that_does_not_read_responses_is_disconnected(short_timeout: Edge) -> None:
    with short_timeout.connection(receive_buffer=4096) as connection, pytest.raises(ConnectionError):
        connection.send(graphql(ALL) * 12)
        while True:
            connection.send(b"\r\n")
            connection.wait()


def test_a_websocket_client_that_does_not_read_is_disconnected(short_timeout: Edge) -> None:
    with short_timeout.connection(receive_buffer=4096) as connection, pytest.raises(ConnectionError):
        assert connection.fetch(request("GET", "/graphql", AUTHORIZATION, WEBSOCKET)).status == 101
        connection.send(frame(type="connection_init"))
        for number in count():
            connection.send(frame(type="subscribe", id=str(number), payload={"query": ALL}))
            connection.wait()


def frame(**message: Any) -> bytes:
    data = json.dumps(message).encode().ljust(126)
    return b"\x81\xfe" + len(data).to_bytes(2, "big") + bytes(4) + data


def test_a_request_in_many_small_pieces_is_answered(edge: Edge) -> None:
    complete = homework()
    expecting = request(
        "PUT", ASSIGNMENTS, JSON, AUTHORIZATION, b"expect: 100-continue\r\ncontent-length: %d\r\n" % len(BODY)
    )
    chunked = request("PUT", ASSIGNMENTS, JSON, AUTHORIZATION, b"transfer-encoding: chunked\r\n")

    with edge.connection() as connection:
        connection.send(*(complete[at : at + 1] for at in range(len(complete))))
        one = connection.receive()
        more = connection.fetch(expecting)
        after_continue = connection.fetch(BODY)
        in_chunks = connection.fetch(
            chunked + b"5\r\n%b\r\n%x\r\n%b\r\n0\r\nx-late: 1\r\n\r\n" % (BODY[:5], len(BODY) - 5, BODY[5:])
        )

    assert (more.status, one.status, one.body) == (
        100,
        200,
        b'{"message":"The assignments were added to the session."}',
    )
    assert (after_continue.body, in_chunks.body) == (one.body, one.body)


def test_each_request_on_a_connection_is_checked_before_its_body(edge: Edge) -> None:
    expecting, too_long = (
        request("PUT", ASSIGNMENTS, JSON, AUTHORIZATION, b"content-length: %d\r\n" % length, expect)
        for length, expect in ((len(BODY), b"expect: 100-continue\r\n"), (64 * MIB, b""))
    )

    with edge.connection() as connection:
        statuses = [connection.fetch(data).status for data in (expecting, BODY) * 2]
        rejected = connection.fetch(too_long)

    assert statuses == [100, 200] * 2
    assert (rejected.status, rejected.message) == (413, LONG_LEGACY)


def test_a_client_of_http_1_0_gets_no_interim_response(edge: Edge) -> None:
    """The client would read it as the response."""
    expecting = request(
        "PUT", ASSIGNMENTS, JSON, AUTHORIZATION, b"expect: 100-continue\r\ncontent-length: %d\r\n" % len(BODY)
    )

    with edge.connection() as connection:
        connection.send(expecting.replace(b"HTTP/1.1", b"HTTP/1.0"))
        connection.wait()
        response = connection.fetch(BODY)

    assert response.status == 200


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

    with edge.connection() as connection:
        connection.send(request(method, path, JSON, AUTHORIZATION, length), *[piece] * 128)
        response = connection.receive()

        assert (response.status, response.message, response.headers["connection"]) == (413, message, "close")
        assert connection.read_to_end() == b""


@pytest.mark.parametrize(("method", "path", "message"), CONTRACTS.values(), ids=list(CONTRACTS))
@pytest.mark.parametrize("expect", [b"", b"expect: 100-continue\r\n"], ids=["silently", "asked"])
def test_a_declared_length_over_the_limit_is_rejected_before_the_body(
    edge: Edge, method: str, path: str, message: str, expect: bytes
) -> None:
    response = edge.fetch(request(method, path, JSON, AUTHORIZATION, expect, b"content-length: 67108864\r\n"))

    assert (response.status, response.message, response.headers["connection"]) == (413, message, "close")


def test_authentication_is_checked_before_the_body_length(edge: Edge) -> None:
    response = edge.fetch(request("PUT", ASSIGNMENTS, JSON, b"content-length: 67108864\r\n"))

    assert (response.status, response.message) == (401, "sign in with a valid bearer token")


@pytest.mark.parametrize(
    "other", [b"authorization: bearer another\r\n", AUTHORIZATION], ids=["other", "same"]
)
@pytest.mark.parametrize("is_last", [True, False])
def test_a_repeated_token_is_rejected_even_if_the_process_has_verified_it(
    edge: Edge, other: bytes, is_last: bool
) -> None:
    """A proxy may have checked the other header."""
    assert edge.fetch(request("GET", f"{ASSIGNMENTS}/1", AUTHORIZATION)).status == 200
    headers = (other, AUTHORIZATION) if is_last else (AUTHORIZATION, other)

    for path in (f"{ASSIGNMENTS}/1", "/graphql?query=%7Bviewer%7Brole%7D%7D"):
        assert edge.fetch(request("GET", path, *headers)).status == 401


def test_the_start_of_a_too_long_body_is_not_executed(edge: Edge) -> None:
    complete = graphql(NAME).partition(b"\r\n\r\n")[2]

    response = edge.fetch(
        request("POST", "/graphql", JSON, AUTHORIZATION, b"content-length: 300000\r\n") + complete
    )

    assert (response.status, response.message) == (413, LONG_GRAPHQL)


LONG_HEADERS = {
    "one": b"x-long: %b\r\n" % (b"y" * 70_000),
    "many": b"".join(b"x-%d: y\r\n" % number for number in range(10_000)),
    "without end": b"x-long: " + b"y" * 400_000,
}


@pytest.mark.parametrize("headers", LONG_HEADERS.values(), ids=list(LONG_HEADERS))
@pytest.mark.parametrize("path", ["/graphql", "/gateway/nowhere"])
def test_headers_over_the_limit_are_rejected(edge: Edge, headers: bytes, path: str) -> None:
    with edge.connection() as connection:
        response = connection.fetch(request("GET", path, RESPONSE_JSON, headers))

        assert (response.status, response.message) == (431, "the headers are too long")
        assert response.headers["content-type"] == "application/json"
        assert connection.read_to_end() == b""


@pytest.mark.parametrize("length", [66_000, 400_000])
@pytest.mark.parametrize("path", ["/graphql?query=", "/gateway/nowhere?"])
def test_a_request_target_over_the_limit_is_rejected(edge: Edge, path: str, length: int) -> None:
    with edge.connection() as connection:
        response = connection.fetch(request("GET", path + "y" * length, RESPONSE_JSON))

        assert (response.status, response.message) == (414, "the request target is too long")
        assert response.headers["content-type"] == "application/json"
        assert connection.read_to_end() == b""


def test_headers_below_the_limit_are_accepted(edge: Edge) -> None:
    assert edge.fetch(request("GET", "/livez", b"x-long: %b\r\n" % (b"y" * 60_000))).status == 200


FORMS = {"absolute": f"http://care{ASSIGNMENTS}", "encoded": ASSIGNMENTS.replace("g", "%67", 1)}


@pytest.mark.parametrize("target", FORMS.values(), ids=FORMS)
def test_the_limits_of_a_legacy_path_apply_to_every_form_of_its_target(edge: Edge, target: str) -> None:
    expecting = b"expect: 100-continue\r\ncontent-length: 100000\r\n"
    upgrade = b"connection: upgrade\r\nupgrade: websocket\r\n"

    too_long = edge.fetch(request("PUT", target, JSON, AUTHORIZATION, expecting))
    invalid = edge.fetch(request("GET", target, b"host: care\r\n"))
    ignored = edge.fetch(request("GET", f"{target}?time-state=RUNNING", AUTHORIZATION, upgrade))

    assert (too_long.status, too_long.message) == (413, LONG_LEGACY)
    assert (invalid.status, invalid.message) == (400, "there must be one Host header")
    assert json.loads(invalid.body)["path"] == ASSIGNMENTS
    assert ignored.status == 200


def test_a_websocket_of_an_absolute_target_is_accepted(edge: Edge) -> None:
    assert edge.fetch(request("GET", "http://care/graphql", WEBSOCKET)).status == 101


# --- what is too much -----------------------------------------------------------------------------


def wait_until_overloaded(edge: Edge) -> None:
    while edge.fetch(ANY_REQUEST).status != 503:
        pass


ANY_REQUEST = request("GET", "/gateway/nowhere")


@pytest.fixture(scope="module")
def one_request(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Edge]:
    with serve_service(tmp_path_factory.mktemp("one_request"), most_requests=1) as one:
        yield one


def test_an_overloaded_process_rejects_new_requests_and_completes_running_ones(one_request: Edge) -> None:
    with ExitStack() as stack:
        first, second, third = (stack.enter_context(one_request.connection()) for _ in range(3))
        with write_lock(one_request.database):
            first.send(homework())
            wait_until_overloaded(one_request)
            rejected = [
                second.fetch(graphql(NAME, b"x-request-id: mine\r\n", RESPONSE_JSON)),
                second.fetch(homework()),
            ]
            head = second.fetch(request("HEAD", ASSIGNMENTS, AUTHORIZATION))
            health = [third.fetch(each).status for each in (LIVEZ, READYZ, ABSOLUTE_LIVEZ)]
        begun = first.receive()
        again = second.fetch(homework())  # on the same connection

    assert [(each.status, each.message, each.headers["retry-after"]) for each in rejected] == [
        (503, OVERLOADED, "1")
    ] * 2
    assert rejected[0].headers["content-type"] == "application/json"
    assert json.loads(rejected[0].body)["errors"][0]["extensions"] == {
        "code": "OVERLOADED",
        "requestId": "mine",
    }
    assert (rejected[0].headers["x-request-id"], json.loads(rejected[1].body)["path"]) == (
        "mine",
        ASSIGNMENTS,
    )
    assert (head.status, head.body) == (503, b"")
    assert int(head.headers["content-length"]) > 100
    assert (health, begun.status, again.status) == ([200] * 3, 200, 200)


ONE = graphql(NAME)
WHILE_BUSY = {
    "one": (ONE, [503]),
    "with a query string": (request("GET", "/gateway/profile?a=b#"), [400]),
    "two in one read": (ONE * 2, [503, 503]),
    "one and the start of another": (ONE + LIVEZ[:9], [503]),
    "health": (LIVEZ, [200]),
    "without the end of its body": (ONE[:-1], []),
    "in chunks": (request("POST", "/graphql", JSON, b"transfer-encoding: chunked\r\n") + b"0\r\n\r\n", [503]),
    "with two lengths": (ONE.replace(b"content-type", b"content-length: 1\r\ncontent-type"), [400]),
    "with a bare line feed": (ONE.replace(b"host: care", b"host: care\nx: y"), [400]),
    "that ends the connection": (graphql(NAME, b"connection: close\r\n"), [503]),
    "that keeps the connection": (graphql(NAME, b"connection: keep-alive\r\n"), [503]),
    "for a websocket": (request("GET", "/graphql", WEBSOCKET), [503]),
    "HEAD": (request("HEAD", "/graphql"), [503]),
}


@pytest.mark.parametrize(("data", "statuses"), WHILE_BUSY.values(), ids=list(WHILE_BUSY))
def test_rejections_without_the_parser_agree_with_it_on_request_boundaries(
    one_request: Edge, data: bytes, statuses: list[int]
) -> None:
    """A simple request is rejected without the parser."""
    with one_request.connection() as first, one_request.connection() as connection:
        with write_lock(one_request.database):
            first.send(homework())
            wait_until_overloaded(one_request)
            assert connection.fetch(ONE).status == 503
            connection.send(data)
            connection.socket.shutdown(socket.SHUT_WR)
            response = connection.read_to_end()
        assert first.receive().status == 200

    assert statuses_in(response) == statuses


def test_a_client_that_reads_no_rejections_is_disconnected(one_request: Edge) -> None:
    """Otherwise every rejection would stay in memory."""
    requests = graphql(NAME) * 100

    with one_request.connection() as first:
        with write_lock(one_request.database), one_request.connection(receive_buffer=4096) as connection:
            first.send(homework())
            wait_until_overloaded(one_request)
            with pytest.raises(ConnectionError):
                for _ in range(64 * MIB // len(requests)):
                    connection.send(requests)
        assert first.receive().status == 200


def test_an_overloaded_process_rejects_websocket_handshakes(one_request: Edge) -> None:
    with one_request.connection() as first:
        with write_lock(one_request.database):
            first.send(homework())
            wait_until_overloaded(one_request)
            rejected = one_request.fetch(request("GET", "/graphql", WEBSOCKET))
        assert first.receive().status == 200

    assert (rejected.status, rejected.message) == (503, OVERLOADED)
    assert one_request.fetch(request("GET", "/graphql", WEBSOCKET)).status == 101


def test_websocket_operations_count_as_requests(one_request: Edge) -> None:
    window = 'startDate: "2026-11-22T09:00:00Z", endDate: "2026-11-25T09:00:00Z"'
    assign = (
        f'mutation {{ assignHomework(input: {{sessionId: "1", bookIds: ["2"], {window}}}) {{ message }} }}'
    )
    listen = {"query": "subscription { assignmentChanged { id } }"}

    with one_request.connection() as connection, one_request.connection() as other:
        assert connection.fetch(request("GET", "/graphql", AUTHORIZATION, WEBSOCKET)).status == 101
        connection.send(frame(type="connection_init"))
        acknowledged = message_at(connection)
        connection.send(frame(type="subscribe", id="listens", payload=listen))
        with write_lock(one_request.database):
            connection.send(frame(type="subscribe", id="changes", payload={"query": assign}))
            connection.send(frame(type="subscribe", id="reads", payload={"query": NAME}))
            rejected = message_at(connection)
            by_http = other.fetch(graphql(NAME))
        messages = {
            one["id"]: one for one in (message_at(connection), message_at(connection), message_at(connection))
        }
        connection.send(frame(type="subscribe", id="reads", payload={"query": NAME}))
        read = message_at(connection)
        again = other.fetch(homework())

    [error] = rejected["payload"]
    assert error["extensions"].pop("requestId")
    assert (acknowledged, rejected["id"], rejected["type"]) == ({"type": "connection_ack"}, "reads", "error")
    assert error == {"message": "server overloaded", "extensions": {"code": "OVERLOADED"}}
    assert messages.keys() == {"listens", "changes"}
    assert (read["id"], read["payload"]["data"]) == ("reads", {"__type": {"name": "Query"}})
    assert (by_http.status, again.status) == (503, 200)


def message_at(connection: Connection) -> Any:
    """The next message of a websocket."""
    _, length = connection.read(2)
    return json.loads(connection.read(int.from_bytes(connection.read(2), "big") if length == 126 else length))


def test_slow_senders_and_open_streams_hold_no_request_slot(one_request: Edge) -> None:
    listen = graphql("subscription { assignmentChanged { id } }", b"accept: text/event-stream\r\n")

    with ExitStack() as stack:
        for data in INCOMPLETE.values():
            stack.enter_context(one_request.connection()).send(*data)
        for _ in range(3):
            listener = stack.enter_context(one_request.connection())
            listener.send(listen)
            assert listener.read(15) == b"HTTP/1.1 200 OK"

        assert one_request.fetch(graphql(NAME)).status == 200


def test_a_slow_request_is_rejected_if_the_process_is_overloaded_when_it_completes(one_request: Edge) -> None:
    complete = homework()

    with one_request.connection() as first, one_request.connection() as slow:
        slow.send(complete[:-1])
        with write_lock(one_request.database):
            first.send(complete)
            wait_until_overloaded(one_request)
            rejected = slow.fetch(complete[-1:])
        assert first.receive().status == 200

        assert (rejected.status, rejected.message) == (503, OVERLOADED)
        assert slow.fetch(complete).status == 200


def test_an_idle_connection_keeps_no_request_in_memory(edge: Edge) -> None:
    query = "{ idle: __typename }"
    with edge.connection() as connection:
        assert connection.fetch(graphql(query)).status == 200
        assert edge.fetch(request("GET", "/livez")).status == 200  # meanwhile the first request has ended
        assert query not in [one.query for one in in_memory(GraphQLRequest)]


def test_pipelined_requests_are_answered_in_order(edge: Edge) -> None:
    nowhere = request("GET", "/gateway/nowhere")
    last = request("GET", "/livez", b"connection: close\r\n")

    with edge.connection() as connection:
        connection.send((LIVEZ + homework() + nowhere) * 12 + last)
        response = connection.read_to_end()

    assert statuses_in(response) == [200, 200, 404] * 12 + [200]


def test_the_duration_of_a_request_includes_its_wait_for_the_one_before(edge: Edge) -> None:
    duration = counters.requests["/livez", "GET", 200]
    before = duration.sum
    with edge.connection() as connection:
        with write_lock(edge.database):
            connection.send(homework() + LIVEZ)
            for _ in range(2):  # until the process has read it
                edge.fetch(request("GET", "/nowhere"))
            since = time.monotonic()
            connection.wait()
            waited = time.monotonic() - since
        statuses = [connection.receive().status, connection.receive().status]
    edge.fetch(request("GET", "/nowhere"))  # a response is sent before its duration is counted

    assert statuses == [200, 200]
    assert duration.sum - before >= waited > 0


def test_the_log_names_the_legacy_path_that_held_the_event_loop(
    edge: Edge, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    for name, seconds in (("TURN_SECONDS", 1e-6), ("LONG_SECONDS", 0), ("LOG_SECONDS", 0)):
        monkeypatch.setattr(turns, name, seconds)

    assert edge.fetch(request("GET", f"{ASSIGNMENTS}?time-state=RUNNING", AUTHORIZATION)).status == 200

    sentence = f"a request of GET {ASSIGNMENTS} held the event loop for "
    assert [each for each in caplog.messages if each.startswith(sentence)]


def test_too_many_pipelined_requests_close_the_connection_after_the_first_responses(edge: Edge) -> None:
    with edge.connection() as connection:
        connection.send(LIVEZ * 200)
        response = connection.read_to_end()

    assert statuses_in(response) == [200] * (MAX_PIPELINED + 1)
    assert response.count(b"connection: close") == 1


def statuses_in(response: bytes) -> list[int]:
    return [int(each[:3]) for each in response.split(b"HTTP/1.1 ")[1:]]


# --- other protocols ------------------------------------------------------------------------------

UPGRADES = {
    "h2c": b"connection: upgrade, http2-settings\r\nupgrade: h2c\r\nhttp2-settings: AAMAAABkAAQAoAAA\r\n",
    "something else": b"connection: upgrade\r\nupgrade: something/1\r\n",
}


def test_an_upgrade_of_a_legacy_path_is_ignored(edge: Edge) -> None:
    path, websocket = f"{ASSIGNMENTS}?time-state=RUNNING", b"connection: upgrade\r\nupgrade: websocket\r\n"

    assert edge.fetch(request("GET", path, AUTHORIZATION, websocket)).status == 200


def test_an_upgrade_of_a_request_of_http_1_0_is_ignored(edge: Edge) -> None:
    query = request("GET", f"/graphql?query={quote(NAME)}", AUTHORIZATION, WEBSOCKET)
    with edge.connection() as connection:
        response = connection.fetch(query.replace(b"HTTP/1.1", b"HTTP/1.0"))
        rest = connection.read_to_end()

    assert (response.status, json.loads(response.body)["data"], rest) == (
        200,
        {"__type": {"name": "Query"}},
        b"",
    )


def test_a_websocket_behind_a_request_is_closed_after_its_response(edge: Edge) -> None:
    with edge.connection() as connection:
        connection.send(homework() + request("GET", "/graphql", WEBSOCKET))
        received = connection.read_to_end()

    assert (received.count(b"HTTP/1.1 "), received[:15]) == (1, b"HTTP/1.1 200 OK")


@pytest.mark.parametrize("upgrade", UPGRADES.values(), ids=UPGRADES)
@pytest.mark.parametrize("is_single_read", [True, False], ids=["at once", "in pieces"])
def test_an_upgrade_to_an_unsupported_protocol_is_ignored(
    edge: Edge, upgrade: bytes, is_single_read: bool
) -> None:
    """The body is not parsed as a request: a proxy would assign its response to another client."""
    inner = b"GET /livez HTTP/1.1\r\nhost: care\r\n\r\n"
    sized = graphql(NAME, upgrade)
    chunked = request("PUT", ASSIGNMENTS, JSON, AUTHORIZATION, upgrade, b"transfer-encoding: chunked\r\n")
    data = [
        request("POST", "/nowhere", upgrade, body=inner),
        request("GET", "/readyz", upgrade),
        sized,
        chunked + b"%x\r\n%b\r\n0\r\n\r\n" % (len(BODY), BODY),
        request("GET", "/livez", b"connection: close\r\n"),
    ]

    with edge.connection() as connection:
        if is_single_read:
            connection.send(b"".join(data))
            response = connection.read_to_end()
        else:
            response = b""
            for each in data[:-1]:
                head, _, body = each.partition(b"\r\n\r\n")
                connection.send(head + b"\r\n\r\n")
                connection.wait()
                connection.send(body)
                answer = connection.receive()
                response += b"HTTP/1.1 %d" % answer.status
            connection.send(data[-1])
            response += connection.read_to_end()

    assert statuses_in(response) == [404, 200, 200, 200, 200]


MALFORMED_HANDSHAKES = {
    "many headers": (b"a: b\r\n" * 200, 431),
    "a long header": (b"a: " + b"b" * 10_000 + b"\r\n", 431),
    "a body": (b"content-length: 5\r\n", 400),
}


@pytest.mark.parametrize(("headers", "status"), MALFORMED_HANDSHAKES.values(), ids=MALFORMED_HANDSHAKES)
def test_a_malformed_websocket_handshake_is_rejected(edge: Edge, headers: bytes, status: int) -> None:
    with edge.connection() as connection:
        connection.send(request("GET", "/graphql", WEBSOCKET, headers))
        response = connection.read_to_end()

    assert response.startswith(b"HTTP/1.1 %d " % status)


# --- clients that stall at shutdown ---------------------------------------------------------------

STALLED = {
    "headers": (LIVEZ[:20],),
    "body": (graphql(NAME)[:-1],),
}


@pytest.mark.parametrize("data", STALLED.values(), ids=list(STALLED))
def test_a_shutdown_does_not_report_stalled_clients_as_tasks(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, data: tuple[bytes, ...]
) -> None:
    with ExitStack() as stack, serve_service(tmp_path) as service:
        connection = stack.enter_context(service.connection())
        connection.send(*data)
        assert service.fetch(LIVEZ).status == 200  # after the data was received

    assert [message for message in caplog.messages if "running task" in message] == []
