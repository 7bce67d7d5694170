"""Maps error codes to the statuses and the error body of the legacy paths."""

import orjson
from starlette.types import Scope

from app.http.errors import legacy_error
from app.http.headers import HEADERS_OF_ERROR
from app.http.messages import Reply

STATUS = {
    "UNAUTHENTICATED": 401,
    "FORBIDDEN": 403,
    "NOT_FOUND": 404,
    "INCOMPLETE": 404,  # documented for requests with missing information
    "UNREADABLE": 400,
    "NOT_RUNNING": 409,
    "WRONG_STATE": 409,
    "DRAFT_CONFLICT": 409,
    "IDEMPOTENCY_CONFLICT": 422,  # 409 while the first request is in progress
    "RATE_LIMITED": 429,
    "TOO_COSTLY": 400,  # a page of unusually long answers; a smaller one is possible
    "EXPIRED": 404,  # of subscriptions, which these paths do not have
    "OVERLOADED": 503,
    "OUTCOME_UNKNOWN": 503,
    "INTERNAL": 500,
}


class LegacyError(Exception):
    """An error of the request or of its GraphQL operation."""

    def __init__(self, status: int, message: str, allow: str | None = None) -> None:
        super().__init__(message)
        self.status = status
        self.message = message
        self.allow = allow


def refusal(code: str, message: str) -> LegacyError:
    return LegacyError(STATUS[code], message)


def error_reply(scope: Scope, error: LegacyError) -> Reply:
    body = legacy_error(error.status, error.message, scope["path"])
    headers = HEADERS_OF_ERROR.get(error.status, ())
    if error.allow is not None:
        headers = ((b"allow", error.allow.encode()),)
    return Reply(orjson.dumps(body), error.status, headers)
