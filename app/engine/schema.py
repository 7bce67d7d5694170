"""Strawberry's schema with limits and with prepared execution of repeated and of costly operations."""

import asyncio
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, TypeVar

import strawberry
from graphql import (
    GraphQLError,
    NoSchemaIntrospectionCustomRule,
    OperationDefinitionNode,
    execute,
    specified_rules,
)
from graphql import OperationType as Kind
from graphql.execution.values import VariableValues
from strawberry.execution import optimized_is_awaitable
from strawberry.extensions.runner import SchemaExtensionsRunner
from strawberry.schema.validation_rules.maybe_null import MaybeNullValidationRule
from strawberry.schema.validation_rules.one_of import OneOfInputValidationRule
from strawberry.types import ExecutionContext, ExecutionResult
from strawberry.types.execution import PreExecutionError
from strawberry.types.graphql import OperationType

from app.engine.arguments import count_values
from app.engine.deprecated import deprecated_parts
from app.engine.documents import Document, DocumentCache, Rules
from app.engine.executor import HIDES_NAMES, CompletingExecutor, Executor, Outcome, resolve_root
from app.engine.limits import Limits, TooCostly, check
from app.engine.prepared import CompiledOperation, OperationCache, PreparedOperation, prepare

IS_AWAITABLE: Any = optimized_is_awaitable  # declared narrower than what graphql-core accepts
FREE_LENGTH = 500  # characters of a document
CHARACTERS_PER_POINT = 4  # beyond them, if the document is not cached
MAX_INLINE_LENGTH = 2000  # longer documents are prepared in a thread: 1000 characters can take 10 ms
LONG_FROM = 400  # points; a response for fewer has no more bytes than are written unmeasured
PREPARED_FROM = 500  # points; graphql-core would complete the result of such an operation in more than 10 ms

# One thread, so that the event loop competes with only one preparation for the interpreter.
preparing = ThreadPoolExecutor(1, "prepare")
Result = TypeVar("Result")


@dataclass(frozen=True)
class EngineOptions:
    """Limits of operations, and development features."""

    limits: Limits | None = None
    introspection: bool = True  # of the schema, and names that errors suggest
    reports_cost: bool = False


