"""CORS and security headers."""

import logging
import re
from collections.abc import Iterable
from time import monotonic

from starlette.types import Message, Scope, Send

from app.http.messages import HEADERS, NO_STORE, header, request_id_of
from app.settings import ORIGIN

logger = logging.getLogger("care.cors")

LOOPBACK = re.compile(r"https?://(?:localhost|127\.0\.0\.1|\[::1\])(?::[0-9]{1,5})?")
REQUESTED_METHOD = b"access-control-request-method"
ALLOWED_HEADERS = (
    b"authorization, content-type, idempotency-key, x-request-id, offset, "
    # Sent by clients and tracing libraries by default.
    b"apollographql-client-name, apollographql-client-version, apollo-require-preflight, "
    b"traceparent, tracestate, baggage, sentry-trace"
)
EXPOSED_HEADERS = b"X-Request-Id, Retry-After, RateLimit, RateLimit-Policy, Idempotency-Replayed"
PREFLIGHT_SECONDS = b"7200"  # the maximum in browsers
MOST_LOGGED = 20  # origins per hour, so that clients cannot fill the log
LONGEST_LOGGED = 260  # a scheme, the longest host name, and a port
HOUR = 3600


class AllowedOrigins:
    """The origins whose pages may read responses and open websockets. There are no cookies, so no request
    carries credentials automatically."""

    def __init__(self, origins: Iterable[str], loopback: bool = False) -> None:
        self.named = tuple(origins)
        self.loopback = loopback  # any port of localhost, for development servers
        self.is_open = loopback or bool(self.named)
        self.headers = {origin: headers_for(origin) for origin in self.named}
        self.log = OriginLog()

    def headers_of(self, origin: str) -> tuple[tuple[bytes, bytes], ...] | None:
        """None if the origin is not allowed."""
        if self.loopback and origin not in self.headers and LOOPBACK.fullmatch(origin):
            return headers_for(origin)
        return self.headers.get(origin)

    def set_headers(self, scope: Scope) -> None:
        """Sets the headers of the response to this request."""
        origin = header(scope, b"origin")
        if origin is not None:
            scope["state"]["headers"] = self.headers_of(origin) or VARY
        elif self.named:
            scope["state"]["headers"] = VARY

    def allows(self, origin: str, what: str) -> bool:
        """Logs the origin if it is not allowed."""
        is_allowed = self.headers_of(origin) is not None
        if not is_allowed:
            self.log.add(origin, what)
        return is_allowed


VARY = (*HEADERS, (b"vary", b"Origin"))


def headers_for(origin: str) -> tuple[tuple[bytes, bytes], ...]:
    allowed = (b"access-control-allow-origin", origin.encode())
    return (*VARY, allowed, (b"access-control-expose-headers", EXPOSED_HEADERS))


class OriginLog:
    """Logs each rejected origin once per hour, up to a limit."""

    def __init__(self) -> None:
        self.logged: set[tuple[str, str]] = set()
        self.since = monotonic()

    def add(self, origin: str, what: str) -> None:
        if monotonic() - self.since > HOUR:
            self.logged.clear()
            self.since = monotonic()
        # A malformed origin can contain anything, such as a token.
        is_origin = origin == "null" or (len(origin) <= LONGEST_LOGGED and ORIGIN.fullmatch(origin))
        line = (origin if is_origin else "(malformed)", what)
        if line not in self.logged and len(self.logged) < MOST_LOGGED:
            self.logged.add(line)
            logger.warning("refused %s from origin %s, which is not in CARE_CORS_ORIGINS", what, line[0])


def is_preflight(scope: Scope) -> bool:
    return (
        scope["method"] == "OPTIONS"
        and header(scope, b"origin") is not None
        and header(scope, REQUESTED_METHOD) is not None
    )


async def send_preflight(scope: Scope, send: Send, methods: bytes) -> None:
    scope["state"]["status"] = 204
    headers = [
        NO_STORE,
        (b"access-control-allow-methods", methods),
        (b"access-control-allow-headers", ALLOWED_HEADERS),
        (b"access-control-max-age", PREFLIGHT_SECONDS),
        (b"x-request-id", request_id_of(scope).encode()),
        *scope["state"]["headers"],
    ]
    await send({"type": "http.response.start", "status": 204, "headers": headers})
    await send({"type": "http.response.body", "body": b""})


def with_headers(scope: Scope, send: Send) -> Send:
    """Adds the default headers that a response does not have."""

    async def send_with_headers(message: Message) -> None:
        if message["type"] == "http.response.start":
            scope["state"]["status"] = message["status"]
            headers = list(message.get("headers", ()))
            names = {name.lower() for name, _ in headers}
            defaults = (NO_STORE, *scope["state"].get("headers", HEADERS))
            message = {**message, "headers": [*headers, *(each for each in defaults if each[0] not in names)]}
        await send(message)

    return send_with_headers
