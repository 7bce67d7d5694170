"""Helpers for the legacy paths: the paths, the body of the PUT, and errors."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from httpx2 import Response

from tests.callers import Caller

SESSIONS = "/gateway/profile/client/session"
ASSIGNMENTS = "/gateway/profile/caregiver/session/assignment"
TIMESTAMP = re.compile(r"20[0-9]{2}-[01][0-9]-[0-3][0-9]T[0-2][0-9]:[0-5][0-9]:[0-5][0-9]\.[0-9]{3}Z")
ABSENT = object()
PHRASES = {
    400: "Bad Request",
    401: "Unauthorized",
    403: "Forbidden",
    404: "Not Found",
    405: "Method Not Allowed",
    409: "Conflict",
    413: "Request Entity Too Large",
    415: "Unsupported Media Type",
    422: "Unprocessable Entity",
    429: "Too Many Requests",
    500: "Internal Server Error",
    503: "Service Unavailable",
}


def homework(**changed: Any) -> dict[str, Any]:
    """A body that assigns two books in session 1 of `a_world`. A member set to ABSENT is left out."""
    members = {
        "bookIds": [1, 2],
        "startDate": "2026/11/22",
        "startTime": "08:00",
        "endDate": "2026/11/29",
        "endTime": "18:30",
        "remindDates": [{"date": "2026/11/23", "time": "09:00"}],
        "sessionId": 1,
        **changed,
    }
    return {name: value for name, value in members.items() if value is not ABSENT}


def rejection_of(response: Response) -> tuple[int, str]:
    """Returns the status and message of an error response after checking its other members."""
    body = response.json()
    status = response.status_code
    assert list(body) == ["timestamp", "status", "error", "message", "path"]
    assert TIMESTAMP.fullmatch(body["timestamp"])
    assert body["status"] == status
    assert body["error"] == PHRASES[status]
    assert body["path"] == response.request.url.path
    assert response.headers["content-type"] == "application/json"
    assert ("www-authenticate" in response.headers) == (status == 401)
    return status, body["message"]


# --- requests that an ordinary client does not send ------------------------------------------------


@dataclass
class Streamed:
    """The response as the server sees it, and the number of chunks that were read."""

    status: int = 0
    body: bytes = b""
    chunks_read: int = 0


def stream(
    caller: Caller, method: str, path: str, headers: dict[str, str], chunks: Iterator[bytes]
) -> Streamed:
    """Sends the body chunk by chunk, as a server does; the test client would join the chunks."""
    received = Streamed()
    all_headers = {"authorization": f"bearer {caller.token}", **headers}
    scope = {
        "type": "http",
        "asgi": {"version": "3.0"},
        "http_version": "1.1",
        "method": method,
        "scheme": "http",
        "path": path.partition("?")[0],
        "raw_path": path.partition("?")[0].encode(),
        "query_string": path.partition("?")[2].encode(),
        "root_path": "",
        "headers": [(name.encode(), value.encode()) for name, value in all_headers.items()],
        "state": dict(caller.client.app_state),
    }

    async def receive() -> dict[str, Any]:
        chunk = next(chunks, None)
        if chunk is None:
            return {"type": "http.request", "body": b"", "more_body": False}
        received.chunks_read += 1
        return {"type": "http.request", "body": chunk, "more_body": True}

    async def send(message: dict[str, Any]) -> None:
        received.status = message.get("status", received.status)
        received.body += message.get("body", b"")

    assert caller.client.portal is not None
    caller.client.portal.call(caller.client.app, scope, receive, send)
    return received
