"""Errors: every error has a code and the request id; an unexpected error discloses nothing else.

Contract: syntax and validation errors have GraphQL's own codes; an unexpected error is "Internal error" in
the response and a traceback with the request id in the log; rejections are not logged.
"""

import logging
from typing import Any

import pytest
from graphql import GraphQLError, Source
from sqlalchemy import text
from strawberry.types import ExecutionResult

from app.db.drivers.interface import DatabaseUnavailable
from app.db.sql import Statement, Steps
from app.db.tables import Assignment, Session
from app.http.errors import BY_CLASS, BY_CODE, Failure
from app.schema.transport.responses import response_body
from tests.callers import Gateway, run_write
from tests.concurrency import before_database_calls, failure, nothing
from tests.factories import a_world, starting_with
from tests.schema.listening import listening
from tests.schema.test_assign_homework import ASSIGN, homework
from tests.schema.worlds import count, refusal, stored
from tests.test_main import UNAVAILABLE
from tests.test_unknown_outcomes import failing

LOGGER = "care.graphql"


@pytest.mark.sqlite_only
@pytest.mark.parametrize(
    ("query", "message", "column"),
    [
        ("{", "Syntax Error: Expected Name, found <EOF>.", 2),
        ("nonsense", "Syntax Error: Unexpected Name 'nonsense'.", 1),
        ("   ", "Syntax Error: Unexpected <EOF>.", 4),
        (
            '{ session(id: "\\uD800") { id } }',
            "Syntax Error: Invalid Unicode escape sequence: '\\uD800'.",
            16,
        ),
    ],
    ids=["cut off", "nonsense", "blank", "half a character"],
)
def test_a_syntax_error(standing: Gateway, query: str, message: str, column: int) -> None:
    assert standing.as_client(1).graphql(query) == {
        "data": None,
        "errors": [refusal("GRAPHQL_PARSE_FAILED", message, column=column)],
    }


INVALID = {
    "an unknown field": (
        "{ sessionz { id } }",
        "Cannot query field 'sessionz' on type 'Query'. Did you mean 'session' or 'sessions'?",
        3,
    ),
    "a missing argument": (
        "{ session { id } }",
        "Argument 'Query.session(id:)' of type 'ID!' is required, but it was not provided.",
        3,
    ),
    "no selection": (
        "{ viewer }",
        "Field 'viewer' of type 'Viewer' must have a selection of subfields. Did you mean 'viewer { ... }'?",
        3,
    ),
    "an unused variable": ("query($a: Int) { viewer { role } }", "Variable '$a' is never used.", 7),
    "an unknown fragment": ("{ ...x }", "Unknown fragment 'x'.", 6),
}


@pytest.mark.sqlite_only
@pytest.mark.parametrize(("query", "message", "column"), INVALID.values(), ids=INVALID.keys())
def test_a_document_that_is_invalid(standing: Gateway, query: str, message: str, column: int) -> None:
    assert standing.as_client(1).graphql(query) == {
        "data": None,
        "errors": [refusal("GRAPHQL_VALIDATION_FAILED", message, column=column)],
    }


OPERATIONS = {
    "a query": "query A { viewer { role } }",
    "a mutation": "mutation A { __typename }",
    "a subscription": "subscription A { assignmentChanged { id } }",
}


@pytest.mark.sqlite_only
@pytest.mark.parametrize("first", OPERATIONS)
def test_several_operations_need_a_name(standing: Gateway, first: str) -> None:
    query = (
        f"{OPERATIONS[first]} query B {{ viewer {{ timeZone }} }} subscription C {{ reminderDue {{ id }} }}"
    )
    caller = standing.as_client(1)

    unnamed = [caller.graphql(query)]
    streamed = caller.request(
        "POST", "/graphql", json={"query": query}, headers={"accept": "text/event-stream"}
    )
    named = caller.request("POST", "/graphql", json={"query": query, "operationName": "B"}).json()
    with listening(caller) as listener:
        listener.subscribe(query)
        received = listener.receive()

    message = "Must provide operation name if query contains multiple operations."
    error = {"message": message, "extensions": {"code": "GRAPHQL_VALIDATION_FAILED"}}
    assert unnamed == [{"data": None, "errors": [error]}]
    assert (streamed.status_code, message in streamed.text) == (200, True)
    assert named == {"data": {"viewer": {"timeZone": "UTC"}}}
    assert [each["message"] for each in received["payload"]["errors"]] == [message]


