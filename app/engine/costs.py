"""The cost of an operation in points, and the longest response that it usually has in bytes: constants, or
functions of the variables that set page sizes.

Fields with the same response key count once, as in execution. Fields that a directive may skip are counted,
and so are the selections on all types of an interface or union.
"""

from collections import defaultdict
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from math import ceil
from typing import Any, NamedTuple

from graphql import (
    FieldNode,
    GraphQLEnumType,
    GraphQLField,
    GraphQLInputObjectType,
    GraphQLInterfaceType,
    GraphQLObjectType,
    GraphQLSchema,
    IntValueNode,
    ListValueNode,
    NullValueNode,
    OperationDefinitionNode,
    ValueNode,
    VariableNode,
    get_named_type,
    get_nullable_type,
    is_composite_type,
    is_list_type,
)

from app.engine.limits import Limits, check
from app.engine.nodes import Fragments, TypedSelectionSet, fields_of, response_key

ASSUMED_LENGTH = 10  # of a list with unknown length
NESTED_LENGTH = 100  # of such a list below itself: the average would be exceeded on every level
ASSUMED_BYTES = 100  # of a field with its name, such as a moment or a global id
# Of a field that is selected twice on one object: memory has its value once, so no length of it is too much.
REPEATED_BYTES = 10**12


@dataclass(frozen=True)
class SizeArgument:
    """An argument that sets the number of objects: a number, or a list with one entry per object."""

    name: str
    default: int
    maximum: int

    def size(self, value: object) -> float:
        """Clamped; the resolver rejects invalid values. A single value for a list means a list of one."""
        if value is None:
            return self.default
        size = len(value) if isinstance(value, list) else value if isinstance(value, int | float) else 1
        return min(max(1, size), self.maximum)

    def literal_size(self, value: ValueNode) -> float:
        if isinstance(value, IntValueNode):
            return self.size(int(value.value[:10]))
        if isinstance(value, ListValueNode):
            return self.size(list(value.values))
        return self.size(None if isinstance(value, NullValueNode) else value)


@dataclass(frozen=True)
class Weight:
    """The points of a field, and the number of objects for which the fields below it count."""

    points: int = 1
    objects: float | None = None  # on average; None: ASSUMED_LENGTH in a list, otherwise 1
    bytes: int = ASSUMED_BYTES  # at most, in the response
    size_argument: SizeArgument | None = None  # sets the length of this list, or of the lists in a connection
    is_sized_by_connection: bool = False


DEFAULT_WEIGHT = Weight()


class VariableSize(NamedTuple):
    """A number of objects that a variable sets."""

    variable: str
    default: float
    argument: SizeArgument

    def value(self, variables: Mapping[str, Any]) -> float:
        value = variables.get(self.variable)
        if value.__class__ is int and 0 < value <= self.argument.maximum:
            return value
        return self.argument.size(value) if self.variable in variables else self.default


Size = float | VariableSize
Polynomial = dict[tuple[VariableSize, ...], float]  # the coefficient of each product of sizes
Cost = Callable[[Mapping[str, Any] | None], int]


class Costs(NamedTuple):
    points: Cost
    bytes: Cost


def costs_of(
    schema: GraphQLSchema,
    operation: OperationDefinitionNode,
    fragments: Fragments,
    limits: Limits | None = None,
) -> Costs:
    root = schema.get_root_type(operation.operation)
    defaults = {each.variable.name.value: each.default_value for each in operation.variable_definitions or ()}
    calculator = CostCalculator(schema, fragments, defaults)
    points, length = calculator.cost([(root, operation.selection_set)], 1, is_root=True)
    if limits is not None:
        check(calculator.lists, "lists with pages inside objects", limits.lists)
        check(calculator.objects, "objects and lists", limits.objects)
    return Costs(function_of(points), function_of(length))


def function_of(polynomial: Polynomial) -> Cost:
    constant = ceil(polynomial.pop((), 0))
    if not polynomial:
        return lambda _: constant
    terms = tuple(polynomial.items())

    def cost(variables: Mapping[str, Any] | None) -> int:
        points: float = constant
        for sizes, product in terms:
            for size in sizes:
                product *= size.value(variables or {})
            points += product
        return ceil(points)

    return cost


