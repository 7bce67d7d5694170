"""If OTEL_* enables traces, every operation and statement has a span in the caller's trace, without
values. Otherwise nothing is loaded."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import StatusCode

from app.main import create_app
from app.settings import Settings, SettingsError
from app.telemetry.tracing import Tracing, open_tracing
from tests.callers import Gateway, opened
from tests.db import raw
from tests.factories import NOW, a_world, starting_with
from tests.schema.listening import listening

pytestmark = starting_with(a_world)

SECRET = "Nobody else may read this"
TRACE, CALLER = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"
SESSIONS = "query Mine { sessions { nodes { id title } } }"
RENAME = "mutation Secretly ($input: UpdateSessionInput!) { updateSession(input: $input) { session { id } } }"
ASSIGNMENT = "/gateway/profile/caregiver/session/assignment/1"


class Exporter(InMemorySpanExporter):
    def shutdown(self) -> None:
        """The next application uses the same exporter."""


EXPORTER = Exporter()
TRACING = Tracing(lambda: SimpleSpanProcessor(EXPORTER))


@pytest.fixture
def exporter() -> InMemorySpanExporter:
    EXPORTER.clear()
    return EXPORTER


@pytest.fixture
def traced(settings: Settings, exporter: InMemorySpanExporter) -> Iterator[Gateway]:
    with opened(create_app(settings, clock=lambda: NOW, tracing=TRACING)) as client:
        gateway = Gateway(client, settings)
        yield gateway


def operations(exporter: InMemorySpanExporter) -> list[ReadableSpan]:
    return [span for span in exporter.get_finished_spans() if span.name.startswith("graphql")]


def statements(exporter: InMemorySpanExporter) -> list[ReadableSpan]:
    return [span for span in exporter.get_finished_spans() if not span.name.startswith("graphql")]


def all_span_text(exporter: InMemorySpanExporter) -> str:
    return "\n".join(span.to_json() for span in exporter.get_finished_spans())


def test_an_operation_and_its_statements_join_the_trace_of_the_caller(
    traced: Gateway, exporter: InMemorySpanExporter, kind: str
) -> None:
    headers = {"traceparent": f"00-{TRACE}-{CALLER}-01", "x-request-id": "of-mara-7"}

    answer = traced.as_caregiver(1).request("POST", "/graphql", json={"query": SESSIONS}, headers=headers)

    [operation] = operations(exporter)
    [statement] = statements(exporter)
    assert answer.json()["data"]["sessions"]["nodes"]
    assert operation.name == "graphql"
    assert operation.attributes == {"care.request_id": "of-mara-7"}
    assert operation.parent is not None and operation.context is not None
    assert f"{operation.context.trace_id:032x}" == TRACE
    assert f"{operation.parent.span_id:016x}" == CALLER
    assert statement.parent is not None and statement.attributes is not None
    assert statement.parent.span_id == operation.context.span_id
    assert statement.name == "SELECT"
    assert (statement.attributes["db.system.name"], statement.attributes["db.operation.name"]) == (
        kind,
        "SELECT",
    )
    assert str(statement.attributes["db.query.text"]).startswith("SELECT ")


@pytest.mark.sqlite_only
def test_the_span_of_a_legacy_call_has_the_name_of_its_document(
    traced: Gateway, exporter: InMemorySpanExporter, kind: str
) -> None:
    assert traced.as_caregiver(1).get(ASSIGNMENT).status_code == 200

    [operation] = operations(exporter)
    assert operation.name == "graphql CaregiverAssignment"
    assert operation.parent is None
    assert len(statements(exporter)) >= {"sqlite": 2, "postgresql": 1}[kind]


@pytest.mark.sqlite_only
def test_the_span_of_a_rejected_legacy_call_has_the_code(
    traced: Gateway, exporter: InMemorySpanExporter
) -> None:
    assert traced.as_caregiver(1).get(f"{ASSIGNMENT}99").status_code == 404

    [operation] = operations(exporter)
    assert operation.attributes is not None
    assert operation.attributes["care.error_codes"] == ("NOT_FOUND",)


def test_spans_contain_no_values(traced: Gateway, exporter: InMemorySpanExporter) -> None:
    caller = traced.as_caregiver(1)

    changed = caller.data(RENAME, input={"sessionId": 1, "title": SECRET})
    caller.data("query Secretly { sessions { nodes { title client { name } } } }")
    caller.graphql(f'query Secretly {{ books(filter: {{ search: "{SECRET}" }}) {{ nodes {{ name }} }} }}')

    text = all_span_text(exporter)
    assert changed["updateSession"]["session"]
    assert len(operations(exporter)) == 3
    assert [span.name for span in statements(exporter)].count("UPDATE") == 1
    assert [word for word in (SECRET, "Secretly", "caregiver-1", "Nobody") if word in text] == []


def test_the_span_of_a_failed_statement_has_only_the_error_type(
    traced: Gateway, exporter: InMemorySpanExporter, kind: str
) -> None:
    raw.run(traced.settings.database, "ALTER TABLE session RENAME COLUMN title TO heading")

    answer = traced.as_caregiver(1).graphql(SESSIONS)

    [operation] = operations(exporter)
    statement = statements(exporter)[-1]
    assert answer["errors"][0]["extensions"]["code"] == "INTERNAL"
    assert operation.status.status_code is statement.status.status_code is StatusCode.ERROR
    assert operation.status.description is statement.status.description is None
    assert operation.attributes is not None and statement.attributes is not None
    assert operation.attributes["care.error_codes"] == ("INTERNAL",)
    expected = {"sqlite": "sqlite3.OperationalError (SQLITE_ERROR)",
                "postgresql": "asyncpg.exceptions.UndefinedColumnError (42703)"}  # fmt: skip
    assert statement.attributes["error.type"] == expected[kind]
    assert [*operation.events, *statement.events] == []


@pytest.mark.parametrize("kind", ["sqlite"], indirect=True)
def test_websocket_operations_are_traced(traced: Gateway, exporter: InMemorySpanExporter) -> None:
    with listening(traced.as_client(1)) as listener:
        listener.query("{ sessions { totalCount } }")

    assert len(operations(exporter)) == 1
    assert len(statements(exporter)) >= 1


@pytest.mark.parametrize("kind", ["sqlite"], indirect=True)
def test_a_trace_that_the_caller_does_not_record_is_not_recorded(
    traced: Gateway, exporter: InMemorySpanExporter
) -> None:
    headers = {"traceparent": f"00-{TRACE}-{CALLER}-00"}

    answer = traced.as_caregiver(1).request("POST", "/graphql", json={"query": SESSIONS}, headers=headers)

    assert answer.status_code == 200
    assert exporter.get_finished_spans() == ()


# --- whether it is wanted ---

ENDPOINT = {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:4318"}


@pytest.mark.parametrize(
    ("given", "is_wanted"),
    [
        ({}, False),
        ({"OTEL_SERVICE_NAME": "care"}, False),
        ({"OTEL_TRACES_EXPORTER": "none"} | ENDPOINT, False),
        ({"OTEL_SDK_DISABLED": "true"} | ENDPOINT, False),
        (ENDPOINT, True),
        ({"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": "http://127.0.0.1:4318/v1/traces"}, True),
        ({"OTEL_TRACES_EXPORTER": "otlp"}, True),
        ({"OTEL_TRACES_EXPORTER": "console"}, True),
    ],
)
def test_the_standard_variables_enable_traces(given: dict[str, str], is_wanted: bool) -> None:
    assert (open_tracing(given) is not None) is is_wanted


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        ({"OTEL_TRACES_EXPORTER": "zipkin"}, "OTEL_TRACES_EXPORTER must be otlp, console or none"),
        (
            {"OTEL_EXPORTER_OTLP_PROTOCOL": "grpc"} | ENDPOINT,
            "OTEL_EXPORTER_OTLP_TRACES_PROTOCOL and OTEL_EXPORTER_OTLP_PROTOCOL must be http/protobuf",
        ),
    ],
)
def test_an_unsupported_exporter_is_rejected(given: dict[str, str], sentence: str) -> None:
    with pytest.raises(SettingsError) as refused:
        open_tracing(given)

    assert str(refused.value) == sentence


def loaded_at_once(path: Path) -> set[str]:
    """What a module imports when it is loaded, without the imports inside functions."""
    names: set[str] = set()
    for node in ast.parse(path.read_text()).body:
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            names |= {f"{node.module}.{alias.name}" for alias in node.names}
    return names


def test_telemetry_libraries_are_imported_only_if_enabled() -> None:
    app = Path(__file__).parents[2] / "app"
    dear = ("opentelemetry", "prometheus_client", "app.telemetry.metrics", "app.telemetry.tracing")

    found = {
        str(path.relative_to(app))
        for path in app.rglob("*.py")
        if any(name.startswith(dear) for name in loaded_at_once(path))
    }

    assert found == {"telemetry/metrics/collect.py", "telemetry/metrics/aggregation.py"}
