"""Rejections that the server sends without the application, and the checks of a request head that the parser
does not make. A response has the format of the contract that the path belongs to."""

import re
from collections.abc import Mapping
from functools import lru_cache
from random import getrandbits
from urllib.parse import unquote

import httptools
import orjson
from uvicorn.protocols.http.httptools_impl import STATUS_LINE

from app.http.errors import OVERLOADED, PHRASES, error_body, legacy_error
from app.http.headers import JSON, NO_STORE, RETRY_AFTER, SECURITY_HEADERS
from app.http.messages import SAFE_REQUEST_ID
from app.http.paths import ROOT

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

Headers = list[tuple[bytes, bytes]]
LEGACY = re.compile(rb"%b(?![^/?])" % ROOT.encode())
MAX_PATH = 2048  # bytes of a path that the body repeats
ID_PLACEHOLDER = b"<request id>"
# The same phrase in the status line as in the body, independent of the Python version.
STATUS_LINES = STATUS_LINE | {
    status: b"HTTP/1.1 %d %b\r\n" % (status, phrase.encode()) for status, phrase in PHRASES.items()
}
COMMON_LINES = b"".join(b"%b: %b\r\n" % each for each in (JSON, NO_STORE, *SECURITY_HEADERS))

# RFC 3986, section 3.2.2: a name, an address in brackets; then a port (RFC 9110, section 7.2).
HOST = re.compile(rb"(?:(?:[A-Za-z0-9._~!$&'()*+,;=-]|%[0-9A-Fa-f]{2})*|\[[0-9A-Fa-f:.]+\])(?::[0-9]*)?")
# Headers that change neither how the request is parsed nor how it is rejected.
HEADER = (
    rb"(?:(?!content-length|transfer-encoding|connection:(?! keep-alive\r)|expect|upgrade|x-request-id)"
    rb"[a-z0-9-]+: ?[^\r\n\0]*\r\n)*+"
)
SIMPLE = re.compile(
    rb"(?-i:GET|POST|PUT) (/[!\"$-~]*) HTTP/1\.1\r\n%b(?:content-length: ?([0-9]{1,7})\r\n)?%b\r\n"
    % (HEADER, HEADER),
    re.IGNORECASE,
)


# --- checks of a head -----------------------------------------------------------------------------


def find_head_error(
    version: str, target: bytes, headers: Headers, by_name: Mapping[bytes, bytes]
) -> tuple[int, str] | None:
    """Returns the status and message of an error by RFC 9112 that the parser accepts. `by_name` has the
    last value of each header."""
    host, coding = by_name.get(b"host"), by_name.get(b"transfer-encoding")
    if not version.startswith("1."):
        return 505, "the version of HTTP must be 1.0 or 1.1"
    if host is None and version != "1.0":
        return 400, "the Host header is missing"
    if host is not None and not is_host(host):
        return 400, "the Host header is not a valid host"
    if len(by_name) != len(headers):
        names = [name for name, _ in headers]
        for name in (b"Host", b"Transfer-Encoding"):
            if names.count(name.lower()) > 1:
                return 400, f"there must be one {name.decode()} header"
    if coding is not None and version == "1.0":
        return 400, "HTTP/1.0 has no Transfer-Encoding"
    if coding is not None and coding.lower() != b"chunked":
        return 501, "the transfer coding must be chunked"
    if b"#" in target:
        return 400, "the request target must not have a fragment"
    return None


@lru_cache(256)
def is_host(value: bytes) -> bool:
    return HOST.fullmatch(value) is not None


def simple_target(data: bytes) -> bytes | None:
    """Returns the target of a complete request that can be rejected without the parser, or None."""
    found = SIMPLE.match(data)
    if found is None or len(data) - found.end() != int(found[2] or 0):
        return None
    return found[1]


# --- responses ------------------------------------------------------------------------------------


def is_legacy(target: bytes) -> bool:
    return LEGACY.match(target) is not None


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
        code = OVERLOADED if status == 503 else "BAD_REQUEST"
        body = orjson.dumps(error_body(message, code, ID_PLACEHOLDER.decode()))
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
