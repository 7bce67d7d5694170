"""A request, its GraphQL operation and its statements have spans in the caller's trace, without values."""

import asyncio
import json
from pathlib import Path

import pytest
from opentelemetry.sdk.trace.export import SimpleSpanProcessor

from app.auth.authenticator import FIND_ACCOUNT
from app.care.context import Role
from app.db.sql import DatabaseKind
from app.main import create_app
from app.schema.transport.trusted_documents import hash_of
from app.settings import Settings
from app.telemetry.tracing.requests import Tracing, request_attributes
from tests.callers import Gateway, opened
from tests.db import raw
from tests.factories import NOW, a_world, starting_with
from tests.schema.listening import connected, insert_event, listening, stop, streaming, wait_for_subscription
from tests.telemetry.conftest import ON_SQLITE
from tests.telemetry.spans import (
    CALLER,
    EXPORTER,
    TRACE,
    TRACEPARENT,
    TRACING,
    a_request,
    a_span,
    database_of,
    finished,
)

pytestmark = starting_with(a_world)

SECRET = "My neighbour shouts at night"
SESSIONS = "query Mine { sessions { nodes { id title } } }"
RENAME = "mutation Secretly ($input: UpdateSessionInput!) { updateSession(input: $input) { session { id } } }"
CHANGES = "subscription { assignmentChanged { id } }"
ONE = "/gateway/profile/caregiver/session/assignment/{id}"
ID = {"x-request-id": "of-mara-7"}
ACCOUNT = "SELECT SELECT imported_row caregiver"  # the sub-query: was the switch declared?


def test_a_request_has_a_span_for_its_operation_and_for_each_statement(
    traced: Gateway, kind: DatabaseKind
) -> None:
    headers = {"traceparent": TRACEPARENT, **ID}

    response = traced.as_caregiver(1).request("POST", "/graphql", json={"query": SESSIONS}, headers=headers)

    database = database_of(traced.settings)
    account, sessions, operation, request = finished()
    assert response.json()["data"]["sessions"]["nodes"]
    assert {f"{span.context.trace_id:032x}" for span in EXPORTER.get_finished_spans() if span.context} == {
        TRACE
    }
    assert account == a_span(
        ACCOUNT,
        "CLIENT",
        "POST /graphql",
        {
            **database,
            "db.operation.name": "SELECT",
            "db.query.summary": ACCOUNT,
            "db.query.text": FIND_ACCOUNT[Role.CAREGIVER].for_(kind).sql,
            "db.response.returned_rows": 1,
        },
    )
    text = sessions["attributes"].pop("db.query.text")
    summary = {"sqlite": "SELECT session", "postgresql": "SELECT SELECT SELECT session"}[kind]
    assert text.startswith("SELECT ")
    assert sessions == a_span(
        summary,
        "CLIENT",
        "query",
        {
            **database,
            "db.operation.name": "SELECT",
            "db.query.summary": summary,
            "db.response.returned_rows": {"sqlite": 4, "postgresql": 1}[kind],
        },
    )
    assert operation == a_span(
        "query",
        "SERVER",
        "POST /graphql",
        {"graphql.operation.type": "query", "care.document_sha256": hash_of(SESSIONS)},
    )
    assert request == a_span("POST /graphql", "SERVER", CALLER, a_request("POST", "/graphql", 200))


@ON_SQLITE
def test_operations_of_legacy_and_trusted_documents_have_their_names(
    settings: Settings, tmp_path: Path
) -> None:
    manifest = tmp_path / "manifest.json"
    trusted = "mutation Close { closeSession(input: {sessionId: 1}) { session { id } } }"
    two = "subscription Changes { assignmentChanged { id } } query Role { viewer { role } }"
    manifest.write_text(json.dumps({"1": trusted, "2": two}))
    settings = settings.model_copy(update={"trusted_manifest": str(manifest)})
    EXPORTER.clear()
    tracing = Tracing(lambda: SimpleSpanProcessor(EXPORTER))  # with a schema of its own, as in a new process

    with opened(create_app(settings, clock=lambda: NOW, tracing=tracing)) as client:
        gateway = Gateway(client, settings)
        caller = gateway.as_caregiver(1)
        for _ in range(3):  # read, prepared, then found
            caller.data(trusted)
        caller.get(ONE.format(id=1))
        caller.data("query Secretly { viewer { role } }")
        caller.request("POST", "/graphql", json={"query": two, "operationName": "Role"})
        with streaming(caller, two, operationName="Changes"):
            wait_for_subscription(gateway)
            stop(gateway)

    operations = [
        (span["name"], span["attributes"].get("graphql.operation.name"))
        for span in finished()
        if "care.document_sha256" in span["attributes"]
    ]
    assert operations == [
        *[("mutation Close", "Close")] * 3,
        ("query CaregiverAssignment", "CaregiverAssignment"),
        ("query", None),
        ("query Role", "Role"),
        ("subscription Changes", "Changes"),
    ]