def test_every_error_of_a_request_has_its_id(standing: Gateway) -> None:
    response = standing.as_client(1).request(
        "POST",
        "/graphql",
        json={"query": "{ a: session(id: 99) { id } b: book(id: 99) { id } c: viewer { role } }"},
        headers={"x-request-id": "care-7.1_a"},
    )

    answer = response.json()
    extensions = {"code": "NOT_FOUND", "requestId": "care-7.1_a"}
    assert response.headers["x-request-id"] == "care-7.1_a"
    assert answer["data"] == {"a": None, "b": None, "c": {"role": "CLIENT"}}
    assert answer["errors"] == [
        {
            "message": "session not found",
            "locations": [{"line": 1, "column": 3}],
            "path": ["a"],
            "extensions": extensions,
        },
        {
            "message": "book not found",
            "locations": [{"line": 1, "column": 29}],
            "path": ["b"],
            "extensions": extensions,
        },
    ]


@starting_with(a_world)
def test_errors_are_in_the_order_of_the_document(gateway: Gateway) -> None:
    """Fields end in another order: an invalid id needs no statement, and reads of answers are recorded."""
    query = """{ a: assignments { nodes { answerSets { legacyId } } } b: session(id: 99) { id }
        c: session(id: "x") { id } ...d e: assignment(id: 99) { id } f: book(id: "x") { id } }
        fragment d on Query { d: book(id: 99) { id } }"""

    for _ in range(5):
        response = gateway.as_caregiver(1).graphql(query)
        assert [error["path"] for error in response["errors"]] == [["b"], ["c"], ["e"], ["f"], ["d"]]


@starting_with(a_world)
def test_errors_of_one_field_are_in_the_order_of_their_paths(gateway: Gateway) -> None:
    query = "{ b: viewer { ...V } a: viewer { ...V } } fragment V on Viewer { lastEventId }"

    with before_database_calls(gateway, [nothing, failure, failure]):  # the account is read first
        response = gateway.as_caregiver(1).graphql(query)

    assert [error["path"] for error in response["errors"]] == [["a", "lastEventId"], ["b", "lastEventId"]]


def test_errors_of_the_items_of_a_list_are_in_the_order_of_the_items() -> None:
    """A field that is written twice counts where it is written first."""
    source = Source("{ list { id } other list { name } }")
    places: list[tuple[list[int], list[str | int]]] = [
        ([15], ["other"]),
        ([9, 28], ["list", 10, "id"]),
        ([9, 28], ["list", 2, "id"]),
        ([9], ["list"]),
    ]
    errors = [GraphQLError("fault", source=source, positions=at, path=path) for at, path in places]

    response = response_body(ExecutionResult(None, errors), "request")

    assert [each["path"] for each in response["errors"]] == [path for _, path in reversed(places)]


REFUSED = {
    "not signed in": "{ viewer { role } }",
    "not found": "{ session(id: 99) { id } }",
    "unreadable": "{ sessions(first: 0) { totalCount } }",
    "forbidden": """mutation { assignHomework(input: { sessionId: 1, bookIds: [],
        startDate: "2026-11-21T09:00:00Z",
        endDate: "2026-11-21T09:00:00Z" }) { message } }""",
    "syntax": "{",
    "validation": "{ nope }",
}  # fmt: skip


