"""Readers of bytes and texts from callers: whatever they get, they return a value that means the same when it
is written again, or reject it with their own error."""

import base64
import json
from collections.abc import Callable
from datetime import UTC
from pathlib import Path
from typing import Any

import httptools
import pytest
from graphql import GraphQLError
from hypothesis import given
from hypothesis import strategies as st

from app.care.errors import InvalidValue
from app.care.sessions import ORDERS
from app.db.interchange.import_format import LineRejected
from app.db.tables import MAX_ID, Session
from app.engine.limits import Limits, count_within, parse_within
from app.schema.types.lists import read_cursor
from app.schema.types.scalars import global_id, read_global_id, read_moment, read_number, write_moment
from app.server.protocol import new_parser
from app.server.request_heads import find_head_error, read_simple_request
from moving_over.recorded_calls import Call, read_call
from tests.fuzz.counts import SOAK_READERS, short, soak

Check = Callable[[Any], None]


def spliced(pieces: list[Any], of: Any) -> st.SearchStrategy[Any]:
    """Pieces in any order, often those of a valid value in theirs."""
    return st.lists(st.sampled_from(pieces) | of, max_size=12).map(type(pieces[0])().join)


# --- heads of requests ------------------------------------------------------------------------------

LINES = [
    *(
        b"host: care\r\n",
        b"Host: [::1]:80\r\n",
        b"authorization: bearer x\r\n",
        b"x-y:\r\n",
        b"accept: */*\r\n",
    ),
    *(
        b"content-length: 3\r\n",
        b"content-length:3\r\n",
        b"Content-Length:  3\r\n",
        b"content-length: +3\r\n",
    ),
    *(b"content-length : 3\r\n", b"content-length: 3\r\ncontent-length: 4\r\n", b"content-length: 3,3\r\n"),
    *(
        b"transfer-encoding: chunked\r\n",
        b"Transfer-Encoding:chunked\r\n",
        b"transfer-encoding : chunked\r\n",
    ),
    *(
        b"connection: keep-alive\r\n",
        b"connection: close\r\n",
        b"connection: upgrade\r\n",
        b"upgrade: h2c\r\n",
    ),
    *(b"expect: 100-continue\r\n", b" folded\r\n", b"x: a\n", b"x: a\rb\r\n", b"x: \x00\r\n", b"x: \xff\r\n"),
]
STARTS = [
    *(
        b"GET / HTTP/1.1\r\n",
        b"POST /graphql HTTP/1.1\r\n",
        b"PUT /a?b=c HTTP/1.1\r\n",
        b"get / HTTP/1.1\r\n",
    ),
    *(b"GET /#a HTTP/1.1\r\n", b"GET / HTTP/1.0\r\n", b"GET * HTTP/1.1\r\n", b"GET /\x7f HTTP/1.1\r\n"),
]
HEADS = st.builds(
    lambda start, lines, end, body: start + lines + end + body,
    st.sampled_from(STARTS),
    spliced(LINES, st.binary(max_size=6)),
    st.sampled_from([b"\r\n", b"\r\n", b"\r\n", b"\n", b""]),
    st.sampled_from([b"", b"abc", b"abcd", b"3\r\nabc\r\n0\r\n\r\n", b"GET / HTTP/1.1\r\n\r\n"]),
)


class Parsed:
    """What the parser finds in the bytes of one read."""

    def __init__(self, data: bytes) -> None:
        self.url, self.headers = b"", list[tuple[bytes, bytes]]()
        self.begun = self.ended = 0
        self.is_rejected = False
        self.parser = new_parser(self)  # type: ignore[arg-type]
        try:
            self.parser.feed_data(data)
        except httptools.HttpParserError:
            self.is_rejected = True

    def on_message_begin(self) -> None:
        self.begun += 1

    def on_url(self, url: bytes) -> None:
        self.url += url

    def on_header(self, name: bytes, value: bytes) -> None:
        self.headers.append((name.lower(), value))

    def on_message_complete(self) -> None:
        self.ended += 1


def check_head(data: bytes) -> None:
    """A request that is rejected without the parser is one request for the parser too, as complete."""
    parsed, request = Parsed(data), read_simple_request(data)
    if request is not None and not parsed.is_rejected:
        assert (parsed.begun, parsed.ended, parsed.url) == (1, not request.missing, request.target)
        assert parsed.parser.get_method() == request.method
        assert parsed.parser.should_keep_alive() and not parsed.parser.should_upgrade()
    error = find_head_error(
        parsed.parser.get_http_version() if parsed.begun else "1.1",
        parsed.url,
        parsed.headers,
        dict(parsed.headers),
    )
    assert error is None or error[0] in (400, 501, 505)


# --- ids, cursors, moments --------------------------------------------------------------------------

PIECES = [
    *(
        "Session",
        "Assignment",
        ":",
        "::",
        "1",
        "01",
        "+1",
        "-1",
        " 1",
        "1_0",
        "٣",
        str(MAX_ID),
        str(MAX_ID + 1),
    ),
    *("before", "STARTS_SOONEST", "2026-11-21T09:00:00.000000Z", "0001-01-01T00:00:00.000000Z", "2026-11-21"),
    *("2026-11-21T09:00:00", "0001-01-01T00:00:00+14:00", "9999-12-31T23:59:59-14:00", "\0", "\n", "é"),
    *("2026-W47", "T09:00:00Z", "24:00:00", ".123456789", "z", "t", "+23:59", "+00:00:01"),
]
TEXTS = spliced(PIECES, st.text(max_size=3))
ENCODED = TEXTS.map(lambda text: base64.b64encode(text.encode("utf-8", "surrogatepass")).decode())
IDS = TEXTS | ENCODED | st.tuples(ENCODED, st.sampled_from(["=", "\n", "A", "=="])).map("".join)


