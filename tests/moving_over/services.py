"""Fake services behind real sockets, and the command that compares two of them."""

import ssl
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import orjson
from click.testing import Result

from tests.cli.conftest import Command
from tests.client import Client
from tests.moving_over.recordings import write_lines

PATH = "/gateway/profile/caregiver/session/assignment/1"
JSON = {"Content-Type": "application/json"}
BUSY = {"Retry-After": "0"}


@dataclass(frozen=True)
class Request:
    method: str
    path: str
    headers: dict[str, str]  # names in lower case
    body: bytes


@dataclass(frozen=True)
class Response:
    status: int = 200
    body: bytes = b"{}"
    headers: dict[str, str] = field(default_factory=lambda: JSON)


Handler = Callable[[Request], Response | None]  # None closes the connection without a response


@contextmanager
def fake_service(handler: Handler, tls: ssl.SSLContext | None = None) -> Iterator[str]:
    """Yields the address."""

    class HTTPHandler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        disable_nagle_algorithm = True  # else each body waits 40 ms for the acknowledgement of its headers

        def handle_any(self) -> None:
            body = self.rfile.read(int(self.headers.get("content-length", 0)))
            headers = {name.lower(): value for name, value in self.headers.items()}
            response = handler(Request(self.command, self.path, headers, body))
            if response is None:
                self.close_connection = True
                return
            self.send_response_only(response.status)
            for name, value in response.headers.items():
                self.send_header(name, value)
            if "Content-Length" not in response.headers:
                self.send_header("Content-Length", str(len(response.body)))
            self.end_headers()
            self.wfile.write(b"" if self.command == "HEAD" else response.body)

        do_GET = do_HEAD = do_OPTIONS = do_PUT = handle_any

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), HTTPHandler)
    server.daemon_threads = True
    if tls is not None:
        server.socket = tls.wrap_socket(server.socket, server_side=True)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield f"http{'s' if tls else ''}://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def forwarding_to(client: Client) -> Handler:
    def handler(request: Request) -> Response:
        headers = {
            name: value for name, value in request.headers.items() if name not in ("host", "connection")
        }
        response = client.fetch(request.method, request.path, headers=headers, content=request.body)
        return Response(
            response.status_code, response.content, {"Content-Type": response.headers["content-type"]}
        )

    return handler


class ServicePair:
    """An old and a new fake service, their requests, and tokens of two caregivers and two clients."""

    def __init__(self, command: Command, folder: Path, stack: ExitStack) -> None:
        self.command = command
        self.folder = folder
        self.stack = stack
        self.requests: dict[str, list[Request]] = {"old": [], "new": []}
        self.addresses: dict[str, str] = {}
        for role in ("caregiver", "client"):
            tokens = f"# of the old service\n{role}-1 {role}-token-1\n\n{role}-2 {role}-token-2\n"
            (folder / f"{role}s").write_text(tokens)

    def start(self, old: Response | Handler, new: Response | Handler) -> None:
        for name, response in (("old", old), ("new", new)):
            self.addresses[name] = self.stack.enter_context(fake_service(self.recording(name, response)))

    def recording(self, name: str, response: Response | Handler) -> Handler:
        def handler(request: Request) -> Response | None:
            self.requests[name].append(request)
            return response(request) if callable(response) else response

        return handler

    def compare(self, *options: str, calls: list[dict[str, Any]] | None = None, **settings: Any) -> Result:
        file = write_lines(self.folder / "calls.jsonl", [{"path": PATH}] if calls is None else calls)
        addresses = [word for name, address in self.addresses.items() for word in (f"--{name}", address)]
        tokens = ["--caregivers", str(self.folder / "caregivers"), "--clients", str(self.folder / "clients")]
        return self.command("legacy", "compare", *addresses, *tokens, *options, str(file), **settings)


def printed(result: Result) -> tuple[int, list[str]]:
    assert result.stderr == "comparing\n"
    return result.exit_code, result.stdout.splitlines()


def json_response(value: object) -> Response:
    return Response(body=orjson.dumps(value))
