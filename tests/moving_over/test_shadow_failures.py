"""What a client of `legacy shadow` receives if a connection fails in the middle of a request."""

import asyncio
import socket
import ssl
import sys
from asyncio import StreamReader
from collections.abc import Awaitable, Callable
from typing import Any

import h11
import pytest
from click.testing import CliRunner
from starlette.requests import Request
from starlette.types import Message

from app.cli import main
from moving_over.http_client import read_address
from moving_over.shadow import Exchange, create_proxy
from tests.moving_over.services import PATH, Response, fake_service
from tests.moving_over.test_shadow import idle_shadow
from tests.ports import free_port

SCOPE = {
    "type": "http",
    "http_version": "1.1",
    "method": "GET",
    "path": PATH,
    "raw_path": PATH.encode(),
    "query_string": b"",
    "headers": [],
    "client": ("127.0.0.1", 1),
    "state": {},
}
HEAD = h11.Request(
    method="PUT", target=PATH, headers=[(b"host", b"old.example"), (b"transfer-encoding", b"chunked")]
)
ANSWER = b"HTTP/1.1 413 Content Too Large\r\nContent-Length: 2\r\n\r\n{}"


class OldService:
    """The side of a connection that sends: the old service reads nothing, and has answered."""

    def __init__(self, reader: StreamReader) -> None:
        self.reader = reader

    def write(self, data: bytes) -> None:
        pass

    async def drain(self) -> None:
        asyncio.get_running_loop().call_later(0.01, self.reader.feed_data, ANSWER)
        raise ConnectionResetError

    def close(self) -> None:
        pass


def receiving(*messages: Message) -> Callable[[], Awaitable[Message]]:
    """Waits after the last message, except after the end of the connection."""
    left = list(messages)

    async def receive() -> Message:
        if not left:
            await asyncio.Event().wait()
        return left[0] if left == [GONE] else left.pop(0)

    return receive


PART = {"type": "http.request", "body": b"{", "more_body": True}
GONE = {"type": "http.disconnect"}


async def exchange(*messages: Message) -> tuple[list[Message], list[str]]:
    """What is sent to the client, and the errors that no task has handled."""
    sent: list[Message] = []
    unhandled: list[str] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: unhandled.append(context["message"]))

    async def send(message: Message) -> None:
        sent.append(message)

    reader = StreamReader()
    one = Exchange(HEAD, Request(SCOPE, receiving(*messages)), send)
    await one.run(reader, OldService(reader))  # type: ignore[arg-type]
    return sent, unhandled


def test_an_answer_before_the_end_of_the_body_reaches_the_client() -> None:
    sent, unhandled = asyncio.run(exchange(PART))

    assert ([each.get("status") or each.get("body", b"") for each in sent], unhandled) == (
        [413, b"{}", b""],
        [],
    )


def test_a_client_that_leaves_in_the_middle_of_its_body_leaves_no_error() -> None:
    assert asyncio.run(exchange(GONE)) == ([], [])


def test_an_answer_whose_end_does_not_reach_the_client_is_not_compared() -> None:
    async def run() -> Exchange:
        has_all_but_the_end = asyncio.Event()

        async def receive() -> Message:
            await has_all_but_the_end.wait()
            return GONE

        async def send(message: Message) -> None:
            if message == {"type": "http.response.body"}:
                has_all_but_the_end.set()
                await asyncio.Event().wait()

        reader = StreamReader()
        reader.feed_data(ANSWER)
        one = Exchange(HEAD, Request(SCOPE, receive), send)
        await one.run(reader, OldService(reader))  # type: ignore[arg-type]
        return one

    one = asyncio.run(run())

    assert (one.response and one.response.status, bytes(one.bodies[1]), one.failure) == (
        413,
        b"{}",
        "dropped",
    )


@pytest.mark.skipif(sys.platform != "linux", reason="other systems have a longer backlog")
def test_an_old_service_that_accepts_no_connection_in_time_is_a_504() -> None:
    sent: list[Message] = []

    async def send(message: Message) -> None:
        sent.append(message)

    with socket.socket() as old, socket.socket() as first, socket.socket() as second:
        old.bind(("127.0.0.1", 0))
        old.listen(0)
        for each in (first, second):  # fill the backlog
            each.setblocking(False)
            each.connect_ex(old.getsockname())
        shadow = idle_shadow()
        proxy = create_proxy(read_address(f"http://127.0.0.1:{old.getsockname()[1]}"), 0.05, shadow)
        asyncio.run(proxy(dict(SCOPE), receiving(), send))

    assert sent[0]["status"] == 504
    assert [(key[-1], number) for key, number in shadow.counts.of("answers")] == [("old failed", 1)]


def test_the_old_service_over_tls_needs_a_trusted_certificate(
    tls: tuple[ssl.SSLContext, bool], monkeypatch: pytest.MonkeyPatch
) -> None:
    context, is_trusted = tls
    connect, opened = asyncio.open_connection, list[asyncio.StreamWriter]()
    sent: list[Message] = []

    async def noted(*address: Any, **options: Any) -> tuple[StreamReader, asyncio.StreamWriter]:
        reader, writer = await connect(*address, **options)
        opened.append(writer)
        return reader, writer

    async def send(message: Message) -> None:
        sent.append(message)

    async def pass_on(url: str) -> None:
        await create_proxy(read_address(url), 30, idle_shadow())(
            dict(SCOPE), receiving({"type": "http.request"}), send
        )
        for writer in opened:
            await writer.wait_closed()  # TLS ends with messages of both sides

    monkeypatch.setattr(asyncio, "open_connection", noted)
    with fake_service(lambda request: Response(), context) as url:
        asyncio.run(pass_on(url))

    assert sent[0]["status"] == (200 if is_trusted else 502)


def test_an_old_service_whose_host_is_no_name_is_a_502() -> None:
    sent: list[Message] = []

    async def send(message: Message) -> None:
        sent.append(message)

    shadow = idle_shadow()
    proxy = create_proxy(read_address(f"http://{'a' * 64}.example.test"), 30, shadow)
    asyncio.run(proxy(dict(SCOPE), receiving(), send))

    assert sent[0]["status"] == 502
    assert [(key[-1], number) for key, number in shadow.counts.of("answers")] == [("old failed", 1)]


@pytest.mark.parametrize(
    ("option", "host"), [("--port", "CARE_HOST"), ("--metrics-port", "CARE_METRICS_HOST")]
)
def test_a_port_that_is_taken_is_named_with_its_host(option: str, host: str) -> None:
    """Each port is opened at its own address."""
    with socket.create_server(("127.0.0.2", 0)) as taken:
        number = taken.getsockname()[1]
        ports = {"--port": free_port(), "--metrics-port": free_port(), option: number}
        words = [str(word) for pair in ports.items() for word in pair]
        urls = ["--old", "http://127.0.0.1:1", "--new", "http://127.0.0.1:1"]
        result = CliRunner().invoke(main, ["legacy", "shadow", *urls, *words], env={host: "127.0.0.2"})

    assert result.exit_code == 2
    assert result.stderr.splitlines()[-1] == (
        f"care-gateway: cannot listen on 127.0.0.2, port {number}: Address already in use"
    )
