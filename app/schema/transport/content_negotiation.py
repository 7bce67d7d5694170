"""Content negotiation of GraphQL responses: the media type, and the status of a response with errors.

docs/graphql-over-http.md compares the two media types.
"""

import re
from functools import lru_cache
from typing import Any, NamedTuple

from app.http.errors import Failure
from app.http.messages import JSON

GRAPHQL = "application/graphql-response+json"
GRAPHQL_JSON = (JSON[0], f"{GRAPHQL}; charset=utf-8".encode())
EVENT_STREAM = "text/event-stream"
MAX_CACHED = 256  # characters of a header in the cache
MAX_RANGES = 64  # more are ignored
QUALITY = re.compile(r"\s*q=(0(?:\.[0-9]{0,3})?|1(?:\.0{0,3})?)\s*")
PARTIAL_SUCCESS = 294
OF_RESULTS = tuple(each for each in Failure if each.is_of_result)
NOT_GRAPHQL = (413, 415)  # the body was not read, so the response is not a GraphQL response


class Accepted(NamedTuple):
    """What the Accept header of a request selects."""

    graphql: bool = False  # application/graphql-response+json; else application/json
    streams: bool = False  # event streams are accepted, which subscriptions need
    prefers_stream: bool = False  # for a single result, too
    nothing: bool = False  # no supported media type

    def status(self, failure: Failure) -> int:
        return failure.graphql if self.graphql else failure.json

    def status_with_errors(self, response: dict[str, Any]) -> int:
        """The status of a result with errors. Errors of fields have a path; their codes may be those of an
        invalid document."""
        if self.graphql and response["data"] is not None:
            return PARTIAL_SUCCESS
        errors = response["errors"]
        codes = {error["extensions"]["code"] for error in errors}
        is_executed = any("path" in error for error in errors)
        found = (each for each in OF_RESULTS if each.code in codes and not (is_executed and each.json == 200))
        return next(map(self.status, found), PARTIAL_SUCCESS if self.graphql else 200)


def negotiate(accept: str | None) -> Accepted:
    if not accept:
        return Accepted()
    return read_cached(accept) if len(accept) <= MAX_CACHED else read_accept(accept)


def read_accept(accept: str) -> Accepted:
    ranges = dict(map(read_range, accept.lower().split(",", MAX_RANGES)[:MAX_RANGES]))
    graphql, json = quality(ranges, GRAPHQL), quality(ranges, "application/json")
    events = ranges.get(EVENT_STREAM, 0.0)
    return Accepted(
        graphql=graphql > json or (0 < graphql == json and GRAPHQL in ranges),
        streams=events > 0,
        prefers_stream=events > max(graphql, json),
        nothing=not (graphql or json or events),
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
