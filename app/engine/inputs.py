"""Input values in Python: Strawberry's conversion, its look-ups done beforehand."""

from collections.abc import Callable
from dataclasses import MISSING
from typing import Any

from strawberry import UNSET
from strawberry.relay import GlobalID
from strawberry.scalars import is_scalar
from strawberry.types.base import (
    StrawberryList,
    StrawberryMaybe,
    StrawberryOptional,
    has_object_definition,
)
from strawberry.types.enum import StrawberryEnumDefinition, has_enum_definition

Convert = Callable[[Any], Any]


class NotPlain(Exception):
    """A case for Strawberry or graphql-core."""


def converter(kind: Any, strawberry: Any, above: tuple[Any, ...] = ()) -> Convert:
    """`convert_argument` for one type; `strawberry` is the schema's converter, for names and scalars."""
    if isinstance(kind, StrawberryMaybe) or kind is GlobalID or kind in above:
        raise NotPlain
    if isinstance(kind, StrawberryOptional):
        return converter(kind.of_type, strawberry, above)
    if isinstance(kind, StrawberryList):
        item = converter(kind.of_type, strawberry, above)
        return lambda values: values if is_nothing(values) else [item(each) for each in values]
    if isinstance(kind, StrawberryEnumDefinition) or has_enum_definition(kind):
        return as_it_is
    if is_scalar(kind, strawberry.scalar_registry):
        return as_it_is
    if has_object_definition(kind):
        return input_converter(kind, strawberry, (*above, kind))
    raise NotPlain


def input_converter(kind: Any, strawberry: Any, above: tuple[Any, ...]) -> Convert:
    definition = kind.__strawberry_definition__
    if not definition.is_input or definition.from_input is not None:
        raise NotPlain
    fields = []
    absent: dict[str, Any] = {}
    for field in definition.fields:
        name = strawberry.config.name_converter.from_field(field)
        read = converter(field.resolve_type(type_definition=definition), strawberry, above)
        fields.append((name, field.python_name, read))
        if field.default_value is MISSING and field.default_factory is MISSING:
            absent[field.python_name] = None

    def convert(value: Any) -> Any:
        if is_nothing(value):
            return value
        given = {python_name: read(value[name]) for name, python_name, read in fields if name in value}
        return kind(**{**absent, **given})

    return convert


def as_it_is(value: Any) -> Any:
    return value


def is_nothing(value: Any) -> bool:
    return value is None or value is UNSET
