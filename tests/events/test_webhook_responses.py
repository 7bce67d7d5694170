"""Every response of a receiver, and every failure to reach it, becomes a result of one to three words."""

import asyncio
import errno
import socket
import ssl
import threading
from collections.abc import AsyncIterator, Iterator
from contextlib import ExitStack, asynccontextmanager, contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from app.events.webhook import MAX_HEAD, MAX_INTERIM, PostResult, Webhook, post, read_status
from tests.certificates import certificate
from tests.patience import PATIENCE


@asynccontextmanager
async def one_response(
    response: bytes, closes: bool = True, listens: bool = True, tls: ssl.SSLContext | None = None
) -> AsyncIterator[Webhook]:
    """Sends one response to one request."""
    is_done = asyncio.Event()
    requests = []

    async def respond(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        requests.append(writer)
        with suppress(asyncio.IncompleteReadError, ConnectionError):
            if listens:
                await reader.readuntil(b"\r\n\r\n")
            writer.write(response)
            if not closes:
                await reader.read()  # until the other side closes
        writer.close()
        with suppress(ConnectionError):
            await writer.wait_closed()
        is_done.set()

    server = await asyncio.start_server(respond, "127.0.0.1", 0, ssl=tls)
    port = server.sockets[0].getsockname()[1]
    try:
        yield webhook_at(port)
        if tls is None and requests:  # on a busy machine an attempt can end before it connects
            await is_done.wait()
    finally:
        server.close()
        await server.wait_closed()


def webhook_at(port: int, host: str = "127.0.0.1") -> Webhook:
    return Webhook(host, port, f"{host}:{port}", "/", None, (b"",))


CONTINUE = b"HTTP/1.1 100 Continue\r\n\r\n"
ANSWERS = {
    "accepted": (b"HTTP/1.1 200 OK\r\n\r\n", True, PostResult("200", True)),
    "an old server": (b"HTTP/1.0 202 Accepted\r\n\r\n", True, PostResult("202", True)),
    "without a phrase": (b"HTTP/1.1 204\r\n\r\n", True, PostResult("204", True)),
    "without a phrase, with headers": (b"HTTP/1.1 204\r\nx: y\r\n\r\n", True, PostResult("204", True)),
    "a body without an end": (b"HTTP/1.1 200 OK\r\n\r\n" + b"x" * 100_000, False, PostResult("200", True)),
    "something before": (b"HTTP/1.1 103 Hints\r\n\r\nHTTP/1.1 500 No\r\n\r\n", True, PostResult("500")),
    "many before": (CONTINUE * MAX_INTERIM + b"HTTP/1.1 200 OK\r\n\r\n", True, PostResult("200", True)),
    "too many before, in one piece": (
        CONTINUE * (MAX_INTERIM + 1) + b"HTTP/1.1 200 OK\r\n\r\n",
        False,
        PostResult("no HTTP"),
    ),
    "too many before": (CONTINUE * (MAX_INTERIM + 1), False, PostResult("no HTTP")),
    "long interim responses": (
        (CONTINUE[:-2] + b"x: " + b"x" * 30_000 + b"\r\n\r\n") * 3,
        False,
        PostResult("no HTTP"),
    ),
    "several choices": (b"HTTP/1.1 300 Multiple Choices\r\n\r\n", True, PostResult("300")),
    "a redirect": (b"HTTP/1.1 302 Found\r\nlocation: http://127.0.0.1:1/\r\n\r\n", True, PostResult("302")),
    "no HTTP": (b"220 mail.example.test ESMTP\r\n\r\n", True, PostResult("no HTTP")),
    "no such status": (b"HTTP/1.1 999 What\r\n\r\n", True, PostResult("no HTTP")),
    "a long status": (b"HTTP/1.1 2000 OK\r\n\r\n", True, PostResult("no HTTP")),
    "another version": (b"HTTP/1.2 200 OK\r\n\r\n", True, PostResult("no HTTP")),
    "a head without an end": (b"HTTP/1.1 200 OK\r\nx: " + b"x" * 200_000, False, PostResult("no HTTP")),
    "nothing": (b"", True, PostResult("connection closed")),
    "half a response": (b"HTTP/1.1 200 OK\r\n", True, PostResult("connection closed")),
}


@pytest.mark.parametrize(("response", "closes", "expected"), ANSWERS.values(), ids=list(ANSWERS))
def test_a_response_becomes_a_short_result(response: bytes, closes: bool, expected: PostResult) -> None:
    async def post_once() -> PostResult:
        async with one_response(response, closes) as webhook:
            return await post(webhook, {}, b"{}")

    assert asyncio.run(post_once()) == expected


ACCEPTED = b"HTTP/1.1 204 No Content\r\n\r\n"
PIECES = {
    "parts of a head": ([b"HTTP/1.1 20", b"4 No Content\r\nx: y\r\n", b"\r\n"], 204),
    "many interim responses": ([CONTINUE] * MAX_INTERIM + [ACCEPTED], 204),
    "too many interim responses": ([CONTINUE] * (MAX_INTERIM + 1), 0),
    "the longest head": ([ACCEPTED[:-2], b"x: " + b"x" * (MAX_HEAD - len(ACCEPTED) - 5), b"\r\n\r\n"], 204),
}


@pytest.mark.parametrize(("pieces", "status"), PIECES.values(), ids=PIECES)
def test_a_response_that_arrives_in_pieces_is_read_as_one(
    pieces: list[bytes], status: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("app.events.webhook.PIECE_SECONDS", 0)

    async def read_pieces() -> int:
        reader = asyncio.StreamReader(limit=MAX_HEAD)
        reading = asyncio.create_task(read_status(reader))
        for piece in pieces:
            reader.feed_data(piece)
            while reader._buffer:  # type: ignore[attr-defined]
                await asyncio.sleep(0)
        reader.feed_eof()
        return await reading

    assert asyncio.run(read_pieces()) == status


def test_single_bytes_are_read_together() -> None:
    """A receiver that sends single bytes would otherwise wake the process for each."""

    class Reader(asyncio.StreamReader):
        reads = 0

        async def read(self, n: int = -1) -> bytes:
            self.reads += 1
            return await super().read(n)

    async def read_drips() -> tuple[int, int]:
        reader = Reader(limit=MAX_HEAD)

        async def drip() -> None:
            for _ in range(5000):
                reader.feed_data(b"x")
                await asyncio.sleep(0)
            reader.feed_data(b"\r\n\r\n")

        dripping = asyncio.create_task(drip())
        status = await read_status(reader)
        await dripping
        return status, reader.reads

    status, reads = asyncio.run(read_drips())

    assert status == 0
    assert reads < 500


def test_a_silent_receiver_times_out() -> None:
    async def post_once() -> PostResult:
        async with one_response(b"", closes=False) as webhook:
            return await post(webhook, {}, b"{}", seconds=0.05)

    assert asyncio.run(post_once()) == PostResult("no response in time")


UNREACHABLE = OSError(errno.EHOSTUNREACH, "No route to host")
FAULTS: dict[str, tuple[list[OSError], str]] = {
    "no address": ([], "no such host"),
    "refused": ([ConnectionRefusedError()], "connection refused"),
    "reset": ([ConnectionResetError()], "connection closed"),
    "aborted": ([ConnectionAbortedError()], "connection closed"),
    "a broken pipe": ([BrokenPipeError()], "connection closed"),
    "a timeout of the network": ([TimeoutError()], "no response in time"),
    "no route": ([UNREACHABLE], "no connection"),
    "the last of several": (
        [ConnectionRefusedError(errno.ECONNREFUSED, "Connection refused"), ssl.SSLError(1), UNREACHABLE],
        "no connection",
    ),
}


@pytest.mark.parametrize(("faults", "expected"), FAULTS.values(), ids=list(FAULTS))
def test_the_fault_of_the_last_address_is_reported(
    faults: list[OSError], expected: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    left = list(faults)

    async def fail(*_: Any, **__: Any) -> None:
        raise left.pop(0)

    found = [(socket.AF_INET, socket.SOCK_STREAM, 6, "", ("192.0.2.1", 443))] * len(faults)
    monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: found)
    monkeypatch.setattr(asyncio, "open_connection", fail)

    assert asyncio.run(post(webhook_at(443, "hooks.example.test"), {}, b"{}")) == PostResult(expected)
    assert left == []


def test_a_refused_connection_is_reported() -> None:
    assert asyncio.run(post(webhook_at(1), {}, b"{}")) == PostResult("connection refused")


def test_an_unknown_host_is_reported() -> None:
    assert asyncio.run(post(webhook_at(443, "nowhere.invalid"), {}, b"{}")) == PostResult("no such host")


def test_a_lookup_that_does_not_end_does_not_outlive_its_attempt(monkeypatch: pytest.MonkeyPatch) -> None:
    """It cannot be cancelled, and the end of an event loop waits for its threads."""
    released, results = threading.Event(), []
    monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: released.wait(PATIENCE) and [])

    def post_once() -> None:
        results.append(asyncio.run(post(webhook_at(443, "hooks.example.test"), {}, b"{}", seconds=0.05)))

    thread = threading.Thread(target=post_once)
    thread.start()
    thread.join(PATIENCE / 2)
    lookups = [each for each in threading.enumerate() if each.name == "webhook lookup"]
    found = list(results)
    released.set()

    assert found == [PostResult("no response in time")]
    assert [each.daemon for each in lookups] == [True]  # the process does not wait for it either


def test_each_address_of_a_host_is_tried(monkeypatch: pytest.MonkeyPatch) -> None:
    async def post_once() -> PostResult:
        async with one_response(b"HTTP/1.1 204 No Content\r\n\r\n") as webhook:
            found = [
                (socket.AF_INET, socket.SOCK_STREAM, 6, "", (address, port, 0, 0))  # as of IPv6
                for address, port in (("127.0.0.1", 1), ("127.0.0.1", webhook.port))
            ]
            monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: found)
            return await post(replace(webhook, host="hooks.example.test"), {}, b"{}")

    assert asyncio.run(post_once()) == PostResult("204", is_accepted=True)