def check_id(text: str) -> None:
    number, found = read_number(text), read_global_id(text)
    assert number is None or (str(number) == text and 0 <= number <= MAX_ID) or text[0] == "0"
    assert found is None or (global_id(*found) == text and 0 <= found[1] <= MAX_ID)


def check_cursor(text: str) -> None:
    """A position can be compared with stored moments of either database."""
    for order in (None, *ORDERS.values()):
        try:
            found = read_cursor(text, Session, order)
        except InvalidValue:
            continue
        if isinstance(found, tuple):
            moment, found = found
            assert moment.astimezone(UTC) == moment
        assert 0 <= found <= MAX_ID


MOMENTS = st.tuples(
    st.sampled_from(["2026-11-21", "0001-01-01", "9999-12-31", "2026-02-30", "2026-1-1", "٢026-01-01"]),
    st.sampled_from(["T", "t", " ", ""]),
    st.sampled_from(["09:00:00", "24:00:00", "23:59:60", "23:59:59", "00:00:00", "9:00:00", "09:00"]),
    st.sampled_from(["", ".1", ".123456", ".123456789", ".999999999", ".", ",5"]),
    st.sampled_from(["Z", "z", "+14:00", "-14:00", "+23:59", "-24:00", "+00:60", "", "+01"]),
).map("".join)


def check_moment(text: str) -> None:
    try:
        moment = read_moment(text)
    except ValueError as rejection:
        assert str(rejection).startswith(("a DateTime reads like", "this DateTime does not exist"))
        return
    assert moment.tzinfo is UTC and read_moment(write_moment(moment)) == moment


# --- documents --------------------------------------------------------------------------------------

TOKENS = [
    *("{", "}", "(", ")", "[", "]", ":", "!", "$", "&", "=", "@", "|", "...", " ", ",", "\n", "\ufeff"),
    *(
        "query ",
        "mutation ",
        "fragment f on Session ",
        "...f",
        "a",
        "b:",
        "on ",
        "null",
        "true",
        "$v",
        "@skip",
    ),
    *(
        '"a"',
        '"',
        '"""',
        '"""a"""',
        '"\\u0000"',
        '"\\u{110000}"',
        '"\\ud800"',
        "1",
        "-0",
        "1.5e9",
        "01",
        "1a",
    ),
    *("# a\n", "#", "\0", "\x7f", "é", "\ud800", "{" * 70, "[" * 300, "a " * 300, "# \n" * 300),
]
DOCUMENTS = spliced(TOKENS, st.text(max_size=3))
LIMITS = Limits(tokens=200, depth=15, cost=1000)


def check_document(text: str) -> None:
    try:
        count_within(parse_within(text, LIMITS), LIMITS)
    except GraphQLError as rejection:
        assert rejection.message


# --- recordings -------------------------------------------------------------------------------------

LONG = "x" * 300  # longer than a name of a file may be
VALUES: st.SearchStrategy[Any] = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**70), 2**70)
    | st.floats()
    | st.text(max_size=8)
    | st.sampled_from(["GET", "PUT", "/gateway/profile", "https://a/b?c", "//[", "http://[/", "../x", LONG]),
    lambda below: st.lists(below, max_size=3) | st.dictionaries(st.text(max_size=5), below, max_size=3),
    max_leaves=6,
)
MEMBERS = ("method", "path", "role", "userName", "headers", "body", "status", "moment", "answer", "file")
LINES_OF_CALLS = st.one_of(
    st.dictionaries(st.sampled_from(MEMBERS), VALUES, max_size=2).map(
        lambda line: {"method": "GET", "path": "/gateway/profile", **line}
    ),
    VALUES,
).map(lambda value: json.dumps(value).encode())


def check_call(line: bytes) -> None:
    try:
        call = read_call(1, line, Path(__file__).parent)
    except LineRejected:
        return
    assert isinstance(call, Call) and call.path.startswith("/")
    assert call.body is None or isinstance(call.body, bytes)


READERS: dict[str, tuple[st.SearchStrategy[Any], Check]] = {
    "heads of requests": (HEADS, check_head),
    "ids": (IDS, check_id),
    "cursors": (IDS, check_cursor),
    "moments": (MOMENTS | TEXTS, check_moment),
    "documents": (DOCUMENTS, check_document),
    "lines of recordings": (LINES_OF_CALLS | st.binary(max_size=30), check_call),
}


@pytest.mark.parametrize("line", LINES)
def test_a_head_with_one_more_line_is_read_as_by_the_parser(line: bytes) -> None:
    for start in STARTS:
        for body in (b"", b"abc", b"3\r\nabc\r\n0\r\n\r\n"):
            check_head(b"%bhost: care\r\n%b\r\n%b" % (start, line, body))


@pytest.mark.parametrize("name", READERS)
def test_a_reader_returns_a_value_or_rejects(name: str) -> None:
    values, check = READERS[name]

    short(100)(given(values)(check))()


@pytest.mark.soak
@pytest.mark.parametrize("name", READERS)
def test_a_reader_returns_a_value_or_rejects_for_long(name: str) -> None:
    values, check = READERS[name]

    soak(SOAK_READERS)(given(values)(check))()
    print(f"{name}: {SOAK_READERS} values")
