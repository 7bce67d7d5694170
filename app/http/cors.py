"""CORS: which origins may call the service, and preflight requests."""

import logging
import re
from collections.abc import Iterable
from time import monotonic

from starlette.types import Scope, Send

from app.http.messages import NO_STORE, SECURITY_HEADERS, Headers, header, request_id_of
from app.settings import ORIGIN

logger = logging.getLogger("care.cors")

LOCAL_HOST = r"(?:localhost|127\.0\.0\.1|\[::1\])(?::[0-9]{1,5})?"
LOOPBACK = re.compile(f"https?://{LOCAL_HOST}")
ALLOWED_HEADERS = (
    b"authorization, content-type, idempotency-key, x-request-id, offset, "
    # Sent by clients and tracing libraries by default.
    b"apollographql-client-name, apollographql-client-version, apollo-require-preflight, "
    b"traceparent, tracestate, baggage, sentry-trace"
)
EXPOSED_HEADERS = b"X-Request-Id, Retry-After, RateLimit, RateLimit-Policy, Idempotency-Replayed"
PREFLIGHT_SECONDS = b"7200"  # the maximum in browsers
MAX_LOGGED_ORIGINS = 20  # per hour, so that clients cannot fill the log
MAX_ORIGIN_LENGTH = 260  # a scheme, the longest host name, and a port
HOUR = 3600
VARY = (*SECURITY_HEADERS, (b"vary", b"Origin"))


class AllowedOrigins:
    """The origins whose pages may read responses and open websockets. The service uses no cookies, so
    browsers add no credentials to requests."""

    def __init__(self, origins: Iterable[str], loopback: bool = False) -> None:
        self.origins = tuple(origins)
        self.loopback = loopback  # any port of localhost, for development servers
        self.is_enabled = loopback or bool(self.origins)
        self.headers = {origin: headers_for(origin) for origin in self.origins}
        self.logged: set[tuple[str, str]] = set()
        self.logged_since = monotonic()

    def headers_of(self, origin: str) -> Headers | None:
        """None if the origin is not allowed."""
        if self.loopback and origin not in self.headers and LOOPBACK.fullmatch(origin):
            return headers_for(origin)
        return self.headers.get(origin)

    def set_headers(self, scope: Scope) -> None:
        """Sets the headers of the response to this request."""
        origin = header(scope, b"origin")
        if origin is not None:
            scope["state"]["headers"] = self.headers_of(origin) or VARY
        elif self.origins:
            scope["state"]["headers"] = VARY

    def allows(self, origin: str, action: str) -> bool:
        """Whether the origin is allowed. Logs it if not; `action` is what the page tried."""
        is_allowed = self.headers_of(origin) is not None
        if not is_allowed:
            self.log_rejection(origin, action)
        return is_allowed

    def log_rejection(self, origin: str, action: str) -> None:
        """Logs each origin once per hour, up to a limit."""
        if monotonic() - self.logged_since > HOUR:
            self.logged.clear()
            self.logged_since = monotonic()
        # A malformed origin can contain anything, such as a token.
        is_origin = origin == "null" or (len(origin) <= MAX_ORIGIN_LENGTH and ORIGIN.fullmatch(origin))
        line = (origin if is_origin else "(malformed)", action)
        if line not in self.logged and len(self.logged) < MAX_LOGGED_ORIGINS:
            self.logged.add(line)
            logger.warning("rejected %s from origin %s, which is not in CARE_CORS_ORIGINS", action, line[0])


def headers_for(origin: str) -> Headers:
    allowed = (b"access-control-allow-origin", origin.encode())
    return (*VARY, allowed, (b"access-control-expose-headers", EXPOSED_HEADERS))


def is_preflight(scope: Scope) -> bool:
    return (
        scope["method"] == "OPTIONS"
        and header(scope, b"origin") is not None
        and header(scope, b"access-control-request-method") is not None
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
