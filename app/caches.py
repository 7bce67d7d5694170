"""A cache with a limit on the total weight of its values."""

from collections import OrderedDict
from typing import Any, Generic, TypeVar

Value = TypeVar("Value")


class BoundedCache(Generic[Value]):
    """Keeps the values that were used last. A caller can choose both how many values there are and how large
    they are, so each has a weight, such as the length of its text. The newest value is kept at any weight."""

    def __init__(self, max_weight: int) -> None:
        self.max_weight = max_weight
        self.weight = 0  # of all values
        self.values: OrderedDict[Any, Value] = OrderedDict()
        self.weights: dict[Any, int] = {}

    def get(self, key: Any) -> Value | None:
        value = self.values.get(key)
        if value is not None:
            self.values.move_to_end(key)
        return value

    def put(self, key: Any, value: Value, weight: int = 1) -> list[Value]:
        """Adds or replaces a value. Returns the values that were removed for it."""
        self.remove(key)
        self.values[key] = value
        self.weights[key] = weight
        self.weight += weight
        removed = []
        while self.weight > self.max_weight and len(self.values) > 1:
            removed.append(self.remove(next(iter(self.values))))
        return [each for each in removed if each is not None]

    def add(self, key: Any, value: Value, weight: int = 1) -> Value:
        """Adds a value that is missing, and returns it."""
        self.put(key, value, weight)
        return value

    def remove(self, key: Any) -> Value | None:
        self.weight -= self.weights.pop(key, 0)
        return self.values.pop(key, None)
