"""Prepared coercion of variables and arguments: graphql-core's coercion and Strawberry's conversion of input
values, with lookups done in advance.

Handles only the common cases. All other cases, and every error, are left to graphql-core and Strawberry.
"""

from collections.abc import Callable, Mapping
from dataclasses import MISSING
from datetime import datetime
from enum import Enum
from typing import Any

from graphql import (
    FieldNode,
    GraphQLField,
    GraphQLInputObjectType,
    GraphQLSchema,
    OperationDefinitionNode,
    Undefined,
    VariableNode,
    get_nullable_type,
    is_leaf_type,
    is_list_type,
    is_non_null_type,
    is_required_input_field,
)
from graphql.execution.get_variable_signature import GraphQLVariableSignature, get_variable_signature
from graphql.execution.values import (
    VariableValues,
    VariableValueSource,
    get_argument_values,
    get_variable_values,
    input_is_nested_too_deeply,
)
from graphql.utilities import coerce_input_value
from strawberry import UNSET
from strawberry.relay import GlobalID
from strawberry.scalars import is_scalar
from strawberry.types.base import StrawberryList, StrawberryMaybe, StrawberryOptional, has_object_definition
from strawberry.types.enum import StrawberryEnumDefinition, has_enum_definition
from strawberry.types.field import StrawberryField
from strawberry.types.fields.resolver import CLS_PARAMSPEC, INFO_PARAMSPEC, SELF_PARAMSPEC

from app.engine.nodes import names_of_variables

Values = dict[str, Any]
Call = Callable[[VariableValues, Any], Any]
Convert = Callable[[Any], Any]


class Unsupported(Exception):
    """Only graphql-core or Strawberry can handle this type, value or selection."""


# --- variables --------------------------------------------------------------------------------------


class Variables:
    """The variables that an operation declares."""

    def __init__(self, schema: GraphQLSchema, operation: OperationDefinitionNode) -> None:
        self.schema = schema
        self.definitions = operation.variable_definitions or ()
        found = [get_variable_signature(schema, each) for each in self.definitions]
        self.coercions = [
            (each, variable_coercer(each.type), not each.default and not is_non_null_type(each.type))
            for each in found
            if isinstance(each, GraphQLVariableSignature)
        ]

    def coerce(self, given: Values | None) -> VariableValues | None:
        """The coerced variables; None if graphql-core must report invalid values."""
        given = given or {}
        try:
            return self.coerce_supported(given)
        except Exception:
            found = get_variable_values(self.schema, self.definitions, given)
            return found if isinstance(found, VariableValues) else None

    def coerce_supported(self, given: Values) -> VariableValues:
        sources: dict[str, VariableValueSource] = {}
        coerced: Values = {}
        for signature, coerce, may_be_missing in self.coercions:
            name = signature.name
            value = given.get(name, Undefined)
            sources[name] = VariableValueSource(signature, value)
            if value is None or value is Undefined:
                if not may_be_missing:
                    raise Unsupported
                if value is None:
                    coerced[name] = None
                continue
            coerced[name] = coerce(value)
        return VariableValues(sources, coerced)


def variable_coercer(kind: Any) -> Convert:
    """The function that coerces a non-null value of a variable."""
    try:
        return coercer(kind)
    except Unsupported:
        pass

    def coerce_within_levels(value: Any) -> Any:
        if input_is_nested_too_deeply(value, kind):
            raise Unsupported
        coerced = coerce_input_value(value, kind)
        if coerced is Undefined:
            raise Unsupported
        return coerced

    return coerce_within_levels


def count_values(variables: Mapping[str, Any]) -> int:
    """The values in the variables, including nested values."""
    count = len(variables)
    waiting = [each for each in variables.values() if isinstance(each, dict | list)]
    while waiting:
        container = waiting.pop()
        count += len(container)
        below = container.values() if isinstance(container, dict) else container
        waiting += [each for each in below if isinstance(each, dict | list)]
    return count


# --- arguments of root fields -----------------------------------------------------------------------