@contextmanager
def silent_port() -> Iterator[int]:
    """A port whose backlog is full, so that connecting to it waits."""
    with socket.socket() as listener, ExitStack() as stack:
        listener.bind(("127.0.0.1", 0))
        listener.listen(0)
        for _ in range(4):
            one = stack.enter_context(socket.socket())
            one.setblocking(False)
            one.connect_ex(listener.getsockname())
        yield listener.getsockname()[1]


def test_an_address_that_does_not_respond_leaves_time_for_the_next(monkeypatch: pytest.MonkeyPatch) -> None:
    async def post_once(silent: int) -> PostResult:
        async with one_response(b"HTTP/1.1 204 No Content\r\n\r\n") as webhook:
            found = [
                (socket.AF_INET, socket.SOCK_STREAM, 6, "", ("127.0.0.1", port))
                for port in (silent, webhook.port)
            ]
            monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: found)
            return await post(replace(webhook, host="hooks.example.test"), {}, b"{}", seconds=3)

    with silent_port() as port:
        assert asyncio.run(post_once(port)) == PostResult("204", is_accepted=True)


def test_an_attempt_is_shared_by_the_addresses_of_a_host_and_the_last_has_the_rest(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    limits: list[float | None] = []
    limit, look_up = asyncio.timeout, socket.getaddrinfo

    def timeout(seconds: float | None) -> asyncio.Timeout:
        limits.append(seconds)
        return limit(seconds)

    def once_per_kind(*args: Any, **options: Any) -> list[Any]:
        return look_up("127.0.0.1", 1, **options) * 2

    monkeypatch.setattr(asyncio, "timeout", timeout)
    monkeypatch.setattr(socket, "getaddrinfo", once_per_kind)

    assert asyncio.run(post(webhook_at(1), {}, b"{}", seconds=9)) == PostResult("connection refused")
    assert limits == [9, 3, None]


def test_a_receiver_without_tls_is_reported() -> None:
    async def post_once() -> PostResult:
        async with one_response(b"HTTP/1.1 200 OK\r\n\r\n", listens=False) as plain:
            return await post(replace(plain, tls=ssl.create_default_context()), {}, b"{}")

    assert asyncio.run(post_once()) == PostResult("no TLS")


@pytest.mark.parametrize(
    ("is_known", "host", "expected"),
    [
        (True, "127.0.0.1", PostResult("200", True)),
        (False, "127.0.0.1", PostResult("certificate not trusted")),
        (True, "localhost", PostResult("certificate not trusted")),
    ],
    ids=["trusted", "unknown", "of another host"],
)
def test_an_untrusted_certificate_is_rejected(
    tmp_path: Path, is_known: bool, host: str, expected: PostResult
) -> None:
    its = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    own = certificate(tmp_path)
    its.load_cert_chain(own)
    ours = ssl.create_default_context(cafile=own if is_known else None)

    async def post_once() -> PostResult:
        async with one_response(b"HTTP/1.1 200 OK\r\n\r\n", tls=its) as safe:
            return await post(replace(safe, host=host, tls=ours), {}, b"{}")

    assert asyncio.run(post_once()) == expected


def test_proxies_of_the_environment_are_ignored(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("http_proxy", "https_proxy", "all_proxy"):
        monkeypatch.setenv(name, "http://127.0.0.1:1")

    async def post_once() -> PostResult:
        async with one_response(b"HTTP/1.1 200 OK\r\n\r\n") as webhook:
            return await post(webhook, {}, b"{}")

    assert asyncio.run(post_once()) == PostResult("200", True)
