"""The cache of prepared operations, which is bounded."""

from enum import Enum
from typing import Any

from graphql import GraphQLError, Undefined
from graphql.execution.values import VariableValues

from app.caches import BoundedCache
from app.engine.documents import weight_of
from app.engine.prepared import CompiledOperation, PreparedOperation

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

    def compile(self, prepared: PreparedOperation, variables: VariableValues) -> CompiledOperation | None:
        """The operation with these variables; None if graphql-core must report invalid values."""
        if found := prepared.compiled or self.find_compiled(prepared, variables):
            return found
        compiled = compile_operation(prepared, variables)
        if compiled is not None:
            self.add_compiled(prepared, variables, compiled)
        return compiled

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
