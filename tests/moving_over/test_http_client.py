"""The old service cannot send a response without end. Each response on a connection has its own limits. A
read is repeated after a reset, and recorded again after the pause that the service requests."""

import http.client
import select
import socket
import ssl
import struct
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from types import SimpleNamespace
from urllib.parse import urlsplit

import orjson
import pytest

from app.auth.limited_http import ResponseTooLong
from app.care.context import Role
from moving_over import LegacyMigrationError
from moving_over.http_client import BodyTooLong, Connection, RequestFailed, read_address, reason_of
from moving_over.http_client import Response as Received
from moving_over.recorder import Recorder
from moving_over.tokens import UserToken
from tests.auth.test_limited_http import ENDLESS, serving
from tests.moving_over.services import Request, Response, fake_service
from tests.moving_over.shadows import RawService
from tests.patience import PATIENCE


@pytest.mark.parametrize("name", ENDLESS)
def test_an_endless_response_of_the_old_service_is_rejected(name: str) -> None:
    with serving(*ENDLESS[name]) as url:
        connection = Connection(read_address(url), timeout=30, max_bytes=200_000)
        with pytest.raises(BodyTooLong) as refusal:
            connection.send("GET", "/", None, {})

    assert str(refusal.value) == "the response is too long"


def test_an_endless_response_of_the_old_service_ends_in_time() -> None:
    with serving(*ENDLESS["interim responses"]) as url:
        connection = Connection(read_address(url), timeout=0.1, max_bytes=10**12)
        with pytest.raises(RequestFailed) as refusal:
            connection.send("GET", "/", None, {})

    assert str(refusal.value) == "no complete response in time"


@pytest.mark.parametrize(("idle_seconds", "expected"), [(4, 1), (-1, 3)], ids=["in use", "idle"])
def test_each_response_on_a_connection_has_its_own_limits(
    monkeypatch: pytest.MonkeyPatch, idle_seconds: int, expected: int
) -> None:
    """A connection that was idle for long is not used again."""
    monkeypatch.setattr("moving_over.http_client.IDLE_SECONDS", idle_seconds)
    with (
        fake_service(lambda request: Response(body=b"x" * 700)) as url,
        closing(Connection(read_address(url), timeout=30, max_bytes=1000)) as connection,
    ):
        connections = set()
        for _ in range(3):
            assert len(connection.send("GET", "/", None, {}).body) == 700
            assert connection.connection is not None
            connections.add(connection.connection)
            assert connection.connection.sock.gettimeout() == 30

    assert len(connections) == expected


BUSY_503, BUSY_429 = (Response(status, headers={"Retry-After": "7"}) for status in (503, 429))
READ_AGAIN = {  # the answer, the method and the number of requests
    "overloaded": (BUSY_503, "GET", 5),
    "too many requests": (BUSY_429, "HEAD", 5),
    "overloaded, options": (BUSY_503, "OPTIONS", 5),
    "overloaded, a change": (BUSY_503, "PUT", 1),
    "overloaded, without a pause": (Response(503), "GET", 1),
    "an answer with a pause": (Response(headers={"Retry-After": "7"}), "GET", 1),
    "another failure with a pause": (Response(500, headers={"Retry-After": "7"}), "GET", 1),
}


