"""Strawberry's schema with limits and with prepared execution of repeated operations."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import strawberry
from graphql import GraphQLError, NoSchemaIntrospectionCustomRule, OperationDefinitionNode, execute
from graphql import OperationType as Kind
from graphql.validation import MaxIntrospectionDepthRule
from strawberry.execution import optimized_is_awaitable
from strawberry.extensions.runner import SchemaExtensionsRunner
from strawberry.schema.schema import StrawberryGraphQLCoreExecutionContext
from strawberry.schema.validation_rules.maybe_null import MaybeNullValidationRule
from strawberry.schema.validation_rules.one_of import OneOfInputValidationRule
from strawberry.types import ExecutionContext, ExecutionResult
from strawberry.types.execution import PreExecutionError
from strawberry.types.graphql import OperationType

from app.engine.documents import Document, DocumentCache, Rules
from app.engine.executor import (
    CompletingExecutor,
    NoSuggestionsExecutor,
    Outcome,
    StreamingExecutor,
    resolve_root,
)
from app.engine.limits import Limits, TooCostly, count_values
from app.engine.operations import OperationCache
from app.engine.prepared import CompiledOperation, PreparedOperation, prepare

IS_AWAITABLE: Any = optimized_is_awaitable  # declared narrower than what graphql-core accepts


@dataclass(frozen=True)
class EngineOptions:
    """Limits of operations, and development features."""

    limits: Limits | None = None
    introspection: bool = True
    suggestions: bool = True
    reports_cost: bool = False


class PreparingSchema(strawberry.Schema):
    """Returns the same results as Strawberry's, within limits. `prepares=False` turns preparation off."""

    def __init__(
        self, *args: Any, prepares: bool = True, engine_options: EngineOptions | None = None, **options: Any
    ) -> None:
        super().__init__(*args, **options)
        self.engine_options = engine_options or EngineOptions()
        self.documents = DocumentCache(self._schema, self.engine_options.limits)
        self.own: set[str] = set()  # documents of the service, exempt from limits
        self.operations = OperationCache(self.prepare_operation)
        # Extensions and custom contexts can change every field and require Strawberry's execution.
        is_usual = self.execution_context_class is StrawberryGraphQLCoreExecutionContext
        self.prepares = prepares and is_usual and not self.get_extensions() and not self.exception_handlers

    def pin(self, text: str) -> None:
        """Prepares a document of the service and keeps it."""
        self.own.add(text)
        self.operations.pin(text)

    def read(self, text: str) -> Document:
        """The parsed document, cached. Raises TooCostly if it exceeds a limit."""
        return self.documents.read(text, text in self.own)

    def find_operation(self, text: str, name: str | None) -> OperationDefinitionNode | None:
        """None if the document is invalid, or does not have exactly one such operation."""
        try:
            return self.read(text).operation(name)
        except (GraphQLError, RecursionError):
            return None

    def prepare_operation(self, text: str, name: str | None) -> PreparedOperation | None:
        """The prepared operation; None if the document is invalid or nested too deeply."""
        rules = self.context_of(text, None, None, name).validation_rules
        try:
            document = self.read(text)
            if self.errors_in(document, rules):
                return None
            prepared = prepare(self._schema, self.schema_converter, document.ast, name)
        except (GraphQLError, RecursionError):
            return None
        if prepared is not None and self.engine_options.limits is not None:
            prepared.costs = document.costs(name)
        return prepared

    def errors_in(self, document: Document, rules: Rules) -> list[GraphQLError]:
        rules = (*rules, MaybeNullValidationRule, OneOfInputValidationRule)
        if self.engine_options.limits is not None:
            rules = (*rules, MaxIntrospectionDepthRule)
        if not self.engine_options.introspection:
            rules = (*rules, NoSchemaIntrospectionCustomRule)
        return document.errors(rules, not self.engine_options.suggestions)

    # --- cost -----------------------------------------------------------------------------------

    def refusal_of(
        self, cost: int, variables: dict[str, Any] | None, is_own: bool, context: Any
    ) -> GraphQLError | None:
        """The error if an operation exceeds a limit, or the rate limit."""
        limits = self.engine_options.limits
        if limits is not None and not is_own:
            if variables and (values := count_values(variables)) > limits.values:
                return TooCostly(values, "values in the variables", limits.values)
            if cost > limits.cost:
                return TooCostly(cost, "points of cost", limits.cost)
        return self.charge(context, cost)

    def charge(self, context: Any, cost: int) -> GraphQLError | None:
        """Overridden to charge the caller. Returns an error to reject the operation."""
        return None

    def expect(self, context: Any, length: int) -> None:
        """Overridden to note how many bytes the response may have."""

    def cost_extension(self, cost: int) -> dict[str, Any]:
        limits = self.engine_options.limits
        if not self.engine_options.reports_cost or limits is None:
            return {}
        return {"cost": {"cost": cost, "limit": limits.cost}}

    async def _prepare_operation_async(
        self, context: ExecutionContext, extensions_runner: SchemaExtensionsRunner
    ) -> PreExecutionError | None:
        """Applies limits to operations that are not prepared, and to subscriptions."""
        if self.engine_options.limits is not None and context.query and context.graphql_document is None:
            refusal = self.check(context, context.query)
            if refusal is not None:
                return PreExecutionError(data=None, errors=[refusal])
        return await super()._prepare_operation_async(context, extensions_runner)

    def check(self, context: ExecutionContext, text: str) -> GraphQLError | None:
        name, variables = context.operation_name, context.variables
        try:
            document = self.read(text)
            context.graphql_document = document.ast
            if costs := document.costs(name):
                points = costs.points(variables)
                self.expect(context.context, costs.bytes(variables))
                operation = document.operation(name)
                if (
                    operation and operation.operation is not Kind.SUBSCRIPTION
                ):  # would repeat with every event
                    context.extensions_results.update(self.cost_extension(points))
                if refusal := self.refusal_of(points, variables, text in self.own, context.context):
                    return refusal
            context.pre_execution_errors = self.errors_in(document, context.validation_rules)
        except GraphQLError as refusal:
            return refusal
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
        kinds = allowed_operation_types
        prepared = self.operations.find(query, operation_name) if self.prepares and query else None
        if prepared is None or root_value is not None or not (kinds is None or prepared.kind in kinds):
            return await super().execute(
                query, variable_values, context_value, root_value, operation_name, kinds, operation_extensions
            )
        points = 0
        if prepared.costs is not None:
            points = prepared.costs.points(variable_values)
            self.expect(context_value, prepared.costs.bytes(variable_values))
            if refusal := self.refusal_of(points, variable_values, prepared.is_own, context_value):
                return PreExecutionError(None, [refusal], extensions=self.cost_extension(points))
        compiled = outcome = None
        variables = prepared.variables.coerce(variable_values)
        if variables is not None:
            compiled = self.operations.compile(prepared, variables)
            if compiled is not None and compiled.root is not None:
                root, complete = compiled.root
                outcome = await resolve_root(compiled, root, variables, context_value, operation_extensions)
                if outcome.error is None:
                    try:
                        data = {root.key: complete(outcome.value)}
                        return ExecutionResult(data, None, extensions=self.cost_extension(points))
                    except Exception:
                        pass  # graphql-core completes the value again and reports the error
        context = self.context_of(query, variable_values, context_value, operation_name)
        result = await self.execute_by_core(prepared, context, compiled, outcome, operation_extensions)
        result.extensions = self.cost_extension(points)
        return result

    async def resolve(self, pinned: str, variables: dict[str, Any], context: Any) -> Any:
        """What the resolver of a pinned document's only field returns; raises its error. A caller that reads
        rows itself needs no response of GraphQL."""
        prepared = self.operations.pinned[pinned, None]
        costs = prepared.costs
        if costs is not None and (refusal := self.charge(context, costs.points(variables))):
            raise refusal.original_error or refusal
        coerced = prepared.variables.coerce(variables)
        assert coerced is not None, "the service passes valid variables to its documents"
        compiled = self.operations.compile(prepared, coerced)
        assert compiled is not None and compiled.collected.root is not None
        return (await resolve_root(compiled, compiled.collected.root, coerced, context, None)).result()

    def _stream(self, *args: Any, **options: Any) -> Any:
        if self.execution_context_class is StrawberryGraphQLCoreExecutionContext:
            suggests = self.engine_options.suggestions
            options["execution_context_class"] = StreamingExecutor if suggests else NoSuggestionsExecutor
        return super()._stream(*args, **options)

    def _get_custom_context_kwargs(self, *args: Any, **options: Any) -> dict[str, Any]:
        kwargs = super()._get_custom_context_kwargs(*args, **options)
        return kwargs if self.engine_options.suggestions else {**kwargs, "hide_suggestions": True}

    async def execute_by_core(
        self,
        prepared: PreparedOperation,
        context: ExecutionContext,
        compiled: CompiledOperation | None,
        outcome: Outcome | None,
        operation_extensions: dict[str, Any] | None,
    ) -> ExecutionResult:
        """Executes by graphql-core, with generated code for objects and lists where possible."""
        executor: dict[str, Any] = {"executor_class": StrawberryGraphQLCoreExecutionContext}
        if compiled and not compiled.is_too_deep and not compiled.collected.is_introspection:
            executor = {"executor_class": CompletingExecutor, "compiled": compiled}
        result: Any = execute(
            self._schema,
            prepared.document,
            context_value=context.context,
            variable_values=context.variables,
            operation_name=context.operation_name,
            is_awaitable=IS_AWAITABLE,
            middleware=[outcome] if outcome else None,
            operation_extensions=operation_extensions,
            hide_suggestions=not self.engine_options.suggestions,
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
