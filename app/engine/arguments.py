"""Prepared coercion of variables and arguments.

Handles only the common cases. All other cases, and every error, are left to graphql-core and Strawberry.
"""

from collections.abc import Callable
from datetime import datetime
from enum import Enum
from typing import Any

from graphql import (
    FieldNode,
    GraphQLField,
    GraphQLSchema,
    OperationDefinitionNode,
    Undefined,
    VariableNode,
    get_nullable_type,
    is_leaf_type,
    is_non_null_type,
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
from strawberry.types.field import StrawberryField
from strawberry.types.fields.resolver import (
    CLS_PARAMSPEC,
    INFO_PARAMSPEC,
    PARENT_PARAMSPEC,
    ROOT_PARAMSPEC,
    SELF_PARAMSPEC,
)

from app.engine.inputs import Convert, NotPlain, as_it_is, coercer, converter
from app.engine.nodes import names_of_variables

Given = dict[str, Any]
Call = Callable[[VariableValues, Any], Any]


class Variables:
    """The variables that an operation declares."""

    def __init__(self, schema: GraphQLSchema, operation: OperationDefinitionNode) -> None:
        self.schema = schema
        self.definitions = operation.variable_definitions or ()
        found = [get_variable_signature(schema, each) for each in self.definitions]
        self.plain = [
            (each, coercing(each.type), not each.default and not is_non_null_type(each.type))
            for each in found
            if isinstance(each, GraphQLVariableSignature)
        ]

    def values(self, given: Given | None) -> VariableValues | None:
        """The coerced variables; None if graphql-core must report invalid values."""
        given = given or {}
        try:
            return self.plain_values(given)
        except Exception:
            found = get_variable_values(self.schema, self.definitions, given)
            return found if isinstance(found, VariableValues) else None

    def plain_values(self, given: Given) -> VariableValues:
        sources: dict[str, VariableValueSource] = {}
        coerced: Given = {}
        for signature, coerce, may_be_missing in self.plain:
            name = signature.name
            value = given.get(name, Undefined)
            sources[name] = VariableValueSource(signature, value)
            if value is None or value is Undefined:
                if not may_be_missing:
                    raise NotPlain
                if value is None:
                    coerced[name] = None
                continue
            coerced[name] = found = coerce(value)
            if found is Undefined:
                raise NotPlain
        return VariableValues(sources, coerced)


def coercing(kind: Any) -> Convert:
    """The function that coerces a non-null value of a variable."""
    leaf: Any = get_nullable_type(kind)
    if is_leaf_type(leaf):
        coerce: Convert = leaf.coerce_input_value
        return coerce
    try:
        return coercer(kind)
    except NotPlain:
        pass

    def coerce_within_levels(value: Any) -> Any:
        if input_is_nested_too_deeply(value, kind):
            raise NotPlain
        return coerce_input_value(value, kind)

    return coerce_within_levels


def root_call(definition: GraphQLField, node: FieldNode, strawberry: Any) -> Call:
    """The resolver of a root field as a function of the variables and the resolver info."""
    own = plain_field(definition)
    named = None if own is None else named_arguments(own, definition, node, strawberry)
    info_class = strawberry.config.info_class
    if own is None or own.base_resolver is None or named is None:
        resolver: Any = definition.resolve
        return lambda variables, info: resolver(
            None, info, **get_argument_values(definition, node, variables)
        )
    function: Any = own.base_resolver.wrapped_func
    reserved = own.base_resolver.reserved_parameters
    objects = [None] if reserved[SELF_PARAMSPEC] else []
    fixed = {each.name: None for each in (reserved[PARENT_PARAMSPEC], reserved[ROOT_PARAMSPEC]) if each}
    info_parameter = reserved[INFO_PARAMSPEC]
    if info_parameter is None:
        return lambda variables, info: function(*objects, **fixed, **named(variables))
    info_name = info_parameter.name

    def call(variables: VariableValues, info: Any) -> Any:
        arguments = named(variables)
        arguments[info_name] = info_class(_raw_info=info, _field=own)
        return function(*objects, **fixed, **arguments)

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


def named_arguments(
    own: StrawberryField, definition: GraphQLField, node: FieldNode, strawberry: Any
) -> Callable[[VariableValues], Given] | None:
    """Reads the arguments of a resolver; None if only Strawberry can convert them."""
    names, read = {}, {}
    for each in own.arguments:
        name = strawberry.config.name_converter.from_argument(each)
        if name not in definition.args or definition.args[name].out_name:
            return None
        try:
            read[each.python_name] = converter(each.type, strawberry)
        except NotPlain:
            return None
        names[name] = each.python_name
    is_mixed = any(
        not isinstance(each.value, VariableNode) and names_of_variables(each) for each in node.arguments or ()
    )
    variable = {
        each.name.value: each.value.name.value
        for each in node.arguments or ()
        if isinstance(each.value, VariableNode)
    }
    varying = [
        (names[name], variable[name], is_non_null_type(definition.args[name].type)) for name in variable
    ]
    converting = [(name, convert) for name, convert in read.items() if convert is not as_it_is]
    constant: Given | None = None

    def in_full(variables: VariableValues) -> Given:
        nonlocal constant
        given = get_argument_values(definition, node, variables)
        if constant is None and not is_mixed:
            fixed = {names[name]: value for name, value in given.items() if name not in variable}
            constant = fixed if all(map(is_constant, fixed.values())) else None
        return {names[name]: value for name, value in given.items()}

    def arguments(variables: VariableValues) -> Given:
        given = coerced(variables)
        for name, convert in converting:
            if name in given:
                given[name] = convert(given[name])
        return given

    def coerced(variables: VariableValues) -> Given:
        if constant is None:
            return in_full(variables)
        given = constant.copy()
        for name, source, is_required in varying:
            value = variables.coerced.get(source, Undefined)
            if value is Undefined or (value is None and is_required):
                return in_full(variables)
            given[name] = value
        return given

    return arguments
