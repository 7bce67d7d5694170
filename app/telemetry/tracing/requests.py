"""The tracing of one process, and the spans of its HTTP requests and GraphQL operations:
https://opentelemetry.io/docs/specs/semconv/http/http-spans/
https://opentelemetry.io/docs/specs/semconv/graphql/graphql-spans/

Left out, because a client chooses them or they are personal: the query string, the path below its route, the
Host and User-Agent headers, an unknown method, addresses of clients, and documents, which may contain values.
"""

from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator
from contextlib import aclosing, contextmanager
from http import HTTPMethod
from threading import Thread
from typing import Any, TypeVar

from graphql import GraphQLError
from opentelemetry.context import Context, attach, detach
from opentelemetry.propagate import extract
from opentelemetry.sdk.resources import SERVICE_NAME, OTELResourceDetector, Resource
from opentelemetry.sdk.trace import SpanProcessor, TracerProvider
from opentelemetry.semconv.schemas import Schemas
from opentelemetry.trace import INVALID_SPAN, Span, SpanKind, Tracer, set_span_in_context
from starlette.types import Scope

from app.db.drivers.interface import Database
from app.http.errors import Failure
from app.schema.errors import failure_in
from app.schema.schema import Schema
from app.schema.transport.trusted_documents import hash_of, named_operations
from app.telemetry.logs import REQUEST_ID
from app.telemetry.redaction import class_of
from app.telemetry.tracing.database import TracedDatabase
from app.telemetry.tracing.spans import Attributes, set_error, span_options
from app.version import own_version

SERVICE = "care-gateway"
CONVENTIONS = Schemas.V1_44_0.value
KNOWN_METHODS = {*HTTPMethod, "QUERY"}
OTHER_METHOD = "_OTHER"
UNKNOWN_OPERATION = "GraphQL Operation"  # the name of a span without an operation type
SHUTDOWN_SECONDS = 3  # to send the remaining spans at shutdown

Item = TypeVar("Item")


