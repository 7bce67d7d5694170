"""Somebody who receives what the webhook is told, over real HTTP, and checks it as Standard Webhooks says."""

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

SECRET = "whsec_" + base64.b64encode(b"a secret that nobody tells").decode()
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
        """What is said, if it was signed with the secret. Written after the specification alone."""
        signed = b".".join([self.id.encode(), self.headers["webhook-timestamp"].encode(), self.body])
        key = base64.b64decode(secret.removeprefix("whsec_"))
        own = base64.b64encode(hmac.new(key, signed, hashlib.sha256).digest()).decode()
        given = [one.split(",", 1) for one in self.headers["webhook-signature"].split(" ")]
        assert any(version == "v1" and hmac.compare_digest(text, own) for version, text in given)
        said: dict[str, Any] = json.loads(self.body)
        return said


@dataclass
class Receiver:
    """Answers with `answers` one after the other, then with 200. What is held gets none until let go."""

    url: str = ""
    received: list[Received] = field(default_factory=list)
    answers: list[int] = field(default_factory=list)
    has_received: threading.Semaphore = field(default_factory=lambda: threading.Semaphore(0))
    goes_on: threading.Event = field(default_factory=threading.Event)
    held: str | None = None  # this kind of event alone

    def __post_init__(self) -> None:
        self.goes_on.set()

    def ids(self) -> list[str]:
        return [one.id for one in self.received]

    def hold(self, kind: str | None = None) -> None:
        self.held = kind
        self.goes_on.clear()

    def take(self, request: Received) -> int:
        self.received.append(request)
        answer = self.answers.pop(0) if self.answers else 200
        self.has_received.release()
        if self.held in (None, json.loads(request.body)["type"]):
            self.goes_on.wait()
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
            """Who was held may find nobody there any more."""

    server = Server(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    receiver.url = f"http://127.0.0.1:{server.server_port}/care?to=us"
    thread.start()
    try:
        yield receiver
    finally:
        receiver.goes_on.set()
        server.shutdown()
        server.server_close()
        thread.join()
