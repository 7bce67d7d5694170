"""The `Accept` header decides on the media type of a response (RFC 9110, section 12.5.1)."""

from itertools import permutations

import pytest

from app.schema.transport.content_negotiation import MAX_CACHED, Accepted, negotiate, read_cached
from tests.callers import Gateway

pytestmark = pytest.mark.sqlite_only

GRAPHQL = "application/graphql-response+json"
JSON = "application/json"
EVENTS = "text/event-stream"
BROWSER = "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8"
RIGHT = {"query": "{ __typename }"}
RESULT = {"data": {"__typename": "Query"}}
CHOSEN = {
    JSON: [
        None,
        "",
        "*/*",
        "application/*",
        JSON,
        f"{JSON}; charset=utf-8",
        f"text/html, {JSON};q=0.1",
        BROWSER,
        f"{JSON}, {GRAPHQL};q=0.5",
        f"{GRAPHQL};q=0.5, */*",
        f"{GRAPHQL}; charset=utf-8; q=0.5, {JSON}",
        f"{GRAPHQL};q=0.5;level=1, {JSON}",
        f"{GRAPHQL};q=0.5, application/*;q=0.6, */*;q=0.1",
        f"{GRAPHQL};q=0, */*",
        f"{GRAPHQL}x, {JSON}",
        f"{EVENTS}, */*",
        f"{EVENTS};q=0.9, {JSON}",
    ],
    f"{GRAPHQL}; charset=utf-8": [
        GRAPHQL,
        GRAPHQL.upper(),
        f"{GRAPHQL}; charset=utf-8, {JSON}; charset=utf-8",
        f"{JSON}, {GRAPHQL}",
        f"{GRAPHQL},{JSON};q=0.9",
        f"{GRAPHQL};q=0.5, {JSON};q=0.4",
        f"{GRAPHQL} ; Q=0.500 , {JSON} ; q=0.4",
        f"{GRAPHQL};q=high, {JSON}",
        f"{GRAPHQL}, {JSON};q=1.5",
        f"{GRAPHQL};q=1.000, {JSON};q=0.999",
        f"{GRAPHQL}, */*",
        f"{JSON};q=0.5, */*",
        f"{JSON};q=0, application/*",
        f"{EVENTS}, {GRAPHQL}",
        f"{GRAPHQL}, application/graphql+json, {JSON}, {EVENTS}, multipart/mixed",
    ],
    EVENTS: [EVENTS, f"{EVENTS};q=0.2", f"{EVENTS}, {GRAPHQL};q=0.9, {JSON};q=0.8", f"{EVENTS}, {JSON};q=0"],
}


@pytest.mark.parametrize(
    ("accept", "media_type"), [(accept, chosen) for chosen, values in CHOSEN.items() for accept in values]
)
def test_a_result_has_the_media_type_with_the_highest_quality(
    standing: Gateway, accept: str | None, media_type: str
) -> None:
    headers = {} if accept is None else {"accept": accept}

    for _ in range(2):  # the second time from the cache
        response = standing.as_client(1).request("POST", "/graphql", json=RIGHT, headers=headers)

        assert (response.status_code, response.headers["content-type"]) == (200, media_type)
        if media_type != EVENTS:
            assert response.json() == RESULT


@pytest.mark.parametrize("method", ["GET", "POST"])
@pytest.mark.parametrize(
    "accept",
    [
        "text/html",
        "text/*",
        "!",
        f"{JSON}x",
        f"{JSON};q=0",
        f"{JSON}; charset=utf-8; q=0",
        f"{JSON};q=0.0, {GRAPHQL};q=0",
        f"{EVENTS};q=0, text/plain",
        "text/plain, " * 64 + JSON,
        "*/*;q=0",
    ],
)
def test_a_request_that_accepts_no_supported_media_type_is_a_406(
    standing: Gateway, accept: str, method: str
) -> None:
    headers = {"accept": accept, "x-request-id": "r"}

    response = standing.as_client(1).request(
        method, "/graphql?query={__typename}", json=RIGHT, headers=headers
    )

    assert (response.status_code, response.headers["content-type"]) == (406, JSON)
    message = "No media type of the Accept header is supported."
    assert response.json() == {
        "errors": [{"message": message, "extensions": {"code": "BAD_REQUEST", "requestId": "r"}}]
    }


def test_a_long_header_is_not_cached() -> None:
    before = read_cached.cache_info().misses

    assert negotiate(GRAPHQL.ljust(MAX_CACHED + 1)).graphql
    assert read_cached.cache_info().misses == before


def test_the_first_64_media_ranges_count() -> None:
    others = ["text/html"] * 63

    assert negotiate(",".join([*others, GRAPHQL, "*/*"])).graphql
    assert negotiate(",".join([*others, JSON, GRAPHQL])) == negotiate(JSON)
    assert negotiate(",".join([*others, "text/html", "*/*"])).nothing


def test_the_first_failure_of_the_list_decides_the_status_of_several_errors() -> None:
    """Not the first error: fields fail in any order."""
    errors = [
        {"path": [str(number)], "extensions": {"code": code}}
        for number, code in enumerate(("NOT_FOUND", "RATE_LIMITED", "OVERLOADED"))
    ]

    for several in permutations(errors):
        response = {"data": {"0": None}, "errors": several}
        assert Accepted().status_with_errors(response) == 503
        assert Accepted(graphql=True).status_with_errors(response) == 294
        assert Accepted(graphql=True).status_with_errors(response | {"data": None}) == 503
