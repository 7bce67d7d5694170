"""Every failure with its code and its statuses, and the error bodies of both contracts."""

import logging
from datetime import UTC, datetime
from enum import Enum, unique
from http import HTTPStatus
from typing import Any

import orjson
from starlette.types import Scope

from app.care import errors
from app.db.drivers.interface import DatabaseUnavailable, OutcomeUnknown
from app.http.messages import HEADERS_OF_ERROR, Headers, NotEnoughMemory, Reply
from app.telemetry import counters
from app.telemetry.wording import entry_for

INTERNAL_ERROR = "Internal error"  # the message of every unexpected exception

# Whether the status is also that of a GraphQL result with this error, which otherwise has 294 or 200.
RESULT, FIELD = True, False
# Whether the same request may succeed later.
RETRY, FINAL = True, False
NONE = 500  # on the legacy paths, which do not have the failure: it would be a fault of the service


@unique
class Failure(Enum):
    """Code; statuses with application/graphql-response+json, with application/json and on the legacy paths;
    and exceptions that do not have the code themselves. The first row in a result decides its status."""

    UNAUTHENTICATED = errors.NotSignedIn.code, 401, 401, 401, RESULT, FINAL
    KEY_TAKEN = errors.KeyTaken.code, 422, 422, 422, RESULT, FINAL
    OVERLOADED = errors.CannotVerify.code, 503, 503, 503, RESULT, RETRY, DatabaseUnavailable, NotEnoughMemory
    OUTCOME_UNKNOWN = "OUTCOME_UNKNOWN", 503, 503, 503, RESULT, RETRY, OutcomeUnknown
    READ_ONLY = errors.ReadOnly.code, 503, 503, 503, RESULT, RETRY
    TOO_COSTLY = errors.ResponseTooLong.code, 422, 400, 400, RESULT, FINAL  # a smaller page is possible
    RATE_LIMITED = errors.RateLimited.code, 429, 429, 429, RESULT, RETRY
    NOT_PARSED = "GRAPHQL_PARSE_FAILED", 400, 200, NONE, RESULT, FINAL
    NOT_VALID = "GRAPHQL_VALIDATION_FAILED", 422, 200, NONE, RESULT, FINAL

    FORBIDDEN = errors.NotAllowed.code, 403, 403, 403, FIELD, FINAL
    KEY_IN_USE = errors.KeyTaken.code, 409, 409, 409, FIELD, RETRY
    NOT_FOUND = errors.NotFound.code, 400, 400, 404, FIELD, FINAL
    INCOMPLETE = errors.Incomplete.code, 400, 400, 404, FIELD, FINAL  # documented for missing information
    UNREADABLE = errors.InvalidValue.code, 400, 400, 400, FIELD, FINAL
    NOT_RUNNING = errors.NotRunning.code, 400, 400, 409, FIELD, FINAL
    WRONG_STATE = errors.WrongState.code, 400, 400, 409, FIELD, FINAL
    DRAFT_CONFLICT = errors.DraftConflict.code, 400, 400, 409, FIELD, FINAL
    EXPIRED = errors.EventsExpired.code, 400, 400, 404, FIELD, FINAL
    INTERNAL = "INTERNAL", 500, 500, 500, FIELD, FINAL

    NOT_ACCEPTABLE = "BAD_REQUEST", 406, 406, NONE, FIELD, FINAL
    METHOD = "BAD_REQUEST", 405, 405, 405, FIELD, FINAL
    MUTATION_BY_GET = "BAD_REQUEST", 405, 400, NONE, FIELD, FINAL
    CONTENT_TYPE = "BAD_REQUEST", 415, 415, 415, FIELD, FINAL
    TOO_LONG = "BAD_REQUEST", 413, 413, 413, FIELD, FINAL
    NOT_JSON = "BAD_REQUEST", 400, 400, 400, FIELD, FINAL
    MALFORMED = "BAD_REQUEST", 422, 400, 400, FIELD, FINAL
    DOCUMENT_NOT_FOUND = "DOCUMENT_NOT_FOUND", 422, 400, NONE, FIELD, FINAL
    DOCUMENT_NOT_TRUSTED = "DOCUMENT_NOT_TRUSTED", 422, 400, NONE, FIELD, FINAL
    NOT_PERSISTED = "PERSISTED_QUERY_NOT_FOUND", 422, 200, NONE, FIELD, FINAL
    CANNOT_PERSIST = "PERSISTED_QUERY_NOT_SUPPORTED", 422, 200, NONE, FIELD, FINAL

    def __init__(
        self,
        code: str,
        graphql: int,
        json: int,
        legacy: int,
        is_of_result: bool,
        is_retried: bool,
        *raised: type[Exception],
    ) -> None:
        self.code, self.graphql, self.json, self.legacy = str(code), graphql, json, legacy
        self.is_of_result, self.is_retried, self.raised = is_of_result, is_retried, raised


BY_CODE = {each.code: each for each in reversed(Failure)}  # the first row of each code
BY_CLASS = {kind: each for each in Failure for kind in each.raised}


class RequestRejected(Exception):
    """The request is not executed."""

    def __init__(self, message: str, failure: Failure = Failure.MALFORMED, headers: Headers = ()) -> None:
        super().__init__(message)
        self.failure = failure
        self.headers = headers


def headers_of(error: Exception) -> Headers:
    return error.headers if isinstance(error, RequestRejected) else ()


def failure_of(error: BaseException) -> Failure:
    if isinstance(error, RequestRejected):
        return error.failure
    if failure := entry_for(error, BY_CLASS):
        return failure
    return BY_CODE[error.code] if isinstance(error, errors.CareError) else Failure.INTERNAL


def explain(error: Exception, request_id: str, logger: logging.Logger) -> tuple[Failure, str]:
    """The failure and its message. Logs unexpected exceptions and failures of the database."""
    failure = failure_of(error)
    if failure is Failure.INTERNAL:
        logger.error("fault in request %s", request_id, exc_info=error)
        return failure, INTERNAL_ERROR
    if isinstance(error, DatabaseUnavailable | NotEnoughMemory):
        logger.error("request %s: %s (%s)", request_id, error, error.__cause__)
    return failure, str(error)


# --- the legacy paths ---

# Python has no phrase for 294, and changes the others between versions; clients may compare them.
PHRASES = {each.value: each.phrase for each in HTTPStatus} | {
    294: "Partial Success",
    413: "Request Entity Too Large",
    414: "URI Too Long",
    422: "Unprocessable Entity",
}


def legacy_reply(scope: Scope, status: int, message: str, headers: Headers = ()) -> Reply:
    body = orjson.dumps(legacy_error(status, message, scope["path"]))
    return Reply(body, status, headers or HEADERS_OF_ERROR.get(status, ()))


def legacy_error(status: int, message: str, path: str) -> dict[str, Any]:
    return {
        "timestamp": datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z"),
        "status": status,
        "error": PHRASES[status],
        "message": message,
        "path": path,
    }


# --- GraphQL ---


def request_error(message: str, failure: Failure, request_id: str) -> dict[str, Any]:
    """Counts the error and returns its body, for a request that was not executed."""
    counters.codes[failure.code] += 1
    return error_body(message, failure, request_id)


def error_body(message: str, failure: Failure, request_id: str) -> dict[str, Any]:
    return {"errors": [{"message": message, "extensions": {"code": failure.code, "requestId": request_id}}]}
