"""The old service cannot send a response without end. Each response on a connection has its own limits. A
read is repeated after a reset, and recorded again after the pause that the service requests."""

import select
import socket
import struct
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path

import pytest

from app.care.context import Role
from moving_over import LegacyMigrationError
from moving_over.http_client import Connection, RequestFailed, read_address
from moving_over.http_client import Response as Received
from moving_over.recorder import Recorder
from moving_over.tokens import UserToken
from tests.auth.test_limited_http import ENDLESS, serving
from tests.moving_over.services import Request, Response, fake_service


@pytest.mark.parametrize("name", ENDLESS)
def test_an_endless_response_of_the_old_service_is_rejected(name: str) -> None:
    with serving(*ENDLESS[name]) as url:
        connection = Connection(read_address(url), timeout=30, max_bytes=200_000)
        with pytest.raises(RequestFailed) as refusal:
            connection.send("GET", "/", None, {})

    assert str(refusal.value) == "the response is too long"


def test_an_endless_response_of_the_old_service_ends_in_time() -> None:
    with serving(*ENDLESS["interim responses"]) as url:
        connection = Connection(read_address(url), timeout=0.1, max_bytes=10**12)
        with pytest.raises(RequestFailed) as refusal:
            connection.send("GET", "/", None, {})

    assert str(refusal.value) == "no complete response in time"


def test_each_response_on_a_connection_has_its_own_limits() -> None:
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

    assert len(connections) == 1


def test_reads_of_the_tools_name_them() -> None:
    """So that the usage report does not count them as the application of the token."""
    requests: list[Request] = []

    def handler(request: Request) -> Response:
        requests.append(request)
        return Response()

    with fake_service(handler) as url, closing(Connection(read_address(url), timeout=30)) as connection:
        for headers in ({}, {"user-agent": "app/1"}):
            connection.send("GET", "/", None, headers)

    assert [each.headers["user-agent"] for each in requests] == ["care-gateway-record/1", "app/1"]


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


def test_every_attempt_is_one_call_after_the_pause_that_the_service_requests(tmp_path: Path) -> None:
    paths: list[str] = []
    waits = iter(["7", "Thu, 26 Nov 2026 09:00:00 GMT", "3600", "9" * 5000, "0"])

    def handler(request: Request) -> Response:
        paths.append(request.path)
        return Response(503, headers={"Retry-After": next(waits)})

    pauses, token = Pauses(), UserToken(Role.CLIENT, "someone", "a-token", "tokens, line 1")
    with fake_service(handler) as address:
        recorder = Recorder(
            read_address(address), tmp_path / "r", lambda token: None, 1, 100, 30, 5, ("page", "size"), 0,
            pauses,
        )  # fmt: skip
        with pytest.raises(LegacyMigrationError, match=r"status 503$"):
            list(recorder.record([token], continues=False))

    assert (len(paths), pauses.lengths) == (5, [0, 7, 1, 60, 60])
