"""The error bodies of both contracts."""

from datetime import UTC, datetime
from typing import Any

from app.telemetry import counters

OVERLOADED = "OVERLOADED"
OUTCOME_UNKNOWN = "OUTCOME_UNKNOWN"

# Python's own phrases change between versions, and clients may compare them.
PHRASES = {
    294: "Partial Success",
    400: "Bad Request",
    401: "Unauthorized",
    403: "Forbidden",
    404: "Not Found",
    405: "Method Not Allowed",
    406: "Not Acceptable",
    408: "Request Timeout",
    409: "Conflict",
    413: "Request Entity Too Large",
    414: "URI Too Long",
    415: "Unsupported Media Type",
    422: "Unprocessable Entity",
    429: "Too Many Requests",
    431: "Request Header Fields Too Large",
    500: "Internal Server Error",
    501: "Not Implemented",
    502: "Bad Gateway",
    503: "Service Unavailable",
    504: "Gateway Timeout",
    505: "HTTP Version Not Supported",
}


class NotEnoughMemory(Exception):
    """The request cannot be parsed now; a retry may succeed."""

    def __init__(self) -> None:
        super().__init__("the server has not enough memory to parse the request; nothing was changed")


# --- the legacy paths ---


def legacy_error(status: int, message: str, path: str) -> dict[str, Any]:
    return {
        "timestamp": datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z"),
        "status": status,
        "error": PHRASES[status],
        "message": message,
        "path": path,
    }


# --- GraphQL ---


def request_error(message: str, code: str, request_id: str) -> dict[str, Any]:
    """Counts the error and returns its body, for a request that was not executed."""
    counters.codes[code] += 1
    return error_body(message, code, request_id)


def error_body(message: str, code: str, request_id: str) -> dict[str, Any]:
    return {"errors": [{"message": message, "extensions": {"code": code, "requestId": request_id}}]}
