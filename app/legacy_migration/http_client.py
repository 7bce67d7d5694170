"""A service that is asked over HTTP: at one address and nowhere else, redirects are not followed."""

import http.client
import socket
import ssl
import time
from collections.abc import Mapping
from dataclasses import dataclass
from urllib.parse import urlsplit

from app.legacy_migration.errors import MovingRefused

LONGEST_ANSWER = 64 * 1024 * 1024
AT_ONCE = 65536
TRIES = 5
LONGEST_PAUSE = 60  # seconds


class ServiceRefused(MovingRefused):
    """The service cannot be asked at all; the message is one sentence for the operator."""


class NoAnswer(Exception):
    """One call was not answered, or not to its end."""


@dataclass(frozen=True)
class Answer:
    status: int
    headers: Mapping[str, str]  # names in lower case; what came several times is joined
    body: bytes


@dataclass(frozen=True)
class Address:
    """Where a service is, as it was given on the command line."""

    text: str
    is_secure: bool
    host: str
    port: int
    prefix: str

    @property
    def is_readable_on_the_way(self) -> bool:
        return not self.is_secure and self.host not in ("127.0.0.1", "::1", "localhost")


def read_address(text: str) -> Address:
    try:
        url = urlsplit(text)
        port = url.port
    except ValueError:
        raise ServiceRefused(f"{text} is no address") from None
    is_plain = not (url.query or url.fragment or url.username or url.password) and is_visible(url.path)
    if url.scheme not in ("http", "https") or not url.hostname or not is_plain:
        raise ServiceRefused("an address is like https://care.example, maybe with a port and a path")
    is_secure = url.scheme == "https"
    return Address(text, is_secure, url.hostname, port or (443 if is_secure else 80), url.path.rstrip("/"))


def is_visible(path: str) -> bool:
    return path.isascii() and path.isprintable() and " " not in path


class Line:
    """A kept connection to a service; one thread uses it."""

    def __init__(self, address: Address, seconds: float) -> None:
        self.address = address
        self.seconds = seconds
        self.connection: http.client.HTTPConnection | None = None

    def ask(
        self, method: str, path: str, token: str | None, headers: Mapping[str, str], body: bytes | None
    ) -> Answer:
        """Sends a change on a new connection: after a failure of a reused one its outcome is unknown."""
        sent = {"accept": "*/*", **headers}
        if token is not None:
            sent["authorization"] = f"bearer {token}"
        if body is not None and not any(name.lower() == "content-type" for name in headers):
            sent["content-type"] = "application/json"
        if method not in ("GET", "HEAD"):
            self.close()
        was_kept = self.connection is not None
        try:
            return self.answer(method, path, sent, body)
        except (http.client.RemoteDisconnected, ConnectionError) as fault:
            self.close()
            if not was_kept:
                raise NoAnswer(reason_of(fault)) from None
        except (http.client.HTTPException, OSError) as fault:
            self.close()
            raise NoAnswer(reason_of(fault)) from None
        try:
            return self.answer(method, path, sent, body)  # the kept connection had been closed meanwhile
        except (http.client.HTTPException, OSError) as fault:
            self.close()
            raise NoAnswer(reason_of(fault)) from None

    def ask_patiently(
        self, method: str, path: str, token: str | None, headers: Mapping[str, str], body: bytes | None
    ) -> Answer:
        """A service that has no room, or gave this person enough for now, is asked again when it says."""
        for _ in range(TRIES - 1):
            answer = self.ask(method, path, token, headers, body)
            if answer.status not in (429, 503) or "retry-after" not in answer.headers:
                return answer
            time.sleep(pause_of(answer))
        return self.ask(method, path, token, headers, body)

    def answer(self, method: str, path: str, headers: Mapping[str, str], body: bytes | None) -> Answer:
        until = time.monotonic() + self.seconds
        connection = self.open()
        connection.request(method, self.address.prefix + path, body, dict(headers))
        response = connection.getresponse()
        chunks, size = [], 0
        while chunk := response.read(AT_ONCE):
            chunks.append(chunk)
            size += len(chunk)
            if size > LONGEST_ANSWER or time.monotonic() > until:
                raise TimeoutError("it does not come to an end")
        said: dict[str, str] = {}
        for name, value in response.getheaders():
            said[name.lower()] = f"{said[name.lower()]}, {value}" if name.lower() in said else value
        if response.will_close:
            self.close()
        return Answer(response.status, said, b"".join(chunks))

    def open(self) -> http.client.HTTPConnection:
        if self.connection is None:
            address = self.address
            connection: http.client.HTTPConnection
            if address.is_secure:
                connection = http.client.HTTPSConnection(address.host, address.port, timeout=self.seconds)
            else:
                connection = http.client.HTTPConnection(address.host, address.port, timeout=self.seconds)
            try:
                connection.connect()
            except (OSError, UnicodeError) as fault:
                raise ServiceRefused(f"{address.text} cannot be reached: {reason_of(fault)}") from None
            self.connection = connection
        return self.connection

    def close(self) -> None:
        if self.connection is not None:
            self.connection.close()
            self.connection = None


def reason_of(fault: Exception) -> str:
    if isinstance(fault, TimeoutError):
        return "no answer in time"
    if isinstance(fault, ssl.SSLError):
        return f"TLS: {fault.reason or fault}".replace("_", " ")
    if isinstance(fault, socket.gaierror | UnicodeError):
        return "there is no such host"
    if isinstance(fault, OSError) and fault.strerror:
        return fault.strerror
    return "the connection broke off" if isinstance(fault, ConnectionError) else "that is no HTTP"


def pause_of(answer: Answer) -> float:
    said = answer.headers["retry-after"]
    return min(int(said), LONGEST_PAUSE) if said.isascii() and said.isdigit() else 1
