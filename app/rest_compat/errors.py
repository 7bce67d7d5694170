"""How refusals are said on the legacy paths: a status for every code, and the one error body."""

from datetime import UTC, datetime
from typing import Any

import orjson
from starlette.types import Scope

from app.schema.transport.http import RETRY_AFTER, Reply

STATUS = {
    "UNAUTHENTICATED": 401,
    "FORBIDDEN": 403,
    "NOT_FOUND": 404,
    "INCOMPLETE": 404,  # documented: a request that lacks enough information
    "UNREADABLE": 400,
    "NOT_RUNNING": 409,
    "WRONG_STATE": 409,
    "DRAFT_CONFLICT": 409,
    "IDEMPOTENCY_CONFLICT": 422,  # 409 where it is only still running
    "RATE_LIMITED": 429,
    "EXPIRED": 404,  # of subscriptions, which these paths do not have
    "OVERLOADED": 503,
    "INTERNAL": 500,
}


# Written out, because Python's own phrases change between its versions, and a client may compare them.
PHRASES = {
    400: "Bad Request",
    401: "Unauthorized",
    403: "Forbidden",
    404: "Not Found",
    405: "Method Not Allowed",
    408: "Request Timeout",
    409: "Conflict",
    413: "Request Entity Too Large",
    415: "Unsupported Media Type",
    422: "Unprocessable Entity",
    429: "Too Many Requests",
    431: "Request Header Fields Too Large",
    500: "Internal Server Error",
    501: "Not Implemented",
    503: "Service Unavailable",
    505: "HTTP Version Not Supported",
}


class LegacyError(Exception):
    """A refusal with its status: what the request itself got wrong, or what the schema refused."""

    def __init__(self, status: int, message: str, allow: str | None = None) -> None:
        super().__init__(message)
        self.status = status
        self.message = message
        self.allow = allow


def refusal(code: str, message: str) -> LegacyError:
    return LegacyError(STATUS[code], message)


def error_body(status: int, message: str, path: str) -> dict[str, Any]:
    return {
        "timestamp": datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z"),
        "status": status,
        "error": PHRASES[status],
        "message": message,
        "path": path,
    }


def error_reply(scope: Scope, error: LegacyError) -> Reply:
    body = error_body(error.status, error.message, scope["path"])
    headers = []
    if error.allow is not None:
        headers.append((b"allow", error.allow.encode()))
    if error.status == 401:
        headers.append((b"www-authenticate", b"Bearer"))
    if error.status == 503:
        headers.append(RETRY_AFTER)
    return Reply(orjson.dumps(body), error.status, tuple(headers))
