"""The cache of prepared operations, which is bounded."""

from collections import OrderedDict
from collections.abc import Callable
from enum import Enum
from typing import Any, Generic, TypeVar

from graphql import GraphQLError, Undefined
from graphql.execution.values import VariableValues

from app.engine.prepared import CollectedOperation, CompiledOperation, PreparedOperation

MAX_OPERATIONS = 256
MAX_DOCUMENT_LENGTH = 16 * 1024
MAX_TOTAL_LENGTH = 128 * 1024  # of all cached documents, which use about 160 times their length in memory
MAX_COUNTED = 1024  # operations that were used once, or that cannot be prepared
MAX_COLLECTED = 512  # of all operations together
MAX_COMPILED = 1024
MAX_VALUE_LENGTH = 256

Key = tuple[str, str | None]  # document and operation name
Value = TypeVar("Value")


class LruCache(Generic[Value]):
    def __init__(self, max_values: int) -> None:
        self.max_values = max_values
        self.values: OrderedDict[Any, Value] = OrderedDict()

    def get(self, key: Any) -> Value | None:
        value = self.values.get(key)
        if value is not None:
            self.values.move_to_end(key)
        return value

    def put(self, key: Any, value: Value) -> Value:
        self.values[key] = value
        if len(self.values) > self.max_values:
            self.values.popitem(last=False)
        return value


class OperationCache:
    """The prepared operations of a schema."""

    prepared_at_use = 2  # most documents are used only once

    def __init__(self, prepare: Callable[[str, str | None], PreparedOperation | None]) -> None:
        self.prepare = prepare
        self.pinned: dict[Key, PreparedOperation] = {}
        self.recent: LruCache[PreparedOperation] = LruCache(MAX_OPERATIONS + 1)  # see evict()
        self.collected: LruCache[CollectedOperation] = LruCache(MAX_COLLECTED)
        self.compiled: LruCache[CompiledOperation] = LruCache(MAX_COMPILED)
        self.use_counts: LruCache[int] = LruCache(MAX_COUNTED)  # hash -> number of uses
        self.unpreparable: LruCache[bool] = LruCache(MAX_COUNTED)  # hashes

    def pin(self, text: str) -> None:
        """Prepares a document of the service and keeps it forever."""
        if (text, None) in self.pinned:
            return
        prepared = self.prepare(text, None)
        assert prepared is not None, "documents of the service are valid"
        prepared.is_own = True
        self.pinned[text, None] = prepared

    def find(self, text: str, name: str | None) -> PreparedOperation | None:
        key = (text, name)
        return self.pinned.get(key) or self.recent.get(key) or self.prepare_repeated(key)

    def prepare_repeated(self, key: Key) -> PreparedOperation | None:
        text, name = key
        if len(text) > MAX_DOCUMENT_LENGTH:
            return None
        hashed = hash(key)
        uses = self.use_counts.put(hashed, (self.use_counts.get(hashed) or 0) + 1)
        if uses < self.prepared_at_use or self.unpreparable.get(hashed):
            return None
        prepared = self.prepare(text, name)
        if prepared is None:
            self.unpreparable.put(hashed, True)
            return None
        self.recent.put(key, prepared)
        self.evict()
        return prepared

    def compile(self, prepared: PreparedOperation, variables: VariableValues) -> CompiledOperation | None:
        """The operation with these variables; None if graphql-core must report invalid values."""
        if prepared.compiled is not None:
            return prepared.compiled
        try:
            collected = cached(
                self.collected, CollectedOperation, prepared, prepared.directive_variables, variables
            )
        except GraphQLError:
            return None
        compiled = cached(self.compiled, CompiledOperation, collected, prepared.argument_variables, variables)
        if not prepared.directive_variables and not prepared.argument_variables:
            prepared.compiled = compiled
        return compiled

    def evict(self) -> None:
        """Removes the oldest operations above the limits, with everything made from them."""
        recent = self.recent.values
        while len(recent) > MAX_OPERATIONS or sum(len(text) for text, _ in recent) > MAX_TOTAL_LENGTH:
            key, oldest = recent.popitem(last=False)
            drop(self.collected, oldest)
            drop(self.compiled, oldest)
            self.use_counts.values.pop(hash(key), None)  # count its uses anew


def drop(cache: LruCache[Any], prepared: PreparedOperation) -> None:
    for key in [key for key, value in cache.values.items() if value.prepared is prepared]:
        del cache.values[key]


def cached(
    cache: LruCache[Value],
    make: Callable[[Any, VariableValues], Value],
    source: PreparedOperation | CollectedOperation,
    names: tuple[str, ...],
    variables: VariableValues,
) -> Value:
    """What `make` returns for `source` and the variables with these names."""
    key: Any = source
    if names:
        values = [variables.coerced.get(name, Undefined) for name in names]
        if not all(map(is_cacheable, values)):
            return make(source, variables)
        key = (source, *[(value.__class__, value) for value in values])
    return cache.get(key) or cache.put(key, make(source, variables))


def is_cacheable(value: object) -> bool:
    """Whether a value can be part of a cache key. Others are large, or are equal without being identical."""
    if isinstance(value, str):
        return len(value) <= MAX_VALUE_LENGTH
    if isinstance(value, int):
        return value.bit_length() <= MAX_VALUE_LENGTH
    return value is None or value is Undefined or isinstance(value, Enum)
