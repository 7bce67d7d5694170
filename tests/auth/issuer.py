"""Issuers of tokens: key sets in files and on a real HTTP server, and a clock that a test turns."""

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import jwt
from cryptography.hazmat.primitives.asymmetric import rsa

from app.auth.door import Door
from app.auth.keys import KeySet
from tests.callers import Gateway
from tests.keys import Private


def jwk(key: Private, kid: str | None = None, **changed: Any) -> dict[str, Any]:
    """The public half of a key, as issuers publish it."""
    name = "RS256" if isinstance(key, rsa.RSAPrivateKey) else "ES256"
    entry: dict[str, Any] = jwt.get_algorithm_by_name(name).to_jwk(key.public_key(), as_dict=True)
    entry = {"kty": entry["kty"], **entry, "kid": kid, "use": "sig", **changed}
    return {member: value for member, value in entry.items() if value is not None and member != "key_ops"}


def key_set(*entries: dict[str, Any]) -> bytes:
    return json.dumps({"keys": entries}).encode()


class Issuer:
    """Serves a key set that a test changes, and counts how often it is asked."""

    def __init__(self, *entries: dict[str, Any]) -> None:
        self.status = 200
        self.body = key_set(*entries)
        self.location = ""
        self.asked = 0
        self.url = ""

    def publish(self, *entries: dict[str, Any]) -> None:
        self.status, self.body = 200, key_set(*entries)


@contextmanager
def issuing(*entries: dict[str, Any]) -> Iterator[Issuer]:
    issuer = Issuer(*entries)

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            issuer.asked += 1
            if issuer.status == 0:  # neither HTTP nor an end of the connection that looks like one
                self.wfile.write(b"garbage\r\n\r\n")
                return
            self.send_response(issuer.status)
            if issuer.location:
                self.send_header("location", issuer.location)
            self.send_header("content-length", str(len(issuer.body)))
            self.end_headers()
            self.wfile.write(issuer.body)

        def log_message(self, format: str, *arguments: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        issuer.url = f"http://127.0.0.1:{server.server_port}/keys"
        threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        try:
            yield issuer
        finally:
            server.shutdown()


class Ticks:
    """The seconds that a key set counts; they pass when a test says so."""

    def __init__(self, keys: KeySet) -> None:
        self.now = keys.read_at = float(int(keys.read_at))  # whole seconds add up exactly
        keys.ticks = lambda: self.now

    def pass_(self, seconds: float) -> None:
        self.now += seconds


def ticks_of(gateway: Gateway) -> Ticks:
    door: Door = gateway.client.app_state["door"]
    return Ticks(door.verifier.keys)
