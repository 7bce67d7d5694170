"""GraphQL over HTTP: malformed requests are rejected as JSON with the request id.

A malformed body is a 400 or 415, another method a 405 with `Allow`; a query by GET is executed, a mutation is
not. The parser has its own tests in test_request_parsing.py.
"""

import logging
from collections.abc import Iterator
from typing import Any

import orjson
import pytest

from app.schema.transport.endpoint import describe_work
from tests.callers import Gateway, schema_of
from tests.rest_compat.legacy import ASSIGNMENTS, homework
from tests.schema.listening import scope_of
from tests.schema.worlds import in_base64

pytestmark = pytest.mark.sqlite_only

JSON = {"content-type": "application/json"}
NO_OBJECT = "The request must be a JSON object."
NO_JSON = "Unable to parse request body as JSON"
NO_QUERY = "No GraphQL query found in the request"
BODIES: dict[str, tuple[bytes, str]] = {
    "a batch": (b'[{"query": "{ __typename }"}]', NO_OBJECT),
    "nothing": (b"", NO_JSON),
    "invalid UTF-8": (b'{"query": "\xff\xfe"}', NO_JSON),
    "another encoding": ('{"query": "{ __typename }"}'.encode("utf-16"), NO_JSON),
    "an unpaired surrogate": (b'{"query": "\\ud800"}', NO_JSON),
    "NaN": (b'{"query": "{ __typename }", "variables": {"a": NaN}}', NO_JSON),
    "a number of 5,000 digits": (b"1" * 5000, NO_JSON),
    "variables 5,000 deep": (b'{"variables":' + b"[" * 5000 + b"]" * 5000 + b"}", NO_JSON),
    "an empty object": (b"{}", NO_QUERY),
    "query null": (b'{"query": null}', NO_QUERY),
    "query empty": (b'{"query": ""}', NO_QUERY),
    "variables a list": (
        b'{"query": "{ __typename }", "variables": []}',
        "The member `variables` must be an object or null.",
    ),
    "an unknown operation": (
        b'{"query": "query A { __typename }", "operationName": "B"}',
        'Unknown operation named "B".',
    ),
    "an empty operation name": (
        b'{"query": "query A { __typename }", "operationName": ""}',
        'Unknown operation named "".',
    ),
    "only fragments": (
        b'{"query": "fragment a on Query { __typename }"}',
        "Can't get GraphQL operation type",
    ),
}


def bad_request(message: str, request_id: str) -> dict[str, Any]:
    return {"errors": [{"message": message, "extensions": {"code": "BAD_REQUEST", "requestId": request_id}}]}


@pytest.mark.parametrize(("body", "message"), BODIES.values(), ids=BODIES.keys())
def test_a_malformed_body_is_rejected(standing: Gateway, body: bytes, message: str) -> None:
    response = standing.as_client(1).request("POST", "/graphql", content=body, headers=JSON)

    assert (response.status_code, response.headers["content-type"]) == (400, "application/json")
    assert response.json() == bad_request(message, response.headers["x-request-id"])


@pytest.mark.parametrize(
    "content_type", [None, "text/plain; application/json", "multipart/form-data; boundary=x"]
)
def test_other_content_types_are_rejected(standing: Gateway, content_type: str | None) -> None:
    """A page of another origin can send these without a preflight, but not `application/json`."""
    headers = {} if content_type is None else {"content-type": content_type}

    response = standing.as_client(1).request(
        "POST", "/graphql", content=b'{"query": "{ __typename }"}', headers=headers
    )

    assert (response.status_code, response.headers["content-type"]) == (415, "application/json")
    message = "The content type must be application/json."
    assert response.json() == bad_request(message, response.headers["x-request-id"])


@pytest.mark.parametrize(
    "accept", ["*/*", "application/json", "text/event-stream, application/json", "text/html, */*;q=0.1"]
)
def test_a_query_is_answered_as_json_if_that_is_accepted(standing: Gateway, accept: str) -> None:
    response = standing.as_client(1).request(
        "POST", "/graphql", json={"query": "{ viewer { role } }"}, headers={"accept": accept}
    )

    assert response.headers["content-type"] == "application/json"
    assert response.json() == {"data": {"viewer": {"role": "CLIENT"}}}


