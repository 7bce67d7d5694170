"""Requests and replies of both contracts: headers, request ids, body limits, JSON responses."""

import re
from collections.abc import Iterable
from random import getrandbits
from typing import Any, NamedTuple

import orjson
from starlette.requests import ClientDisconnect
from starlette.types import Message, Receive, Scope, Send

from app.care.budgets import KIB, MINUTE, Budget
from app.telemetry.logs import REQUEST_ID

Headers = tuple[tuple[bytes, bytes], ...]

JSON = (b"content-type", b"application/json")
NO_STORE = (b"cache-control", b"no-store")
RETRY_AFTER = (b"retry-after", b"1")  # seconds; with every 503, and with a 409 for a key in use
HEADERS_OF_ERROR = {401: ((b"www-authenticate", b"Bearer"),), 503: (RETRY_AFTER,)}  # by status
SECURITY_HEADERS = (  # of every response, see docs/decisions/0023
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
    (b"content-security-policy", b"default-src 'none'; frame-ancestors 'none'"),
    (b"cross-origin-opener-policy", b"same-origin"),
    (b"cross-origin-resource-policy", b"same-origin"),
)

SAFE_REQUEST_ID = re.compile(r"[A-Za-z0-9._-]{1,64}")
HEADERS_BY_NAME = "headers_by_name"  # key of the scope: the headers as a dict, built when first needed
ENCODED = "the body must not have a content encoding"


class NotEnoughMemory(Exception):
    """The request cannot be parsed now; a retry may succeed."""

    def __init__(self) -> None:
        super().__init__("the server has not enough memory to parse the request; nothing was changed")


class Reply(NamedTuple):
    """A response with a JSON body."""

    body: bytes
    status: int = 200
    headers: Headers = ()
    content_type: tuple[bytes, bytes] = JSON


async def send_reply(scope: Scope, send: Send, reply: Reply, request_id: str) -> None:
    scope["state"]["status"] = reply.status  # for the metrics
    headers = [
        reply.content_type,
        (b"content-length", b"%d" % len(reply.body)),
        NO_STORE,
        *reply.headers,
        (b"x-request-id", request_id.encode()),
        *scope["state"].get("headers", SECURITY_HEADERS),
    ]
    budget = scope["state"].get("budget")
    if budget is not None:
        budget.charge(len(reply.body) // KIB, needed=0)  # also of a HEAD, whose body was made
        headers += rate_limit_headers(budget)
        if reply.status == 429 and not any(name == RETRY_AFTER[0] for name, _ in reply.headers):
            headers.append((RETRY_AFTER[0], b"%d" % budget.wait))
    body = b"" if scope["method"] == "HEAD" else reply.body  # a HEAD has the headers of a GET
    await send({"type": "http.response.start", "status": reply.status, "headers": headers})
    await send({"type": "http.response.body", "body": body})


def rate_limit_headers(budget: Budget | None) -> list[tuple[bytes, bytes]]:
    """draft-ietf-httpapi-ratelimit-headers: the quota, the remainder, and the seconds until it is full."""
    if budget is None or not budget.points:
        return []
    left, seconds = max(0, int(budget.left)), budget.seconds_until_full()
    return [
        (b"ratelimit-policy", b'"default";q=%d;w=%d' % (budget.points, MINUTE)),
        (b"ratelimit", b'"default";r=%d;t=%d' % (left, seconds)),
    ]


def with_default_headers(scope: Scope, send: Send) -> Send:
    """Adds the default headers that a response does not have."""

    async def send_with_headers(message: Message) -> None:
        if message["type"] == "http.response.start":
            scope["state"]["status"] = message["status"]
            headers = list(message.get("headers", ()))
            names = {name.lower() for name, _ in headers}
            defaults = (NO_STORE, *scope["state"].get("headers", SECURITY_HEADERS))
            message = {**message, "headers": [*headers, *(each for each in defaults if each[0] not in names)]}
        await send(message)

    return send_with_headers


def header(scope: Scope, name: bytes) -> str | None:
    by_name = scope.get(HEADERS_BY_NAME)
    if by_name is None:
        by_name = scope[HEADERS_BY_NAME] = join_repeated(scope["headers"])
    value = by_name.get(name)
    return None if value is None else value.decode("latin-1")


def join_repeated(headers: Iterable[tuple[bytes, bytes]]) -> dict[bytes, bytes]:
    """Joins the values of a repeated header (RFC 9110, section 5.2). The server has removed blanks around
    them."""
    by_name: dict[bytes, bytes] = {}
    for name, value in headers:
        by_name[name] = b"%b, %b" % (by_name[name], value) if name in by_name else value
    return by_name


def request_id_of(scope: Scope) -> str:
    """The caller's id if it is well-formed, so that a request can be followed across services."""
    given = header(scope, b"x-request-id")
    # token_hex makes a system call, which takes longer than the rest.
    id = given if given and SAFE_REQUEST_ID.fullmatch(given) else f"{getrandbits(128):032x}"
    REQUEST_ID.set(id)  # for the log
    return id


def parse_json(text: str | bytes) -> Any:
    """Raises NotEnoughMemory where the library calls a lack of memory invalid JSON."""
    try:
        return orjson.loads(text)
    except orjson.JSONDecodeError as fault:
        if fault.msg.startswith("Not enough memory"):
            raise NotEnoughMemory from fault
        raise


def is_encoded(scope: Scope) -> bool:
    """Whether the body is compressed. That is rejected, because a small body could expand to a huge one."""
    encoding = header(scope, b"content-encoding")
    return encoding is not None and encoding.lower() not in ("", "identity")


async def wait_writable(scope: Scope) -> None:
    """Waits until the client has accepted most of what was sent. Called before a part of a stream is made, so
    that no parts are kept in memory for clients that do not read."""
    flow = scope["state"].get("flow")  # set by `serve` only
    if flow is not None:
        await flow.drain()


async def read_body(scope: Scope, receive: Receive, limit: int) -> bytes | None:
    """Returns the body. Stops reading and returns None if it is longer than `limit` bytes."""
    declared = header(scope, b"content-length")
    if declared and declared.isdecimal() and (len(declared) > 18 or int(declared) > limit):
        return None
    body, has_more = bytearray(), True
    while has_more:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise ClientDisconnect
        body += message.get("body", b"")
        if len(body) > limit:
            return None
        has_more = message.get("more_body", False)
    return bytes(body)
