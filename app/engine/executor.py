"""Executes prepared operations: a single root field directly, everything else by graphql-core's executors."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from graphql import (
    GraphQLField,
    GraphQLObjectType,
    GraphQLResolveInfo,
    GraphQLResolveInfoHelpers,
    GraphQLSchema,
)
from graphql.execution.values import VariableValues
from graphql.language import FieldNode
from graphql.pyutils import Path
from strawberry.execution import optimized_is_awaitable
from strawberry.schema.schema import StrawberryGraphQLCoreExecutionContext

from app.engine.codegen import Fields
from app.engine.prepared import CompiledOperation, PreparedOperation, RootField

HIDES_NAMES = "hides-names"  # in the extensions of a schema

# --- the resolver info -------------------------------------------------------------------------------

Info = GraphQLResolveInfo[Any]


class CachingInfo(Info):
    """The resolver info with the selection cache of its prepared operation."""

    resolver_cache: dict[Any, Any]
    operation_extensions: dict[str, Any] | None  # added by Strawberry


def caching_info(
    plain: Iterable[Any], resolver_cache: dict[Any, Any], operation_extensions: dict[str, Any] | None
) -> CachingInfo:
    info: CachingInfo = CachingInfo._make(plain)
    info.resolver_cache = resolver_cache
    info.operation_extensions = operation_extensions
    return info


def resolver_cache_of(info: Info) -> dict[Any, Any]:
    """A cache for what resolvers compute from the selection alone; empty if the operation is not prepared."""
    return info.resolver_cache if isinstance(info, CachingInfo) else {}


# --- a single root field ----------------------------------------------------------------------------


@dataclass(eq=False)
class Outcome:
    """The result or the error of the root resolver, which runs only once: graphql-core reuses it."""

    is_awaited: bool
    value: Any = None
    error: Exception | None = None

    def resolve(  # called by graphql-core as middleware
        self, resolver: Callable[..., Any], root: Any, info: Info, **arguments: Any
    ) -> Any:
        if info.path.prev is not None:
            return resolver(root, info, **arguments)
        return self.awaited() if self.is_awaited else self.result()

    def result(self) -> Any:
        if self.error is not None:
            raise self.error
        return self.value

    async def awaited(self) -> Any:
        return self.result()


async def resolve_root(
    prepared: PreparedOperation,
    compiled: CompiledOperation,
    root: RootField,
    variables: VariableValues,
    context: Any,
    operation_extensions: dict[str, Any] | None,
) -> Outcome:
    values: tuple[Any, ...] = (
        root.nodes[0].name.value,
        root.nodes,
        root.definition.type,
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
        None,  # async_helpers: Strawberry does not offer them to resolvers
    )
    is_awaited = False
    try:
        value = root.call(variables, caching_info(values, compiled.resolver_cache, operation_extensions))
        if is_awaited := optimized_is_awaitable(value):
            value = await value
        return Outcome(is_awaited, value)
    except Exception as error:
        return Outcome(is_awaited, error=error)


# --- graphql-core's executors -------------------------------------------------------------------------


class Executor(StrawberryGraphQLCoreExecutionContext):
    """Strawberry's, without a reference cycle that would keep it and the context of the request."""

    @classmethod
    def build(cls, schema: GraphQLSchema, *args: Any, **options: Any) -> Any:
        """Omits "Did you mean" from error messages if the schema hides its names."""
        options["hide_suggestions"] = schema.extensions.get(HIDES_NAMES, False)
        return super().build(schema, *args, **options)

    @property
    def async_helpers(self) -> GraphQLResolveInfoHelpers:  # its functions refer to the executor
        return GraphQLResolveInfoHelpers(gather=self.gather_async_work, track=self.track_async_work)

    @async_helpers.setter
    def async_helpers(self, helpers: GraphQLResolveInfoHelpers) -> None:
        """Not stored."""

    def build_per_event_executor(self, payload: Any) -> Any:
        executor = super().build_per_event_executor(payload)
        executor._relevant_sub_fields = {}  # shared by the copies; would grow with every event
        return executor


class CompletingExecutor(Executor):
    """Completes objects and lists with generated code where possible."""

    def __init__(self, *args: Any, compiled: CompiledOperation, **options: Any) -> None:
        super().__init__(*args, **options)
        self.compiled = compiled

    def build_resolve_info(
        self,
        field_def: GraphQLField,
        field_nodes: list[FieldNode],
        parent_type: GraphQLObjectType,
        path: Path,
    ) -> Info:
        plain: Any = super().build_resolve_info(field_def, field_nodes, parent_type, path)
        values = plain[: len(GraphQLResolveInfo._fields)]
        return caching_info(values, self.compiled.resolver_cache, plain.operation_extensions)

    def complete_object_value(self, *args: Any, **options: Any) -> Any:
        return self.complete_generated(super().complete_object_value, *args, **options)

    def complete_list_value(self, *args: Any, **options: Any) -> Any:
        return self.complete_generated(super().complete_list_value, *args, **options)

    def complete_generated(
        self,
        complete: Callable[..., Any],
        kind: Any,
        fields: Fields,
        info: Info,
        path: Path,
        result: Any,
        position_context: Any,
    ) -> Any:
        completer = self.compiled.completer_of(kind, fields)
        if completer is not None:
            try:
                return completer(result)
            except Exception:
                pass  # graphql-core completes the value again and reports the error
        return complete(kind, fields, info, path, result, position_context)