@pytest.mark.parametrize("method", ["PUT", "DELETE", "PATCH", "OPTIONS"])
def test_other_methods_are_rejected(standing: Gateway, method: str) -> None:
    response = standing.as_client(1).request(method, "/graphql", headers=JSON)

    assert (response.status_code, response.headers["allow"]) == (405, "GET, POST")
    message = "GraphQL only supports GET and POST requests."
    assert response.json() == bad_request(message, response.headers["x-request-id"])


# --- by GET ------------------------------------------------------------------------------------------


def test_a_query_by_get_is_answered(standing: Gateway) -> None:
    parameters = {
        "query": "query A { viewer { role } } query B($id: ID!) { session(id: $id) { title } }",
        "operationName": "B",
        "variables": '{"id": "1"}',
    }

    response = standing.as_client(1).get("/graphql", params=parameters, headers={"accept": "text/html, */*"})

    assert (response.status_code, response.headers["content-type"]) == (200, "application/json")
    assert response.json() == {"data": {"session": {"title": "Session 1"}}}


@pytest.mark.parametrize("name", ["query", "variables", "operationName", "documentId", "extensions"])
def test_a_get_with_a_member_of_a_request_is_no_request_for_the_page(standing: Gateway, name: str) -> None:
    response = standing.as_client(1).get(
        "/graphql", params={name: "{"}, headers={"accept": "text/html, image/gif, */*"}
    )

    assert response.headers["content-type"] == "application/json"
    assert response.json()["errors"]


INVALID_GETS = {
    "a mutation": ({"query": "mutation { __typename }"}, "mutations are not allowed when using GET"),
    "a mutation chosen by name": (
        {"query": "query A { __typename } mutation B { __typename }", "operationName": "B"},
        "mutations are not allowed when using GET",
    ),
    "no query": ({}, NO_QUERY),
    "variables alone": ({"variables": "{}"}, NO_QUERY),
    "an empty query": ({"query": ""}, NO_QUERY),
    "variables that are not JSON": (
        {"query": "{ __typename }", "variables": "x"},
        "The parameter `variables` must be JSON.",
    ),
    "variables that are a list": (
        {"query": "{ __typename }", "variables": "[]"},
        "The member `variables` must be an object or null.",
    ),
}


@pytest.mark.parametrize(("parameters", "message"), INVALID_GETS.values(), ids=INVALID_GETS.keys())
def test_a_malformed_get_or_a_mutation_by_get_is_rejected(
    standing: Gateway, parameters: dict[str, str], message: str
) -> None:
    response = standing.as_caregiver(1).get("/graphql", params=parameters)

    assert (response.status_code, response.headers["content-type"]) == (400, "application/json")
    assert response.json() == bad_request(message, response.headers["x-request-id"])


@pytest.mark.parametrize(
    "query",
    ["query A { __typename } mutation B { __typename }", "mutation B { __typename } query A { __typename }"],
)
def test_a_get_with_several_operations_needs_an_operation_name(standing: Gateway, query: str) -> None:
    response = standing.as_caregiver(1).get("/graphql", params={"query": query}).json()

    assert response["data"] is None
    assert [error["message"] for error in response["errors"]] == [
        "Must provide operation name if query contains multiple operations."
    ]


# --- the request id ------------------------------------------------------------------------------------


@pytest.mark.parametrize("request_id", ["a", "7f3c-2.B_9", "x" * 64])
def test_a_well_formed_request_id_is_used(standing: Gateway, request_id: str) -> None:
    response = standing.as_client(1).request(
        "POST", "/graphql", json={"query": "{ nope }"}, headers={"x-request-id": request_id}
    )

    assert response.headers["x-request-id"] == request_id
    assert response.json()["errors"][0]["extensions"]["requestId"] == request_id


