"""The tracing of one process, and the span of an HTTP request:
https://opentelemetry.io/docs/specs/semconv/http/http-spans/

Left out, because a client chooses them or they are personal: the query string, the path below its route, the
Host and User-Agent headers, an unknown method, and addresses of clients.
"""

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http import HTTPMethod
from threading import Thread

from opentelemetry.context import Context, attach, detach
from opentelemetry.propagate import extract
from opentelemetry.sdk.resources import SERVICE_NAME, Resource
from opentelemetry.sdk.trace import SpanProcessor, TracerProvider
from opentelemetry.semconv.schemas import Schemas
from opentelemetry.trace import SpanKind, Tracer
from starlette.types import Scope

from app.db.drivers.interface import Database
from app.schema.schema import Schema
from app.telemetry.logs import REQUEST_ID
from app.telemetry.tracing.database import TracedDatabase
from app.telemetry.tracing.operations import OperationNames, trace_operations
from app.telemetry.tracing.spans import Attributes, set_error, span_options
from app.version import own_version

SERVICE = "care-gateway"
CONVENTIONS = Schemas.V1_44_0.value
KNOWN_METHODS = {*HTTPMethod, "QUERY"}
OTHER_METHOD = "_OTHER"
SHUTDOWN_SECONDS = 3  # to send the remaining spans at shutdown


class Tracing:
    """`tracer` exists while `opened` is active."""

    tracer: Tracer

    def __init__(self, processor: Callable[[], SpanProcessor]) -> None:
        self.processor = processor
        self.operation_names: OperationNames = {}

    @contextmanager
    def opened(self) -> Iterator[None]:
        attributes = {} if os.environ.get("OTEL_SERVICE_NAME") else {SERVICE_NAME: SERVICE}
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

    def trace_operations(self, schema: Schema, names: OperationNames) -> None:
        trace_operations(self, schema, names)

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