@ON_SQLITE
@pytest.mark.parametrize(
    ("method", "path", "span", "attributes"),
    [
        ("GET", f"{ONE.format(id=199)}?of={SECRET}", f"GET {ONE}", a_request("GET", ONE, 404)),
        ("HEAD", ONE.format(id=1), f"HEAD {ONE}", a_request("HEAD", ONE, 200)),
        ("GET", "/gateway/of/mara", "GET /gateway/*", a_request("GET", "/gateway/*", 404)),
        ("DELETE", "/graphql", "DELETE /graphql", a_request("DELETE", "/graphql", 405)),
        ("BREW", "/graphql", "HTTP /graphql", a_request("_OTHER", "/graphql", 405)),
        ("OPTIONS", "/graphql", "OPTIONS /graphql", a_request("OPTIONS", "/graphql", 204)),
    ],
)
def test_a_request_span_has_the_route_and_no_input(
    traced: Gateway, method: str, path: str, span: str, attributes: dict[str, object]
) -> None:
    origin = {"origin": "http://localhost:3000", "access-control-request-method": "POST"}

    traced.as_caregiver(1).request(method, path, headers=ID | (origin if method == "OPTIONS" else {}))

    assert finished()[-1] == a_span(span, "SERVER", None, attributes)


@ON_SQLITE
@pytest.mark.parametrize("end", [RuntimeError, asyncio.CancelledError])
def test_a_request_without_a_response_has_a_span_with_an_error(
    traced: Gateway, end: type[BaseException]
) -> None:
    """After a fault, or at the end of a shutdown."""
    scope = {
        "type": "http", "method": "GET", "http_version": "1.1", "scheme": "http", "headers": [], "state": {}
    }  # fmt: skip

    with pytest.raises(end), TRACING.request_span(scope, "/graphql"):
        raise end

    [span] = finished()
    assert (span["status"][0], span["attributes"]["http.response.status_code"]) == ("ERROR", 500)


@ON_SQLITE
def test_paths_outside_the_contracts_have_no_span(traced: Gateway) -> None:
    for path in ("/livez", "/readyz", "/", "/gateways", "/gateway-old/a"):
        traced.as_anonymous().get(path)

    assert finished() == []


@ON_SQLITE
@pytest.mark.parametrize(
    ("document", "name", "attributes"),
    [
        ("{", "GraphQL Operation", {"error.type": "GRAPHQL_PARSE_FAILED"}),
        (
            "{ x }",
            "query",
            {"graphql.operation.type": "query", "error.type": "GRAPHQL_VALIDATION_FAILED"},
        ),
        (
            CHANGES,
            "subscription",
            {
                "graphql.operation.type": "subscription",
                "error.type": "strawberry.schema.exceptions.InvalidOperationTypeError",
            },
        ),
    ],
)
def test_the_span_of_a_failed_operation_has_its_code(
    traced: Gateway, document: str, name: str, attributes: dict[str, str]
) -> None:
    traced.as_caregiver(1).post_graphql(document)

    operation = finished()[-2]
    sha256 = {"care.document_sha256": hash_of(document)}
    assert operation == a_span(name, "SERVER", "POST /graphql", attributes | sha256, "ERROR")


@ON_SQLITE
def test_the_span_of_a_rejected_legacy_call_has_the_code(traced: Gateway) -> None:
    assert traced.as_caregiver(1).get(ONE.format(id=199)).status_code == 404

    operation = finished()[-2]
    assert operation["status"] == ("ERROR", None)
    assert operation["attributes"]["error.type"] == "NOT_FOUND"


@ON_SQLITE
def test_the_first_of_several_errors_is_that_of_the_operation(traced: Gateway) -> None:
    body = traced.as_caregiver(1).graphql(
        '{ book(id: "x") { id } session(id: 1) { assignments(after: "x") { totalCount } } }'
    )

    codes = [error["extensions"]["code"] for error in body["errors"]]
    assert (codes, finished()[-2]["attributes"]["error.type"]) == (
        ["NOT_FOUND", "UNREADABLE"],
        "NOT_FOUND",
    )


@ON_SQLITE
def test_an_internal_error_hides_the_others_of_an_operation(traced: Gateway) -> None:
    raw.run(traced.settings.database, "ALTER TABLE book RENAME COLUMN name TO title")

    body = traced.as_caregiver(1).graphql('{ book(id: "x") { id } assignment(id: 1) { name } }')

    codes = [error["extensions"]["code"] for error in body["errors"]]
    assert (codes, finished()[-2]["attributes"]["error.type"]) == (["NOT_FOUND", "INTERNAL"], "INTERNAL")


@ON_SQLITE
def test_the_span_of_a_subscription_has_the_error_of_an_event(traced: Gateway) -> None:
    query = "subscription { assignmentChanged { assignment { name } } }"
    with listening(traced.as_client(1)) as listener:
        listener.subscribe(query)
        wait_for_subscription(traced)
        raw.run(traced.settings.database, "ALTER TABLE book RENAME COLUMN name TO title")
        insert_event(traced.settings.database, "ASSIGNED")
        message = listener.receive()

    [subscription] = [span for span in finished() if span["name"] == "subscription"]
    assert [error["extensions"]["code"] for error in message["payload"]["errors"]] == ["INTERNAL"]
    assert (subscription["status"], subscription["attributes"]["error.type"]) == (("ERROR", None), "INTERNAL")


