"""If the PUT has several errors, the first check of docs/legacy-contract.md decides the response: the type of
the body is checked before its members, and its length before its content."""

import json
from collections.abc import Iterator
from itertools import repeat
from typing import Any

import pytest

from tests.callers import Caller, Gateway
from tests.database_rows import stored
from tests.rest_compat.legacy import ABSENT, ASSIGNMENTS, SESSIONS, homework, rejection_of, stream

pytestmark = pytest.mark.sqlite_only

LIMIT = 64 * 1024
TOO_LONG = (413, "the body may have at most 65536 bytes")
WRONG_TYPE = (415, "the content type must be application/json")
JSON = {"content-type": "application/json"}
TEXT = {"content-type": "text/plain"}


@pytest.fixture(autouse=True, scope="module")
def nothing_is_written(standing: Gateway) -> Iterator[None]:
    before = stored(standing)
    yield
    assert stored(standing) == before


def body(**changed: Any) -> bytes:
    return json.dumps(homework(**changed)).encode()


def padded(content: bytes, length: int) -> bytes:
    return content + b" " * (length - len(content))


# --- the body --------------------------------------------------------------------------------------

NOT_JSON: dict[str, tuple[bytes, str]] = {
    "text": (b"homework", "line 1, column 1"),
    "half an object": (b'{"bookIds": [1, 2]', "line 1, column 19"),
    "two objects": (b"{}{}", "line 1, column 3"),
    "a comma too many": (b'{\n "bookIds": [1,],}', "line 2, column 15"),
    "single quotes": (b"{'sessionId': 1}", "line 1, column 2"),
    "a form": (b"sessionId=1&bookIds=1", "line 1, column 1"),
    "NaN": (b'{"sessionId": NaN}', "line 1, column 15"),
    "two byte order marks": (b"\xef\xbb\xbf" * 2 + body(), "line 1, column 1"),
    "invalid UTF-8": (body(title="?").replace(b'"?"', b'"\xff"'), "line 1, column 1"),
    "UTF-16": (body().decode().encode("utf-16"), "line 1, column 1"),
    "half a surrogate pair": (b'{"title": "\\ud800"}', "line 1, column 12"),
    "a depth bomb": (b"[" * 60_000, "line 1, column 1026"),
    "a closed depth bomb": (b'{"a":' + b"[" * 30_000 + b"]" * 30_000 + b"}", "line 1, column 1030"),
}


@pytest.mark.parametrize(("content", "place"), NOT_JSON.values(), ids=NOT_JSON)
def test_a_body_that_is_not_json_is_rejected(standing: Gateway, content: bytes, place: str) -> None:
    response = standing.as_caregiver(1).put(ASSIGNMENTS, content=content, headers=JSON)

    assert rejection_of(response) == (400, f"the body is not valid JSON: {place}")


@pytest.mark.parametrize("content", [b"[" + body() + b"]", b'"homework"', b"1", b"true"])
def test_a_body_that_is_not_a_json_object_is_rejected(standing: Gateway, content: bytes) -> None:
    response = standing.as_caregiver(1).put(ASSIGNMENTS, content=content, headers=JSON)

    assert rejection_of(response) == (400, "the body must be a JSON object")


ALL_MISSING = (404, "required and missing: bookIds, startDate, startTime, endDate, endTime, sessionId")
EMPTY: dict[str, bytes] = {
    "nothing": b"",
    "spaces": b"  ",
    "line breaks": b"\r\n\t ",
    "JSON null": b"null",
    "a byte order mark": b"\xef\xbb\xbf",
    "a byte order mark before an object": b"\xef\xbb\xbf {}",
    "JSON null among spaces": b" null\n",
    "an object without members": b"{}",
}


@pytest.mark.parametrize("content", EMPTY.values(), ids=EMPTY)
def test_an_empty_body_misses_every_member(standing: Gateway, content: bytes) -> None:
    response = standing.as_caregiver(1).put(ASSIGNMENTS, content=content, headers=JSON)

    assert rejection_of(response) == ALL_MISSING


