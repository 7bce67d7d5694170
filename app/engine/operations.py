"""The bounded cache of prepared operations."""

from collections import OrderedDict
from collections.abc import Callable
from enum import Enum
from typing import Any, Generic, TypeVar

from graphql import GraphQLError, Undefined
from graphql.execution.values import VariableValues

from app.engine.prepared import Bound, Prepared, Variant

MOST_OPERATIONS = 256
LONGEST_TEXT = 16 * 1024
MOST_TEXT = 128 * 1024  # of all cached documents, which use about 160 times their length in memory
MOST_SEEN = 1024
MOST_VARIANTS = 512  # of all operations together
MOST_BOUND = 1024
LONGEST_VALUE = 256

Key = tuple[str, str | None]
Value = TypeVar("Value")


class Recent(Generic[Value]):
    """An LRU cache."""

    def __init__(self, most: int) -> None:
        self.most = most
        self.values: OrderedDict[Any, Value] = OrderedDict()

    def get(self, key: Any) -> Value | None:
        value = self.values.get(key)
        if value is not None:
            self.values.move_to_end(key)
        return value

    def drop(self, prepared: "Prepared") -> None:
        """Removes everything made from this operation."""
        for key in [key for key, value in self.values.items() if made_of(value) is prepared]:
            del self.values[key]

    def keep(self, key: Any, value: Value) -> Value:
        self.values[key] = value
        if len(self.values) > self.most:
            self.values.popitem(last=False)
        return value


class Operations:
    """The prepared operations of a schema."""

    uses = 2  # prepare a document on its second use: most documents are used only once

    def __init__(self, make: Callable[[str, str | None], Prepared | None]) -> None:
        self.make = make
        self.pinned: dict[Key, Prepared] = {}
        self.recent: Recent[Prepared] = Recent(MOST_OPERATIONS + 1)  # see evict()
        self.variants: Recent[Variant] = Recent(MOST_VARIANTS)
        self.bounds: Recent[Bound] = Recent(MOST_BOUND)
        self.seen: Recent[int] = Recent(MOST_SEEN)  # hash -> number of uses
        self.unpreparable: Recent[bool] = Recent(MOST_SEEN)  # hashes of operations that cannot be prepared

    def pin(self, text: str) -> None:
        """Prepares a document of the service and keeps it forever."""
        if (text, None) in self.pinned:
            return
        prepared = self.make(text, None)
        assert prepared is not None, "documents of the service are valid"
        prepared.is_own = True
        self.pinned[text, None] = prepared

    def find(self, text: str, name: str | None) -> Prepared | None:
        key = (text, name)
        return self.pinned.get(key) or self.recent.get(key) or self.prepare_repeated(key)

    def prepare_repeated(self, key: Key) -> Prepared | None:
        text, name = key
        if len(text) > LONGEST_TEXT:
            return None
        known = hash(key)
        uses = (self.seen.get(known) or 0) + 1
        self.seen.keep(known, uses)
        if uses < self.uses or self.unpreparable.get(known):
            return None
        prepared = self.make(text, name)
        if prepared is None:
            self.unpreparable.keep(known, True)
            return None
        self.recent.keep(key, prepared)
        self.evict()
        return prepared

    def bound(self, prepared: Prepared, variables: VariableValues) -> Bound | None:
        """None if graphql-core must report invalid values."""
        if prepared.bound is not None:
            return prepared.bound
        try:
            variant = self.cached(
                self.variants,
                prepared,
                prepared.directive_variables,
                variables,
                lambda: Variant(prepared, variables),
            )
        except GraphQLError:
            return None
        bound = self.cached(
            self.bounds, variant, prepared.argument_variables, variables, lambda: Bound(variant, variables)
        )
        if not prepared.directive_variables and not prepared.argument_variables:
            prepared.bound = bound
        return bound

    def cached(
        self,
        recent: Recent[Value],
        of: object,
        names: tuple[str, ...],
        variables: VariableValues,
        make: Callable[[], Value],
    ) -> Value:
        key: Any = of
        if names:
            values = [variables.coerced.get(name, Undefined) for name in names]
            if not all(map(is_short, values)):
                return make()
            key = (of, *[(value.__class__, value) for value in values])
        return recent.get(key) or recent.keep(key, make())

    def evict(self) -> None:
        """Removes the oldest operations above the limits, with everything made from them."""
        kept = self.recent.values
        while len(kept) > MOST_OPERATIONS or sum(len(text) for text, _ in kept) > MOST_TEXT:
            key, oldest = kept.popitem(last=False)
            self.variants.drop(oldest)
            self.bounds.drop(oldest)
            self.seen.values.pop(hash(key), None)  # count its uses anew


def made_of(value: object) -> Prepared | None:
    if isinstance(value, Bound):
        value = value.variant
    return value.prepared if isinstance(value, Variant) else None


def is_short(value: object) -> bool:
    """Whether a value can be part of a cache key. Others are large, or are equal without being identical."""
    if isinstance(value, str):
        return len(value) <= LONGEST_VALUE
    if isinstance(value, int):
        return value.bit_length() <= LONGEST_VALUE
    return value is None or value is Undefined or isinstance(value, Enum)