@pytest.mark.parametrize("case", READ_AGAIN)
def test_a_read_is_repeated_after_the_pause_that_a_busy_service_requests(
    case: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    answer, method, expected = READ_AGAIN[case]
    requests: list[Request] = []
    pauses: list[float] = []
    clock = SimpleNamespace(sleep=pauses.append, monotonic=time.monotonic)
    monkeypatch.setattr("moving_over.http_client.time", clock)

    def handler(request: Request) -> Response:
        requests.append(request)
        return answer

    with fake_service(handler) as url, closing(Connection(read_address(url), timeout=30)) as connection:
        assert connection.send(method, "/", None, {}).status == answer.status

    assert (len(requests), pauses) == (expected, [7] * (expected - 1))


def test_a_given_header_replaces_the_one_of_the_tools_and_repeated_headers_are_joined() -> None:
    lines = (b"WWW-Authenticate: a", b"Content-Length: 0", b"www-authenticate: b", b"Connection: close")
    old = RawService({"/": b"\r\n".join([b"HTTP/1.1 401 Unauthorized", *lines, b"\r\n"])})
    given = {"Accept": "text/plain", "User-Agent": "app/1", "Content-Type": "text/xml"}

    with old.running() as url, closing(Connection(read_address(url), timeout=30)) as connection:
        answers = [connection.send("PUT", "/", "token", headers, b"x") for headers in ({}, given)]

    heads = [each.partition(b"\r\n\r\n")[0].decode().lower().split("\r\n") for each in old.requests]
    host = {f"host: {urlsplit(url).netloc}", "accept-encoding: identity", "content-length: 1"}
    sent = [{*head[1:]} - host for head in heads]
    own = {"accept: */*", "user-agent: care-gateway-record/1", "content-type: application/json"}
    assert sent == [
        {*own, "authorization: bearer token"},
        {"accept: text/plain", "user-agent: app/1", "content-type: text/xml", "authorization: bearer token"},
    ]
    assert [each.headers["www-authenticate"] for each in answers] == ["a, b"] * 2


def test_a_read_without_a_response_in_time_is_not_repeated() -> None:
    requests: list[Request] = []
    released = threading.Event()

    def handler(request: Request) -> Response:
        requests.append(request)
        released.wait(PATIENCE if len(requests) > 1 else 0)
        return Response()

    with fake_service(handler) as url, closing(Connection(read_address(url), timeout=0.1)) as connection:
        assert connection.send("GET", "/", None, {}).status == 200
        with pytest.raises(RequestFailed, match=r"^no complete response in time$"):
            connection.send("GET", "/", None, {})
        released.set()

    assert len(requests) == 2


CUT = Response(headers={"Content-Length": "3", "Connection": "close"})


def test_a_failure_does_not_concern_the_next_request() -> None:
    answers = iter([CUT])
    with (
        fake_service(lambda request: next(answers, Response())) as url,
        closing(Connection(read_address(url), timeout=30)) as connection,
    ):
        with pytest.raises(RequestFailed, match=r"^invalid HTTP response$") as failure:
            connection.send("GET", "/", None, {})

        assert failure.type is RequestFailed  # `legacy shadow` counts too long ones as dropped
        assert connection.send("GET", "/", None, {}).body == b"{}"


def test_a_service_without_tls_is_named_as_such() -> None:
    with fake_service(lambda request: Response()) as url:
        secure = url.replace("http:", "https:")
        with pytest.raises(LegacyMigrationError) as refusal:
            Connection(read_address(secure), timeout=30).send("GET", "/", None, {})

    assert str(refusal.value).startswith(f"{secure} cannot be reached: TLS: ")


def test_a_service_over_tls_needs_a_trusted_certificate_of_its_name(tls: tuple[ssl.SSLContext, bool]) -> None:
    context, is_trusted = tls
    found = []
    with fake_service(lambda request: Response(), context) as url:
        for each in (url, url.replace("127.0.0.1", "localhost")):
            with closing(Connection(read_address(each), timeout=30)) as connection:
                try:
                    found.append(str(connection.send("GET", "/", None, {}).status))
                except LegacyMigrationError as error:
                    found.append(str(error).partition("cannot be reached: ")[2])

    untrusted = "TLS: CERTIFICATE VERIFY FAILED"
    assert found == ["200" if is_trusted else untrusted, untrusted]


def tls_error(reason: str | None) -> ssl.SSLError:
    error = ssl.SSLError("no more is known")
    error.reason = reason  # type: ignore[assignment]
    return error


REASONS: dict[str, Exception] = {
    "no complete response in time": TimeoutError(110, "Connection timed out"),
    "the response is too long": ResponseTooLong(),
    "TLS: WRONG VERSION NUMBER": tls_error("WRONG_VERSION_NUMBER"),
    "TLS: ('no more is known',)": tls_error(None),
    "unknown host": socket.gaierror(-2, "Name or service not known"),
    "No route to host": OSError(113, "No route to host"),
    "connection closed": http.client.RemoteDisconnected(),
    "invalid HTTP response": http.client.BadStatusLine("x"),
}


@pytest.mark.parametrize("reason", REASONS)
def test_a_failure_has_a_reason_without_details(reason: str) -> None:
    assert reason_of(REASONS[reason]) == reason


def test_a_host_that_is_no_name_is_unknown() -> None:
    address = read_address(f"http://{'a' * 64}.example.test")

    with pytest.raises(LegacyMigrationError, match=r"cannot be reached: unknown host$"):
        Connection(address, timeout=30).send("GET", "/", None, {})


def test_reads_of_the_tools_name_them() -> None:
    """So that the usage report does not count them as the application of the token."""
    requests: list[Request] = []

    def handler(request: Request) -> Response:
        requests.append(request)
        return Response()

    with (
        fake_service(handler) as url,
        closing(Connection(read_address(f"{url}/old/"), timeout=30)) as connection,
    ):
        for headers in ({}, {"user-agent": "app/1"}):
            connection.send("GET", "/x?a=1", None, headers)

    assert [each.headers["user-agent"] for each in requests] == ["care-gateway-record/1", "app/1"]
    assert [each.path for each in requests] == ["/old/x?a=1"] * 2


def respond_with_hints(listener: socket.socket) -> None:
    connection, _ = listener.accept()
    with connection:
        for number in (b"1", b"2"):
            connection.recv(65536)
            for status in (b"102 Processing", b"103 Early Hints\r\nlink: </x>"):
                connection.sendall(b"HTTP/1.1 %s\r\n\r\n" % status)
            connection.sendall(b"HTTP/1.1 200 OK\r\ncontent-length: 1\r\n\r\n" + number)


def test_a_read_gets_its_response_after_interim_responses() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener, ThreadPoolExecutor(1) as server:
        listener.settimeout(30)
        address = read_address(f"http://127.0.0.1:{listener.getsockname()[1]}")
        server.submit(respond_with_hints, listener)
        with closing(Connection(address, timeout=30)) as connection:
            received = [connection.send("GET", "/", None, {}) for _ in range(2)]

    assert received == [Received(200, {"content-length": "1"}, number) for number in (b"1", b"2")]


def respond_and_reset(listener: socket.socket) -> None:
    connection, _ = listener.accept()
    with connection:
        connection.recv(65536)
        connection.sendall(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n")
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))


