"""Handwritten requests that break services: numbers, dates, texts, ids, members, headers, paths and
encodings, invalid and unusual ones."""

import json
from datetime import UTC, datetime, timedelta
from typing import Any

from tests import keys
from tests.fuzz.direct_requests import RawRequest
from tests.rest_compat.legacy import ABSENT, ASSIGNMENTS, SESSIONS, homework

AS_CAREGIVER = (b"authorization", f"bearer {keys.token('CAREGIVER', 'caregiver-1')}".encode())
AS_CLIENT = (b"authorization", f"bearer {keys.token('CLIENT', 'client-1')}".encode())


def words(text: str) -> list[str]:
    return text.split()


def put(body: bytes, *headers: tuple[bytes, bytes]) -> RawRequest:
    return RawRequest("PUT", ASSIGNMENTS, headers=(AS_CAREGIVER, *headers), body=body)


def putting(**changed: Any) -> RawRequest:
    return put(json.dumps(homework(**changed)).encode())


def written(member: str, raw: bytes) -> RawRequest:
    """Writes this text as a member's value."""
    return put(json.dumps(homework(**{member: "HERE"})).encode().replace(b'"HERE"', raw))


def get(path: str, query: str = "", *headers: tuple[bytes, bytes]) -> RawRequest:
    return RawRequest("GET", path, query, (AS_CAREGIVER, *headers))


# --- what is wrong ---------------------------------------------------------------------------------

