"""The spans of SQL statements: https://opentelemetry.io/docs/specs/semconv/db/sql/"""

from collections.abc import Generator
from typing import TYPE_CHECKING, Any, TypeVar
from urllib.parse import unquote, urlsplit

from opentelemetry.context import Context, get_current
from opentelemetry.trace import Span, SpanKind, get_current_span

from app.db.drivers.interface import Database, Occupancy, sqlite_path
from app.db.sql import DATABASE_KIND, DatabaseKind, LongWork, Operation, Repeatable, Step, Together
from app.telemetry.redaction import class_of, database_code
from app.telemetry.tracing.spans import Attributes, set_error, span_options
from app.telemetry.tracing.statements import attributes_of

if TYPE_CHECKING:
    from app.telemetry.tracing.provider import Tracing

Result = TypeVar("Result")
POSTGRESQL_PORT = 5432


def connection_attributes(url: str) -> Attributes:
    """The database by its URL, without the user. Several hosts are left out: any of them may respond."""
    if url.startswith("sqlite:"):
        return {"db.system.name": "sqlite", "db.namespace": sqlite_path(url).name}
    parts = urlsplit(url)
    attributes: Attributes = {"db.system.name": "postgresql"}
    if name := unquote(parts.path.removeprefix("/")):
        attributes["db.namespace"] = name
    if parts.hostname and "," not in parts.netloc:
        attributes["server.address"] = parts.hostname
        if parts.port and parts.port != POSTGRESQL_PORT:
            attributes["server.port"] = parts.port
    return attributes


class TracedDatabase:
    """Adds a span for each statement of a traced request or operation, and for each change of the dispatcher,
    which belongs to none. The dispatcher's reads have no span, because it polls."""

    def __init__(self, db: Database, url: str, tracing: "Tracing") -> None:
        self.db = db
        self.tracing = tracing
        self.attributes = connection_attributes(url)
        self.kind: DatabaseKind = "sqlite" if url.startswith("sqlite:") else "postgresql"

    async def read(self, operation: Operation[Result]) -> Result:
        return await self.db.read(self.traced(operation))

    async def write(self, operation: Operation[Result] | Repeatable[Result]) -> Result:
        if get_current_span().get_span_context().is_valid:
            return await self.write_traced(operation)
        options = span_options(SpanKind.INTERNAL, {})
        with self.tracing.tracer.start_as_current_span(name_of(operation), **options) as span:
            try:
                return await self.write_traced(operation)
            except Exception as fault:
                set_error(span, class_of(fault))
                raise

    async def write_traced(self, operation: Operation[Result] | Repeatable[Result]) -> Result:
        if isinstance(operation, Repeatable):
            return await self.db.write(Repeatable(lambda: self.traced(operation.begin())))
        return await self.db.write(self.traced(operation))

    def traced(self, operation: Operation[Result]) -> Operation[Result]:
        """Captures the current span here, because the operation may run in another thread."""
        if not get_current_span().is_recording():
            return operation
        return self.traced_steps(operation, get_current())

    def traced_steps(
        self, operation: Operation[Result], context: Context
    ) -> Generator[Step, list[Any], Result]:
        try:
            step = next(operation)
            while True:
                if step is DATABASE_KIND or isinstance(step, LongWork):
                    step = operation.send((yield step))
                    continue
                span = self.start_span(step, context)
                try:
                    rows = yield step
                except GeneratorExit as closed:  # the driver closes the operation after an error, its context
                    end_failed(span, closed.__context__)
                    raise
                if not isinstance(step, Together):
                    span.set_attribute("db.response.returned_rows", len(rows))
                span.end()
                step = operation.send(rows)
        except StopIteration as end:
            return end.value  # type: ignore[no-any-return]
        finally:
            operation.close()

    def start_span(self, step: Step, context: Context) -> Span:
        attributes = attributes_of(step, self.kind)
        name = str(attributes["db.query.summary"])
        options = span_options(SpanKind.CLIENT, self.attributes | attributes)
        return self.tracing.tracer.start_span(name, context, **options)

    async def close(self) -> None:
        await self.db.close()

    def occupancy(self) -> Occupancy:
        return self.db.occupancy()


def name_of(change: Operation[Any] | Repeatable[Any]) -> str:
    """The function that makes the change."""
    function: Any = change.begin if isinstance(change, Repeatable) else change
    return f"dispatcher {getattr(function, 'func', function).__name__}"


def end_failed(span: Span, fault: BaseException | None) -> None:
    """Records the code of the database, or the exception type; the message may quote a row."""
    fault = (fault and fault.__cause__) or fault
    code = database_code(fault)
    if code:
        span.set_attribute("db.response.status_code", code)
    set_error(span, code or (class_of(fault) if fault else "_OTHER"))
    span.end()
