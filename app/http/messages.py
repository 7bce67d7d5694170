"""Request ids, request headers, bounded bodies and replies."""

import re
from collections.abc import Iterable
from secrets import token_hex
from typing import NamedTuple

from starlette.requests import Request
from starlette.types import Scope, Send

from app.care.rate_limits import MINUTE, Allowance
from app.telemetry.logs import REQUEST_ID

SAFE_REQUEST_ID = re.compile(r"[A-Za-z0-9._-]{1,64}")
NAMED = "named_headers"  # key in the scope: the headers as a dict, built once per request
BLANKS = b" \t"  # not part of a header value (RFC 9110, section 5.5)
JSON = (b"content-type", b"application/json")
NO_STORE = (b"cache-control", b"no-store")
RETRY_AFTER = (b"retry-after", b"1")  # beside a 503
ENCODED = "the body must not have a content encoding"
HEADERS = (  # of every response, see docs/decisions/0023
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
    (b"content-security-policy", b"default-src 'none'; frame-ancestors 'none'"),
    (b"cross-origin-opener-policy", b"same-origin"),
    (b"cross-origin-resource-policy", b"same-origin"),
)


class Reply(NamedTuple):
    """A response with a JSON body."""

    body: bytes
    status: int = 200
    headers: tuple[tuple[bytes, bytes], ...] = ()
    kind: tuple[bytes, bytes] = JSON


async def send_reply(scope: Scope, send: Send, reply: Reply, request_id: str) -> None:
    scope["state"]["status"] = reply.status  # for the metrics
    headers = [
        reply.kind,
        (b"content-length", b"%d" % len(reply.body)),
        NO_STORE,
        *reply.headers,
        (b"x-request-id", request_id.encode()),
        *scope["state"].get("headers", HEADERS),
    ]
    allowance = scope["state"].get("allowance")
    if allowance is not None:
        headers += rate_headers(allowance)
        if reply.status == 429 and not any(name == RETRY_AFTER[0] for name, _ in reply.headers):
            headers.append((RETRY_AFTER[0], b"%d" % allowance.wait))
    body = b"" if scope["method"] == "HEAD" else reply.body  # with the headers of the GET
    await send({"type": "http.response.start", "status": reply.status, "headers": headers})
    await send({"type": "http.response.body", "body": body})


def rate_headers(allowance: Allowance) -> list[tuple[bytes, bytes]]:
    """draft-ietf-httpapi-ratelimit-headers: the quota, the remainder, and the seconds until it is full."""
    left, seconds = max(0, int(allowance.left)), allowance.seconds_until_full()
    return [
        (b"ratelimit-policy", b'"default";q=%d;w=%d' % (allowance.points, MINUTE)),
        (b"ratelimit", b'"default";r=%d;t=%d' % (left, seconds)),
    ]


def header(scope: Scope, name: bytes) -> str | None:
    named = scope.get(NAMED)
    if named is None:  # most requests need several headers
        named = scope[NAMED] = by_name(scope["headers"])
    value = named.get(name)
    return None if value is None else value.decode("latin-1")


def by_name(headers: Iterable[tuple[bytes, bytes]]) -> dict[bytes, bytes]:
    """Joins the values of a repeated header (RFC 9110, section 5.2)."""
    named: dict[bytes, bytes] = {}
    for name, value in headers:
        value = value.strip(BLANKS)
        named[name] = b"%b, %b" % (named[name], value) if name in named else value
    return named


def request_id_of(scope: Scope) -> str:
    """The caller's id if well-formed, so that a request can be traced across services."""
    given = header(scope, b"x-request-id")
    id = given if given and SAFE_REQUEST_ID.fullmatch(given) else token_hex(16)
    REQUEST_ID.set(id)  # for the log
    return id


def is_encoded(scope: Scope) -> bool:
    """Encoded bodies are not supported, as a small body could expand to a huge one."""
    given = header(scope, b"content-encoding")
    return given is not None and given.lower() not in ("", "identity")


async def read_body(request: Request, most: int) -> bytes | None:
    """The body; None, without reading further, if it is longer than `most` bytes."""
    declared = request.headers.get("content-length", "")
    if re.fullmatch(r"[0-9]+", declared) and (len(declared) > 18 or int(declared) > most):
        return None
    body = bytearray()
    async for chunk in request.stream():
        body += chunk
        if len(body) > most:
            return None
    return bytes(body)
