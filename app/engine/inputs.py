"""graphql-core's coercion and Strawberry's conversion of input values, with lookups done in advance."""

from collections.abc import Callable
from dataclasses import MISSING
from typing import Any

from graphql import (
    GraphQLInputObjectType,
    Undefined,
    get_nullable_type,
    is_leaf_type,
    is_list_type,
    is_required_input_field,
)
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


class Unsupported(Exception):
    """Only graphql-core or Strawberry can handle this type, value or selection."""


# --- coercing -------------------------------------------------------------------------------------


def coercer(kind: Any, above: tuple[Any, ...] = ()) -> Convert:
    """`coerce_input_value` for one type. Its function raises Unsupported for an invalid value.

    Raises Unsupported for a recursive type, as its values can be nested without limit.
    """
    nullable: Any = get_nullable_type(kind)
    if is_leaf_type(nullable):
        read: Convert = nullable.coerce_input_value
    elif is_list_type(nullable):
        read = list_coercer(nullable.of_type, above)
    elif nullable in above:
        raise Unsupported
    else:
        read = object_coercer(nullable, (*above, nullable))

    def coerce(value: Any) -> Any:
        if value is None:
            if nullable is kind:
                return None
            raise Unsupported
        coerced = read(value)
        if coerced is Undefined:
            raise Unsupported
        return coerced

    return coerce


def list_coercer(kind: Any, above: tuple[Any, ...]) -> Convert:
    item = coercer(kind, above)

    def coerce(values: Any) -> Any:
        if values.__class__ is not list:  # a single value means a list of one
            raise Unsupported
        return [item(each) for each in values]

    return coerce


def object_coercer(kind: GraphQLInputObjectType, above: tuple[Any, ...]) -> Convert:
    if kind.is_one_of or any(field.default for field in kind.fields.values()):
        raise Unsupported
    fields = [
        (
            name,
            field.out_name or name,
            coercer(field.type, above),
            field.default_value,
            is_required_input_field(field),
        )
        for name, field in kind.fields.items()
    ]

    def coerce(value: Any) -> Any:
        if value.__class__ is not dict:
            raise Unsupported
        coerced, known = {}, 0
        for name, out_name, read, default, is_required in fields:
            given = value.get(name, Undefined)
            if given is not Undefined:
                known += 1
                coerced[out_name] = read(given)
            elif is_required:
                raise Unsupported
            elif default is not Undefined:
                coerced[out_name] = default
        if known < len(value):
            raise Unsupported
        return kind.out_type(coerced)

    return coerce


# --- converting -----------------------------------------------------------------------------------


def converter(kind: Any, strawberry: Any, above: tuple[Any, ...] = ()) -> Convert:
    """`convert_argument` for one type; `strawberry` is the schema's converter, for names and scalars."""
    if isinstance(kind, StrawberryMaybe) or kind is GlobalID or kind in above:
        raise Unsupported
    if isinstance(kind, StrawberryOptional):
        return converter(kind.of_type, strawberry, above)
    if isinstance(kind, StrawberryList):
        item = converter(kind.of_type, strawberry, above)
        return lambda values: values if is_absent(values) else [item(each) for each in values]
    if isinstance(kind, StrawberryEnumDefinition) or has_enum_definition(kind):
        return unchanged
    if is_scalar(kind, strawberry.scalar_registry):
        return unchanged
    if has_object_definition(kind):
        return input_converter(kind, strawberry, (*above, kind))
    raise Unsupported


def input_converter(kind: Any, strawberry: Any, above: tuple[Any, ...]) -> Convert:
    definition = kind.__strawberry_definition__
    if not definition.is_input or definition.from_input is not None:
        raise Unsupported
    fields = []
    absent: dict[str, Any] = {}
    for field in definition.fields:
        name = strawberry.config.name_converter.from_field(field)
        read = converter(field.resolve_type(type_definition=definition), strawberry, above)
        fields.append((name, field.python_name, read))
        if field.default_value is MISSING and field.default_factory is MISSING:
            absent[field.python_name] = None

    def convert(value: Any) -> Any:
        if is_absent(value):
            return value
        given = {python_name: read(value[name]) for name, python_name, read in fields if name in value}
        return kind(**{**absent, **given})

    return convert


def unchanged(value: Any) -> Any:
    return value


def is_absent(value: Any) -> bool:
    return value is None or value is UNSET
