"""GraphQL over HTTP, edition of September 2026: docs/graphql-over-http.md lists its requirements.

With application/graphql-response+json a response has the status of the edition, with application/json that of
an json draft.
"""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import orjson
import pytest
from httpx2 import Response

from app.db.drivers.interface import DatabaseUnavailable
from app.db.statements.switch import SwitchState, saving_switch
from app.main import create_app
from app.settings import Trust
from tests import pages
from tests.callers import WIDE, Caller, Gateway, opened, run_write
from tests.concurrency import ApiCall, ApiResponse, before_database_calls, send_call
from tests.factories import NOW, a_world
from tests.schema.keyed import KEYED, REPLAYED, assigning
from tests.schema.manifest_service import hashed, service_with_manifest, sha256
from tests.test_unknown_outcomes import failing

pytestmark = pytest.mark.sqlite_only

GRAPHQL = "application/graphql-response+json"
NEWER_UTF8 = f"{GRAPHQL}; charset=utf-8"
JSON = "application/json"
SECTIONS = dict(pages.sections(pages.read("docs/graphql-over-http.md")))
STATUSES = {
    case: (int(graphql), int(json))
    for graphql, json, cases in pages.rows(SECTIONS["Statuses"])
    for case in cases.split("; ")
}
TEXT = "query ($id: ID!) { session(id: $id) { title } }"


def post(caller: Caller, accept: str, body: Any, **headers: str) -> Response:
    headers = {"accept": accept, "content-type": JSON, "x-request-id": "r", **headers}
    content = {"content": body} if isinstance(body, bytes) else {"json": body}
    return caller.request("POST", "/graphql", headers=headers, **content)


def get(caller: Caller, accept: str, **parameters: str) -> Response:
    return caller.get("/graphql", params=parameters, headers={"accept": accept, "x-request-id": "r"})


# --- statuses ---------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def strict(standing: Gateway) -> Iterator[Gateway]:
    """With a limit on tokens."""
    settings = standing.settings.model_copy(update={**WIDE, "token_limit": 40})
    with opened(create_app(settings, clock=lambda: NOW)) as client:
        yield Gateway(client, settings)


REQUESTS: dict[str, list[Any]] = {
    "`data` without `errors`": [{"query": "{ __typename }"}],
    "`errors` beside `data`": [{"query": '{ __typename session(id: "99") { id } }'}],
    "`errors` beside null": [
        {"query": "{ clients { totalCount } }"},
        {"query": 'query ($ids: [ID!] = ["1"]) { nodes(ids: $ids) { id } }', "variables": {"ids": None}},
    ],
    "a body that is not JSON": [b"", b"NONSENSE", b'{"query":', b'{"query": "\xff"}'],
    "a document that does not parse": [{"query": "{"}, {"query": " "}, {"query": "{ 8a }"}],
    "a batch (an array of requests)": [b"[]", b'[{"query": "{ __typename }"}]'],
    "malformed parameters": [
        {"qeury": "{ __typename }"},
        {"query": 7},
        {"query": TEXT, "variables": [7]},
        {"query": "{ __typename }", "operationName": 1},
        {"query": "{ __typename }", "extensions": "x"},
    ],
    "an invalid document": [
        {"query": "{ nonsense }"},
        {"query": "{ book }"},
        {"query": "query A { __typename } query A { __typename }"},
    ],
    "an unknown operation": [
        {"query": "query A { __typename }", "operationName": "B"},
        {"query": "fragment A on Query { __typename }"},
    ],
    "several operations without a name": [{"query": "query A { __typename } query B { __typename }"}],
    "invalid variables": [
        {"query": TEXT},
        {"query": TEXT, "variables": {"id": [1]}},
        {
            "query": "query ($since: DateTime) { submissions(since: $since) { totalCount } }",
            "variables": {"since": "soon"},
        },
    ],
    "a document above a limit": [{"query": "{ " + "__typename " * 50 + "}"}],
    "an unknown document id": [{"documentId": "x"}],
    "an unknown hash": [{"extensions": hashed(sha256("{ __typename }"))}],
    "a subscription without `text/event-stream`": [{"query": "subscription { reminderDue { id } }"}],
}
OF_REQUESTS = [(case, body) for case, bodies in REQUESTS.items() for body in bodies]