class Tracing:
    """`tracer` exists while `opened` is active."""

    tracer: Tracer

    def __init__(self, processor: Callable[[], SpanProcessor]) -> None:
        self.processor = processor
        # By document and `operationName`: of the service and of the manifest. Clients choose all others.
        self.operation_names: dict[tuple[str, str | None], str] = {}

    @contextmanager
    def opened(self) -> Iterator[None]:
        is_named = OTELResourceDetector().detect().attributes.get(SERVICE_NAME)
        attributes = {} if is_named else {SERVICE_NAME: SERVICE}
        provider = TracerProvider(resource=Resource.create(attributes), shutdown_on_exit=False)
        provider.add_span_processor(self.processor())
        self.tracer = provider.get_tracer(SERVICE, own_version(), schema_url=CONVENTIONS)
        try:
            yield
        finally:
            shutdown = Thread(target=provider.shutdown, daemon=True)
            shutdown.start()
            shutdown.join(SHUTDOWN_SECONDS)  # an unreachable collector must not block

    @contextmanager
    def request_span(self, scope: Scope, route: str) -> Iterator[None]:
        """Joins the trace that the headers name, if any. A websocket has no span of its own, because it lasts
        for many operations."""
        caller = caller_of(scope)
        if scope["type"] == "websocket":
            token = attach(caller)
            try:
                yield
            finally:
                detach(token)
            return
        attributes = request_attributes(scope, route)
        method = attributes["http.request.method"]
        name = f"{'HTTP' if method == OTHER_METHOD else method} {route}"
        with self.tracer.start_as_current_span(
            name, caller, **span_options(SpanKind.SERVER, attributes)
        ) as span:
            try:
                yield
            finally:
                status = scope["state"].get("status", 500) or 200  # 0: a stream
                span.set_attribute("http.response.status_code", status)
                span.set_attribute("care.request_id", REQUEST_ID.get())
                if status >= 500:
                    set_error(span, str(status))

    def trace_operations(self, schema: Schema, names: dict[tuple[str, str | None], str]) -> None:
        """Wraps the schema. `names` are those of trusted documents."""
        self.operation_names |= {**dict(named_operations(schema.own)), **names}
        if "execute" in vars(schema):  # already traced by an earlier application of this process
            return
        execute, resolve, stream = schema.execute, schema.resolve, schema.stream

        async def traced_execute(query: str | None, *args: Any, **kwargs: Any) -> Any:
            name = args[3] if len(args) > 3 else kwargs.get("operation_name")
            with self.operation_span(schema, query or "", name) as span:
                result = await execute(query, *args, **kwargs)
                note_errors(span, result.errors)
                return result

        async def traced_resolve(pinned: str, variables: dict[str, Any], context: Any) -> Any:
            with self.operation_span(schema, pinned, None):
                return await resolve(pinned, variables, context)

        async def traced_stream(query: str, *args: Any) -> AsyncGenerator[Any, None]:
            return traced_results(query, *args)

        async def traced_results(query: str, *args: Any) -> AsyncGenerator[Any, None]:
            """One span for the whole subscription, without its statements: it polls for hours."""
            with self.operation_span(schema, query, args[3], is_current=False) as span:
                results: AsyncGenerator[Any, None] = await untraced(stream(query, *args))
                async with aclosing(results):
                    while (result := await untraced(anext(results, None))) is not None:
                        note_errors(span, result.errors)
                        yield result

        schema.execute, schema.resolve = traced_execute, traced_resolve  # type: ignore[method-assign]
        schema.stream = traced_stream  # type: ignore[assignment, method-assign]

    @contextmanager
    def operation_span(
        self, schema: Schema, document: str, operation: str | None, is_current: bool = True
    ) -> Iterator[Span]:
        attributes: Attributes = {"care.document_sha256": hash_of(document)}
        if kind := operation_type(schema, document, operation):
            attributes["graphql.operation.type"] = kind
        name = self.operation_names.get((document, operation), "")
        if name:
            attributes["graphql.operation.name"] = name
        options = span_options(SpanKind.SERVER, attributes)
        start = self.tracer.start_as_current_span if is_current else self.tracer.start_span
        with start(f"{kind} {name}".strip() if kind else UNKNOWN_OPERATION, **options) as span:
            try:
                yield span
            except Exception as fault:
                failure = failure_in(GraphQLError("", original_error=fault))
                set_error(span, class_of(fault) if failure is Failure.INTERNAL else failure.code)
                raise

    def wrap_database(self, db: Database, url: str) -> TracedDatabase:
        return TracedDatabase(db, url, self.tracer)


def caller_of(scope: Scope) -> Context:
    headers = {name.decode("latin-1"): value.decode("latin-1") for name, value in scope["headers"]}
    return extract(headers, Context())


def request_attributes(scope: Scope, route: str) -> Attributes:
    method = scope["method"]
    attributes: Attributes = {
        "http.request.method": method if method in KNOWN_METHODS else OTHER_METHOD,
        "http.route": route,
        "network.protocol.version": scope["http_version"],
        "url.path": route,
        "url.scheme": scope["scheme"],
    }
    if scope.get("server"):
        address, port = scope["server"]
        attributes["server.address"] = address
        if port is not None:  # None for a Unix socket
            attributes["server.port"] = port
    return attributes


def operation_type(schema: Schema, document: str, operation: str | None) -> str | None:
    """None if the document is invalid or does not have the operation."""
    key = (document, operation)
    if prepared := schema.operations.pinned.get(key) or schema.operations.recent.get(key):
        return prepared.kind.value
    found = schema.find_operation(document, operation)
    return None if found is None else found.operation.value


def note_errors(span: Span, errors: list[GraphQLError] | None) -> None:
    """An internal error hides the others."""
    if errors:
        failures = [failure_in(error) for error in errors]
        set_error(span, (Failure.INTERNAL if Failure.INTERNAL in failures else failures[0]).code)


async def untraced(work: Awaitable[Item]) -> Item:
    token = attach(set_span_in_context(INVALID_SPAN))
    try:
        return await work
    finally:
        detach(token)
