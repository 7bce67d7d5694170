"""HTTP client of one service: sends to its address only and follows no redirects."""

import http.client
import socket
import ssl
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache, partial
from urllib.parse import urlsplit

from app.auth.limited_http import ResponseTooLong, limited
from moving_over import LegacyMigrationError

SAFE_METHODS = ("GET", "HEAD", "OPTIONS")
MAX_RESPONSE_BYTES = 64 * 1024 * 1024  # with the headers
MAX_ATTEMPTS = 5
MAX_RETRY_SECONDS = 60
IDLE_SECONDS = 4  # many services close idle connections after 5 s, and firewalls forget them

tls_context = cache(ssl.create_default_context)  # reading the certificates takes long


class RequestFailed(Exception):
    """The service did not send a complete response."""


class BodyTooLong(RequestFailed):
    """The response is longer than the limit."""


class Unreachable(LegacyMigrationError):
    """No connection to the service."""


@dataclass(frozen=True)
class Response:
    status: int
    headers: Mapping[str, str]  # names in lower case; values of repeated headers are joined
    body: bytes


@dataclass(frozen=True)
class Address:
    text: str  # as given on the command line
    is_secure: bool
    host: str
    port: int
    prefix: str

    @property
    def exposes_tokens(self) -> bool:
        return not self.is_secure and self.host not in ("127.0.0.1", "::1", "localhost")


NO_ADDRESS = "an address is like https://care.example, with an optional port and path"


def read_address(text: str) -> Address:
    """Its error does not repeat the text, which may contain a password."""
    try:
        url = urlsplit(text)
        port = url.port
    except ValueError:
        raise LegacyMigrationError(NO_ADDRESS) from None
    is_plain = not (url.query or url.fragment or url.username or url.password) and is_visible_ascii(url.path)
    if url.scheme not in ("http", "https") or not url.hostname or port == 0 or not is_plain:
        raise LegacyMigrationError(NO_ADDRESS)
    is_secure = url.scheme == "https"
    return Address(text, is_secure, url.hostname, port or (443 if is_secure else 80), url.path.rstrip("/"))


def is_visible_ascii(text: str) -> bool:
    return text.isascii() and text.isprintable() and " " not in text


@dataclass(eq=False)
class Connection:
    """A persistent connection to a service, for one thread."""

    address: Address
    timeout: float
    max_bytes: int = MAX_RESPONSE_BYTES
    connection: http.client.HTTPConnection | None = None
    last_use: float = 0

    def send(
        self,
        method: str,
        path: str,
        token: str | None,
        headers: Mapping[str, str],
        body: bytes | None = None,
        attempts: int = MAX_ATTEMPTS,
    ) -> Response:
        """Repeats a read if the service answers 429 or 503 with Retry-After."""
        given = {name.lower(): value for name, value in headers.items()}
        sent = {"accept": "*/*", "user-agent": "care-gateway-record/1", **given}
        if token is not None:
            sent["authorization"] = f"bearer {token}"
        if body is not None:
            sent.setdefault("content-type", "application/json")
        for _ in range(attempts - 1 if method in SAFE_METHODS else 0):
            response = self.send_once(method, path, sent, body)
            if response.status not in (429, 503) or "retry-after" not in response.headers:
                return response
            time.sleep(requested_pause(response))
        return self.send_once(method, path, sent, body)

    def send_once(self, method: str, path: str, headers: Mapping[str, str], body: bytes | None) -> Response:
        """Repeats a read on a new connection if the service has closed the reused one.

        A change gets a new connection at once: after a failure on a reused one its outcome is unknown.
        """
        if method not in SAFE_METHODS or time.monotonic() > self.last_use + IDLE_SECONDS:
            self.close()
        try:
            if self.connection is not None:
                try:
                    return self.exchange(method, path, headers, body)
                except ConnectionError:
                    self.close()
            return self.exchange(method, path, headers, body)
        except (http.client.HTTPException, OSError) as error:
            self.close()
            kind = BodyTooLong if isinstance(error, ResponseTooLong) else RequestFailed
            raise kind(reason_of(error)) from None

    def exchange(self, method: str, path: str, headers: Mapping[str, str], body: bytes | None) -> Response:
        connection = self.connection = self.connection or self.open()
        connection.request(method, self.address.prefix + path, body, headers)
        with connection.getresponse() as response:
            content = response.read()
        joined = {each.lower(): ", ".join(response.headers.get_all(each, [])) for each in response.headers}
        if response.will_close:
            self.close()
        self.last_use = time.monotonic()
        return Response(response.status, joined, content)

    def open(self) -> http.client.HTTPConnection:
        address = self.address
        kind: Callable[..., http.client.HTTPConnection] = http.client.HTTPConnection
        if address.is_secure:
            kind = partial(http.client.HTTPSConnection, context=tls_context())
        connection = limited(kind, self.max_bytes, address.host, address.port, timeout=self.timeout)
        try:
            connection.connect()
        except (OSError, UnicodeError) as error:
            raise Unreachable(f"{address.text} cannot be reached: {reason_of(error)}") from None
        return connection

    def close(self) -> None:
        if self.connection is not None:
            self.connection.close()
            self.connection = None


def requested_pause(response: Response) -> int:
    """Seconds; 1 for a date."""
    value = response.headers.get("retry-after", "0")
    if not (value.isascii() and value.isdigit()):
        return 1
    return min(int(value[:9]), MAX_RETRY_SECONDS)  # int() rejects thousands of digits


def reason_of(error: Exception) -> str:
    if isinstance(error, TimeoutError):
        return "no complete response in time"
    if isinstance(error, ResponseTooLong):
        return "the response is too long"
    if isinstance(error, ssl.SSLError):
        return f"TLS: {error.reason or error}".replace("_", " ")
    if isinstance(error, socket.gaierror | UnicodeError):
        return "unknown host"
    if isinstance(error, OSError) and error.strerror:
        return error.strerror
    return "connection closed" if isinstance(error, ConnectionError) else "invalid HTTP response"
