"""Responses have the preferred media type; with the newer type, failed requests have an error status."""

from typing import Any

import pytest

from tests.callers import Gateway

pytestmark = pytest.mark.sqlite_only

NEWER = "application/graphql-response+json"
JSON = "application/json"
RIGHT = {"query": "{ __typename }"}
NOT_EXECUTED = {
    "a document that cannot be parsed": {"query": "{"},
    "one that is not valid": {"query": "{ nonsense }"},
    "a variable of the wrong kind": {
        "query": "query ($id: ID!) { session(id: $id) { id } }",
        "variables": {"id": [1]},
    },
}


@pytest.mark.parametrize(
    ("accept", "given"),
    [
        (None, JSON),
        ("*/*", JSON),
        (JSON, JSON),
        (NEWER, NEWER),
        (f"{NEWER}; charset=utf-8, {JSON}; charset=utf-8", NEWER),
        (f"{JSON}, {NEWER}", NEWER),
        (f"{NEWER},{JSON};q=0.9", NEWER),
        (f"{JSON}, {NEWER};q=0.5", JSON),
        (f"{NEWER};q=0", JSON),
        (f"text/event-stream, {NEWER}", NEWER),
        (NEWER.upper(), NEWER),
        (f"{NEWER}x", JSON),
    ],
)
def test_the_preferred_media_type_is_used(standing: Gateway, accept: str | None, given: str) -> None:
    headers = {} if accept is None else {"accept": accept}

    answer = standing.as_client(1).request("POST", "/graphql", json=RIGHT, headers=headers)

    assert (answer.status_code, answer.headers["content-type"]) == (200, given)
    assert answer.json() == {"data": {"__typename": "Query"}}


@pytest.mark.parametrize("asked", NOT_EXECUTED.values(), ids=NOT_EXECUTED)
def test_a_request_that_is_not_executed_is_a_400_without_data(
    standing: Gateway, asked: dict[str, Any]
) -> None:
    client = standing.as_client(1)

    newer = client.request("POST", "/graphql", json=asked, headers={"accept": NEWER})
    older = client.request("POST", "/graphql", json=asked, headers={"accept": JSON})

    assert (newer.status_code, list(newer.json())) == (400, ["errors"])
    assert (older.status_code, older.json()["data"]) == (200, None)
    assert [error["message"] for error in newer.json()["errors"]] == [
        error["message"] for error in older.json()["errors"]
    ]


def test_an_executed_request_with_errors_is_a_200_with_data(standing: Gateway) -> None:
    for query in ('{ session(id: "99") { id } }', "{ clients { totalCount } }"):
        answer = standing.as_client(1).request(
            "POST", "/graphql", json={"query": query}, headers={"accept": NEWER}
        )

        assert (answer.status_code, "data" in answer.json()) == (200, True)


def test_other_rejections_keep_their_status(standing: Gateway) -> None:
    answer = standing.as_anonymous().request(
        "GET", "/graphql?query={sessions{totalCount}}", headers={"accept": NEWER}
    )

    assert (answer.status_code, answer.headers["content-type"]) == (401, NEWER)
