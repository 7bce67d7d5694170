"""Answers that are written before the application is asked, in the shape of the contract they belong to."""

import re
from functools import lru_cache
from secrets import token_hex
from urllib.parse import unquote

import httptools
import orjson
from uvicorn.protocols.http.httptools_impl import STATUS_LINE

from app.paths import ROOT
from app.rest_compat.errors import PHRASES, error_body
from app.schema.errors import OVERLOADED, shape_of_error
from app.schema.transport.http import HEADERS, JSON, NO_STORE, RETRY_AFTER, SAFE_REQUEST_ID

PLACE = b"<request id>"  # where the id will stand
Headers = list[tuple[bytes, bytes]]
LEGACY = re.compile(rb"%b(?![^/?])" % ROOT.encode())
LONGEST_PATH = 2048  # that is said again
TOO_BUSY = "the service has too much to do"
TOO_LONG = "the headers are too long"
INVALID = "the request is not valid HTTP"
TOO_SLOW = "the request did not arrive in time"
# A refusal's first line says what its body says, whatever newer Pythons call it.
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
    """The whole answer, for as much of a request as is known. GraphQL's shape is that of every other path."""
    request_id = id_of(headers)
    head, body = all_but_the_id(status, message, target.partition(b"?")[0], tuple(date), closes)
    body = body.replace(PLACE, request_id)
    said = b"%bx-request-id: %b\r\ncontent-length: %d\r\n\r\n" % (head, request_id, len(body))
    return said if is_head else said + body


@lru_cache(256)
def all_but_the_id(
    status: int, message: str, path: bytes, date: tuple[tuple[bytes, bytes], ...], closes: bool
) -> tuple[bytes, bytes]:
    """Head and body. The date changes every second, and the time in the body with it: those who are many ask
    for the same, and it is when there is too much to do that an answer must cost little."""
    if is_legacy(path):
        body = orjson.dumps(error_body(status, message, path_of(path)))
    else:
        code = OVERLOADED if status == 503 else "BAD_REQUEST"
        body = orjson.dumps(shape_of_error(message, code, PLACE.decode()))
    said = [START[status], EVERYWHERE, *(b"%b: %b\r\n" % each for each in date)]
    if status == 503:
        said.append(WAIT)
    if closes:
        said.append(CLOSE)
    return b"".join(said), body


def id_of(headers: Headers) -> bytes:
    given = dict(headers).get(b"x-request-id")
    if given is not None and SAFE_REQUEST_ID.fullmatch(given.decode("latin-1")):
        return given
    return token_hex(16).encode()


def path_of(target: bytes) -> str:
    try:
        path: bytes = httptools.parse_url(target[:LONGEST_PATH]).path
    except httptools.HttpParserError:
        return ROOT
    return unquote(path.decode("latin-1"))