@pytest.mark.parametrize(("case", "body"), OF_REQUESTS)
def test_a_response_has_the_status_of_the_page(strict: Gateway, case: str, body: Any) -> None:
    caller = strict.as_client(1)

    graphql, json = post(caller, GRAPHQL, body), post(caller, JSON, body)

    assert (graphql.status_code, json.status_code) == STATUSES[case]
    assert (graphql.headers["content-type"], json.headers["content-type"]) == (NEWER_UTF8, JSON)
    expected = json.json()
    if graphql.status_code >= 400:
        assert expected.pop("data", None) is None
    assert graphql.json() == expected
    assert ("data" in graphql.json()) == (graphql.status_code in (200, 294))
    assert ("errors" in graphql.json()) == (graphql.status_code != 200)


def test_every_status_of_the_page_is_tested() -> None:
    tests = Path(__file__).read_text()

    assert [case for case in STATUSES if f'"{case}"' not in tests] == []


@pytest.mark.parametrize("query", ["mutation { __typename }", "query A { a } mutation B { __typename }"])
def test_a_mutation_by_get_is_rejected(standing: Gateway, query: str) -> None:
    caller, parameters = standing.as_caregiver(1), {"query": query, "operationName": "B" * ("B" in query)}

    graphql, json = get(caller, GRAPHQL, **parameters), get(caller, JSON, **parameters)

    assert (graphql.status_code, json.status_code) == STATUSES["a mutation by GET"]
    assert (graphql.headers["allow"], graphql.headers["content-type"]) == ("GET, POST", NEWER_UTF8)
    assert graphql.json() == json.json() == rejection("mutations are not allowed when using GET")


@pytest.mark.parametrize("accept", [GRAPHQL, JSON])
@pytest.mark.parametrize("method", ["PUT", "DELETE", "PATCH", "OPTIONS"])
def test_another_method_is_rejected(standing: Gateway, method: str, accept: str) -> None:
    headers = {"accept": accept, "x-request-id": "r"}

    response = standing.as_client(1).request(method, "/graphql", headers=headers)

    assert response.status_code == STATUSES["another method"][accept == JSON]
    assert response.headers["allow"] == "GET, POST"
    assert response.json() == rejection("GraphQL only supports GET and POST requests.")


def rejection(message: str, code: str = "BAD_REQUEST") -> dict[str, Any]:
    return {"errors": [{"message": message, "extensions": {"code": code, "requestId": "r"}}]}


@pytest.mark.parametrize("accept", [GRAPHQL, JSON])
def test_a_body_that_is_not_read_gets_no_graphql_response(standing: Gateway, accept: str) -> None:
    caller = standing.as_client(1)
    cases = {
        "no supported media type": [post(caller, "text/html", {"query": "{ __typename }"})],
        "a body above the limit": [post(caller, accept, b" " * 300_000)],
        "another `Content-Type`, or none": [
            post(caller, accept, b"{ __typename }", **{"content-type": "application/graphql"}),
            post(caller, accept, b"{ __typename }", **{"content-type": ""}),
        ],
    }

    for case, responses in cases.items():
        for response in responses:
            assert (response.status_code, response.headers["content-type"]) == (STATUSES[case][0], JSON)
            assert list(response.json()) == ["errors"]


def test_a_caller_who_is_not_permitted_is_rejected(standing: Gateway) -> None:
    query = {"query": "{ __typename }"}
    for case, caller, code in (
        ("no valid token", standing.with_token("x"), "UNAUTHENTICATED"),
        ("no enabled account", standing.as_client(77), "FORBIDDEN"),
    ):
        graphql, json = post(caller, GRAPHQL, query), post(caller, JSON, query)

        assert (graphql.status_code, json.status_code) == STATUSES[case]
        assert (graphql.headers["content-type"], graphql.json()) == (NEWER_UTF8, json.json())
        assert [error["extensions"]["code"] for error in graphql.json()["errors"]] == [code]


def test_a_document_that_is_not_trusted_is_rejected(standing: Gateway, tmp_path: Path) -> None:
    with service_with_manifest(standing.settings, Trust.ENFORCE, tmp_path) as enforced:
        responses = [
            post(enforced.as_client(1), accept, {"query": "{ __typename }"}) for accept in (GRAPHQL, JSON)
        ]

    assert tuple(one.status_code for one in responses) == STATUSES["a document that is not trusted"]
    expected = rejection("This document is not trusted.", "DOCUMENT_NOT_TRUSTED")
    assert [one.json() for one in responses] == [expected] * 2


