"""Rejections that the server sends without the application, in the format of the contract of their path."""

import re
from functools import lru_cache
from random import getrandbits
from urllib.parse import unquote

import httptools
import orjson
from uvicorn.protocols.http.httptools_impl import STATUS_LINE

from app.http.errors import OVERLOADED, PHRASES, error_body, legacy_error
from app.http.messages import HEADERS, JSON, NO_STORE, RETRY_AFTER, SAFE_REQUEST_ID
from app.http.paths import ROOT

ID_MARK = b"<request id>"  # replaced by the id
Headers = list[tuple[bytes, bytes]]
LEGACY = re.compile(rb"%b(?![^/?])" % ROOT.encode())
LONGEST_PATH = 2048  # bytes of a path that the body repeats
TOO_BUSY = "server overloaded"
TOO_LONG = "the headers are too long"
INVALID = "the request is not valid HTTP"
TOO_SLOW = "the request did not arrive in time"
# The same phrase in the status line as in the body, independent of the Python version.
START = STATUS_LINE | {
    status: b"HTTP/1.1 %d %b\r\n" % (status, phrase.encode()) for status, phrase in PHRASES.items()
}
EVERYWHERE = b"".join(b"%b: %b\r\n" % each for each in (JSON, NO_STORE, *HEADERS))
WAIT = b"%b: %b\r\n" % RETRY_AFTER
CLOSE = b"connection: close\r\n"


def is_legacy(target: bytes) -> bool:
    return LEGACY.match(target) is not None


def refused(
    status: int, message: str, target: bytes, headers: Headers, is_head: bool, date: Headers, closes: bool
) -> bytes:
    """The whole response. Every path outside the legacy contract gets the format of GraphQL errors."""
    request_id, path = id_of(headers), target.partition(b"?")[0]
    return request_id.join(around_id(status, message, path, tuple(date), closes, is_head, len(request_id)))


@lru_cache(256)
def around_id(
    status: int,
    message: str,
    path: bytes,
    date: tuple[tuple[bytes, bytes], ...],
    closes: bool,
    is_head: bool,
    length_of_id: int,
) -> list[bytes]:
    """The response, split where the request id goes. It is cached because an overloaded process sends the
    same response many times in the second in which its date is valid."""
    if is_legacy(path):
        body = orjson.dumps(legacy_error(status, message, path_of(path)))
    else:
        code = OVERLOADED if status == 503 else "BAD_REQUEST"
        body = orjson.dumps(error_body(message, code, ID_MARK.decode()))
    length = len(body) + body.count(ID_MARK) * (length_of_id - len(ID_MARK))
    parts = [START[status], EVERYWHERE, *(b"%b: %b\r\n" % each for each in date)]
    if status == 503:
        parts.append(WAIT)
    if closes:
        parts.append(CLOSE)
    parts.append(b"x-request-id: %b\r\ncontent-length: %d\r\n\r\n" % (ID_MARK, length))
    if not is_head:
        parts.append(body)
    return b"".join(parts).split(ID_MARK)


def id_of(headers: Headers) -> bytes:
    given = dict(headers).get(b"x-request-id")
    if given is not None and SAFE_REQUEST_ID.fullmatch(given.decode("latin-1")):
        return given
    return b"%032x" % getrandbits(128)  # token_hex makes a system call, which takes longer than the rest


def path_of(target: bytes) -> str:
    try:
        path: bytes = httptools.parse_url(target[:LONGEST_PATH]).path
    except httptools.HttpParserError:
        return ROOT
    return unquote(path.decode("latin-1"))
