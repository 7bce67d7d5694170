"""Content negotiation of GraphQL responses: the media type, and the status of a response with errors.

docs/graphql-over-http.md compares the two media types.
"""

import re
from enum import Enum
from functools import lru_cache
from typing import Any, NamedTuple

from app.care.errors import KeyTaken, NotSignedIn, RateLimited
from app.http.errors import OUTCOME_UNKNOWN, OVERLOADED
from app.http.headers import JSON
from app.schema.errors import TOO_COSTLY

NEWER = "application/graphql-response+json"
NEWER_JSON = (JSON[0], f"{NEWER}; charset=utf-8".encode())
EVENT_STREAM = "text/event-stream"
MAX_CACHED = 256  # characters of a header in the cache
MAX_RANGES = 64  # more are ignored
QUALITY = re.compile(r"\s*q=([01](?:\.[0-9]{0,3})?)\s*")
PARTIAL_SUCCESS = 294
NOT_GRAPHQL = (413, 415)  # the body was not read, so the response is not a GraphQL response


class Rejection(Enum):
    """Error code, status with application/graphql-response+json, status with application/json."""

    NOT_ACCEPTABLE = "BAD_REQUEST", 406, 406
    METHOD = "BAD_REQUEST", 405, 405
    MUTATION_BY_GET = "BAD_REQUEST", 405, 400
    CONTENT_TYPE = "BAD_REQUEST", 415, 415
    TOO_LONG = "BAD_REQUEST", 413, 413
    NOT_JSON = "BAD_REQUEST", 400, 400
    MALFORMED = "BAD_REQUEST", 422, 400
    DOCUMENT_NOT_FOUND = "DOCUMENT_NOT_FOUND", 422, 400
    DOCUMENT_NOT_TRUSTED = "DOCUMENT_NOT_TRUSTED", 422, 400
    NOT_PERSISTED = "PERSISTED_QUERY_NOT_FOUND", 422, 200
    CANNOT_PERSIST = "PERSISTED_QUERY_NOT_SUPPORTED", 422, 200
    # Of a result. The first that applies is chosen.
    UNAUTHENTICATED = NotSignedIn.code, 401, 401
    KEY_TAKEN = KeyTaken.code, 422, 422  # another process used the key first
    OVERLOADED = OVERLOADED, 503, 503
    OUTCOME_UNKNOWN = OUTCOME_UNKNOWN, 503, 503
    TOO_COSTLY = TOO_COSTLY, 422, 400
    RATE_LIMITED = RateLimited.code, 429, 429
    NOT_PARSED = "GRAPHQL_PARSE_FAILED", 400, 200
    NOT_VALID = "GRAPHQL_VALIDATION_FAILED", 422, 200

    def __init__(self, code: str, newer: int, older: int) -> None:
        self.code = code
        self.newer = newer
        self.older = older


class Accepted(NamedTuple):
    """What the Accept header of a request selects."""

    newer: bool = False  # application/graphql-response+json; else application/json
    streams: bool = False  # event streams are accepted, which subscriptions need
    prefers_stream: bool = False  # for a single result, too
    nothing: bool = False  # no supported media type

    def status(self, rejection: Rejection) -> int:
        return rejection.newer if self.newer else rejection.older

    def status_with_errors(self, response: dict[str, Any]) -> int:
        """The status of a result with errors. Errors of fields have a path; their codes may be those of an
        invalid document."""
        if self.newer and response["data"] is not None:
            return PARTIAL_SUCCESS
        errors = response["errors"]
        codes = {error["extensions"]["code"] for error in errors}
        is_executed = any("path" in error for error in errors)
        found = (each for each in Rejection if each.code in codes and not (is_executed and each.older == 200))
        return next(map(self.status, found), PARTIAL_SUCCESS if self.newer else 200)


def negotiate(accept: str | None) -> Accepted:
    if not accept:
        return Accepted()
    return read_cached(accept) if len(accept) <= MAX_CACHED else read_accept(accept)


def read_accept(accept: str) -> Accepted:
    ranges = dict(map(read_range, accept.lower().split(",", MAX_RANGES)[:MAX_RANGES]))
    newer, json = quality(ranges, NEWER), quality(ranges, "application/json")
    events = ranges.get(EVENT_STREAM, 0.0)
    return Accepted(
        newer=newer > json or (0 < newer == json and NEWER in ranges),
        streams=events > 0,
        prefers_stream=events > max(newer, json),
        nothing=not (newer or json or events),
    )


read_cached = lru_cache(64)(read_accept)  # most clients send one of a few values


def read_range(text: str) -> tuple[str, float]:
    """A media range and its quality; a malformed quality means 1."""
    name, *parameters = text.split(";")
    found = next(filter(None, map(QUALITY.fullmatch, parameters)), None)
    return name.strip(), float(found[1]) if found else 1.0


def quality(ranges: dict[str, float], media_type: str) -> float:
    """The quality of the most specific range that includes the media type (RFC 9110, section 12.5.1)."""
    return next((ranges[each] for each in (media_type, "application/*", "*/*") if each in ranges), 0.0)
