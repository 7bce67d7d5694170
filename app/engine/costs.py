"""The cost of an operation: a constant, or a function of the variables that set page sizes.

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
    OperationDefinitionNode,
    ValueNode,
    VariableNode,
    get_named_type,
    get_nullable_type,
    is_composite_type,
    is_list_type,
)

from app.engine.nodes import Fragments, Part, fields_of, response_key

ASSUMED_LENGTH = 10  # of a list with unknown length


@dataclass(frozen=True)
class Page:
    """The argument that sets the number of objects: a number, or a list with one entry per object."""

    argument: str
    default: int
    maximum: int


@dataclass(frozen=True)
class Weight:
    """The cost of a field, and the factor for the selections below it."""

    own: int = 1
    # List length; None: page size, or ASSUMED_LENGTH. Of one object: how often it is present.
    objects: float | None = None
    page: Page | None = None  # for its own list, or for the `of_page` lists in its object
    of_page: bool = False


DEFAULT_WEIGHT = Weight()


class Size(NamedTuple):
    """A number of objects that is set by a variable."""

    variable: str
    absent: float
    page: Page

    def of(self, variables: Mapping[str, Any]) -> float:
        value = variables.get(self.variable)
        if value.__class__ is int and 0 < value <= self.page.maximum:
            return value
        return size_of(variables[self.variable], self.page) if self.variable in variables else self.absent


def size_of(value: object, page: Page) -> float:
    """Clamped; the resolver rejects invalid values."""
    if value is None:
        return page.default
    size = len(value) if isinstance(value, list) else value if isinstance(value, int | float) else 1
    return min(max(1, size), page.maximum)


Sum = dict[tuple[Size, ...], float]  # a polynomial: the coefficient of each product of sizes
Cost = Callable[[Mapping[str, Any] | None], int]


def cost_of(schema: GraphQLSchema, operation: OperationDefinitionNode, fragments: Fragments) -> Cost:
    pricing = Pricing(schema, operation, fragments)
    root = schema.get_root_type(operation.operation)
    total = pricing.of([(root, operation.selection_set)], 1)
    constant = ceil(total.pop((), 0))
    if not total:
        return lambda variables: constant
    products = tuple(total.items())

    def cost(variables: Mapping[str, Any] | None) -> int:
        points: float = constant
        for sizes, product in products:
            for size in sizes:
                product *= size.of(variables or {})
            points += product
        return ceil(points)

    return cost


class Pricing:
    def __init__(
        self, schema: GraphQLSchema, operation: OperationDefinitionNode, fragments: Fragments
    ) -> None:
        self.schema = schema
        self.fragments = fragments
        self.defaults = {
            each.variable.name.value: each.default_value for each in operation.variable_definitions or ()
        }

    def of(self, parts: list[Part], page: float | Size) -> Sum:
        """The cost of these parts together; `page` is the size of the `of_page` lists."""
        total: Sum = defaultdict(float)
        for kind, nodes in self.fields(parts):
            name = nodes[0].name.value
            definition = self.schema.get_field(kind, name) if is_composite_type(kind) else None
            weight = weight_of(self.schema, definition, name)
            total[()] += weight.own
            named = None if definition is None else get_named_type(definition.type)
            below = [(named, each.selection_set) for each in nodes if each.selection_set]
            if not below:
                continue
            size = self.page_size(weight.page, nodes[0]) if weight.page else 1
            is_list = definition is not None and is_list_type(get_nullable_type(definition.type))
            factor: float | Size = weight.objects or (ASSUMED_LENGTH if is_list else 1)
            if is_list:
                factor = page if weight.of_page else size if weight.page else factor
                size = 1
            for sizes, cost in self.of(below, size).items():
                if isinstance(factor, Size):
                    total[(*sizes, factor)] += cost
                else:
                    total[sizes] += cost * factor
        return total

    def fields(self, parts: list[Part]) -> list[tuple[Any, list[FieldNode]]]:
        """Fields by response key and type; a field selected in several places is merged."""
        groups: dict[tuple[str, int], tuple[Any, list[FieldNode]]] = {}
        for kind, node in fields_of(parts, self.fragments, self.schema.get_type):
            groups.setdefault((response_key(node), id(kind)), (kind, []))[1].append(node)
        return list(groups.values())

    def page_size(self, page: Page, node: FieldNode) -> float | Size:
        value: ValueNode | None = next(
            (each.value for each in node.arguments or () if each.name.value == page.argument), None
        )
        if not isinstance(value, VariableNode):
            return page.default if value is None else size_of(literal(value), page)
        name = value.name.value
        default = self.defaults.get(name)
        return Size(name, page.default if default is None else size_of(literal(default), page), page)


def literal(value: ValueNode) -> object:
    """The value as far as it sets a size."""
    if isinstance(value, IntValueNode):
        return int(value.value[:10])
    return [None] * len(value.values) if isinstance(value, ListValueNode) else None


def weight_of(schema: GraphQLSchema, definition: GraphQLField | None, name: str) -> Weight:
    """From the field's extensions; introspection has computed weights."""
    if definition is None:
        return DEFAULT_WEIGHT
    weight: Weight | None = definition.extensions.get("cost")
    if weight is None and "strawberry-definition" not in definition.extensions:
        weight = introspection_weights(schema).get(name)
    return weight or DEFAULT_WEIGHT


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
        "locations": 1,
        "ofType": 0.6,
    }
    return {name: Weight(objects=size) for name, size in sizes.items()}
