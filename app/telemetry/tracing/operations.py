"""The span of a GraphQL operation: https://opentelemetry.io/docs/specs/semconv/graphql/graphql-spans/

The document itself is left out, because it may contain values.
"""

from collections.abc import AsyncGenerator, Awaitable, Iterator
from contextlib import aclosing, contextmanager
from typing import TYPE_CHECKING, Any, TypeVar

from graphql import GraphQLError
from opentelemetry.context import attach, detach
from opentelemetry.trace import INVALID_SPAN, Span, SpanKind, set_span_in_context

from app.http.errors import Failure
from app.schema.errors import failure_in
from app.schema.schema import Schema
from app.schema.transport.trusted_documents import hash_of, named_operations
from app.telemetry.redaction import class_of
from app.telemetry.tracing.spans import Attributes, set_error, span_options

if TYPE_CHECKING:
    from app.telemetry.tracing.provider import Tracing

UNKNOWN = "GraphQL Operation"  # the name of a span without an operation type
Item = TypeVar("Item")
# Names by document and `operationName`: of the service and of the manifest. Clients choose all others.
OperationNames = dict[tuple[str, str | None], str]


def trace_operations(tracing: "Tracing", schema: Schema, names: OperationNames) -> None:
    """Wraps the schema. `names` are those of trusted documents."""
    tracing.operation_names |= {**dict(named_operations(schema.own)), **names}
    if "execute" in vars(schema):  # already traced by an earlier application of this process
        return
    execute, resolve, stream = schema.execute, schema.resolve, schema.stream

    async def traced_execute(query: str | None, *args: Any, **kwargs: Any) -> Any:
        name = args[3] if len(args) > 3 else kwargs.get("operation_name")
        with operation_span(tracing, schema, query or "", name) as span:
            result = await execute(query, *args, **kwargs)
            note_errors(span, result.errors)
            return result

    async def traced_resolve(pinned: str, variables: dict[str, Any], context: Any) -> Any:
        with operation_span(tracing, schema, pinned, None):
            return await resolve(pinned, variables, context)

    async def traced_stream(query: str, *args: Any) -> AsyncGenerator[Any, None]:
        return traced_results(query, *args)

    async def traced_results(query: str, *args: Any) -> AsyncGenerator[Any, None]:
        """One span for the whole subscription, without its statements: it polls for hours."""
        with operation_span(tracing, schema, query, args[3], is_current=False) as span:
            results: AsyncGenerator[Any, None] = await untraced(stream(query, *args))
            async with aclosing(results):
                while (result := await untraced(anext(results, None))) is not None:
                    note_errors(span, result.errors)
                    yield result

    schema.execute, schema.resolve = traced_execute, traced_resolve  # type: ignore[method-assign]
    schema.stream = traced_stream  # type: ignore[assignment, method-assign]


@contextmanager
def operation_span(
    tracing: "Tracing", schema: Schema, document: str, operation: str | None, is_current: bool = True
) -> Iterator[Span]:
    attributes: Attributes = {"care.document_sha256": hash_of(document)}
    if kind := operation_type(schema, document, operation):
        attributes["graphql.operation.type"] = kind
    name = tracing.operation_names.get((document, operation), "")
    if name:
        attributes["graphql.operation.name"] = name
    options = span_options(SpanKind.SERVER, attributes)
    start = tracing.tracer.start_as_current_span if is_current else tracing.tracer.start_span
    with start(f"{kind} {name}".strip() if kind else UNKNOWN, **options) as span:
        try:
            yield span
        except Exception as fault:
            failure = failure_in(GraphQLError("", original_error=fault))
            set_error(span, class_of(fault) if failure is Failure.INTERNAL else failure.code)
            raise


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
