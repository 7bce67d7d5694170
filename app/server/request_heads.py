"""Checks of a request head beside those of the parser, and a pattern of heads that need no parser."""

import re
from collections.abc import Mapping
from functools import lru_cache
from typing import NamedTuple

Headers = list[tuple[bytes, bytes]]

# RFC 3986, section 3.2.2: a name, an address in brackets; then a port (RFC 9110, section 7.2).
HOST = re.compile(rb"(?:(?:[A-Za-z0-9._~!$&'()*+,;=-]|%[0-9A-Fa-f]{2})*|\[[0-9A-Fa-f:.]+\])(?::[0-9]*)?")
MAX_HOST = 1024  # bytes; a name has at most 253 characters. Also limits the cache
# What comes before the path in an absolute target (RFC 9112, section 3.2.2).
ORIGIN = re.compile(rb"[A-Za-z]+://[^/?#]*")
# Headers that do not change how the request is parsed.
HEADER = (
    rb"(?:(?!content-length|transfer-encoding|connection:(?! keep-alive\r)|expect|upgrade)"
    rb"[a-z0-9-]+: ?[^\r\n\0]*\r\n)*+"
)
SIMPLE = re.compile(
    rb"((?-i:GET|POST|PUT)) (/[!\"$-~]*) HTTP/1\.1\r\n%b(?:content-length: ?([0-9]{1,7})\r\n)?%b\r\n"
    % (HEADER, HEADER),
    re.IGNORECASE,
)
MAX_SIMPLE = 16 * 1024  # bytes
# In the head of a simple request.
AUTHORIZATION = re.compile(rb"\r\nauthorization: ?([^\r]*)", re.IGNORECASE)
REQUEST_ID = re.compile(rb"\r\nx-request-id: ?([^\r]*)", re.IGNORECASE)


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
    if host is not None and (len(host) > MAX_HOST or not is_host(host)):
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


def without_origin(target: bytes) -> bytes:
    """An empty path after the origin means `/` (RFC 9110, section 4.2.3)."""
    origin = None if target[:1] == b"/" else ORIGIN.match(target)
    if origin is None:
        return target
    rest = target[origin.end() :]
    return rest if rest[:1] == b"/" else b"/" + rest


@lru_cache(256)
def is_host(value: bytes) -> bool:
    return HOST.fullmatch(value) is not None


class SimpleRequest(NamedTuple):
    """A request whose body may be incomplete, and that can be rejected without the parser."""

    method: bytes
    target: bytes
    authorization: bytes | None
    headers: Headers  # for its rejection
    missing: int  # bytes of the body


def read_simple_request(data: bytes) -> SimpleRequest | None:
    """Returns None for any other request, and for more than one."""
    found = SIMPLE.match(data) if len(data) <= MAX_SIMPLE else None
    if found is None:
        return None
    head = found.end()
    missing = head + int(found[3] or 0) - len(data)
    if not 0 <= missing <= MAX_SIMPLE:
        return None
    token, request_id = AUTHORIZATION.search(data, 0, head), REQUEST_ID.search(data, 0, head)
    headers = [(b"x-request-id", request_id[1])] if request_id else []
    return SimpleRequest(found[1], found[2], token[1] if token else None, headers, missing)