OTHER_TYPES = [
    "",
    "text/plain",
    "text/json",
    "application/xml",
    "application/jsonp",
    "application/problem+json",
    "application/x-www-form-urlencoded",
    "multipart/form-data; boundary=application/json",
    "application/json, text/plain",
    "json",
]


@pytest.mark.parametrize("content_type", OTHER_TYPES)
def test_another_content_type_is_rejected(standing: Gateway, content_type: str) -> None:
    headers = {"content-type": content_type}

    response = standing.as_caregiver(1).put(ASSIGNMENTS, content=body(), headers=headers)

    assert rejection_of(response) == WRONG_TYPE


def test_a_body_may_have_64_kib(standing: Gateway) -> None:
    caregiver, unknown = standing.as_caregiver(1), body(sessionId=999999)

    longest = caregiver.put(ASSIGNMENTS, content=padded(unknown, LIMIT), headers=JSON)
    too_long = caregiver.put(ASSIGNMENTS, content=padded(unknown, LIMIT + 1), headers=JSON)

    assert rejection_of(longest) == (404, "session not found")
    assert rejection_of(too_long) == TOO_LONG


def test_a_body_with_a_too_large_content_length_is_not_read(standing: Gateway) -> None:
    headers = {"content-length": str(LIMIT + 1), **JSON}

    answer = stream(standing.as_caregiver(1), "PUT", ASSIGNMENTS, headers, repeat(b" ", 10))

    assert (answer.status, json.loads(answer.body)["message"]) == TOO_LONG
    assert answer.chunks_read == 0


@pytest.mark.parametrize("declared", [{}, {"content-length": "10"}], ids=["chunked", "declared too short"])
def test_a_body_is_read_only_up_to_the_limit(standing: Gateway, declared: dict[str, str]) -> None:
    answer = stream(standing.as_caregiver(1), "PUT", ASSIGNMENTS, declared | JSON, repeat(b" " * 1024, 200))

    assert (answer.status, json.loads(answer.body)["message"]) == TOO_LONG
    assert answer.chunks_read == 65


def test_a_body_in_pieces_is_one_body(standing: Gateway) -> None:
    pieces = (bytes([byte]) for byte in body(sessionId=999999, title="Zoë"))

    answer = stream(standing.as_caregiver(1), "PUT", ASSIGNMENTS, JSON, pieces)

    assert (answer.status, json.loads(answer.body)["message"]) == (404, "session not found")


# --- the order of all checks -----------------------------------------------------------------------

LONG = padded(b"no JSON", LIMIT + 1)
UNREADABLE = {"startDate": "2023-02-30"}
MISSING_AND_UNREADABLE = body(endTime=ABSENT, **UNREADABLE)
OUT_OF_BOUNDS = body(endDate="2026/11/21", remindDates=[], sessionId=999999, bookIds=[999999])
START_REFUSED = (400, "startDate is no date of the calendar")

# Each request has the fault that is answered and, behind it, the later ones.
BODIES: dict[str, tuple[bytes, dict[str, str], tuple[int, str]]] = {
    "length before type": (LONG, TEXT, TOO_LONG),
    "length before JSON": (LONG, JSON, TOO_LONG),
    "type before JSON": (b"no JSON", TEXT, WRONG_TYPE),
    "type before missing": (b"{}", TEXT, WRONG_TYPE),
    "type before an empty body": (b"", TEXT, WRONG_TYPE),
    "a missing item before an unreadable one": (
        body(bookIds=["x", None]),
        JSON,
        (404, "required and missing: bookIds[1]"),
    ),
    "missing before unreadable": (MISSING_AND_UNREADABLE, JSON, (404, "required and missing: endTime")),
    "missing before 51 books": (
        body(bookIds=[1] * 51, sessionId=None),
        JSON,
        (404, "required and missing: sessionId"),
    ),
    "a reminder's missing time before an unreadable date": (
        body(remindDates=[{"date": "x"}], **UNREADABLE),
        JSON,
        (404, "required and missing: remindDates[0].time"),
    ),
    "unreadable before unknown": (
        body(sessionId=999999, bookIds=[999999], **UNREADABLE),
        JSON,
        START_REFUSED,
    ),
    "unreadable before closed": (body(sessionId=3, **UNREADABLE), JSON, START_REFUSED),
    "books before dates": (
        body(bookIds=["1"], **UNREADABLE),
        JSON,
        (400, "bookIds[0] must be an integer id"),
    ),
    "dates before the session": (body(sessionId="1", **UNREADABLE), JSON, START_REFUSED),
    "start before end": (body(endTime="25:61", **UNREADABLE), JSON, START_REFUSED),
    "end before reminders": (
        body(endTime="25:61", remindDates=["x"]),
        JSON,
        (400, "endTime is no time of the day"),
    ),
    "bounds before unknown": (OUT_OF_BOUNDS, JSON, (400, "endDate is before startDate")),
    "session before book": (body(sessionId=999999, bookIds=[999999]), JSON, (404, "session not found")),
    "another's session before book": (body(sessionId=5, bookIds=[999999]), JSON, (404, "session not found")),
    "book before closed": (body(sessionId=3, bookIds=[999999]), JSON, (404, "book not found: bookIds[0]")),
    "book before future": (body(sessionId=2, bookIds=[1, 999999]), JSON, (404, "book not found: bookIds[1]")),
}


