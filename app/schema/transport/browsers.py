"""What every answer tells browsers: not to keep, guess, embed or pass it on, and which pages may read it."""

from collections.abc import Iterable

from starlette.types import Message, Scope, Send

from app.schema.transport.http import HEADERS, NO_STORE, header, request_id_of

ASKED = b"access-control-request-method"
SENT = (
    b"authorization, content-type, idempotency-key, x-request-id, offset, "
    b"apollographql-client-name, apollographql-client-version"  # nobody reads these, but Apollo sends them
)
SHOWN = b"X-Request-Id, Retry-After, RateLimit, RateLimit-Policy, Idempotency-Replayed"
PREFLIGHT_SECONDS = b"7200"  # browsers keep it for no longer


class AllowedOrigins:
    """The pages of other sites that may read answers. There are no cookies, so nothing is sent unasked."""

    def __init__(self, origins: Iterable[str]) -> None:
        vary = (*HEADERS, (b"vary", b"Origin"))
        self.others = vary
        self.headers = {
            origin: (
                *vary,
                (b"access-control-allow-origin", origin.encode()),
                (b"access-control-expose-headers", SHOWN),
            )
            for origin in origins
        }

    def asked_first(self, scope: Scope) -> bool:
        """Whether a browser only asks if a page may ask. Notes what any answer says."""
        allowed = self.headers.get(header(scope, b"origin") or "")
        scope["state"]["headers"] = allowed or self.others
        return allowed is not None and scope["method"] == "OPTIONS" and header(scope, ASKED) is not None


async def send_preflight(scope: Scope, send: Send, methods: bytes) -> None:
    scope["state"]["status"] = 204
    headers = [
        NO_STORE,
        (b"access-control-allow-methods", methods),
        (b"access-control-allow-headers", SENT),
        (b"access-control-max-age", PREFLIGHT_SECONDS),
        (b"x-request-id", request_id_of(scope).encode()),
        *scope["state"]["headers"],
    ]
    await send({"type": "http.response.start", "status": 204, "headers": headers})
    await send({"type": "http.response.body", "body": b""})


def with_headers(scope: Scope, send: Send) -> Send:
    """For answers that others made: what they do not say themselves is added."""

    async def send_with_headers(message: Message) -> None:
        if message["type"] == "http.response.start":
            scope["state"]["status"] = message["status"]
            said = list(message.get("headers", ()))
            names = {name.lower() for name, _ in said}
            standing = (NO_STORE, *scope["state"].get("headers", HEADERS))
            message = {**message, "headers": [*said, *(each for each in standing if each[0] not in names)]}
        await send(message)

    return send_with_headers
