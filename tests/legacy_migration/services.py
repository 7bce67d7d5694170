"""Services behind real sockets: one that says what it is told to, and one that hands on to an application."""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from tests.client import Client


@dataclass(frozen=True)
class Asked:
    method: str
    path: str
    headers: dict[str, str]  # names in lower case
    body: bytes


@dataclass(frozen=True)
class Said:
    status: int = 200
    body: bytes = b"{}"
    headers: dict[str, str] = field(default_factory=lambda: {"Content-Type": "application/json"})


Answering = Callable[[Asked], Said | None]  # None hangs up


@contextmanager
def listening(answer: Answering) -> Iterator[str]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def handle_any(self) -> None:
            body = self.rfile.read(int(self.headers.get("content-length", 0)))
            headers = {name.lower(): value for name, value in self.headers.items()}
            said = answer(Asked(self.command, self.path, headers, body))
            if said is None:
                self.close_connection = True
                return
            self.send_response_only(said.status)
            for name, value in said.headers.items():
                self.send_header(name, value)
            self.send_header("Content-Length", str(len(said.body)))
            self.end_headers()
            self.wfile.write(b"" if self.command == "HEAD" else said.body)

        do_GET = do_HEAD = do_PUT = handle_any

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def handing_on(client: Client) -> Answering:
    def answer(asked: Asked) -> Said:
        headers = {name: value for name, value in asked.headers.items() if name not in ("host", "connection")}
        said = client.ask(asked.method, asked.path, headers=headers, content=asked.body)
        return Said(said.status_code, said.content, {"Content-Type": said.headers["content-type"]})

    return answer
