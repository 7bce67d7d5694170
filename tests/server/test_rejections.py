"""A response that the server sends without the application: its headers and its body agree."""

import json
from typing import Any

import pytest

from app.http.paths import (
    ASSIGNMENTS,
    GET_CAREGIVER_ASSIGNMENT,
    LIST_CAREGIVER_ASSIGNMENTS,
    SESSIONS,
    path_name,
)
from app.server.rejections import MAX_PATH, STATUS_LINES, count_rejection, is_legacy, rejection
from app.telemetry import counters

DATE = [(b"date", b"Sat, 21 Nov 2026 12:00:00 GMT")]
OVERLOADED = "server overloaded"
LONG = "/gateway/" + "a" * MAX_PATH


def rejected(
    status: int,
    message: str,
    target: str,
    request_id: bytes = b"mine",
    is_head: bool = False,
    closes: bool = False,
) -> tuple[str, dict[str, str], bytes]:
    headers = [(b"host", b"care"), (b"x-request-id", request_id)]
    response = rejection(status, message, target.encode(), headers, is_head, DATE, closes)
    head, _, body = response.partition(b"\r\n\r\n")
    line, *lines = head.decode().split("\r\n")
    return line, dict(each.split(": ", 1) for each in lines), body


@pytest.mark.parametrize(
    "target, path",
    [
        (f"{SESSIONS}?time-state=RUNNING", SESSIONS),
        ("/gateway/Zo%C3%AB", "/gateway/Zoë"),
        ("/gateway/%3Crequest%20id%3E", "/gateway/a-long-id"),  # as if the path had the id
        (LONG, LONG[:MAX_PATH]),
        ("/gateway?http://[", "/gateway"),
        ("/gateway/\x01", "/gateway"),  # not the path of a URL
    ],
)
def test_a_legacy_path_gets_the_legacy_format(target: str, path: str) -> None:
    line, headers, body = rejected(503, OVERLOADED, target, b"a-long-id")
    answer = json.loads(body)

    assert answer.pop("timestamp")
    assert answer == {"status": 503, "error": "Service Unavailable", "message": OVERLOADED, "path": path}
    assert (line, int(headers["content-length"])) == ("HTTP/1.1 503 Service Unavailable", len(body))


def test_the_phrases_of_a_status_do_not_depend_on_the_version_of_python() -> None:
    assert [STATUS_LINES[status] for status in (294, 413, 414, 422, 503)] == [
        b"HTTP/1.1 294 Partial Success\r\n",
        b"HTTP/1.1 413 Request Entity Too Large\r\n",
        b"HTTP/1.1 414 URI Too Long\r\n",
        b"HTTP/1.1 422 Unprocessable Entity\r\n",
        b"HTTP/1.1 503 Service Unavailable\r\n",
    ]


@pytest.mark.parametrize("status, code", [(503, "OVERLOADED"), (400, "BAD_REQUEST"), (431, "BAD_REQUEST")])
@pytest.mark.parametrize("closes", [True, False])
def test_another_path_gets_the_format_of_graphql(status: int, code: str, closes: bool) -> None:
    for request_id in ("a", "b" * 64, "c"):  # later responses reuse the parts of the first one
        _, headers, body = rejected(status, "a reason", "/graphql", request_id.encode(), closes=closes)

        extensions = {"code": code, "requestId": request_id}
        assert json.loads(body) == {"errors": [{"message": "a reason", "extensions": extensions}]}
        assert (headers["x-request-id"], int(headers["content-length"])) == (request_id, len(body))
        assert headers.get("connection") == ("close" if closes else None)
        assert headers.get("retry-after") == ("1" if status == 503 else None)
        assert headers["date"] == DATE[0][1].decode()


@pytest.mark.parametrize("after", ["", "/", "?a=b", "/a?b=/c", "%2Fa"])
@pytest.mark.parametrize("start", ["/gateway", "//gateway", "/%67ateway"])
def test_every_form_of_a_legacy_path_is_one(start: str, after: str) -> None:
    assert is_legacy((start + after).encode())
    assert not is_legacy(f"{start}s{after}".encode())
    assert not is_legacy(f"/graphql?a={start}{after}".encode())


@pytest.mark.parametrize("request_id", [b"a b", b"a" * 65, b"\xe9", b""])
def test_a_malformed_request_id_is_replaced(request_id: bytes) -> None:
    _, headers, body = rejected(503, OVERLOADED, "/graphql", request_id)
    sent = headers["x-request-id"]

    assert (len(sent), int(sent, 16) >= 0) == (32, True)
    assert json.loads(body)["errors"][0]["extensions"]["requestId"] == sent


def test_the_response_to_a_head_request_has_no_body() -> None:
    line, headers, body = rejected(503, OVERLOADED, SESSIONS, is_head=True)
    with_body: Any = rejected(503, OVERLOADED, SESSIONS)

    assert (line, headers, body) == (*with_body[:2], b"")


def test_a_rejected_head_request_counts_as_a_call_by_get() -> None:
    path = LIST_CAREGIVER_ASSIGNMENTS.split()[1].encode()
    before = counters.turned_away[LIST_CAREGIVER_ASSIGNMENTS], counters.limits["requests at once"]

    count_rejection("requests at once", b"HEAD", path + b"?time-state=RUNNING")
    count_rejection("requests at once", b"HEAD", path + b"/7/8")

    after = counters.turned_away[LIST_CAREGIVER_ASSIGNMENTS], counters.limits["requests at once"]
    counters.turned_away[LIST_CAREGIVER_ASSIGNMENTS] -= 1  # not written to a database
    assert after == (before[0] + 1, before[1] + 2)


@pytest.mark.parametrize("id", ["7", "care-of-mara", "%20"])
def test_whatever_id_a_call_has_it_is_one_of_its_path(id: str) -> None:
    assert path_name("GET", f"{ASSIGNMENTS}/{id}?a=/b") == GET_CAREGIVER_ASSIGNMENT
