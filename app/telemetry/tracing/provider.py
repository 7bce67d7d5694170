"""The tracing of one process."""

import os
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from threading import Thread

from opentelemetry.sdk.resources import SERVICE_NAME, Resource
from opentelemetry.sdk.trace import SpanProcessor, TracerProvider
from opentelemetry.semconv.schemas import Schemas
from opentelemetry.trace import Tracer
from starlette.types import Scope

from app.db.drivers.interface import Database
from app.schema.schema import Schema
from app.telemetry.tracing.database import TracedDatabase
from app.telemetry.tracing.operations import OperationNames, trace_operations
from app.telemetry.tracing.requests import request_span
from app.version import own_version

SERVICE = "care-gateway"
CONVENTIONS = Schemas.V1_44_0.value
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

    def request_span(self, scope: Scope, route: str) -> AbstractContextManager[None]:
        return request_span(self, scope, route)

    def trace_operations(self, schema: Schema, names: OperationNames) -> None:
        trace_operations(self, schema, names)

    def wrap_database(self, db: Database, url: str) -> TracedDatabase:
        return TracedDatabase(db, url, self)
