"""Rejections that the server sends without the application, in the format of the path's contract."""

import re
from functools import lru_cache
from random import getrandbits
from urllib.parse import unquote, unquote_to_bytes

import httptools
import orjson
from uvicorn.protocols.http.httptools_impl import STATUS_LINE

from app.http.errors import PHRASES, Failure, error_body, legacy_error
from app.http.messages import JSON, NO_STORE, RETRY_AFTER, SAFE_REQUEST_ID, SECURITY_HEADERS
from app.http.paths import ROOT, path_name
from app.server.request_heads import Headers
from app.telemetry import counters

OVERLOADED_MESSAGE = "server overloaded"
HEADERS_TOO_LONG = "the headers are too long"
TARGET_TOO_LONG = "the request target is too long"
NOT_HTTP = "the request is not valid HTTP"
TIMED_OUT = "the request did not arrive in time"
# The label of each limit in metrics, by the message of the rejection; all other messages are INVALID_HTTP.
LIMITS = {
    OVERLOADED_MESSAGE: "requests at once",
    HEADERS_TOO_LONG: "bytes of headers",
    TARGET_TOO_LONG: "bytes of a request target",
    TIMED_OUT: "seconds to arrive",
}
INVALID_HTTP = "invalid HTTP"

LEGACY = re.compile(rb"/*%b(?![^/])" % ROOT.encode())
MAX_PATH = 2048  # bytes of a path that the body repeats
ID_PLACEHOLDER = b"<request id>"
# The same phrase in the status line as in the body, independent of the Python version.
STATUS_LINES = STATUS_LINE | {
    status: b"HTTP/1.1 %d %b\r\n" % (status, phrase.encode()) for status, phrase in PHRASES.items()
}
COMMON_LINES = b"".join(b"%b: %b\r\n" % each for each in (JSON, NO_STORE, *SECURITY_HEADERS))


def is_legacy(target: bytes) -> bool:
    path = target.partition(b"?")[0]
    return LEGACY.match(unquote_to_bytes(path) if b"%" in path else path) is not None


def count_rejection(limit: str, method: bytes, target: bytes) -> None:
    counters.limits[limit] += 1
    if is_legacy(target):
        verb = "GET" if method == b"HEAD" else method.decode("latin-1")
        if name := path_name(verb, target.decode("latin-1")):
            counters.turned_away[name] += 1


def rejection(
    status: int, message: str, target: bytes, headers: Headers, is_head: bool, date: Headers, closes: bool
) -> bytes:
    """The complete response. A path outside the legacy contract gets the format of GraphQL errors."""
    request_id, path = id_of(headers), target[:MAX_PATH].partition(b"?")[0]
    parts = rejection_around_id(status, message, path, tuple(date), closes, is_head, len(request_id))
    return request_id.join(parts)


@lru_cache(256)
def rejection_around_id(
    status: int,
    message: str,
    path: bytes,
    date: tuple[tuple[bytes, bytes], ...],
    closes: bool,
    is_head: bool,
    id_length: int,
) -> list[bytes]:
    """The response, split where the request id goes. It is cached because an overloaded process sends the
    same response many times in the second in which its date is valid."""
    if is_legacy(path):
        body = orjson.dumps(legacy_error(status, message, path_of(path)))
    else:
        failure = Failure.OVERLOADED if status == 503 else Failure.MALFORMED
        body = orjson.dumps(error_body(message, failure, ID_PLACEHOLDER.decode()))
    length = len(body) + body.count(ID_PLACEHOLDER) * (id_length - len(ID_PLACEHOLDER))
    headers = [*date, (b"x-request-id", ID_PLACEHOLDER), (b"content-length", b"%d" % length)]
    if status == 503:
        headers.append(RETRY_AFTER)
    if closes:
        headers.append((b"connection", b"close"))
    lines = b"".join(b"%b: %b\r\n" % each for each in headers)
    head = STATUS_LINES[status] + COMMON_LINES + lines + b"\r\n"
    return (head if is_head else head + body).split(ID_PLACEHOLDER)


def id_of(headers: Headers) -> bytes:
    given = dict(headers).get(b"x-request-id")
    if given is not None and SAFE_REQUEST_ID.fullmatch(given.decode("latin-1")):
        return given
    return b"%032x" % getrandbits(128)  # token_hex makes a system call, which takes longer than the rest


def path_of(target: bytes) -> str:
    try:
        path: bytes = httptools.parse_url(target).path
    except httptools.HttpParserError:
        return ROOT
    return unquote(path.decode("latin-1"))
