"""The bounded cache of prepared operations, and the direct execution of their single root field."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from enum import Enum
from typing import Any

from graphql import GraphQLError, GraphQLResolveInfo, Undefined
from graphql.execution.values import VariableValues
from strawberry.execution import optimized_is_awaitable

from app.caches import BoundedCache
from app.engine.documents import weight_of
from app.engine.prepared import CompiledOperation, PreparedOperation, RootField

MAX_DOCUMENT_LENGTH = 16 * 1024
MAX_WEIGHT = 128 * 1024  # of all cached documents, which use about 160 times their length in memory
MAX_COMPILED_WEIGHT = 256 * 1024  # of their documents, each counted with every combination of values
MAX_COUNTED = 1024  # hashes of operations that were used once
MAX_VALUE_LENGTH = 256

Key = tuple[str, str | None]  # document and operation name


class OperationCache:
    """The prepared operations of a schema."""

    prepared_at_use = 2  # most documents are used only once

    def __init__(self) -> None:
        self.pinned: dict[Key, PreparedOperation] = {}
        self.recent: BoundedCache[PreparedOperation] = BoundedCache(MAX_WEIGHT)
        self.compiled: BoundedCache[CompiledOperation] = BoundedCache(MAX_COMPILED_WEIGHT)
        self.use_counts: BoundedCache[int] = BoundedCache(MAX_COUNTED)  # hash -> number of uses

    def find(self, text: str, name: str | None) -> PreparedOperation | None:
        key = (text, name)
        return self.pinned.get(key) or self.recent.get(key)

    def is_repeated(self, text: str, name: str | None) -> bool:
        """Counts a use. Whether the operation is used often enough to be prepared."""
        if len(text) > MAX_DOCUMENT_LENGTH:
            return False
        hashed = hash((text, name))
        uses = (self.use_counts.get(hashed) or 0) + 1
        self.use_counts.put(hashed, uses)
        return uses >= self.prepared_at_use

    def add(self, text: str, name: str | None, prepared: PreparedOperation) -> None:
        if len(text) > MAX_DOCUMENT_LENGTH:
            return
        for evicted in self.recent.put((text, name), prepared, weight_of(len(text))):
            self.forget(evicted)

    def forget(self, prepared: PreparedOperation) -> None:
        """Removes what was compiled from an evicted operation."""
        if prepared.fixed_variables:
            for key in [key for key in self.compiled.values if key[0] is prepared]:
                self.compiled.remove(key)

    def find_compiled(
        self, prepared: PreparedOperation, variables: VariableValues
    ) -> CompiledOperation | None:
        key = key_of(prepared, variables)
        return None if key is None else self.compiled.get(key)

    def add_compiled(
        self, prepared: PreparedOperation, variables: VariableValues, compiled: CompiledOperation
    ) -> None:
        if not prepared.fixed_variables:
            prepared.compiled = compiled
        elif (key := key_of(prepared, variables)) is not None:
            texts = sum(len(value) for _, value in key[1:] if isinstance(value, str))
            self.compiled.put(key, compiled, weight_of(prepared.size) + texts)


def compile_operation(prepared: PreparedOperation, variables: VariableValues) -> CompiledOperation | None:
    try:
        return CompiledOperation(prepared, variables)
    except GraphQLError:
        return None


def key_of(prepared: PreparedOperation, variables: VariableValues) -> tuple[Any, ...] | None:
    """The operation and the values for which it is compiled; None if these cannot be part of a key."""
    if not prepared.fixed_variables:
        return None
    values = [variables.coerced.get(name, Undefined) for name in prepared.fixed_variables]
    if not all(map(is_cacheable, values)):
        return None
    return (prepared, *[(value.__class__, value) for value in values])


def is_cacheable(value: object) -> bool:
    """Whether a value can be part of a cache key. Others are large, or are equal without being identical."""
    if isinstance(value, str):
        return len(value) <= MAX_VALUE_LENGTH
    if isinstance(value, int):
        return value.bit_length() <= MAX_VALUE_LENGTH
    return value is None or value is Undefined or isinstance(value, Enum)


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
