"""Bytes that are hardly HTTP: malformed request lines, headers, lengths, chunks and frames."""

from tests import keys
from tests.rest_compat.legacy import ASSIGNMENTS

TOKEN = keys.token("CAREGIVER", "caregiver-1").encode()
GET = f"GET {ASSIGNMENTS}/1 HTTP/1.1\r\nHost: a\r\n".encode()
PUT = f"PUT {ASSIGNMENTS} HTTP/1.1\r\nHost: a\r\nAuthorization: bearer ".encode() + TOKEN + b"\r\n"
POST = (
    b"POST /graphql HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\nAuthorization: bearer "
    + TOKEN
    + b"\r\n"
)
UPGRADE = b"GET /graphql HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"
KEY = (
    b"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n"
    b"Sec-WebSocket-Protocol: graphql-transport-ws\r\n"
)

LINES = [
    *(
        b"",
        b"\r\n" * 50,
        b"\x00",
        b"\xff" * 100,
        b"GET",
        b"GET \r\n\r\n",
        b"GET / \r\n\r\n",
        b"GET /gateway HTTP/9.9\r\n\r\n",
    ),
    *(
        b"GET /gateway HTTP/1.1",
        b"get /gateway HTTP/1.1\r\n\r\n",
        b"GET  /gateway  HTTP/1.1\r\n\r\n",
        b"\x16\x03\x01\x02\x00\x01\x00",
    ),
    *(
        b"GET gateway HTTP/1.1\r\n\r\n",
        b"GET * HTTP/1.1\r\n\r\n",
        b"GET http://a:b/c HTTP/1.1\r\n\r\n",
        b"CONNECT a:1 HTTP/1.1\r\n\r\n",
    ),
    *(
        b"GET //gateway/%00 HTTP/1.1\r\nHost: a\r\n\r\n",
        b"GET /gateway/\x00 HTTP/1.1\r\n\r\n",
        b"GET /gateway/\xff\xfe HTTP/1.1\r\n\r\n",
    ),
    *(
        b"GET /gateway/\xc3\xa9 HTTP/1.1\r\nHost: a\r\n\r\n",
        b"GET /gateway?\xff=\x00 HTTP/1.1\r\n\r\n",
        b"GET /gateway#x HTTP/1.1\r\n\r\n",
    ),
    *(
        b"GET /gateway%zz HTTP/1.1\r\nHost: a\r\n\r\n",
        b"GET [::1 HTTP/1.1\r\n\r\n",
        b"GET /gateway/" + b"a" * 70000 + b" HTTP/1.1\r\n\r\n",
    ),
    *(
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
        b"X" * 70000,
        b"OPTIONS * HTTP/1.1\r\nHost: a\r\n\r\n",
        b"TRACE /gateway HTTP/1.1\r\n\r\n",
    ),
]
HEADERS = [
    GET + line + b"\r\n\r\n"
    for line in (
        *(
            b": a",
            b"a",
            b"a :b",
            b" a: b",
            b"a\x00b: c",
            b"a: \x00",
            b"a: \xff\xfe",
            b"a: b\nc: d",
            b"a: b\rc: d",
            b"\xff: a",
            b"a: b\r\n c",
        ),
        *(
            b"Host: b",
            b"Host: \xff",
            b"Authorization: \xff",
            b"Authorization: bearer \x01",
            b"a: " + b"b" * 70000,
            b"a: b\r\n" * 2000,
        ),
        *(
            b"Content-Length: -1",
            b"Content-Length: a",
            b"Content-Length: 1e3",
            b"Content-Length: " + b"9" * 40,
            b"Content-Length: 1, 2",
        ),
        *(
            b"Content-Length: 0\r\nContent-Length: 5",
            b"Transfer-Encoding: nothing",
            b"Transfer-Encoding: chunked, chunked",
            b"Expect: 200-ok",
        ),
        *(
            b"Upgrade: h2c\r\nConnection: Upgrade, HTTP2-Settings",
            b"Connection: \xff",
            b"X-Request-Id: \x7f",
            b"X-Forwarded-For: \xff, 1",
        ),
        *(
            b"Upgrade: websocket\r\nConnection: Upgrade",
            b"Cookie: " + b"a=b;" * 5000,
            b"Accept: \x80",
            b"Expect: 100-continue",
        ),
    )
]
CHUNKED = b"Transfer-Encoding: chunked\r\n\r\n"
BODIES = [
    start + body
    for start in (PUT, POST)
    for body in (
        *(
            CHUNKED + chunk
            for chunk in (
                b"",
                b"\r\n",
                b"0",
                b"0\r\n",
                b"-1\r\n",
                b"g\r\nx",
                b"5\r\nab\r\n0\r\n\r\n",
                b"ffffffffffffffffff\r\nab",
            )
        ),
        *(
            CHUNKED + chunk
            for chunk in (
                b"2;a=\xff\r\n{}\r\n0\r\n\r\n",
                b"2\r\n{}\r\n0\r\nX: \xff\r\n\r\n",
                b"2\r\n{}0\r\n\r\n",
                b"\x002\r\n{}\r\n",
            )
        ),
        *(
            CHUNKED + chunk
            for chunk in (
                b"1\r\n{\r\n" * 300 + b"0\r\n\r\n",
                b"2" + b";" * 70000,
                b"0" * 70000,
                b"7fffffffffffffff\r\n{}",
            )
        ),
        *(
            b"Content-Length: 2\r\n\r\n{}{}{}",
            b"Content-Length: 200\r\n\r\n{}",
            b"Content-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        ),
        *(
            b"Content-Length: 3\r\n\r\n\xff\xff\xff",
            b"Content-Encoding: gzip\r\nContent-Length: 2\r\n\r\n\x1f\x8b",
            b"\r\n",
            b"\r\n{}",
        ),
    )
]
SOCKETS = [
    UPGRADE + rest
    for rest in (
        *(
            b"\r\n",
            b"Sec-WebSocket-Version: 99\r\n\r\n",
            b"Sec-WebSocket-Key: \xff\r\nSec-WebSocket-Version: 13\r\n\r\n",
            KEY + KEY + b"\r\n",
        ),
        *(
            KEY + b"\r\n" + frame
            for frame in (
                b"\x81\x00",
                b"\x81\x82\x00\x00\x00\x00{}",
                b"\xff\xff",
                b"\x88\x80\x00\x00\x00\x00",
                b"\x81\xff" + b"\xff" * 8,
            )
        ),
        *(
            KEY + b"\r\n" + frame
            for frame in (
                b"\x82\x81\x00\x00\x00\x00\xff",
                b"\x81\x81\x00\x00\x00\x00\xff",
                b"\x00\x80\x00\x00\x00\x00",
                b"\xc1\x80\x00\x00\x00\x00",
            )
        ),
        KEY + b"Sec-WebSocket-Extensions: permessage-deflate; \xff\r\n\r\n",
    )
]
RIGHT = GET + b"Authorization: bearer " + TOKEN + b"\r\n\r\n"
SENT = [*LINES, *HEADERS, *BODIES, *SOCKETS]
