"""A webhook receiver over real HTTP that verifies requests as Standard Webhooks specifies."""

import base64
import hashlib
import hmac
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

SECRET = "whsec_" + base64.b64encode(b"a secret of this test suite").decode()
OTHER_SECRET = "whsec_" + base64.b64encode(b"the secret of the next year").decode()


@dataclass
class Received:
    path: str
    headers: dict[str, str]
    body: bytes

    @property
    def id(self) -> str:
        return self.headers["webhook-id"]

    def verified(self, secret: str) -> dict[str, Any]:
        """Returns the body if it was signed with the secret. Written from the specification."""
        signed = b".".join([self.id.encode(), self.headers["webhook-timestamp"].encode(), self.body])
        key = base64.b64decode(secret.removeprefix("whsec_"))
        own = base64.b64encode(hmac.new(key, signed, hashlib.sha256).digest()).decode()
        given = [one.split(",", 1) for one in self.headers["webhook-signature"].split(" ")]
        assert any(version == "v1" and hmac.compare_digest(text, own) for version, text in given)
        body: dict[str, Any] = json.loads(self.body)
        return body


@dataclass
class Receiver:
    """Sends `answers` one after the other, then 200. A held request gets no response until released."""

    url: str = ""
    received: list[Received] = field(default_factory=list)
    answers: list[int] = field(default_factory=list)
    has_received: threading.Semaphore = field(default_factory=lambda: threading.Semaphore(0))
    is_released: threading.Event = field(default_factory=threading.Event)
    held_kind: str | None = None  # this kind of event alone

    def __post_init__(self) -> None:
        self.is_released.set()

    def ids(self) -> list[str]:
        return [one.id for one in self.received]

    def hold(self, kind: str | None = None) -> None:
        self.held_kind = kind
        self.is_released.clear()

    def take(self, request: Received) -> int:
        self.received.append(request)
        answer = self.answers.pop(0) if self.answers else 200
        self.has_received.release()
        if self.held_kind in (None, json.loads(request.body)["type"]):
            self.is_released.wait()
        return answer


@contextmanager
def receiving() -> Iterator[Receiver]:
    receiver = Receiver()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["content-length"]))
            headers = {name.lower(): value for name, value in self.headers.items()}
            answer = receiver.take(Received(self.path, headers, body))
            self.send_response(answer)
            if 300 <= answer < 400:
                self.send_header("location", f"{receiver.url}/elsewhere")
            self.end_headers()

        do_GET = do_POST

        def log_message(self, format: str, *args: object) -> None:
            pass

    class Server(ThreadingHTTPServer):
        request_queue_size = 64

        def handle_error(self, request: object, client_address: object) -> None:
            """The sender of a held request may have left."""

    server = Server(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    receiver.url = f"http://127.0.0.1:{server.server_port}/care?to=us"
    thread.start()
    try:
        yield receiver
    finally:
        receiver.is_released.set()
        server.shutdown()
        server.server_close()
        thread.join()