class PreparingSchema(strawberry.Schema):
    """Returns the same results as Strawberry's, within limits. `prepares=False` turns preparation off.

    With limits, the context of a request has a method `charge` for points, and `expected_length`, which is
    set to the bytes that the response may have. `deprecated` is set to what the operation uses of the
    deprecated parts of the schema, if it uses any.
    """

    rejection: type[Exception] = TooCostly  # what `charge` of a context raises; by default nothing else

    def __init__(
        self, *args: Any, prepares: bool = True, engine_options: EngineOptions | None = None, **options: Any
    ) -> None:
        super().__init__(*args, **options)
        self.execution_context_class = Executor
        self.engine_options = engine_options or EngineOptions()
        self.deprecated = deprecated_parts(self._schema)
        self.documents = DocumentCache(self._schema, self.engine_options.limits)
        self.own: set[str] = set()  # documents of the service, exempt from limits
        self.operations = OperationCache()
        self.rules: Rules = (*specified_rules, MaybeNullValidationRule, OneOfInputValidationRule)
        if not self.engine_options.introspection:
            self.rules += (NoSchemaIntrospectionCustomRule,)
            self._schema.extensions[HIDES_NAMES] = True
        # Extensions can change every field and require Strawberry's execution.
        self.prepares = prepares and not self.get_extensions() and not self.exception_handlers

    def pin(self, text: str) -> None:
        """Prepares a document of the service and keeps it."""
        if text not in self.own:
            self.own.add(text)
            prepared = self.prepare_operation(self.read(text), None)
            assert prepared is not None, "documents of the service are valid"
            prepared.is_own = True
            self.operations.pinned[text, None] = prepared

    def read(self, text: str) -> Document:
        """The parsed document, cached. Raises TooCostly if it exceeds a limit."""
        return self.documents.read(text, text in self.own)

    def find_operation(self, text: str, name: str | None) -> OperationDefinitionNode | None:
        """None if the document is invalid, or does not have exactly one such operation."""
        try:
            return self.read(text).operation(name)
        except (GraphQLError, RecursionError):
            return None

    async def charged_document(self, text: str, name: str | None, context: Any) -> Document | None:
        """Charges and parses a document, so that its execution does neither. None if it is invalid."""
        try:
            return await self.admit(context, text)
        except (GraphQLError, RecursionError):
            return None

    def prepare_operation(self, document: Document, name: str | None) -> PreparedOperation | None:
        """The prepared operation; None if the document is invalid or nested too deeply."""
        try:
            if self.errors_in(document):
                return None
            prepared = prepare(self._schema, self.schema_converter, document.ast, name)
            if prepared is not None:
                prepared.costs = document.costs(name) if self.engine_options.limits else None
                prepared.deprecated = document.deprecated_use(name, self.deprecated)
        except (GraphQLError, RecursionError):
            return None
        return prepared

    def errors_in(self, document: Document) -> list[GraphQLError]:
        return document.errors(self.rules, not self.engine_options.introspection)

    # --- cost -----------------------------------------------------------------------------------

    def charge(self, cost: int, variables: dict[str, Any] | None, is_own: bool, context: Any) -> None:
        """Charges an operation. Raises TooCostly if it exceeds a limit, and what `charge` of the context
        raises."""
        limits = self.engine_options.limits
        if limits is not None and not is_own:
            check(count_values(variables or {}), "values in the variables", limits.values)
            check(cost, "points of cost", limits.cost)
        context.charge(cost)

    def cost_extension(self, cost: int) -> dict[str, Any]:
        limits = self.engine_options.limits
        if not self.engine_options.reports_cost or limits is None:
            return {}
        return {"cost": {"cost": cost, "limit": limits.cost}}

    # --- operations that are not prepared -------------------------------------------------------

    async def _prepare_operation_async(
        self, context: ExecutionContext, extensions_runner: SchemaExtensionsRunner
    ) -> PreExecutionError | None:
        """Applies limits to operations that are not prepared, and to subscriptions."""
        if self.engine_options.limits is not None and context.query and context.graphql_document is None:
            rejection = await self.admit_operation(context, context.query)
            if rejection is not None:
                return PreExecutionError(data=None, errors=[rejection])
        return await super()._prepare_operation_async(context, extensions_runner)

    async def admit_operation(self, context: ExecutionContext, text: str) -> GraphQLError | None:
        name, variables = context.operation_name, context.variables
        try:
            document = await self.admit(context.context, text)
            context.graphql_document = document.ast
            if costs := document.costs(name):
                points = costs.points(variables)
                context.context.expected_length = costs.bytes(variables)
                operation = document.operation(name)
                # It would repeat with every event of a subscription.
                if operation and operation.operation is not Kind.SUBSCRIPTION:
                    context.extensions_results.update(self.cost_extension(points))
                self.charge(points, variables, text in self.own, context.context)
            context.pre_execution_errors = [*self.errors_in(document)]
            if not context.pre_execution_errors and (use := document.deprecated_use(name, self.deprecated)):
                context.context.deprecated = use.with_values(variables)
        except (GraphQLError, self.rejection) as rejection:
            return error_of(rejection)
        return None

    async def admit(self, context: Any, text: str) -> Document:
        """The document. One that is not cached is charged, and a long one is read in a thread."""
        if text in self.own:
            return self.read(text)
        document = self.documents.recent.get(text)
        if document is not None and document.is_paid:
            return document
        points = max(0, len(text) - FREE_LENGTH) // CHARACTERS_PER_POINT
        if points:
            context.charge(points)
        if len(text) > MAX_INLINE_LENGTH:
            document = await in_thread(self.read_completely, text)
        else:
            document = document or self.documents.parse(text)
        document.is_paid = True
        return self.documents.add(text, document)

    def read_completely(self, text: str) -> Document:
        """Changes no cache, so it can run in a thread; another request may have added the document."""
        document = self.documents.recent.values.get(text) or self.documents.parse(text)
        self.errors_in(document)
        return document

    async def _execute_operation(self, context: ExecutionContext, *args: Any) -> Any:
        """Prepares an operation that is repeated or costly."""
        text, name = context.query, context._provided_operation_name
        is_usual = self.prepares and context.root_value is None
        if text and is_usual and self.is_worth_preparing(text, name, context.variables):
            document = self.read(text)
            prepared = await run(len(text), self.prepare_operation, document, name)
            if prepared is not None:
                self.operations.add(text, name, prepared)
                extensions = context.operation_extensions
                return await self.execute_prepared(
                    prepared, text, context.variables, context.context, name, extensions
                )
        return await super()._execute_operation(context, *args)

    def is_worth_preparing(self, text: str, name: str | None, variables: dict[str, Any] | None) -> bool:
        if self.operations.is_repeated(text, name):
            return True
        costs = self.read(text).costs(name) if self.engine_options.limits else None
        return costs is not None and costs.points(variables) >= PREPARED_FROM

    # --- prepared operations --------------------------------------------------------------------

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
        kinds = allowed_operation_types
        prepared = self.operations.find(query, operation_name) if self.prepares and query else None
        if prepared is None or root_value is not None or not (kinds is None or prepared.kind in kinds):
            return await super().execute(
                query, variable_values, context_value, root_value, operation_name, kinds, operation_extensions
            )
        points = 0
        if prepared.costs is not None:
            points = prepared.costs.points(variable_values)
            length = prepared.costs.bytes(variable_values) if points >= LONG_FROM else 0
            context_value.expected_length = length
            try:
                self.charge(points, variable_values, prepared.is_own, context_value)
            except (TooCostly, self.rejection) as rejection:
                errors = [error_of(rejection)]
                return PreExecutionError(None, errors, extensions=self.cost_extension(points))
        if prepared.deprecated is not None:
            context_value.deprecated = prepared.deprecated.with_values(variable_values)
        result = await self.execute_prepared(
            prepared, query, variable_values, context_value, operation_name, operation_extensions
        )
        result.extensions = self.cost_extension(points)
        return result

    async def execute_prepared(
        self,
        prepared: PreparedOperation,
        query: str | None,
        variable_values: dict[str, Any] | None,
        context_value: Any,
        operation_name: str | None,
        operation_extensions: dict[str, Any] | None,
    ) -> ExecutionResult:
        compiled = outcome = None
        variables = prepared.variables.coerce(variable_values)
        if variables is not None:
            found = self.operations.find_compiled(prepared, variables)
            compiled = found or await self.compile(prepared, variables)
            if compiled is not None and compiled.root is not None:
                root, complete = compiled.root
                outcome = await resolve_root(
                    prepared, compiled, root, variables, context_value, operation_extensions
                )
                if outcome.error is None:
                    try:
                        if compiled.is_new:
                            data = await in_thread(complete, outcome.value)
                            compiled.is_new = False
                        else:
                            data = complete(outcome.value)
                        return ExecutionResult({root.key: data}, None)
                    except Exception:
                        pass  # graphql-core completes the value again and reports the error
        context = self._create_execution_context(
            query=query,
            allowed_operation_types=(prepared.kind,),
            variable_values=variable_values,
            context_value=context_value,
            root_value=None,
            operation_name=operation_name,
            operation_extensions=operation_extensions,
        )
        return await self.execute_by_core(prepared, context, compiled, outcome)

    async def compile(
        self, prepared: PreparedOperation, variables: VariableValues
    ) -> CompiledOperation | None:
        """Compiles and caches an operation for these variables. None if graphql-core rejects it."""
        try:
            compiled = await run(prepared.size, CompiledOperation, prepared, variables)
        except GraphQLError:
            return None
        # The first value of a class is completed by code that is generated then.
        compiled.is_new = prepared.size > MAX_INLINE_LENGTH
        self.operations.add_compiled(prepared, variables, compiled)
        return compiled

    async def resolve(self, pinned: str, variables: dict[str, Any], context: Any) -> Any:
        """What the resolver of a pinned document's only field returns; raises its error. A caller that reads
        rows itself needs no response of GraphQL."""
        prepared = self.operations.pinned[pinned, None]
        if prepared.costs is not None:
            context.charge(prepared.costs.points(variables))
        coerced = prepared.variables.coerce(variables)
        assert coerced is not None, "the service passes valid variables to its documents"
        found = self.operations.find_compiled(prepared, coerced)
        compiled = found or await self.compile(prepared, coerced)
        assert compiled is not None and compiled.single_root is not None
        outcome = await resolve_root(prepared, compiled, compiled.single_root, coerced, context, None)
        return outcome.result()

    def _process_errors(
        self, errors: list[GraphQLError], execution_context: ExecutionContext | None = None
    ) -> None:
        """Frees the frames of the execution: they hold the executor, which holds the errors."""
        super()._process_errors(errors, execution_context)
        for error in errors:
            drop_tracebacks(error)
            drop_tracebacks(error.original_error)

    async def execute_by_core(
        self,
        prepared: PreparedOperation,
        context: ExecutionContext,
        compiled: CompiledOperation | None,
        outcome: Outcome | None,
    ) -> ExecutionResult:
        """Executes by graphql-core, with generated code for objects and lists where possible."""
        executor: dict[str, Any] = {"executor_class": Executor}
        if compiled and not compiled.is_too_deep and not compiled.is_introspection:
            executor = {"executor_class": CompletingExecutor, "compiled": compiled}
        result: Any = execute(
            self._schema,
            prepared.document,
            context_value=context.context,
            variable_values=context.variables,
            operation_name=context.operation_name,
            is_awaitable=IS_AWAITABLE,
            middleware=[outcome] if outcome else None,
            operation_extensions=context.operation_extensions,
            **executor,
        )
        if optimized_is_awaitable(result):
            result = await result
        if result.errors:
            context.graphql_document = prepared.document
            self._process_errors(result.errors, context)
        return ExecutionResult(result.data, result.errors)


def error_of(rejection: Exception) -> GraphQLError:
    """The error of a rejected operation, without frames: they hold the context, which gets the error."""
    rejection.__traceback__ = None
    if isinstance(rejection, GraphQLError):
        return rejection
    return GraphQLError(str(rejection), original_error=rejection)


def drop_tracebacks(error: BaseException | None) -> None:
    done: set[int] = set()  # an error can be its own cause
    while error is not None and id(error) not in done:
        done.add(id(error))
        error.__traceback__ = None
        error = error.__cause__ or error.__context__


async def run(length: int, function: Callable[..., Result], *args: Any) -> Result:
    """Calls a function that prepares a document: in a thread if the document is long."""
    return await in_thread(function, *args) if length > MAX_INLINE_LENGTH else function(*args)


async def in_thread(function: Callable[..., Result], *args: Any) -> Result:
    """If the caller is cancelled, the function still runs to its end, so it may change no cache."""
    return await asyncio.get_running_loop().run_in_executor(preparing, function, *args)