def test_a_rate_limit_is_rejected_without_data(standing: Gateway) -> None:
    settings, query = standing.settings.model_copy(update={"rate_limit": 1}), {"query": "{ viewer { role } }"}
    with opened(create_app(settings, clock=lambda: NOW)) as client:
        caller = Caller(client, standing.as_client(1).token)
        first, graphql, json = (post(caller, accept, query) for accept in (GRAPHQL, GRAPHQL, JSON))

    assert (graphql.status_code, json.status_code) == STATUSES["a rate limit"]
    assert (first.status_code, "retry-after" in graphql.headers) == (200, True)
    expected = rejection("too many points were used within a minute", "RATE_LIMITED")
    assert (graphql.json(), json.json()) == (expected, {"data": None, **expected})


# --- failures during execution --------------------------------------------------------------------

READ = {"query": '{ __typename session(id: "1") { title } }'}
REQUIRED = {"query": "{ sessions { totalCount } }"}


@pytest.mark.parametrize(
    ("body", "faults", "case"),
    [
        (REQUIRED, [DatabaseUnavailable()], "an unavailable database"),  # for authentication
        (REQUIRED, [None, DatabaseUnavailable()], "an unavailable database"),
        (READ, [None, DatabaseUnavailable()], "an unavailable database, and some `data`"),
    ],
    ids=["before execution", "no data", "partial data"],
)
@pytest.mark.parametrize("accept", [GRAPHQL, JSON])
def test_a_database_failure_has_the_status_of_the_page(
    gateway: Gateway, body: Any, faults: list[Exception | None], case: str, accept: str
) -> None:
    gateway.import_records(a_world())
    with failing(gateway, *faults):
        response = post(gateway.as_client(1), accept, body)

    assert response.status_code == STATUSES[case][accept == JSON]
    assert ("retry-after" in response.headers) == (response.status_code == 503)
    assert response.json().get("data") == ({"__typename": "Query", "session": None} if body is READ else None)
    assert ("data" in response.json()) == (body is READ or (accept == JSON and None in faults))
    assert [error["extensions"]["code"] for error in response.json()["errors"]] == ["OVERLOADED"]


@pytest.mark.parametrize("accept", [GRAPHQL, JSON])
def test_a_change_before_the_switch_has_the_status_of_the_page(gateway: Gateway, accept: str) -> None:
    gateway.import_records(a_world())
    run_write(gateway.settings.database, saving_switch(SwitchState.WAITING))

    response = post(gateway.as_caregiver(1), accept, assigning())

    assert response.status_code == STATUSES["a change while the service is read-only"][accept == JSON]
    assert "retry-after" in response.headers
    assert [error["extensions"]["code"] for error in response.json()["errors"]] == ["READ_ONLY"]


# --- idempotency keys -------------------------------------------------------------------------------


@pytest.mark.parametrize(("first", "second"), [(GRAPHQL, JSON), (JSON, GRAPHQL)])
def test_a_replayed_response_has_the_media_type_that_the_repetition_accepts(
    gateway: Gateway, first: str, second: str
) -> None:
    """Only responses without errors are stored, so the status is a 200 with both."""
    gateway.import_records(a_world())
    types = {GRAPHQL: NEWER_UTF8, JSON: JSON}

    original = post(gateway.as_caregiver(1), first, assigning(), **KEYED)
    repeated = post(gateway.as_caregiver(1), second, assigning(), **KEYED)

    assert (original.status_code, original.headers["content-type"]) == (200, types[first])
    assert (repeated.status_code, repeated.headers["content-type"]) == (200, types[second])
    assert (repeated.content, REPLAYED in repeated.headers.items()) == (original.content, True)


def test_the_key_of_another_request_is_rejected(gateway: Gateway) -> None:
    gateway.import_records(a_world())
    assert post(gateway.as_caregiver(1), GRAPHQL, assigning(), **KEYED).status_code == 200

    responses = [
        post(gateway.as_caregiver(1), accept, assigning(bookIds=["2"]), **KEYED) for accept in (GRAPHQL, JSON)
    ]

    statuses = tuple(one.status_code for one in responses)
    assert statuses == STATUSES["the `Idempotency-Key` of another request"]
    assert responses[0].json() == responses[1].json()


def test_the_key_of_a_request_in_progress_is_rejected(gateway: Gateway) -> None:
    gateway.import_records(a_world())
    caller = gateway.as_caregiver(1)
    responses: list[ApiResponse] = []

    async def meanwhile() -> None:
        for accept in (GRAPHQL, JSON):
            call = ApiCall(caller, "POST", "/graphql", assigning(), {**KEYED, "accept": accept})
            responses.append(await send_call(gateway.client, call))

    with before_database_calls(gateway, writes=[meanwhile]):
        post(caller, GRAPHQL, assigning(), **KEYED)

    statuses = tuple(one.status for one in responses)
    assert statuses == STATUSES["the `Idempotency-Key` of a request in progress"]


