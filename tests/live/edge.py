"""The service behind the protocol classes of `serve`, in this process, and a client that controls every
byte."""

import asyncio
import json
import select
import socket
import sqlite3
import threading
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from typing import Any

import uvicorn
from starlette.types import ASGIApp

from app.db.admin.migrate import migrate
from app.main import create_app
from app.server.protocol import EdgeProtocol
from app.server.sockets import EdgeSocket
from app.settings import Environment, Settings
from tests import keys
from tests.callers import load
from tests.factories import a_world
from tests.leftovers import reject_leftovers
from tests.live.processes import PATIENCE

JSON = b"content-type: application/json\r\n"
AUTHORIZATION = f"authorization: bearer {keys.token('CAREGIVER', 'caregiver-1')}\r\n".encode()
ASSIGNMENTS = "/gateway/profile/caregiver/session/assignment"
HOMEWORK = {
    "sessionId": 1,
    "bookIds": [1],
    "startDate": "2026/11/22",
    "startTime": "08:00",
    "endDate": "2026/11/29",
    "endTime": "20:00",
}


@dataclass
class Edge:
    host: str
    port: int
    database: str

    @contextmanager
    def connection(self, receive_buffer: int = 0) -> Iterator["Connection"]:
        """A connection, with a small receive buffer if `receive_buffer` is given."""
        with socket.socket() as one:
            one.settimeout(PATIENCE)
            if receive_buffer:
                one.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer)
            one.connect((self.host, self.port))
            yield Connection(one)

    def fetch(self, data: bytes) -> "Response":
        with self.connection() as connection:
            return connection.fetch(data)


@dataclass
class Response:
    status: int
    phrase: str
    headers: dict[str, str]
    body: bytes

    @property
    def message(self) -> str:
        """The error message, in the format of either contract."""
        data = json.loads(self.body)
        if "errors" in data:
            [error] = data["errors"]
            assert error["extensions"].keys() == {"code", "requestId"}
            return str(error["message"])
        assert list(data) == ["timestamp", "status", "error", "message", "path"]
        assert (data["status"], data["error"]) == (self.status, self.phrase)
        return str(data["message"])


@dataclass
class Connection:
    socket: socket.socket

    def send(self, *data: bytes) -> None:
        for each in data:
            self.socket.sendall(each)

    def fetch(self, data: bytes) -> Response:
        self.send(data)
        return self.receive(is_head=data.startswith(b"HEAD"))

    def receive(self, is_head: bool = False) -> Response:
        """The next response that declares its length; a 100 is a response, too."""
        start, *lines = self.read(until=b"\r\n\r\n").decode().split("\r\n")
        headers = dict(line.split(": ", 1) for line in lines)
        length = 0 if is_head else int(headers.get("content-length", 0))
        _, status, phrase = start.split(" ", 2)
        return Response(int(status), phrase, headers, self.read(length))

    def read(self, length: int = -1, until: bytes = b"") -> bytes:
        data = b""
        while len(data) != length and not (until and data.endswith(until)):
            piece = self.socket.recv(1 if until else length - len(data))
            if not piece:
                raise ConnectionError("closed before the end of a response")
            data += piece
        return data.removesuffix(until)

    def wait(self) -> None:
        """Waits for a moment, or until the connection is lost."""
        poll = select.poll()
        poll.register(self.socket, 0)
        poll.poll(10)

    def read_to_end(self) -> bytes:
        """Everything that arrives until the server closes the connection."""
        data = b""
        while piece := self.socket.recv(65536):
            data += piece
        return data


def request(method: str, path: str, *headers: bytes, body: bytes | None = None) -> bytes:
    length = b"" if body is None else b"content-length: %d\r\n" % len(body)
    return (
        f"{method} {path} HTTP/1.1\r\nhost: care\r\n".encode()
        + b"".join(headers)
        + length
        + b"\r\n"
        + (body or b"")
    )


def graphql(query: str, *headers: bytes) -> bytes:
    return request(
        "POST", "/graphql", JSON, AUTHORIZATION, *headers, body=json.dumps({"query": query}).encode()
    )


def homework() -> bytes:
    return request("PUT", ASSIGNMENTS, JSON, AUTHORIZATION, body=json.dumps(HOMEWORK).encode())


@contextmanager
def serve_service(
    folder: Any, timeout: float = EdgeProtocol.timeout, shutdown: int = 1, **changed: Any
) -> Iterator[Edge]:
    database = f"sqlite:///{folder}/care.db"
    asyncio.run(migrate(database))
    load(database, a_world())
    settings = Settings(
        env=Environment.DEVELOPMENT,
        database_url=database,
        token_key=keys.public_pem(),
        dispatcher=False,
        **changed,
    )
    with serve_app(create_app(settings), timeout, shutdown=shutdown) as address:
        yield Edge(*address, database)


@contextmanager
def serve_app(
    app: ASGIApp,
    timeout: float = EdgeProtocol.timeout,
    loop: Any = "auto",
    keep_alive: int = 1,
    shutdown: int = 1,
    **config: Any,
) -> Iterator[tuple[str, int]]:
    class Protocol(EdgeProtocol):
        pass

    class Socket(EdgeSocket):
        pass

    Protocol.timeout = Socket.timeout = timeout
    server = uvicorn.Server(
        uvicorn.Config(
            app,
            loop=loop,
            http=Protocol,
            ws=Socket,
            log_config=None,
            timeout_keep_alive=keep_alive,
            timeout_graceful_shutdown=shutdown,
            **config,
        )
    )
    listener = socket.create_server(("127.0.0.1", 0))
    thread = threading.Thread(target=server.run, args=([listener],))
    thread.start()
    try:
        while not server.started:
            assert thread.is_alive()
            time.sleep(0.01)  # between two looks
        yield listener.getsockname()
    finally:
        server.should_exit = True
        thread.join(PATIENCE)
    reject_leftovers(app, server.lifespan.state)


@contextmanager
def write_lock(database: str) -> Iterator[None]:
    with closing(sqlite3.connect(database.removeprefix("sqlite:///"), isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        yield
        other.execute("ROLLBACK")
