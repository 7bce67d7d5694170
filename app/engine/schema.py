"""Strawberry's schema with a short way for operations that come again."""

from asyncio import Future, ensure_future
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import strawberry
from graphql import GraphQLError, GraphQLResolveInfo, execute, parse
from graphql.execution.values import VariableValues
from graphql.pyutils import gather_with_cancel
from graphql.type import GraphQLResolveInfoHelpers
from strawberry.execution import optimized_is_awaitable
from strawberry.schema.schema import StrawberryGraphQLCoreExecutionContext, validate_document
from strawberry.types import ExecutionContext, ExecutionResult
from strawberry.types.graphql import OperationType

from app.engine.executor import ShapingExecutor, StreamingExecutor, with_notes
from app.engine.operations import Operations
from app.engine.prepared import Bound, Prepared, RootField, prepare

IS_AWAITABLE: Any = optimized_is_awaitable  # its declared type is narrower than what graphql-core takes


class PreparingSchema(strawberry.Schema):
    """`execute` answers as Strawberry's does. With `prepares=False` it is Strawberry's."""

    def __init__(self, *args: Any, prepares: bool = True, **given: Any) -> None:
        super().__init__(*args, **given)
        self.operations = Operations(self.make)
        # What may change the meaning of every field leaves only the long way.
        is_usual = self.execution_context_class is StrawberryGraphQLCoreExecutionContext
        self.prepares = prepares and is_usual and not self.get_extensions() and not self.exception_handlers

    def pin(self, text: str) -> None:
        """Prepare a document of the service's own before anybody asks."""
        if self.prepares:
            self.operations.pin(text)

    def make(self, text: str, name: str | None) -> Prepared | None:
        """The prepared operation; None for a document that is not valid or nests too deeply to be walked."""
        rules = self.context_of(text, None, None, name).validation_rules
        try:
            document = parse(text)
            if validate_document(self._schema, document, rules):
                return None
            return prepare(self._schema, self.schema_converter, document, name)
        except (GraphQLError, RecursionError):
            return None

    async def execute(
        self,
        query: str | None,
        variable_values: dict[str, Any] | None = None,
        context_value: Any = None,
        root_value: Any = None,
        operation_name: str | None = None,
        allowed_operation_types: Iterable[OperationType] | None = None,
        operation_extensions: dict[str, Any] | None = None,
    ) -> ExecutionResult:
        allowed = allowed_operation_types
        prepared = self.operations.find(query, operation_name) if self.prepares and query else None
        if prepared is None or root_value is not None or not (allowed is None or prepared.kind in allowed):
            return await super().execute(
                query,
                variable_values,
                context_value,
                root_value,
                operation_name,
                allowed,
                operation_extensions,
            )
        bound = outcome = None
        variables = prepared.variables.values(variable_values)
        if variables is not None:
            bound = self.operations.bound(prepared, variables)
            if bound is not None and bound.root is not None:
                root, complete = bound.root
                outcome = await resolve(bound, root, variables, context_value, operation_extensions)
                if outcome.error is None:
                    try:
                        return ExecutionResult({root.key: complete(outcome.value)}, None, extensions={})
                    except Exception:
                        pass  # graphql-core comes upon it again and says it in its own way
        context = self.context_of(query, variable_values, context_value, operation_name)
        return await self.execute_by_core(prepared, context, bound, outcome, operation_extensions)

    def _stream(self, *given: Any, **named: Any) -> Any:
        if self.execution_context_class is StrawberryGraphQLCoreExecutionContext:
            named["execution_context_class"] = StreamingExecutor
        return super()._stream(*given, **named)

    async def execute_by_core(
        self,
        prepared: Prepared,
        context: ExecutionContext,
        bound: Bound | None,
        outcome: "Outcome | None",
        operation_extensions: dict[str, Any] | None,
    ) -> ExecutionResult:
        """All of graphql-core's execution; what is finished on the way may still go to its shape."""
        executor: dict[str, Any] = {"executor_class": StrawberryGraphQLCoreExecutionContext}
        if bound is not None and bound.variant.has_shapes:
            executor = {"executor_class": ShapingExecutor, "bound": bound}
        result: Any = execute(
            self._schema,
            prepared.document,
            context_value=context.context,
            variable_values=context.variables,
            operation_name=context.operation_name,
            is_awaitable=IS_AWAITABLE,
            middleware=[outcome] if outcome else None,
            operation_extensions=operation_extensions,
            **executor,
        )
        if optimized_is_awaitable(result):
            result = await result
        if result.errors:
            context.graphql_document = prepared.document
            self._process_errors(result.errors, context)
        return ExecutionResult(result.data, result.errors, extensions={})

    def context_of(
        self, query: str | None, variables: dict[str, Any] | None, context: Any, name: str | None
    ) -> ExecutionContext:
        return self._create_execution_context(
            query=query,
            variable_values=variables,
            context_value=context,
            root_value=None,
            operation_name=name,
            allowed_operation_types=tuple(OperationType),
            operation_extensions=None,
        )


# --- the only root field --------------------------------------------------------------------------


class Outcome:
    """What the root resolver gave or raised: it is not asked again."""

    def __init__(self, is_awaited: bool, value: Any = None, error: Exception | None = None) -> None:
        self.is_awaited = is_awaited
        self.value = value
        self.error = error

    def resolve(  # graphql-core's word for middleware
        self, resolver: Callable[..., Any], root: Any, info: GraphQLResolveInfo[Any], **arguments: Any
    ) -> Any:
        if info.path.prev is not None:
            return resolver(root, info, **arguments)
        return self.awaited() if self.is_awaited else self.again()

    def again(self) -> Any:
        if self.error is not None:
            raise self.error
        return self.value

    async def awaited(self) -> Any:
        return self.again()


async def resolve(
    bound: Bound,
    root: RootField,
    variables: VariableValues,
    context: Any,
    operation_extensions: dict[str, Any] | None,
) -> Outcome:
    prepared = bound.variant.prepared
    definition = root.definition
    told: tuple[Any, ...] = (
        root.nodes[0].name.value,
        root.nodes,
        definition.type,
        root.parent,
        root.path,
        prepared.schema,
        prepared.fragment_definitions,
        None,
        prepared.operation,
        variables.coerced,
        context,
        optimized_is_awaitable,
        None,
        HELPERS,
    )
    is_awaited = False
    try:
        value = root.call(variables, with_notes(told, bound.notes, operation_extensions))
        if is_awaited := optimized_is_awaitable(value):
            value = await value
        return Outcome(is_awaited, value)
    except Exception as error:
        return Outcome(is_awaited, error=error)


# --- what graphql-core lets a resolver ask for beside its answer ----------------------------------

in_background: set[Future[Any]] = set()


def track(values: Sequence[Any]) -> None:
    """Awaitables that nobody waits for are still run to their end, and their errors seen."""
    for value in filter(optimized_is_awaitable, values):
        future = ensure_future(value)
        in_background.add(future)
        future.add_done_callback(finish)


def finish(future: Future[Any]) -> None:
    in_background.discard(future)
    if not future.cancelled():
        future.exception()


HELPERS = GraphQLResolveInfoHelpers(gather=lambda values: gather_with_cancel(*values), track=track)