def test_a_key_that_cannot_apply_is_rejected(standing: Gateway) -> None:
    close = "closeSession(input: {sessionId: 99}) { userErrors { code } }"
    for mutation, key in ((close, "a b"), (f"a: {close} b: {close}", "a")):
        responses = [
            post(
                standing.as_caregiver(1),
                accept,
                {"query": f"mutation {{ {mutation} }}"},
                **{"idempotency-key": key},
            )
            for accept in (GRAPHQL, JSON)
        ]

        statuses = tuple(one.status_code for one in responses)
        assert statuses == STATUSES["an invalid `Idempotency-Key`, or one for several mutations"]


# --- event streams ----------------------------------------------------------------------------------


def test_an_event_stream_has_results_and_no_rejections(standing: Gateway) -> None:
    """If the client prefers it to JSON, also for a query."""
    accept = f"text/event-stream, {GRAPHQL};q=0.5"
    caller = standing.as_client(1)

    partial = post(caller, accept, {"query": '{ __typename session(id: "99") { id } }'})
    by_get = get(caller, accept, query="{ __typename }")
    invalid = post(caller, accept, {"query": "{ nonsense }"})

    for response in (partial, by_get):
        assert (response.status_code, response.headers["content-type"]) == (200, "text/event-stream")
    assert 'data: {"data":{"__typename":"Query","session":null},"errors":[' in partial.text
    assert 'data: {"data":{"__typename":"Query"}}' in by_get.text
    assert (invalid.status_code, invalid.headers["content-type"]) == (422, NEWER_UTF8)


# --- requests ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "more", [{}, {"other": [1]}, {"variables": None, "operationName": None, "extensions": None}]
)
@pytest.mark.parametrize("content_type", [JSON, f"{JSON}; charset=utf-8"])
def test_a_post_may_have_other_and_null_members_in_utf_8(
    standing: Gateway, content_type: str, more: dict[str, Any]
) -> None:
    body = orjson.dumps({"query": '{ books(search: "\u00fcber") { nodes { name } } }', **more})

    response = post(standing.as_client(1), GRAPHQL, body, **{"content-type": content_type})

    assert (response.status_code, response.headers["content-type"]) == (200, NEWER_UTF8)
    assert response.content == '{"data":{"books":{"nodes":[{"name":"Weekly mood – über alles"}]}}}'.encode()


@pytest.mark.parametrize(
    "more",
    [
        {},
        {"operationName": "", "extensions": "", "documentId": ""},
        {"operationName": "A", "extensions": '{"a": 1}'},
    ],
)
def test_a_get_has_its_parameters_in_the_query_string(standing: Gateway, more: dict[str, str]) -> None:
    query = "query A($id: ID = 1) { session(id: $id) { title } }"

    named = get(standing.as_client(1), GRAPHQL, query=query, variables='{"id": "1"}', **more)
    default = get(standing.as_client(1), GRAPHQL, query=query, variables="", **more)

    for response in (named, default):
        assert (response.status_code, response.headers["content-type"]) == (200, NEWER_UTF8)
        assert response.json() == {"data": {"session": {"title": "Session 1"}}}


@pytest.mark.parametrize("parameters", [{}, {"variables": "{"}, {"variables": "[7]"}, {"extensions": "7"}])
def test_a_malformed_get_is_rejected(standing: Gateway, parameters: dict[str, str]) -> None:
    parameters = {"query": "{ __typename }", **parameters} if parameters else {}

    graphql, json = (get(standing.as_client(1), accept, **parameters) for accept in (GRAPHQL, JSON))

    case = "malformed parameters"
    assert (graphql.status_code, json.status_code) == STATUSES[case]
    assert graphql.json() == json.json()


# --- the page ---------------------------------------------------------------------------------------


def test_every_requirement_of_the_page_names_existing_tests() -> None:
    files = [path for path in (pages.ROOT / "tests").rglob("*.py")]
    defined = set(re.findall(r"^def (test_\w+)\(", "\n".join(map(Path.read_text, files)), re.MULTILINE))

    for requirement, tests in pages.rows(SECTIONS["Requirements"]):
        named = re.findall(r"`(test_\w+)`", tests)
        assert named or tests == "not followed: decision 10", requirement
        assert set(named) - defined == set(), requirement