@pytest.mark.sqlite_only
@pytest.mark.parametrize(("what", "query"), REFUSED.items(), ids=REFUSED.keys())
def test_a_rejection_is_not_logged(
    standing: Gateway, what: str, query: str, caplog: pytest.LogCaptureFixture
) -> None:
    caller = standing.as_anonymous() if what == "not signed in" else standing.as_client(1)

    with caplog.at_level(logging.DEBUG):
        response = caller.graphql(query)

    assert response["errors"]
    assert [record for record in caplog.records if record.levelno >= logging.WARNING] == []
    assert [record for record in caplog.records if record.name == LOGGER] == []


# Name, code, the statuses with application/graphql-response+json, with application/json and on the legacy
# paths; whether it decides the status of a result; whether a retry may succeed. The first one in a result
# decides.
FAILURES = """
UNAUTHENTICATED UNAUTHENTICATED 401 401 401 result
KEY_TAKEN IDEMPOTENCY_CONFLICT 422 422 422 result
OVERLOADED OVERLOADED 503 503 503 result retry
OUTCOME_UNKNOWN OUTCOME_UNKNOWN 503 503 503 result retry
READ_ONLY READ_ONLY 503 503 503 result retry
TOO_COSTLY TOO_COSTLY 422 400 400 result
RATE_LIMITED RATE_LIMITED 429 429 429 result retry
NOT_PARSED GRAPHQL_PARSE_FAILED 400 200 500 result
NOT_VALID GRAPHQL_VALIDATION_FAILED 422 200 500 result
FORBIDDEN FORBIDDEN 403 403 403
KEY_IN_USE IDEMPOTENCY_CONFLICT 409 409 409 retry
NOT_FOUND NOT_FOUND 400 400 404
INCOMPLETE INCOMPLETE 400 400 404
UNREADABLE UNREADABLE 400 400 400
NOT_RUNNING NOT_RUNNING 400 400 409
WRONG_STATE WRONG_STATE 400 400 409
DRAFT_CONFLICT DRAFT_CONFLICT 400 400 409
EXPIRED EXPIRED 400 400 404
INTERNAL INTERNAL 500 500 500
NOT_ACCEPTABLE BAD_REQUEST 406 406 500
METHOD BAD_REQUEST 405 405 405
MUTATION_BY_GET BAD_REQUEST 405 400 500
CONTENT_TYPE BAD_REQUEST 415 415 415
TOO_LONG BAD_REQUEST 413 413 413
NOT_JSON BAD_REQUEST 400 400 400
MALFORMED BAD_REQUEST 422 400 400
DOCUMENT_NOT_FOUND DOCUMENT_NOT_FOUND 422 400 500
DOCUMENT_NOT_TRUSTED DOCUMENT_NOT_TRUSTED 422 400 500
NOT_PERSISTED PERSISTED_QUERY_NOT_FOUND 422 200 500
CANNOT_PERSIST PERSISTED_QUERY_NOT_SUPPORTED 422 200 500
"""


def test_every_failure_has_its_code_and_its_statuses() -> None:
    rows = [
        [
            each.name,
            each.code,
            *map(str, (each.graphql, each.json, each.legacy)),
            *["result"] * each.is_of_result,
            *["retry"] * each.is_retried,
        ]
        for each in Failure
    ]

    assert rows == [line.split() for line in FAILURES.strip().splitlines()]
    assert {kind.__name__: each.name for kind, each in BY_CLASS.items()} == {
        "DatabaseUnavailable": "OVERLOADED",
        "NotEnoughMemory": "OVERLOADED",
        "OutcomeUnknown": "OUTCOME_UNKNOWN",
    }
    assert [BY_CODE[code].name for code in ("IDEMPOTENCY_CONFLICT", "BAD_REQUEST")] == [
        "KEY_TAKEN",
        "NOT_ACCEPTABLE",
    ]


# --- unexpected errors -----------------------------------------------------------------------------


