"""The spans of SQL statements: https://opentelemetry.io/docs/specs/semconv/db/sql/"""

import re
from collections.abc import Generator
from typing import Any, TypeVar
from urllib.parse import unquote, urlsplit
from weakref import WeakKeyDictionary

from opentelemetry.context import Context, get_current
from opentelemetry.trace import Span, SpanKind, Tracer, get_current_span

from app.db.drivers.interface import Database, Occupancy, sqlite_path
from app.db.sql import (
    DATABASE_KIND,
    Bulk,
    DatabaseKind,
    FastPath,
    FastRead,
    LongWork,
    Repeatable,
    Statement,
    Step,
    Steps,
    Together,
    changes_of,
)
from app.telemetry.redaction import class_of, database_code
from app.telemetry.tracing.spans import Attributes, set_error, span_options

Result = TypeVar("Result")
POSTGRESQL_PORT = 5432
MAX_TEXT, MAX_SUMMARY = 2000, 255  # characters
# What a statement does and to which tables. A function or a subquery is no table.
PARTS = re.compile(
    r"\b(SELECT)\b|\b(INSERT) INTO (\w+)|\b(DELETE) FROM (\w+)|(?<!FOR )(?<!KEY )(?<!DO )\b(UPDATE) (\w+)"
    r"|(?:(?<!DISTINCT )\bFROM|\bJOIN) (\w+)\b(?! ?\()"
)
# Callers choose the statements of reads, so their attributes do not outlive them.
of_statements: WeakKeyDictionary[Statement, dict[DatabaseKind, Attributes]] = WeakKeyDictionary()


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
    """Adds a span for each statement of a traced request, and for each change of the dispatcher,
    which belongs to none. The dispatcher's reads have no span, because it polls."""

    def __init__(self, db: Database, url: str, tracer: Tracer) -> None:
        self.db = db
        self.tracer = tracer
        self.attributes = connection_attributes(url)
        self.kind: DatabaseKind = "sqlite" if url.startswith("sqlite:") else "postgresql"

    async def read(self, steps: Steps[Result]) -> Result:
        return await self.db.read(self.traced(steps))

    async def write(self, steps: Steps[Result] | Repeatable[Result]) -> Result:
        if get_current_span().get_span_context().is_valid:
            return await self.write_traced(steps)
        options = span_options(SpanKind.INTERNAL, {})
        with self.tracer.start_as_current_span(name_of(steps), **options) as span:
            try:
                return await self.write_traced(steps)
            except Exception as fault:
                set_error(span, class_of(fault))
                raise

    async def write_traced(self, steps: Steps[Result] | Repeatable[Result]) -> Result:
        if isinstance(steps, Repeatable):
            return await self.db.write(Repeatable(lambda: self.traced(steps.begin())))
        return await self.db.write(self.traced(steps))

    def traced(self, steps: Steps[Result]) -> Steps[Result]:
        """Captures the current span here, because the steps may run in another thread."""
        if not get_current_span().is_recording():
            return steps
        return self.traced_steps(steps, get_current())

    def traced_steps(self, steps: Steps[Result], context: Context) -> Generator[Step, list[Any], Result]:
        try:
            step = next(steps)
            while True:
                is_skipped = isinstance(step, FastRead | FastPath) and self.kind != "postgresql"
                if step is DATABASE_KIND or isinstance(step, LongWork) or is_skipped:
                    step = steps.send((yield step))
                    continue
                span = self.start_span(step, context)
                try:
                    rows = yield step
                except GeneratorExit as closed:
                    end_failed(span, error_before(closed))
                    raise
                if not isinstance(step, Together):
                    span.set_attribute("db.response.returned_rows", len(rows))
                span.end()
                step = steps.send(rows)
        except StopIteration as end:
            return end.value  # type: ignore[no-any-return]
        finally:
            steps.close()

    def start_span(self, step: Step, context: Context) -> Span:
        attributes = attributes_of(step, self.kind)
        name = str(attributes["db.query.summary"])
        options = span_options(SpanKind.CLIENT, self.attributes | attributes)
        return self.tracer.start_span(name, context, **options)

    async def close(self) -> None:
        await self.db.close()

    def occupancy(self) -> Occupancy:
        return self.db.occupancy()


def name_of(change: Steps[Any] | Repeatable[Any]) -> str:
    """The function that makes the change."""
    function: Any = change.begin if isinstance(change, Repeatable) else change
    return f"dispatcher {getattr(function, 'func', function).__name__}"


def error_before(closed: BaseException | None) -> BaseException | None:
    """The error after which the driver has closed the steps: the context of the closing, also of the closing
    of steps that wrap them."""
    while isinstance(closed, GeneratorExit):
        closed = closed.__context__
    return closed


def end_failed(span: Span, fault: BaseException | None) -> None:
    """Records the code of the database, or the exception type; the message may quote a row."""
    fault = (fault and fault.__cause__) or fault
    code = database_code(fault)
    if code:
        span.set_attribute("db.response.status_code", code)
    set_error(span, code or (class_of(fault) if fault else "_OTHER"))
    span.end()


# --- the attributes of a step: a statement, several at once, or rows to insert -------------------------


def attributes_of(step: Step, kind: DatabaseKind) -> Attributes:
    if isinstance(step, Bulk):
        return {
            "db.collection.name": step.table,
            "db.operation.name": "INSERT",
            "db.query.summary": f"INSERT {step.table}",
        }
    if isinstance(step, FastPath):
        return statement_attributes(step.statement, kind)
    each = [statement_attributes(statement, kind) for statement, _ in changes_of(step)]
    if len(each) == 1:
        return each[0]
    operations, summaries, texts = (
        [str(attributes.get(name, "")) for attributes in each]
        for name in ("db.operation.name", "db.query.summary", "db.query.text")
    )
    return {
        "db.operation.batch.size": len(each),
        "db.operation.name": batch_of(operations),
        "db.query.summary": batch_of(summaries),
        "db.query.text": (texts[0] if len(set(texts)) == 1 else "; ".join(texts))[:MAX_TEXT],
    }


def batch_of(names: list[str]) -> str:
    return f"BATCH {names[0]}".strip() if len(set(names)) == 1 else "BATCH"


def statement_attributes(statement: Statement, kind: DatabaseKind) -> Attributes:
    by_kind = of_statements.setdefault(statement, {})
    if kind not in by_kind:
        compiled = statement.for_(kind)
        text = compiled.sql
        by_kind[kind] = {"db.query.summary": summary_of(text), "db.query.text": text[:MAX_TEXT]}
        if compiled.verb:  # the text does not name one operation
            by_kind[kind]["db.operation.name"] = compiled.verb
    return by_kind[kind]


def summary_of(text: str) -> str:
    """The operations and tables in their order, such as `INSERT event SELECT assignment`."""
    parts = " ".join(part for found in PARTS.findall(text) for part in found if part)
    if not parts:
        return text.split(None, 1)[0]
    return parts if len(parts) <= MAX_SUMMARY else parts[: MAX_SUMMARY + 1].rpartition(" ")[0]
