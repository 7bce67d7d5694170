"""`legacy shadow` as a process between raw old and new services, whose responses are bytes by path."""

import re
import socket
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from http.client import HTTPConnection
from pathlib import Path
from signal import SIGTERM
from socketserver import BaseRequestHandler, ThreadingTCPServer
from urllib.parse import urlsplit

import httpx2

from tests.live.processes import PATIENCE, Process, spawn
from tests.ports import free_port

Body = bytes | Iterable[bytes] | None
Answer = bytes | Callable[[], bytes] | list[bytes | Callable[[], bytes]]  # in parts, or all at once
LENGTH = re.compile(rb"\r\ncontent-length: (\d+)", re.IGNORECASE)


class RawService:
    """Answers each request with the bytes of its path; empty bytes reset the connection."""

    def __init__(self, answers: dict[str, Answer]) -> None:
        self.answers = answers
        self.requests: list[bytes] = []  # complete

    @contextmanager
    def running(self) -> Iterator[str]:
        service = self

        class Handler(BaseRequestHandler):
            def handle(self) -> None:
                while request := read_request(self.request):
                    service.requests.append(request)
                    answer = service.answers[request.split(b" ")[1].decode()]
                    for part in answer if isinstance(answer, list) else [answer]:
                        part = part() if callable(part) else part
                        if not part:
                            self.request.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
                        with suppress(ConnectionError):
                            self.request.sendall(part)
                        if not part or b"\r\nConnection: close" in part:
                            return

        ThreadingTCPServer.allow_reuse_address = True
        ThreadingTCPServer.request_queue_size = 1024
        with ThreadingTCPServer(("127.0.0.1", 0), Handler) as server:
            server.daemon_threads = True
            threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}).start()
            try:
                yield f"http://127.0.0.1:{server.server_address[1]}"
            finally:
                server.shutdown()


def read_request(connection: socket.socket) -> bytes:
    data = b""
    with suppress(ConnectionError):
        while part := connection.recv(65536):
            data += part
            head, separator, body = data.partition(b"\r\n\r\n")
            length = LENGTH.search(head)
            is_complete = len(body) >= (int(length[1]) if length else 0)
            if b"transfer-encoding: chunked" in head:
                is_complete = body.endswith(b"0\r\n\r\n")
            if separator and is_complete:
                return data
    return b""


@dataclass
class RunningShadow:
    process: Process
    url: str
    metrics_url: str
    log: Path
    state: Path

    @property
    def address(self) -> tuple[str, int]:
        return address_of(self.url)

    def fetch(
        self, path: str, method: str = "GET", body: Body = None, **headers: str
    ) -> tuple[int, list[tuple[str, str]], bytes]:
        return fetch(self.url, path, method, body, **headers)

    def metrics(self) -> str:
        return httpx2.get(f"{self.metrics_url}/metrics").text

    def wait_for(self, *texts: str) -> str:
        """The metrics, as soon as they contain the texts."""
        until = time.monotonic() + PATIENCE
        while not all(text in (shown := self.metrics()) for text in texts):
            assert time.monotonic() < until, shown
            time.sleep(0.02)  # between two reads; the text itself is what is waited for
        return shown

    def stop(self) -> tuple[int, list[str]]:
        self.process.send_signal(SIGTERM)
        return self.process.wait(), self.log.read_text().splitlines()


def address_of(url: str) -> tuple[str, int]:
    parts = urlsplit(url)
    assert parts.hostname and parts.port
    return parts.hostname, parts.port


def fetch(
    url: str, path: str, method: str = "GET", body: Body = None, **headers: str
) -> tuple[int, list[tuple[str, str]], bytes]:
    """The status, the headers in their order and case, and the body as it was sent."""
    connection = HTTPConnection(urlsplit(url).netloc, timeout=PATIENCE)
    try:
        connection.request(method, path, body, headers)
        response = connection.getresponse()
        return response.status, response.getheaders(), response.read()
    finally:
        connection.close()


@contextmanager
def shadowing(
    folder: Path, old: str, new: str, *options: str, host: str = "127.0.0.1", metrics_host: str = "127.0.0.1"
) -> Iterator[RunningShadow]:
    port, metrics_port = free_port(), free_port()
    log, state = folder / "shadow.log", folder / "shadow.json"
    addresses = ["--old", old, "--new", new, "--port", str(port), "--metrics-port", str(metrics_port)]
    with log.open("w+") as output:
        words = ["legacy", "shadow", *addresses, "--state", str(state), *options]
        settings = {"env": "development", "host": host, "metrics_host": metrics_host}
        process = spawn(words, "", settings, output)
        assert isinstance(process, Process)
        try:
            wait_for_port(process, (host, port), log)
            metrics_url = f"http://{metrics_host}:{metrics_port}"
            yield RunningShadow(process, f"http://{host}:{port}", metrics_url, log, state)
        finally:
            process.kill()
            process.wait()


def wait_for_port(process: Process, address: tuple[str, int], log: Path) -> None:
    until = time.monotonic() + PATIENCE
    while process.poll() is None and time.monotonic() < until:
        try:
            return socket.create_connection(address).close()
        except ConnectionError:
            time.sleep(0.02)
    raise AssertionError(f"not ready:\n{log.read_text()}")
