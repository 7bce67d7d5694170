"""OpenTelemetry traces: one span per GraphQL operation and per SQL statement, enabled by OTEL_* variables.

Spans contain no values and no person's id: statements have placeholders. If tracing is off, nothing is
imported or wrapped.
"""

import os
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from threading import Thread
from typing import TYPE_CHECKING, Any, TypeVar

from graphql import GraphQLError
from starlette.types import Scope

from app.db.drivers.interface import Database, Occupancy
from app.db.sql import DATABASE_KIND, Bulk, DatabaseKind, Operation, Repeatable, Step, changes_of
from app.schema.errors import code_of
from app.schema.schema import Schema
from app.schema.transport.trusted_documents import named_operations
from app.settings import SettingsError
from app.telemetry.logs import REQUEST_ID
from app.telemetry.redaction import class_of

if TYPE_CHECKING:
    from opentelemetry.context import Context
    from opentelemetry.sdk.trace import SpanProcessor
    from opentelemetry.trace import Span, Tracer

Result = TypeVar("Result")

SERVICE = "care-gateway"
MAX_STATEMENT = 2000  # characters
SHUTDOWN_SECONDS = 3  # to send the remaining spans at shutdown
ENDPOINTS = ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT")
PROTOCOLS = ("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "OTEL_EXPORTER_OTLP_PROTOCOL")
HTTP = "http/protobuf"
NOT_INSTALLED = (
    "OTEL_* enables traces, which need the extra `telemetry`: install it, or set OTEL_SDK_DISABLED=true"
)


def open_tracing(environment: Mapping[str, str] = os.environ) -> "Tracing | None":
    """None if no variable enables traces; raises SettingsError if they are enabled but not possible."""
    exporter = environment.get("OTEL_TRACES_EXPORTER", "")
    is_off = environment.get("OTEL_SDK_DISABLED", "").lower() == "true" or exporter == "none"
    if is_off or not (exporter or any(environment.get(name) for name in ENDPOINTS)):
        return None
    if exporter not in ("", "otlp", "console"):
        raise SettingsError("OTEL_TRACES_EXPORTER must be otlp, console or none")
    protocol = next((environment[name] for name in PROTOCOLS if environment.get(name)), HTTP)
    if protocol != HTTP and exporter != "console":
        raise SettingsError(f"{' and '.join(PROTOCOLS)} must be {HTTP}")
    try:
        import opentelemetry.exporter.otlp.proto.http
        import opentelemetry.sdk  # noqa: F401
    except ImportError:
        raise SettingsError(NOT_INSTALLED) from None
    return Tracing(partial(span_processor, exporter))


def span_processor(exporter: str) -> "SpanProcessor":
    from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
    from opentelemetry.sdk.trace.export import BatchSpanProcessor, ConsoleSpanExporter

    return BatchSpanProcessor(ConsoleSpanExporter() if exporter == "console" else OTLPSpanExporter())


class Tracing:
    """The tracing of one process; `tracer` exists while `opened` is active."""

    tracer: "Tracer"

    def __init__(self, processor: "Callable[[], SpanProcessor]") -> None:
        self.processor = processor
        # By document and operation name; spans contain no other names, which clients choose.
        self.operation_names: dict[tuple[str, str | None], str] = {}

    @contextmanager
    def opened(self) -> Iterator[None]:
        from opentelemetry.sdk.resources import SERVICE_NAME, Resource
        from opentelemetry.sdk.trace import TracerProvider

        attributes = {} if os.environ.get("OTEL_SERVICE_NAME") else {SERVICE_NAME: SERVICE}
        provider = TracerProvider(resource=Resource.create(attributes), shutdown_on_exit=False)
        provider.add_span_processor(self.processor())
        self.tracer = provider.get_tracer(SERVICE)
        try:
            yield
        finally:
            shutdown = Thread(target=provider.shutdown, daemon=True)
            shutdown.start()
            shutdown.join(SHUTDOWN_SECONDS)  # an unreachable collector must not block

    @contextmanager
    def continue_trace(self, scope: Scope) -> Iterator[None]:
        """Continues the trace that the request headers name, if any."""
        from opentelemetry.context import attach, detach
        from opentelemetry.propagate import extract

        headers = {name.decode("latin-1"): value.decode("latin-1") for name, value in scope["headers"]}
        token = attach(extract(headers))
        try:
            yield
        finally:
            detach(token)

    def wrap_database(self, db: Database, url: str) -> "TracedDatabase":
        return TracedDatabase(db, "sqlite" if url.startswith("sqlite:") else "postgresql", self)

    # --- operations -------------------------------------------------------------------------------

    def trace_operations(self, schema: Schema, names: Mapping[tuple[str, str | None], str]) -> None:
        self.operation_names |= {**dict(named_operations(schema.own)), **names}
        if "execute" in vars(schema):  # already traced by an earlier application of this process
            return
        execute, resolve = schema.execute, schema.resolve

        async def traced(query: str | None, *args: Any, **kwargs: Any) -> Any:
            operation = args[3] if len(args) > 3 else kwargs.get("operation_name")
            with self.operation_span(query or "", operation) as span:
                result = await execute(query, *args, **kwargs)
                if result.errors:
                    note_errors(span, result.errors)
                return result

        async def traced_resolve(pinned: str, variables: dict[str, Any], context: Any) -> Any:
            with self.operation_span(pinned, None) as span:
                try:
                    return await resolve(pinned, variables, context)
                except Exception as error:
                    note_errors(span, [GraphQLError("", original_error=error)])
                    raise

        schema.execute, schema.resolve = traced, traced_resolve  # type: ignore[method-assign]

    @contextmanager
    def operation_span(self, document: str, operation: str | None) -> "Iterator[Span]":
        from opentelemetry.trace import SpanKind

        name = self.operation_names.get((document, operation), "")
        with self.tracer.start_as_current_span(
            f"graphql {name}".strip(),
            kind=SpanKind.SERVER,
            record_exception=False,  # the message may quote a row
            set_status_on_exception=False,
        ) as span:
            span.set_attribute("care.request_id", REQUEST_ID.get())
            if name:
                span.set_attribute("graphql.operation.name", name)
            yield span


def note_errors(span: "Span", errors: Sequence[GraphQLError]) -> None:
    from opentelemetry.trace import StatusCode

    span.set_status(StatusCode.ERROR)
    span.set_attribute("care.error_codes", sorted({code_of(error) for error in errors}))


# --- statements -----------------------------------------------------------------------------------


class TracedDatabase:
    """A database that adds a span for each statement of a traced GraphQL operation."""

    def __init__(self, db: Database, kind: DatabaseKind, tracing: Tracing) -> None:
        self.db = db
        self.kind = kind
        self.tracing = tracing

    async def read(self, operation: Operation[Result]) -> Result:
        return await self.db.read(self.traced(operation))

    async def write(self, operation: Operation[Result] | Repeatable[Result]) -> Result:
        if isinstance(operation, Repeatable):
            return await self.db.write(Repeatable(lambda: self.traced(operation.begin())))
        return await self.db.write(self.traced(operation))

    def traced(self, operation: Operation[Result]) -> Operation[Result]:
        """Captures the current span here, because the operation may run in another thread."""
        from opentelemetry.context import get_current
        from opentelemetry.trace import get_current_span

        if not get_current_span().is_recording():
            return operation
        return traced_steps(operation, self.tracing.tracer, get_current(), self.kind)

    async def close(self) -> None:
        await self.db.close()

    def occupancy(self) -> Occupancy:
        return self.db.occupancy()


def traced_steps(
    operation: Operation[Result], tracer: "Tracer", context: "Context", kind: DatabaseKind
) -> Generator[Step, list[Any], Result]:
    try:
        step = next(operation)
        while True:
            if step is DATABASE_KIND:
                step = operation.send((yield step))
                continue
            span = start_span(tracer, context, kind, step)
            try:
                rows = yield step
            except GeneratorExit as closed:  # the driver closes the operation after an error, its context
                end_failed(span, closed.__context__)
                raise
            span.set_attribute("db.response.returned_rows", len(rows))
            span.end()
            step = operation.send(rows)
    except StopIteration as end:
        return end.value  # type: ignore[no-any-return]
    finally:
        operation.close()


def start_span(tracer: "Tracer", context: "Context", kind: DatabaseKind, step: Step) -> "Span":
    from opentelemetry.trace import SpanKind

    if isinstance(step, Bulk):
        text = f"INSERT INTO {step.table}"
    else:
        text = "; ".join(statement.for_(kind).sql for statement, _ in changes_of(step))
    verb = text.split(None, 1)[0]
    attributes = {"db.system.name": kind, "db.operation.name": verb, "db.query.text": text[:MAX_STATEMENT]}
    return tracer.start_span(verb, context, SpanKind.CLIENT, attributes)


def end_failed(span: "Span", fault: BaseException | None) -> None:
    """Records the exception type only; the message may quote a row."""
    from opentelemetry.trace import StatusCode

    span.set_status(StatusCode.ERROR)
    if isinstance(fault, Exception):
        span.set_attribute("error.type", class_of(fault))
    span.end()