@pytest.mark.parametrize(("content", "headers", "refused"), BODIES.values(), ids=BODIES)
def test_the_first_failed_check_of_the_body_decides(
    standing: Gateway, content: bytes, headers: dict[str, str], refused: tuple[int, str]
) -> None:
    response = standing.as_caregiver(1).put(ASSIGNMENTS, content=content, headers=headers)

    assert rejection_of(response) == refused


CALLERS = ["anonymous", "a bad token", "a client", "a stranger", "the caregiver"]
BEFORE_THE_REQUEST: dict[tuple[str, str], list[tuple[int, str]]] = {
    ("PUT", f"{ASSIGNMENTS}/"): [(404, "no such path")] * 5,
    ("POST", ASSIGNMENTS): [(405, "no such method on this path")] * 5,
    ("PUT", f"{ASSIGNMENTS}/x"): [(405, "no such method on this path")] * 5,
    ("PUT", ASSIGNMENTS): [
        (401, "sign in with a valid bearer token"),
        (401, "the bearer token is not valid"),
        (403, "only a caregiver may do this"),
        (403, "there is no enabled account for this token"),
        TOO_LONG,
    ],
    ("GET", ASSIGNMENTS): [
        (401, "sign in with a valid bearer token"),
        (401, "the bearer token is not valid"),
        (403, "only a caregiver may do this"),
        (403, "there is no enabled account for this token"),
        (400, "time-state must be one of RUNNING, FUTURE, COMPLETED"),
    ],
    ("GET", f"{ASSIGNMENTS}/x"): [
        (401, "sign in with a valid bearer token"),
        (401, "the bearer token is not valid"),
        (403, "only a caregiver may do this"),
        (403, "there is no enabled account for this token"),
        (400, "id must be an integer id"),
    ],
    ("GET", SESSIONS): [
        (401, "sign in with a valid bearer token"),
        (401, "the bearer token is not valid"),
        (400, "time-state must be one of RUNNING, FUTURE, COMPLETED"),
        (403, "there is no enabled account for this token"),
        (403, "only a client may do this"),
    ],
}


@pytest.mark.parametrize("method_and_path", BEFORE_THE_REQUEST, ids=" ".join)
@pytest.mark.parametrize("who", CALLERS)
def test_path_method_token_and_role_are_checked_before_the_body(
    standing: Gateway, method_and_path: tuple[str, str], who: str
) -> None:
    """Every request is too long, of the wrong type and without a time state."""
    callers: dict[str, Caller] = {
        "anonymous": standing.as_anonymous(),
        "a bad token": standing.with_token("nonsense"),
        "a client": standing.as_client(1),
        "a stranger": standing.as_caregiver(99),
        "the caregiver": standing.as_caregiver(1),
    }

    response = callers[who].request(*method_and_path, content=LONG, headers=TEXT)

    assert rejection_of(response) == BEFORE_THE_REQUEST[method_and_path][CALLERS.index(who)]