def root_call(definition: GraphQLField, node: FieldNode, strawberry: Any) -> Call:
    """The resolver of a root field as a function of the variables and the resolver info."""
    own = plain_field(definition)
    read = None if own is None else argument_reader(own, definition, node, strawberry)
    resolver = None if own is None else own.base_resolver
    reserved: Any = {} if resolver is None else resolver.reserved_parameters
    taken = {each for each, parameter in reserved.items() if parameter}
    if resolver is None or read is None or taken != {SELF_PARAMSPEC, INFO_PARAMSPEC}:
        resolve: Any = definition.resolve
        return lambda variables, info: resolve(None, info, **get_argument_values(definition, node, variables))
    function: Any = resolver.wrapped_func
    info_name, info_class = reserved[INFO_PARAMSPEC].name, strawberry.config.info_class

    def call(variables: VariableValues, info: Any) -> Any:
        arguments = read(variables)
        arguments[info_name] = info_class(_raw_info=info, _field=own)
        return function(None, **arguments)

    return call


def is_constant(value: object) -> bool:
    """Whether a value is immutable and can be shared between requests."""
    return value is None or isinstance(value, str | int | float | Enum | datetime)


def plain_field(definition: GraphQLField) -> StrawberryField | None:
    """Strawberry's definition of a field that has only a plain resolver function; else None."""
    own = definition.extensions.get("strawberry-definition")
    if type(own) is not StrawberryField or own.extensions or own.default_resolver is not getattr:
        return None
    if own.base_resolver is not None and own.base_resolver.reserved_parameters[CLS_PARAMSPEC]:
        return None
    return own


def argument_reader(
    own: StrawberryField, definition: GraphQLField, node: FieldNode, strawberry: Any
) -> Callable[[VariableValues], Values] | None:
    """The function that reads a resolver's arguments; None if only Strawberry can convert them."""
    python_names, converters = {}, {}
    for each in own.arguments:
        name = strawberry.config.name_converter.from_argument(each)
        if name not in definition.args or definition.args[name].out_name:
            return None
        try:
            convert = converter(each.type, strawberry)
        except Unsupported:
            return None
        python_names[name] = each.python_name
        if convert is not unchanged:
            converters[each.python_name] = convert
    arguments = node.arguments or ()
    has_nested_variables = any(
        not isinstance(each.value, VariableNode) and names_of_variables(each) for each in arguments
    )
    variable_names = {
        each.name.value: each.value.name.value for each in arguments if isinstance(each.value, VariableNode)
    }
    from_variables = [
        (python_names[name], variable, is_non_null_type(definition.args[name].type))
        for name, variable in variable_names.items()
    ]
    literals: Values | None = None  # the values of all other arguments, once known

    def read(variables: VariableValues) -> Values:
        values = coerced(variables)
        for name, convert in converters.items():
            if name in values:
                values[name] = convert(values[name])
        return values

    def coerced(variables: VariableValues) -> Values:
        if literals is None:
            return coerced_by_core(variables)
        values = literals.copy()
        for name, variable, is_required in from_variables:
            value = variables.coerced.get(variable, Undefined)
            if value is Undefined or (value is None and is_required):
                return coerced_by_core(variables)
            values[name] = value
        return values

    def coerced_by_core(variables: VariableValues) -> Values:
        nonlocal literals
        values = get_argument_values(definition, node, variables)
        if literals is None and not has_nested_variables:
            fixed = {python_names[name]: values[name] for name in values if name not in variable_names}
            literals = fixed if all(map(is_constant, fixed.values())) else None
        return {python_names[name]: value for name, value in values.items()}

    return read


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
        (name, field.out_name or name, coercer(field.type, above), is_required_input_field(field))
        for name, field in kind.fields.items()
    ]

    def coerce(value: Any) -> Any:
        """Adds no defaults: Strawberry's input class has them."""
        if value.__class__ is not dict:
            raise Unsupported
        coerced = {}
        for name, out_name, read, is_required in fields:
            given = value.get(name, Undefined)
            if given is not Undefined:
                coerced[out_name] = read(given)
            elif is_required:
                raise Unsupported
        if len(coerced) < len(value):
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
