"""Random objects for a schema: each attribute depends only on the seed, and some have bad values."""

from collections.abc import Callable, Iterator
from random import Random
from typing import Any

from graphql import (
    GraphQLEnumType,
    GraphQLError,
    GraphQLObjectType,
    GraphQLSchema,
    Undefined,
    get_named_type,
    is_interface_type,
    is_list_type,
    is_non_null_type,
    is_object_type,
    is_union_type,
)

from tests.engine.library import AsyncValue, Author, Genre


class RandomObject:
    """An object of one type. Its attributes keep their values."""

    def __init__(self, schema: GraphQLSchema, kind: GraphQLObjectType, seed: str, badness: float) -> None:
        self.seed_data = (schema, kind, seed, badness)

    def __repr__(self) -> str:
        return "a random object"

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") or name == "seed_data":
            raise AttributeError(name)
        schema, kind, seed, badness = self.seed_data
        rng = Random(f"{seed}.{name}")
        if rng.random() < badness / 2:
            raise RuntimeError(f"{name} cannot be read")
        value = self.__dict__[name] = random_attribute(schema, kind, name, rng, f"{seed}.{name}", badness)
        return value


class OneTimeIterable:
    """Can be iterated only once."""

    def __init__(self, items: list[Any]) -> None:
        self.items = items

    def __repr__(self) -> str:
        return "a one-time iterable"

    def __iter__(self) -> Iterator[Any]:
        while self.items:
            yield self.items.pop()


class OtherRandomObject(RandomObject):
    """The same with another class."""


def random_attribute(
    schema: GraphQLSchema, kind: GraphQLObjectType, name: str, rng: Random, seed: str, badness: float
) -> Any:
    if name in SPECIAL_ATTRIBUTES:
        return SPECIAL_ATTRIBUTES[name](rng, kind)
    for definition in kind.fields.values():
        own = definition.extensions.get("strawberry-definition")
        if own is not None and own.python_name == name:
            return value_of(schema, definition.type, rng, seed, badness)
    raise AttributeError(name)


SPECIAL_ATTRIBUTES: dict[str, Callable[[Random, Any], Any]] = {
    "is_open": lambda rng, kind: rng.random() < 0.7,
    "is_round": lambda rng, kind: rng.random() < 0.8,
    "fault": lambda rng, kind: ValueError("a fault") if rng.random() < 0.3 else None,
    "age": lambda rng, kind: 3,
    "kind": lambda rng, kind: kind.name,
}


def value_of(schema: GraphQLSchema, kind: Any, rng: Random, seed: str, badness: float) -> Any:
    if rng.random() < badness:
        return bad_value(rng, good_value(schema, kind, rng, seed, badness))
    if rng.random() < badness:
        return AsyncValue(good_value(schema, kind, rng, seed, badness), turns=rng.randint(1, 3))
    return good_value(schema, kind, rng, seed, badness)


def bad_value(rng: Random, instead: Any) -> Any:
    choices: list[Callable[[], Any]] = [
        lambda: None,
        lambda: Undefined,
        lambda: ValueError(f"bad_value {rng.randint(0, 3)}"),
        lambda: GraphQLError("rejected", extensions={"code": rng.randint(0, 3)}),
        lambda: AsyncValue(ValueError("later"), turns=rng.randint(1, 4)),
        lambda: AsyncValue(None),
        lambda: "text",
        lambda: 2**40,
        lambda: [instead],
        lambda: [None, instead, ValueError("in a list")],
        lambda: {"a": 1},
        lambda: OneTimeIterable([instead]),
        lambda: {"torn"},
        lambda: 1.5,
        lambda: "torn",
        lambda: "blank",
        lambda: b"bytes",
        lambda: True,
    ]
    return rng.choice(choices)()


def good_value(schema: GraphQLSchema, kind: Any, rng: Random, seed: str, badness: float) -> Any:
    if is_non_null_type(kind):
        return good_non_null_value(schema, kind.of_type, rng, seed, badness)
    return None if rng.random() < 0.12 else good_non_null_value(schema, kind, rng, seed, badness)


def good_non_null_value(schema: GraphQLSchema, kind: Any, rng: Random, seed: str, badness: float) -> Any:
    if is_list_type(kind):
        made = list if rng.random() < 0.8 else tuple
        return made(items(schema, kind.of_type, rng, seed, badness))
    if is_union_type(kind) and rng.random() < 0.5:
        return Author(name=f"A{rng.randint(0, 9)}")
    if is_interface_type(kind) or is_union_type(kind):
        kind = rng.choice(schema.get_possible_types(kind))
    if is_object_type(kind):
        return rng.choice((RandomObject, RandomObject, OtherRandomObject))(schema, kind, seed, badness)
    if isinstance(kind, GraphQLEnumType):
        return rng.choice([*Genre, "poems", 3])
    return LEAFS[get_named_type(kind).name](rng)


def items(schema: GraphQLSchema, kind: Any, rng: Random, seed: str, badness: float) -> Iterator[Any]:
    for number in range(rng.choice((0, 1, 2, 2, 3))):
        yield value_of(schema, kind, rng, f"{seed}.{number}", badness)


LEAFS: dict[str, Callable[[Random], Any]] = {
    "String": lambda rng: rng.choice(("Emma", "", "Über alles", 7)),
    "Int": lambda rng: rng.choice((0, 1, -5, 320, True, "12")),
    "Float": lambda rng: rng.choice((0.5, 2, -1.0)),
    "Boolean": lambda rng: rng.choice((True, False, 1)),
    "ID": lambda rng: rng.choice(("v-1", 5)),
    "Stamp": lambda rng: rng.choice(("7", 8)),
}
