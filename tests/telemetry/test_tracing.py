"""The standard variables enable traces, whose attributes are those of the semantic conventions. Otherwise
nothing is loaded."""

import ast
from importlib.util import find_spec
from itertools import pairwise
from pathlib import Path
from threading import Event

import pytest
from opentelemetry.sdk.trace import SpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from app.events.outbox import remind
from app.settings import SettingsError
from app.telemetry.tracing import open_tracing
from app.telemetry.tracing.requests import CONVENTIONS, SERVICE, Tracing
from tests.callers import Gateway
from tests.db import raw
from tests.factories import DAY, NOW, a_world, starting_with
from tests.patience import PATIENCE
from tests.schema.listening import listening, wait_for_subscription
from tests.telemetry.spans import EXPORTER, finished

WITHDRAW = """mutation ($input: WithdrawAssignmentInput!) {
    withdrawAssignment(input: $input) { userErrors { code } }
}"""
OWN = {"care.document_sha256", "care.request_id"}


def names_of_conventions() -> set[object]:
    """The attribute names that the installed registry defines and has not deprecated."""
    spec = find_spec("opentelemetry.semconv")
    assert spec is not None and spec.origin is not None
    names: set[object] = set()
    for path in Path(spec.origin).parent.rglob("*_attributes.py"):
        body = ast.parse(path.read_text()).body
        for node, text in pairwise(body):
            if isinstance(node, ast.AnnAssign) and "Deprecated: " not in ast.unparse(text):
                names |= {value.value for value in ast.walk(node) if isinstance(value, ast.Constant)}
    return names


@starting_with(a_world)
def test_attributes_are_those_of_the_conventions(traced: Gateway, kind: str) -> None:
    caller = traced.as_caregiver(1)
    caller.data(WITHDRAW, input={"assignmentId": 2})
    with listening(traced.as_client(1)) as listener:
        listener.subscribe("subscription Mine { assignmentChanged { id } }")
        wait_for_subscription(traced)
    assert traced.client.portal is not None
    traced.client.portal.call(remind, traced.database, NOW + 2 * DAY)
    raw.run(traced.settings.database, "ALTER TABLE session RENAME COLUMN title TO heading")
    caller.get("/gateway/profile/caregiver/session/assignment/1")

    used = {name for span in finished() for name in span["attributes"]}
    scopes = {span.instrumentation_scope for span in EXPORTER.get_finished_spans()}
    assert used - names_of_conventions() == OWN
    assert {"db.operation.batch.size", "error.type", "graphql.operation.name"} <= used
    assert {(each.name, each.schema_url) for each in scopes if each} == {(SERVICE, CONVENTIONS)}


def test_a_deprecated_name_would_be_found() -> None:
    assert {"db.statement", "db.system", "http.method", "http.status_code"} & names_of_conventions() == set()
    assert {"db.query.text", "http.request.method"} <= names_of_conventions()


ENDPOINT = {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:4318"}
OF_TRACES = {"PROTOCOL": "grpc", "TRACES_PROTOCOL": "http/protobuf"}


@pytest.mark.parametrize(
    ("given", "is_wanted"),
    [
        ({}, False),
        ({"OTEL_SERVICE_NAME": "care"}, False),
        (dict.fromkeys(("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT"), ""), False),
        ({"OTEL_EXPORTER_OTLP_TRACES_PROTOCOL": "", "OTEL_EXPORTER_OTLP_PROTOCOL": ""} | ENDPOINT, True),
        ({"OTEL_TRACES_EXPORTER": "none"} | ENDPOINT, False),
        ({"OTEL_SDK_DISABLED": "true"} | ENDPOINT, False),
        ({"OTEL_SDK_DISABLED": "TRUE"} | ENDPOINT, False),
        ({"OTEL_SDK_DISABLED": "false"} | ENDPOINT, True),
        (ENDPOINT, True),
        ({"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": "http://127.0.0.1:4318/v1/traces"}, True),
        ({"OTEL_TRACES_EXPORTER": "otlp"}, True),
        ({"OTEL_TRACES_EXPORTER": "console"}, True),
        ({"OTEL_TRACES_EXPORTER": "console", "OTEL_EXPORTER_OTLP_PROTOCOL": "grpc"}, True),
        ({f"OTEL_EXPORTER_OTLP_{name}": value for name, value in OF_TRACES.items()} | ENDPOINT, True),
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
        (
            {"OTEL_EXPORTER_OTLP_TRACES_PROTOCOL": "", "OTEL_EXPORTER_OTLP_PROTOCOL": "grpc"} | ENDPOINT,
            "OTEL_EXPORTER_OTLP_TRACES_PROTOCOL and OTEL_EXPORTER_OTLP_PROTOCOL must be http/protobuf",
        ),
    ],
)
def test_an_unsupported_exporter_is_rejected(given: dict[str, str], sentence: str) -> None:
    with pytest.raises(SettingsError) as refused:
        open_tracing(given)

    assert str(refused.value) == sentence


EXPORTERS = {
    "console": "opentelemetry.sdk.trace.export.ConsoleSpanExporter",
    "otlp": "opentelemetry.exporter.otlp.proto.http.trace_exporter.OTLPSpanExporter",
}


@pytest.mark.parametrize(
    ("name", "service", "attributes"),
    [
        ("console", "", ""),
        ("otlp", "care-of-mara", "service.name=another"),
        ("otlp", "", "service.version=1,service.name=care-of-mara"),
    ],
)
def test_the_chosen_exporter_receives_the_spans_before_the_process_ends(
    monkeypatch: pytest.MonkeyPatch, name: str, service: str, attributes: str
) -> None:
    exporters = {each: InMemorySpanExporter() for each in EXPORTERS}
    for each, place in EXPORTERS.items():
        monkeypatch.setattr(place, lambda each=each: exporters[each])
    monkeypatch.setenv("OTEL_SERVICE_NAME", service)
    monkeypatch.setenv("OTEL_RESOURCE_ATTRIBUTES", attributes)
    tracing = open_tracing({"OTEL_TRACES_EXPORTER": name})
    assert tracing is not None

    with tracing.opened():
        tracing.tracer.start_span("a span").end()

    received = {each: one.get_finished_spans() for each, one in exporters.items()}
    [span] = received.pop(name)
    assert list(received.values()) == [()]
    found = span.resource.attributes["service.name"]
    assert (span.name, found) == ("a span", "care-of-mara" if attributes else SERVICE)


def test_a_collector_that_does_not_respond_delays_the_end_of_the_process_only_for_a_while(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("app.telemetry.tracing.requests.SHUTDOWN_SECONDS", 0.01)
    ended = Event()

    class Hanging(SpanProcessor):
        def shutdown(self) -> None:
            ended.wait(PATIENCE)

    with Tracing(Hanging).opened():
        pass

    assert not ended.is_set()
    ended.set()


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
    metrics = ("app.telemetry.metrics.collect", "app.telemetry.metrics.server")
    tracing = [f"app.telemetry.tracing.{name}" for name in ("database", "requests", "spans")]
    dear = ("opentelemetry", "prometheus_client", *metrics, *tracing)

    found = {
        str(path.relative_to(app))
        for path in app.rglob("*.py")
        if any(name.startswith(dear) for name in loaded_at_once(path))
    }

    assert found == {
        f"telemetry/{path}.py"
        for path in (
            "metrics/collect",
            "metrics/server",
            "tracing/database",
            "tracing/requests",
            "tracing/spans",
        )
    }
