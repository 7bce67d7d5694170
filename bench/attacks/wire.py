"""Connections of attackers: prepared bytes are sent, and the responses counted, so that load costs little."""

import json
import re
import select
import socket
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

SECONDS = 15.0  # of an attack at most, and until a silent connection counts as failed
BUFFER = 1024 * 1024
CODE = re.compile(rb'"code":"(\w+)"')
UPGRADE = {
    "connection": "upgrade",
    "upgrade": "websocket",
    "sec-websocket-version": "13",
    "sec-websocket-key": "dGhlIHNhbXBsZSBub25jZQ==",
    "sec-websocket-protocol": "graphql-transport-ws",
}


@dataclass
class Received:
    """What an attacker received: responses by status and error code, bytes, and anything else of interest."""

    responses: Counter[str] = field(default_factory=Counter)
    bytes: int = 0
    notes: dict[str, Any] = field(default_factory=dict)

    def add(self, other: "Received") -> None:
        self.responses += other.responses
        self.bytes += other.bytes
        self.notes |= other.notes


def request(method: str, path: str, headers: dict[str, str], body: bytes = b"") -> bytes:
    lengths = {"content-length": str(len(body))} if body else {}
    lines = [f"{name}: {value}\r\n" for name, value in {"host": "care", **headers, **lengths}.items()]
    return f"{method} {path} HTTP/1.1\r\n{''.join(lines)}\r\n".encode() + body


def graphql(token: str, query: str, variables: dict[str, Any] | None = None, **headers: str) -> bytes:
    body = json.dumps({"query": query, "variables": variables or {}}, ensure_ascii=False).encode()
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return request(
        "POST",
        "/graphql",
        {"authorization": f"bearer {token}", "content-type": "application/json", **named},
        body,
    )


class Connection:
    """A blocking connection; with a small receive buffer if responses are to remain with the server."""

    def __init__(self, port: int, receive_buffer: int = 0) -> None:
        self.socket = socket.socket()
        self.socket.settimeout(SECONDS)
        if receive_buffer:
            self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer)
        self.socket.connect(("127.0.0.1", port))
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.buffer = memoryview(bytearray(BUFFER if not receive_buffer else 4096))

    @property
    def is_closed(self) -> bool:
        return self.socket.fileno() < 0

    def send(self, data: bytes) -> None:
        self.socket.sendall(data)

    def receive(self) -> tuple[str, bytes, int]:
        """The status of the next response with the code of its first error, the start of its body, and its
        length; the rest of the body is discarded."""
        data = b""
        while b"\r\n\r\n" not in data:
            data += self.read()
        head, _, body = data.partition(b"\r\n\r\n")
        found = re.search(rb"content-length: (\d+)", head, re.IGNORECASE)
        length = int(found[1]) if found else 0
        start, received = body[:65536], len(body)
        while received < length:
            piece = self.read(length - received)
            received += len(piece)
            if len(start) < 65536:
                start += piece
        if b"\r\nconnection: close" in head.lower():
            self.close()
        code = CODE.search(start) if b'"errors":[{' in start or b'"userErrors":[{' in start else None
        return head[9:12].decode() + (f" {code[1].decode()}" if code else ""), start, len(head) + 4 + length

    def fetch(self, data: bytes) -> tuple[str, bytes, int]:
        self.send(data)
        return self.receive()

    def read(self, most: int = BUFFER) -> bytes:
        length = self.socket.recv_into(self.buffer[:most])
        if not length:
            raise ConnectionError("closed")
        return bytes(self.buffer[:length])

    def open_websocket(self, token: str, *messages: dict[str, Any]) -> None:
        """Signs in and sends the messages; waits for the acknowledgement."""
        status, body, _ = self.fetch(request("GET", "/graphql", UPGRADE))
        if status != "101":
            raise ConnectionError(status)
        init = {"type": "connection_init", "payload": {"Authorization": f"bearer {token}"}}
        self.send(b"".join(text_frame(json.dumps(each).encode()) for each in (init, *messages)))
        while b'"connection_ack"' not in body:
            body += self.read(4096)

    def close(self) -> None:
        self.socket.close()


def text_frame(payload: bytes) -> bytes:
    size = len(payload)
    length = bytes([0x80 | size]) if size < 126 else b"\xfe" + size.to_bytes(2, "big")
    return b"\x81" + length + bytes(4) + payload  # masked by zeros


def subscription(number: int, query: str) -> dict[str, Any]:
    return {"type": "subscribe", "id": str(number), "payload": {"query": query}}


def hammer(port: int, connections: int, requests: Iterable[bytes], seconds: float = SECONDS) -> Received:
    """Sends the requests. Each connection sends the next one as soon as it has a response."""
    source, lock, until = iter(requests), threading.Lock(), time.monotonic() + seconds

    def next_request() -> bytes | None:
        with lock:
            return next(source, None) if time.monotonic() < until else None

    def send_all(received: Received) -> None:
        connection = None
        while (data := next_request()) is not None:
            try:
                if connection is None or connection.is_closed:
                    connection = Connection(port)
                status, _, length = connection.fetch(data)
            except OSError as fault:
                status, length, connection = type(fault).__name__, 0, None
            received.responses[status] += 1
            received.bytes += length

    return in_parallel(connections, send_all)


def in_parallel(count: int, work: Callable[[Received], None]) -> Received:
    parts = [Received() for _ in range(count)]
    threads = [threading.Thread(target=work, args=(part,)) for part in parts]
    for thread in threads:
        thread.start()
    total = Received()
    for thread, part in zip(threads, parts, strict=True):
        thread.join()
        total.add(part)
    return total


def repeated_for(seconds: float) -> Iterator[int]:
    until, number = time.monotonic() + seconds, 0
    while time.monotonic() < until:
        yield number
        number += 1


def read_events(connections: list[Connection], seconds: float = SECONDS) -> Received:
    """Reads streams and websockets until nothing has arrived for two seconds; counts the events."""
    received, until = Received(), time.monotonic() + seconds
    while connections and time.monotonic() < until:
        ready, _, _ = select.select([each.socket for each in connections], [], [], 2)
        if not ready:
            break
        for one in [each for each in connections if each.socket in ready]:
            data = b""
            with suppress(OSError):
                data = one.read()
            if not data:
                connections.remove(one)
                received.responses["closed"] += 1
            received.bytes += len(data)
            for kind in (b'"next"', b"event: next", b"RATE_LIMITED"):
                if count := data.count(kind):
                    received.responses[kind.decode().strip('"').removeprefix("event: ")] += count
    return received