NUMBERS = b"""
1.0 1e0 0.1 -1 -0.0 1e400 -1e400 01 +1 0x1 1_000 NaN Infinity 9223372036854775808 18446744073709551616 1E-400
340282366920938463463374607431768211456 true false null "1" "" [] [1] {} "\\u0661"
""".split()
HUGE = b"9" * 5000
DATES = words("""
2026/02/30 2026/13/01 2026/00/10 2026/1/1 26/01/01 2026-01/01 2026.01.01 20260101 2026/01/01Z
2026/01/01T00:00 0000/01/01 1899/12/31 3000/01/01 9999/12/31 10000/01/01 -2026/01/01 +2026/01/01
2025/02/29 2026-W01 today
""")
ODD_DATES = [
    "\u0662\u0660\u0662\u0666/\u0661\u0661/\u0662\u0662",
    "2026/11/22\n",
    " 2026/11/22",
    "2026/11/22\x00",
    "２０２６/１１/２２",
]
TIMES = words("""
24:00 25:61 9:00 09:0 09:60 -1:00 09:00:00 0900 09.00 09:00Z 09:00+01:00 12:00pm noon 23:59:60
""")
ODD_TIMES = ["\u0660\u0669:\u0660\u0660", "09:00\n", "09:00\x00", "\ud83d\udd57"]
WRONG_MEMBERS = [
    *(putting(**{member: value}) for member in ("startDate", "endDate") for value in (*DATES, *ODD_DATES)),
    *(putting(**{member: value}) for member in ("startTime", "endTime") for value in (*TIMES, *ODD_TIMES)),
    *(written("sessionId", raw) for raw in (*NUMBERS, HUGE, b"-" + HUGE)),
    *(written("bookIds", b"[1, " + raw + b"]") for raw in (*NUMBERS, HUGE)),
    *(putting(bookIds=value) for value in (1, "1", {"0": 1}, [[1]], [1] * 51, [None], [True], [10**30])),
    *(
        putting(remindDates=value)
        for value in ({}, "x", 1, [1], ["x"], [[]], [None], [{}], [{"date": "2026/11/23"}])
    ),
    *(putting(remindDates=[{"date": date, "time": "09:00"}]) for date in (*DATES, 1, None, "")),
    *(putting(remindDates=[{"date": "2026/11/23", "time": time}]) for time in (*TIMES, 900, None, " ")),
    putting(remindDates=[{"date": "2026/11/23", "time": "09:00"}] * 51),
    *(
        putting(**{name: value})
        for name in homework()
        if name != "remindDates"
        for value in (ABSENT, None, "", "\u3000", [])
    ),
]
TEXT = json.dumps(homework())
WRONG_BODIES = [
    *(
        put(body)
        for body in (b"", b"\x00", b"\xff", b"null", b"[]", b'""', b"0", b"{", b"}", b"{}", b"\xef\xbb\xbf{}")
    ),
    *(put(TEXT.encode(encoding)) for encoding in ("utf-16", "utf-32")),
    *(put(TEXT.encode()[:length]) for length in range(0, len(TEXT), 7)),
    *(put(TEXT.encode() + more) for more in (b"x", b"{}", b",", b"\x00", b"]")),
    put(TEXT.replace('"startTime"', '"start\\u0000Time"').encode()),
    put(TEXT.replace("08:00", "08:00\\ud800").encode()),
    put(TEXT.replace('"sessionId": 1', '"sessionId": 1, "sessionId": "1"').encode()),
    put(TEXT.replace("{", '{"bookIds": [1],', 1).replace("[1, 2]", "[]").encode()),
    put(b'{"a":' * 5000 + b"1" + b"}" * 5000),
    put(b"[" * 20000),
    put(b'{"sessionId": ' + b"9" * 60000 + b"}"),
    put(b" " * 65537),
    put(TEXT.encode(), (b"content-length", b"65537")),
    put(TEXT.encode(), (b"content-length", b"9" * 400)),
]
CONTENT_TYPES = b"""
text/plain text/json application/xml application/jsonp application/json5 application/merge-patch+json */* json
application application/ /json application//json application/json,application/json multipart/form-data
application/x-www-form-urlencoded application/json\x00 \xff application/graphql+json image/png
"application/json"
""".split()
BAD_KEYS = [
    b"",
    b" ",
    b"a b",
    b"\x00",
    b"\x7f",
    b"\xff",
    "é".encode(),
    b"\t",
    b"a\nb",
    b"k" * 256,
    b"k" * 60000,
]
WRONG_HEADERS = [
    *(put(TEXT.encode(), (b"content-type", kind)) for kind in CONTENT_TYPES),
    *(put(TEXT.encode(), (b"idempotency-key", key)) for key in BAD_KEYS),
    put(TEXT.encode(), (b"idempotency-key", b"a"), (b"idempotency-key", b"a")),
]
STATES = words("""
running Running RUNNING%00 RUNNING%20 %20RUNNING RUNNING%0A RUNNING+ RUNNINGS RUN NULL null 0 *
PENDING %FF %ED%A0%80 RUNNING,FUTURE RUNNING&time-state=RUNNING RUNNING&time-state= %D1%80
R%25UNNING ＲＵＮＮＩＮＧ
""")
WRONG_QUERIES = [
    *(
        get(ASSIGNMENTS, query)
        for query in ("", "time-state", "time-state=", "Time-State=RUNNING", "time_state=RUNNING")
    ),
    *(
        get(ASSIGNMENTS, query)
        for query in ("&" * 3000, "%", "%zz", "=", "time-state[]=RUNNING", "time-state%5B0%5D=RUNNING")
    ),
    *(get(ASSIGNMENTS, f"time-state={state}") for state in STATES if state.isascii()),
    get(ASSIGNMENTS, "time-state=" + "RUNNING" * 5000),
]
IDS = words("""
0x1 1.0 1e0 -1 +1 1_0 first null true %00 1%00 %20 1%20 %201 1%0A 1%0D%0A %D9%A1 %EF%BC%91 %FF
%ED%A0%80 %F0%9F%98%80 .. 9223372036854775808 9999999999999999999 10000000000000000000 1,2 1;2 1'
1%27%20OR%201=1 %25 %251 * [1] {id} 1?x 1%3Fx %E2%88%9E
""")
WRONG_PATHS = [
    *(get(f"{ASSIGNMENTS}/{part}") for part in IDS if "?" not in part),
    *(get(f"{ASSIGNMENTS}/{'9' * length}") for length in (19, 20, 400, 5000, 60000)),
    *(
        get(path)
        for path in (f"{ASSIGNMENTS}/", f"{ASSIGNMENTS}//", f"{ASSIGNMENTS}/1/", f"{ASSIGNMENTS}/1/1")
    ),
    *(
        get(path)
        for path in (
            "/gateway",
            "/gateway/",
            "/gateway//",
            "/gateway/%00",
            "/gateway/../gateway",
            "/gateway/%2e%2e",
        )
    ),
    *(
        get(path)
        for path in (
            "/gateway/" + "a/" * 5000,
            "/gateway/%FF%FE",
            "/gateway/\x01",
            "/gateway/%0D%0AX:1",
            f"{SESSIONS}/1",
        )
    ),
    *(
        get(path, "time-state=RUNNING")
        for path in (
            f"/gateway{SESSIONS.upper()}",
            ASSIGNMENTS.replace("/profile", "//profile"),
            ASSIGNMENTS + "%20",
            ASSIGNMENTS + ";a=1",
        )
    ),
]
WRONG = [*WRONG_MEMBERS, *WRONG_BODIES, *WRONG_HEADERS, *WRONG_QUERIES, *WRONG_PATHS]


# --- senders --------------------------------------------------------------------------------------