def lose(gateway: Gateway, table: str) -> None:
    def losing() -> Steps[None]:
        yield Statement(lambda kind: text(f"ALTER TABLE {table} RENAME TO lost")), {}

    run_write(gateway.settings.database, losing())


def faults(caplog: pytest.LogCaptureFixture) -> list[Any]:
    return [record for record in caplog.records if record.name == LOGGER]


@starting_with(a_world)
@pytest.mark.sqlite_only
def test_an_unexpected_error_is_logged_but_not_described_in_the_response(
    gateway: Gateway, caplog: pytest.LogCaptureFixture
) -> None:
    lose(gateway, "book")

    response = gateway.as_client(1).request(
        "POST",
        "/graphql",
        json={"query": "{ viewer { role } one: book(id: 1) { name } }"},
        headers={"x-request-id": "fault-1"},
    )

    assert response.status_code == 200
    assert response.json() == {
        "data": {"viewer": {"role": "CLIENT"}, "one": None},
        "errors": [
            {
                "message": "Internal error",
                "locations": [{"line": 1, "column": 19}],
                "path": ["one"],
                "extensions": {"code": "INTERNAL", "requestId": "fault-1"},
            }
        ],
    }
    (record,) = faults(caplog)
    assert record.getMessage() == "fault in request fault-1 at ['one']"
    assert record.levelno == logging.ERROR
    assert "book" in str(record.exc_info[1])
    assert "Traceback" in logging.Formatter().format(record)


@starting_with(a_world)
@pytest.mark.sqlite_only
@pytest.mark.parametrize(
    ("fault", "message", "code", "logged"),
    [
        (ValueError("a secret"), "Internal error", "INTERNAL", "fault in request r at ['one']"),
        (DatabaseUnavailable(UNAVAILABLE), UNAVAILABLE, "OVERLOADED", f"request r: {UNAVAILABLE} (None)"),
    ],
)
def test_a_field_whose_read_fails_is_logged(
    gateway: Gateway,
    caplog: pytest.LogCaptureFixture,
    fault: Exception,
    message: str,
    code: str,
    logged: str,
) -> None:
    query = {"query": '{ one: book(id: "1") { name } }'}

    for _ in range(3):  # the third time prepared
        with failing(gateway, None, fault):  # after the read of the account
            response = gateway.as_client(1).request(
                "POST", "/graphql", json=query, headers={"x-request-id": "r"}
            )

        extensions = {"code": code, "requestId": "r"}
        error = {"message": message, "locations": [{"line": 1, "column": 3}], "path": ["one"]}
        assert response.json() == {"data": {"one": None}, "errors": [{**error, "extensions": extensions}]}

    assert [record.getMessage() for record in faults(caplog)] == [logged] * 3


@starting_with(a_world)
@pytest.mark.sqlite_only
def test_the_service_continues_after_an_unexpected_error(gateway: Gateway) -> None:
    lose(gateway, "book")
    caller = gateway.as_caregiver(1)

    for _ in range(6):  # more than there are connections
        assert caller.graphql("{ books { totalCount } }")["errors"][0]["message"] == "Internal error"

    assert caller.data("{ sessions { totalCount } }") == {"sessions": {"totalCount": 4}}


@starting_with(a_world)
def test_an_unexpected_error_in_a_mutation_writes_nothing(
    gateway: Gateway, caplog: pytest.LogCaptureFixture
) -> None:
    before = (count(gateway, Assignment), stored(gateway, Session, "id", "assignment_count"))
    lose(gateway, "event")  # written last

    response = gateway.as_caregiver(1).graphql(ASSIGN, input=homework())

    assert response == {
        "data": None,
        "errors": [refusal("INTERNAL", "Internal error", "assignHomework", column=42)],
    }
    assert (count(gateway, Assignment), stored(gateway, Session, "id", "assignment_count")) == before
    assert len(faults(caplog)) == 1