def test_a_read_is_repeated_if_it_cannot_be_sent_on_a_connection_that_was_reset() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener, ThreadPoolExecutor(1) as server:
        listener.settimeout(30)
        address = read_address(f"http://127.0.0.1:{listener.getsockname()[1]}")
        with closing(Connection(address, timeout=30)) as connection:
            for _ in range(2):
                server.submit(respond_and_reset, listener)
                assert connection.send("GET", "/", None, {}).status == 200
                assert connection.connection is not None
                poll = select.poll()
                poll.register(connection.connection.sock, 0)
                assert poll.poll(30_000)  # the reset has arrived


class Pauses(threading.Event):
    """Of a recorder, which are not waited for."""

    def __init__(self) -> None:
        super().__init__()
        self.lengths: list[float] = []

    def wait(self, timeout: float | None = None) -> bool:
        self.lengths.append(timeout or 0)
        return self.is_set()


def busy(pause: str) -> Response:
    return Response(503, headers={"Retry-After": pause})


PAUSES: dict[str, tuple[list[Response], list[float]]] = {
    "that the service requests": (
        [*map(busy, ("²", "Thu, 26 Nov 2026 09:00:00 GMT", "7", "3600", "1" + "0" * 5000, "0"))],
        [0, 1, 1, 7, 60, 60],
    ),
    "that increases": ([busy("0")] * 11, [0, 0.2, 0.4, 0.8, 1.6, 3.2, 6.4, 12.8, 25.6, 30, 30]),
    "that was requested for one attempt": ([busy("7"), CUT, busy("3"), busy("0")], [0, 7, 0.4, 3]),
}


@pytest.mark.parametrize("case", PAUSES)
def test_every_attempt_is_one_call_after_a_pause(tmp_path: Path, case: str) -> None:
    answers, expected = PAUSES[case]
    paths: list[str] = []

    def handler(request: Request) -> Response:
        paths.append(request.path)
        return answers[len(paths) - 1]

    pauses, token = Pauses(), UserToken(Role.CLIENT, "someone", "a-token", "tokens, line 1")
    with fake_service(handler) as address:
        recorder = Recorder(
            read_address(address), tmp_path / "r", lambda token: None, 1, 100, 30, len(answers),
            ("page", "size"), 0, pauses,
        )  # fmt: skip
        with pytest.raises(LegacyMigrationError, match=r"status 503$"):
            list(recorder.record([token], continues=False))

    assert (len(paths), pauses.lengths) == (len(answers), expected)


def test_every_call_of_a_service_that_is_down_is_an_attempt(tmp_path: Path) -> None:
    pauses, token = Pauses(), UserToken(Role.CLIENT, "someone", "a-token", "tokens, line 1")
    recorder = Recorder(
        read_address("http://127.0.0.1:1"), tmp_path / "r", lambda token: None, 1, 100, 30, 3,
        ("page", "size"), 0, pauses,
    )  # fmt: skip

    with pytest.raises(LegacyMigrationError, match=r"http://127\.0\.0\.1:1 cannot be reached: "):
        list(recorder.record([token], continues=False))

    assert pauses.lengths == [0, 0.2, 0.4]


EMPTY = b'{"content": [], "totalElements": 0, "totalPages": 0, "number": 0}'


def test_a_complete_user_is_in_the_index_before_the_next_one(tmp_path: Path) -> None:
    """So that a process that is killed loses only the users who are being recorded."""
    tokens = [UserToken(Role.CLIENT, each, each, "tokens") for each in ("one", "two")]
    with fake_service(lambda request: Response(body=EMPTY)) as address:
        recorder = Recorder(
            read_address(address), tmp_path / "r", lambda token: None, 1, 100, 30, 1, ("page", "size"), 0
        )
        recording = recorder.record(tokens, continues=False)
        written = next(recording)
        index = (tmp_path / "r.part" / "index.jsonl").read_bytes().splitlines()
        recording.close()

    assert written == 3
    assert [orjson.loads(line)["userName"] for line in index] == ["one"] * 3