@pytest.mark.parametrize(
    ("server", "found"),
    [
        (("care.example.test", 8000), {"server.address": "care.example.test", "server.port": 8000}),
        (("/run/care.sock", None), {"server.address": "/run/care.sock"}),
        (None, {}),
    ],
)
def test_the_address_of_the_server_may_be_a_socket_or_unknown(
    server: tuple[str, int | None] | None, found: dict[str, object]
) -> None:
    scope = {"method": "GET", "http_version": "1.0", "scheme": "https", "server": server}

    attributes = request_attributes(scope, "/graphql")

    assert {name: value for name, value in attributes.items() if name.startswith("server.")} == found
    assert (attributes["network.protocol.version"], attributes["url.scheme"]) == ("1.0", "https")


def test_only_methods_of_the_conventions_are_named() -> None:
    known = ["GET", "HEAD", "POST", "PUT", "DELETE", "CONNECT", "OPTIONS", "TRACE", "PATCH", "QUERY"]
    scope = {"http_version": "1.1", "scheme": "http"}

    named = {
        method: request_attributes(scope | {"method": method}, "/graphql")["http.request.method"]
        for method in (*known, "BREW", "get", "")
    }

    assert named == {method: method for method in known} | dict.fromkeys(("BREW", "get", ""), "_OTHER")


def test_spans_contain_no_values(traced: Gateway) -> None:
    caller = traced.as_caregiver(1)

    changed = caller.data(RENAME, input={"sessionId": 1, "title": SECRET})
    caller.data("query Secretly { sessions { nodes { title client { name } } } }")
    caller.graphql(f'query Secretly {{ books(filter: {{ search: "{SECRET}" }}) {{ nodes {{ name }} }} }}')

    text = "\n".join(span.to_json() for span in EXPORTER.get_finished_spans())
    assert changed["updateSession"]["session"]
    assert [span["name"] for span in finished()].count("UPDATE session") == 1
    assert [
        word for word in (SECRET, "Secretly", "caregiver-1", "neighbour", "testclient") if word in text
    ] == []


@ON_SQLITE
def test_an_operation_by_websocket_has_no_request_span(traced: Gateway) -> None:
    document = "{ viewer { role } sessions { nodes { id } } }"
    with connected(traced.as_client(1), traceparent=TRACEPARENT) as listener:
        listener.send(type="connection_init")
        listener.receive()
        listener.query(document)

    *statements, operation = finished()
    attributes = {"graphql.operation.type": "query", "care.document_sha256": hash_of(document)}
    assert operation == a_span("query", "SERVER", CALLER, attributes)
    assert {span["parent"] for span in statements} == {"query"}


@ON_SQLITE
def test_the_span_of_a_named_operation_by_websocket_has_its_type(traced: Gateway) -> None:
    document = "query Mine { viewer { role } } subscription Other { assignmentChanged { assignment { id } } }"
    with listening(traced.as_client(1)) as listener:
        listener.send(type="subscribe", id="a", payload={"query": document, "operationName": "Mine"})
        assert listener.receive()["payload"] == {"data": {"viewer": {"role": "CLIENT"}}}
        listener.receive()

    assert finished()[-1]["attributes"]["graphql.operation.type"] == "query"


@ON_SQLITE
def test_a_subscription_has_one_span_without_its_polls(traced: Gateway) -> None:
    with listening(traced.as_client(1)) as listener:
        listener.subscribe(CHANGES)
        wait_for_subscription(traced)

    attributes = {"graphql.operation.type": "subscription", "care.document_sha256": hash_of(CHANGES)}
    assert finished() == [a_span("subscription", "SERVER", None, attributes)]


@ON_SQLITE
def test_an_event_stream_has_the_span_of_its_request(traced: Gateway) -> None:
    with streaming(traced.as_client(1), CHANGES) as stream:
        wait_for_subscription(traced)
        stop(traced)
        assert list(stream.events) == []

    _, operation, request = finished()
    attributes = {"graphql.operation.type": "subscription", "care.document_sha256": hash_of(CHANGES)}
    request_id = request["attributes"]["care.request_id"]
    assert operation == a_span("subscription", "SERVER", "POST /graphql", attributes)
    expected = a_request("POST", "/graphql", 200, request_id)
    assert request == a_span("POST /graphql", "SERVER", None, expected)


@ON_SQLITE
def test_a_trace_that_the_caller_does_not_record_is_not_recorded(traced: Gateway) -> None:
    headers = {"traceparent": f"00-{TRACE}-{CALLER}-00"}

    response = traced.as_caregiver(1).request("POST", "/graphql", json={"query": SESSIONS}, headers=headers)

    assert response.status_code == 200
    assert finished() == []