RIGHT = AS_CAREGIVER[1]
INFINITY = float("inf")
OLD = datetime.now(UTC) - timedelta(hours=2)
BAD_TOKENS = [
    *(
        b"",
        b" ",
        b"bearer",
        b"bearer ",
        b"bearer  ",
        b"bearer a b",
        b"bearer .",
        b"bearer ..",
        b"bearer a.b.c",
        b"bearer \x00",
    ),
    *(
        b"basic YTpi",
        b"digest x",
        RIGHT.removeprefix(b"bearer "),
        RIGHT[:-3],
        RIGHT + b"x",
        RIGHT + b"\x00",
        RIGHT + b"\n",
    ),
    *(
        RIGHT.replace(b" ", b"\t"),
        RIGHT + b", " + RIGHT,
        b"bearer \xff\xfe",
        b"bearer " + b"a" * 60000,
        b"bearer " + b"." * 60000,
    ),
    *(
        RIGHT.replace(b".", b"..", 1),
        RIGHT.rpartition(b".")[0] + b".",
        "bearer é".encode(),
        b"bearer eyJhbGciOiJub25lIn0.e30.",
    ),
    *(
        f"bearer {keys.token('CAREGIVER', 'caregiver-1', **changed)}".encode()
        for changed in (
            {"exp": OLD},
            {"exp": None},
            {"exp": "x"},
            {"exp": INFINITY},
            {"exp": -INFINITY},
            {"exp": INFINITY - INFINITY},
            {"nbf": INFINITY},
            {"exp": -1},
            {"ati": "a"},
            {"nbf": 2**40},
            {"user_name": 1},
            {"user_name": ["caregiver-1"]},
            {"user_name": ""},
            {"user_name": "caregiver-1\x00"},
            {"user_name": "\U0001f600" * 2000},
            {"authorities": []},
            {"authorities": ["CAREGIVER", "CLIENT"]},
            {"authorities": "ADMIN"},
            {"authorities": {"a": 1}},
            {"authorities": ["caregiver"]},
            {"authorities": [None]},
            {"authorities": [["CAREGIVER"]]},
            {"authorities": ["CLIENT"]},
        )
    ),
]
ENTRANCES = [
    RawRequest("GET", ASSIGNMENTS, "time-state=RUNNING"),
    RawRequest("GET", f"{ASSIGNMENTS}/1"),
    RawRequest("PUT", ASSIGNMENTS, body=TEXT.encode()),
]


# --- what is odd, and right ------------------------------------------------------------------------

PAGES = [
    "-1",
    "1.5",
    "abc",
    "",
    "%00",
    "1e3",
    "0x1",
    "١",
    "+1",
    "9" * 18,
    "9" * 19,
    "9" * 5000,
    "-" + "9" * 5000,
    "%FF",
    "1_0",
]
ODD_HEADERS = [
    *(
        (name, value)
        for name in (b"offset", b"accept", b"x-request-id", b"cookie", b"x-forwarded-for", b"host")
        for value in (
            b"",
            b"1",
            b"-1",
            b"\x00",
            b"\xff\xfe",
            b"a\r\nb: c",
            b"9" * 60000,
            b"; q=",
            "é😀".encode(),
        )
    ),
    *((b"content-length", value) for value in (b"", b"abc", b"-1", b"1e3", b"0x10", b"\xb2")),
    *(
        (b"content-type", value)
        for value in (b"application/json", b"Application/JSON ; charset=latin-1", b"application/json;;;")
    ),
]
ODD = [
    *(get(ASSIGNMENTS, f"time-state=RUNNING&page={value}") for value in PAGES if value.isascii()),
    *(get(ASSIGNMENTS, f"time-state=RUNNING&size={value}") for value in PAGES if value.isascii()),
    get(ASSIGNMENTS, "time-state=RUNNING&page=1&page=x&size=2&size=3&" + "a=1&" * 300),
    get(ASSIGNMENTS, "%74ime-state=%52UNNING"),
    *(get(f"{ASSIGNMENTS}/{part}") for part in ("1", "0000000000000000001", "%31")),
    *(put(TEXT.encode(), header) for header in ODD_HEADERS),
    put(b" \t\r\n" + TEXT.encode() + b" " * 60000),
    put(TEXT.replace("{", '{"sessionId": "x", "\\u0000": {"a": [null]}, "": 1,', 1).encode()),
    put(json.dumps(homework(title="\ud83d\ude00\u202e\x00")).encode()),
    putting(remindDates=None, startDate="1900-01-01", endDate="2999/12/31", bookIds=[1] * 50),
]