@pytest.mark.parametrize(
    "request_id", [None, "", "a b", "a\tb", "x" * 65, "<script>", 'a"b', "a,b", in_base64("é??>")]
)
def test_any_other_request_id_is_replaced(standing: Gateway, request_id: str | None) -> None:
    headers = {} if request_id is None else {"x-request-id": request_id}
    ids = set()

    for _ in range(2):
        response = standing.as_client(1).request(
            "POST", "/graphql", json={"query": "{ nope }"}, headers=headers
        )
        ids.add(response.headers["x-request-id"])
        assert response.json()["errors"][0]["extensions"]["requestId"] in ids

    assert len(ids) == 2 and request_id not in ids
    assert all(len(each) == 32 and each.isalnum() for each in ids)


def test_a_too_long_body_is_rejected(standing: Gateway) -> None:
    body = b'{"query": "{ __typename }"' + b" " * (256 * 1024) + b"}"

    def in_chunks() -> Iterator[bytes]:
        yield body[: len(body) // 2]
        yield body[len(body) // 2 :]

    for content in (body, in_chunks()):
        response = standing.as_caregiver(1).request(
            "POST", "/graphql", content=content, headers={"content-type": "application/json"}
        )

        assert response.status_code == 413
        assert [error["message"] for error in response.json()["errors"]] == [
            "The request may have at most 262144 bytes."
        ]


# --- requests that the log describes ----------------------------------------------------------------


@pytest.mark.parametrize(
    ("body", "described"),
    [
        ({"query": "{ b: viewer { role } sessions { totalCount } }"}, "sessions, viewer"),
        ({"query": "{ ...F } fragment F on Query { viewer { role } }"}, "unknown fields"),
        ({"query": "{ secret }"}, "unknown fields"),
        (
            {"query": "query A { viewer { role } } query B { books { totalCount } }", "operationName": "B"},
            "books",
        ),
        ({"query": "{"}, None),
        ({"query": "query A { viewer { role } } query B { viewer { role } }"}, None),
        ({}, None),
    ],
    ids=["names", "a fragment", "invented", "chosen", "malformed", "ambiguous", "no document"],
)
def test_the_log_describes_a_request_by_the_fields_of_the_schema(
    standing: Gateway, body: dict[str, str], described: str | None
) -> None:
    caller = standing.as_client(1)
    scope = scope_of(caller, "POST", "/graphql")
    messages = [{"type": "http.request", "body": orjson.dumps(body)}]

    run(standing, scope, messages)

    expected = "a request" if described is None else f"a request of {described}"
    assert describe_work(schema_of(standing.client.app), scope["state"]) == expected


def test_the_log_describes_a_request_of_a_legacy_path_without_its_id(standing: Gateway) -> None:
    scope = scope_of(standing.as_caregiver(1), "GET", f"{ASSIGNMENTS}/1")

    run(standing, scope, [{"type": "http.request", "body": b""}])

    described = describe_work(schema_of(standing.client.app), scope["state"])
    assert described == f"a request of GET {ASSIGNMENTS}/{{id}}"


@pytest.mark.parametrize(
    ("method", "path", "body"),
    [("POST", "/graphql", {"query": "{ viewer { role } }"}), ("PUT", ASSIGNMENTS, homework())],
)
def test_a_client_that_disconnects_during_its_body_is_no_failure(
    standing: Gateway, method: str, path: str, body: Any, caplog: pytest.LogCaptureFixture
) -> None:
    """Nothing is executed, although what has arrived could be a whole request."""
    scope = scope_of(standing.as_caregiver(1), method, path)
    begun = {"type": "http.request", "body": orjson.dumps(body), "more_body": True}

    sent = run(standing, scope, [begun, {"type": "http.disconnect"}])

    assert [each["status"] for each in sent if each["type"] == "http.response.start"] == [400]
    assert [each for each in caplog.records if each.levelno >= logging.WARNING] == []


def run(gateway: Gateway, scope: dict[str, Any], messages: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Sends a request by its messages. Returns those of the response."""
    sent: list[dict[str, Any]] = []

    async def receive() -> dict[str, Any]:
        return messages.pop(0)

    async def send(message: dict[str, Any]) -> None:
        sent.append(message)

    application: Any = gateway.client.app
    assert gateway.client.portal is not None
    gateway.client.portal.call(application, scope, receive, send)
    return sent