@dataclass
class CostCalculator:
    schema: GraphQLSchema
    fragments: Fragments
    defaults: Mapping[str, ValueNode | None]  # of the variables
    objects: int = 0  # fields with a selection, without introspection and the items of a connection
    lists: int = 0  # of them, connections inside other objects

    def cost(
        self,
        selection_sets: list[TypedSelectionSet],
        connection_size: Size,
        above: frozenset[str] = frozenset(),
        is_root: bool = False,
    ) -> tuple[Polynomial, Polynomial]:
        """The points and bytes of these selection sets, which belong to a connection of this size, below the
        lists `above` of unknown length."""
        points: Polynomial = defaultdict(float)
        length: Polynomial = defaultdict(float)
        names: set[tuple[int, str]] = set()
        fields = self.fields(selection_sets)
        has_data = any(nodes[0].name.value != "__typename" for _, nodes in fields)
        for kind, nodes in fields:
            name = nodes[0].name.value
            definition = self.schema.get_field(kind, name) if is_composite_type(kind) else None
            weight = weight_of(self.schema, definition, name)
            # Alone it is the only cost of its object, and under other names there may be many.
            is_free = has_data and name == response_key(nodes[0]) == "__typename"
            points[()] += 0 if is_free else weight.points
            is_long = weight.bytes > ASSUMED_BYTES or nodes[0].selection_set is not None
            is_repeated = is_long and (id(kind), name) in names
            names.add((id(kind), name))
            length[()] += REPEATED_BYTES if is_repeated else weight.bytes
            named = None if definition is None else get_named_type(definition.type)
            below = [(named, each.selection_set) for each in nodes if each.selection_set]
            if not below:
                continue
            is_item = weight.is_sized_by_connection
            self.objects += is_own_field(definition) and not is_item
            self.lists += weight.size_argument is not None and not is_root
            size = self.size(weight.size_argument, nodes[0]) if weight.size_argument else None
            objects: Size
            size_below: Size = 1
            lists_above = above
            if is_item:
                objects = connection_size
            elif definition is not None and is_list_type(get_nullable_type(definition.type)):
                objects = size or (NESTED_LENGTH if name in above else weight.objects or ASSUMED_LENGTH)
                lists_above = above if size else above | {name}
            else:
                objects, size_below = weight.objects or 1, size or 1
            parts = self.cost(below, size_below, lists_above)
            for total, part in zip((points, length), parts, strict=True):
                for sizes, cost in part.items():
                    if isinstance(objects, VariableSize):
                        total[(*sizes, objects)] += cost
                    else:
                        total[sizes] += cost * objects
        return points, length

    def fields(self, selection_sets: list[TypedSelectionSet]) -> list[tuple[Any, list[FieldNode]]]:
        """Fields by response key and type; a field selected in several places is merged."""
        groups: dict[tuple[str, int], tuple[Any, list[FieldNode]]] = {}
        for kind, node in fields_of(selection_sets, self.fragments, self.schema.get_type):
            groups.setdefault((response_key(node), id(kind)), (kind, []))[1].append(node)
        return list(groups.values())

    def size(self, argument: SizeArgument, node: FieldNode) -> Size:
        value: ValueNode | None = next(
            (each.value for each in node.arguments or () if each.name.value == argument.name), None
        )
        if not isinstance(value, VariableNode):
            return argument.default if value is None else argument.literal_size(value)
        name = value.name.value
        default = self.defaults.get(name)
        return VariableSize(
            name, argument.default if default is None else argument.literal_size(default), argument
        )


def weight_of(schema: GraphQLSchema, definition: GraphQLField | None, name: str) -> Weight:
    """From the field's extensions; introspection has computed weights."""
    if definition is None:
        return DEFAULT_WEIGHT
    weight: Weight | None = definition.extensions.get("cost")
    if weight is None and not is_own_field(definition):
        weight = introspection_weights(schema).get(name)
    return weight or DEFAULT_WEIGHT


def is_own_field(definition: GraphQLField | None) -> bool:
    """Is this a field of the service, and not of introspection?"""
    return definition is not None and "strawberry-definition" in definition.extensions


@lru_cache(maxsize=4)
def introspection_weights(schema: GraphQLSchema) -> dict[str, Weight]:
    """The average lengths of the introspection lists in this schema."""
    types, directives = list(schema.type_map.values()), schema.directives
    fields = [
        each
        for kind in types
        if isinstance(kind, GraphQLObjectType | GraphQLInterfaceType)
        for each in kind.fields.values()
    ]
    inputs = sum(len(kind.fields) for kind in types if isinstance(kind, GraphQLInputObjectType))
    arguments = sum(len(each.args) for each in (*fields, *directives))
    values = sum(len(kind.values) for kind in types if isinstance(kind, GraphQLEnumType))
    interfaces = sum(len(getattr(kind, "interfaces", ())) for kind in types)
    sizes = {
        "types": len(types),
        "directives": len(directives),
        "fields": len(fields) / len(types),
        "inputFields": inputs / len(types),
        "args": arguments / (len(fields) + len(directives)),
        "enumValues": values / len(types),
        "interfaces": interfaces / len(types),
        "possibleTypes": interfaces / len(types),
        "ofType": 0.6,
    }
    return {name: Weight(objects=size) for name, size in sizes.items()}
