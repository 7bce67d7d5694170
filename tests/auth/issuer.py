"""Issuers of tokens: key sets in files and on a real HTTP server, and a controllable clock."""

import asyncio
import json
import ssl
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import jwt
from cryptography.hazmat.primitives.asymmetric import rsa

from app.auth.authenticator import Authenticator
from app.auth.keys import KeySet
from tests.callers import Gateway
from tests.keys import Private
from tests.patience import PATIENCE


def jwk(key: Private, kid: str | None = None, **changed: Any) -> dict[str, Any]:
    """The public key, as issuers publish it."""
    name = "RS256" if isinstance(key, rsa.RSAPrivateKey) else "ES256"
    entry: dict[str, Any] = jwt.get_algorithm_by_name(name).to_jwk(key.public_key(), as_dict=True)
    entry = {"kty": entry["kty"], **entry, "kid": kid, "use": "sig", **changed}
    return {member: value for member, value in entry.items() if value is not None and member != "key_ops"}


def key_set(*entries: dict[str, Any]) -> bytes:
    return json.dumps({"keys": entries}).encode()


class Issuer:
    """Serves a key set that a test can change, and counts requests."""

    def __init__(self, *entries: dict[str, Any]) -> None:
        self.status = 200
        self.body = key_set(*entries)
        self.location = ""
        self.requests = 0
        self.url = ""
        self.may_answer = threading.Event()  # while it is not set, requests hang
        self.may_answer.set()
        self.trickles = False  # the head of the answer comes byte by byte
        self.has_trickled_out = False

    def publish(self, *entries: dict[str, Any]) -> None:
        self.status, self.body = 200, key_set(*entries)


@contextmanager
def serving_issuer(*entries: dict[str, Any], tls: ssl.SSLContext | None = None) -> Iterator[Issuer]:
    issuer = Issuer(*entries)

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            issuer.requests += 1
            issuer.may_answer.wait(PATIENCE)
            if issuer.trickles:
                self.trickle()
                return
            if issuer.status == 0:  # neither HTTP nor an end of the connection that looks like one
                self.wfile.write(b"garbage\r\n\r\n")
                return
            self.send_response(issuer.status)
            if issuer.location:
                self.send_header("location", issuer.location)
            self.send_header("content-length", str(len(issuer.body)))
            self.end_headers()
            self.wfile.write(issuer.body)

        def trickle(self) -> None:
            self.send_response(200)
            self.flush_headers()
            with suppress(OSError):  # cut by the other side
                for _ in range(300):
                    self.wfile.write(b"x")
                    time.sleep(0.01)
                issuer.has_trickled_out = True
                self.wfile.write(b": x\r\n\r\n" + issuer.body)

        def log_message(self, format: str, *arguments: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        if tls is not None:
            server.socket = tls.wrap_socket(server.socket, server_side=True)
        issuer.url = f"{'https' if tls else 'http'}://127.0.0.1:{server.server_port}/keys"
        threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        try:
            yield issuer
        finally:
            issuer.may_answer.set()
            server.shutdown()


class Ticks:
    """The clock of a key set, which a test advances."""

    def __init__(self, keys: KeySet) -> None:
        self.now = keys.read_at = float(int(keys.read_at))  # whole seconds add up exactly
        keys.ticks = lambda: self.now

    def pass_(self, seconds: float) -> None:
        self.now += seconds


def ticks_of(gateway: Gateway) -> Ticks:
    return Ticks(keys_of(gateway))


def keys_of(gateway: Gateway) -> KeySet:
    authenticator: Authenticator = gateway.client.app_state["authenticator"]
    return authenticator.verifier.keys


def wait_until_read(gateway: Gateway) -> None:
    """Waits until the running read of the keys has finished."""

    async def reading() -> None:
        if task := keys_of(gateway).reading:
            await asyncio.wait({task})

    assert gateway.client.portal is not None
    gateway.client.portal.call(reading)
