"""What an operation costs: a number, or a small function of the variables that say how long its pages are.

Fields that answer under one name are one field, as they are when it is executed. What directives may leave
out counts, and so does what is selected of each kind of object where only one kind can come.
"""

from collections import defaultdict
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from math import ceil
from typing import Any, NamedTuple

from graphql import (
    FieldNode,
    FragmentDefinitionNode,
    FragmentSpreadNode,
    GraphQLEnumType,
    GraphQLField,
    GraphQLInputObjectType,
    GraphQLInterfaceType,
    GraphQLObjectType,
    GraphQLSchema,
    IntValueNode,
    ListValueNode,
    OperationDefinitionNode,
    SelectionSetNode,
    ValueNode,
    VariableNode,
    get_named_type,
    get_nullable_type,
    is_composite_type,
    is_list_type,
)

ASSUMED = 10  # objects in a list of which nothing is known


@dataclass(frozen=True)
class Page:
    """The argument that says how many objects there will be: a number, or a list with one entry for each."""

    argument: str
    default: int
    most: int


@dataclass(frozen=True)
class Weight:
    """What a field costs by itself, and how often what is selected below it."""

    own: int = 1
    objects: float | None = (
        None  # in its list; None: as many as its page has, or else ASSUMED; of one object: how seldom
    )
    page: Page | None = None  # of its own list, or of the lists in its object that are `of_page`
    of_page: bool = False


PLAIN = Weight()


class Size(NamedTuple):
    """How many objects a variable asks for."""

    variable: str
    absent: float
    page: Page

    def of(self, variables: Mapping[str, Any]) -> float:
        value = variables.get(self.variable)
        if value.__class__ is int and 0 < value <= self.page.most:
            return value
        return size_of(variables[self.variable], self.page) if self.variable in variables else self.absent


def size_of(value: object, page: Page) -> float:
    """What is out of bounds, or no number at all, will be refused where it is asked for."""
    if value is None:
        return page.default
    size = len(value) if isinstance(value, list) else value if isinstance(value, int | float) else 1
    return min(max(1, size), page.most)


Sum = dict[tuple[Size, ...], float]  # of products: how much for each combination of sizes
Cost = Callable[[Mapping[str, Any] | None], int]
Part = tuple[Any, SelectionSetNode]  # what is selected of a kind of object; None where it is not known


def cost_of(
    schema: GraphQLSchema, operation: OperationDefinitionNode, fragments: dict[str, FragmentDefinitionNode]
) -> Cost:
    pricing = Pricing(schema, operation, fragments)
    kind = schema.get_root_type(operation.operation)
    found = pricing.of([(kind, operation.selection_set)], 1)
    constant = ceil(found.pop((), 0))
    if not found:
        return lambda variables: constant
    products = tuple(found.items())

    def cost(variables: Mapping[str, Any] | None) -> int:
        total: float = constant
        for sizes, each in products:
            for size in sizes:
                each *= size.of(variables or {})
            total += each
        return ceil(total)

    return cost


class Pricing:
    def __init__(
        self,
        schema: GraphQLSchema,
        operation: OperationDefinitionNode,
        fragments: dict[str, FragmentDefinitionNode],
    ) -> None:
        self.schema = schema
        self.fragments = fragments
        self.defaults = {
            each.variable.name.value: each.default_value for each in operation.variable_definitions or ()
        }

    def of(self, parts: list[Part], page: float | Size) -> Sum:
        """What these parts cost together; `page` is how many objects the lists have that are of the page."""
        total: Sum = defaultdict(float)
        for kind, fields in self.fields(parts):
            definition = definition_of(self.schema, kind, fields[0].name.value)
            weight = weight_of(self.schema, definition, fields[0].name.value)
            total[()] += weight.own
            below = [(named_type(definition), each.selection_set) for each in fields if each.selection_set]
            if not below:
                continue
            asked = self.asked(weight.page, fields[0]) if weight.page else 1
            times: float | Size = 1
            if definition is not None and is_list_type(get_nullable_type(definition.type)):
                times, asked = (page if weight.of_page else asked if weight.page else assumed(weight)), 1
            elif weight.objects is not None:
                times = weight.objects
            for sizes, each in self.of(below, asked).items():
                if isinstance(times, Size):
                    total[(*sizes, times)] += each
                else:
                    total[sizes] += each * times
        return total

    def fields(self, parts: list[Part]) -> list[tuple[Any, list[FieldNode]]]:
        """By name and kind of object; what is selected in several places is one."""
        found: dict[tuple[str, int], tuple[Any, list[FieldNode]]] = {}
        spread: set[str] = set()
        waiting = list(parts)
        while waiting:
            kind, selection_set = waiting.pop()
            for each in selection_set.selections:
                if isinstance(each, FieldNode):
                    key = ((each.alias or each.name).value, id(kind))
                    found.setdefault(key, (kind, []))[1].append(each)
                    continue
                fragment: Any = each
                if isinstance(each, FragmentSpreadNode):
                    if each.name.value in spread or each.name.value not in self.fragments:
                        continue
                    spread.add(each.name.value)
                    fragment = self.fragments[each.name.value]
                condition = fragment.type_condition
                inner = self.schema.get_type(condition.name.value) if condition else kind
                waiting.append((inner, fragment.selection_set))
        return list(found.values())

    def asked(self, page: Page, node: FieldNode) -> float | Size:
        value: ValueNode | None = next(
            (each.value for each in node.arguments or () if each.name.value == page.argument), None
        )
        if not isinstance(value, VariableNode):
            return page.default if value is None else size_of(literal(value), page)
        name = value.name.value
        default = self.defaults.get(name)
        return Size(name, page.default if default is None else size_of(literal(default), page), page)


def literal(value: ValueNode) -> object:
    """As far as it tells a size."""
    if isinstance(value, IntValueNode):
        return int(value.value[:10])
    return [None] * len(value.values) if isinstance(value, ListValueNode) else None


def definition_of(schema: GraphQLSchema, kind: Any, name: str) -> GraphQLField | None:
    return schema.get_field(kind, name) if is_composite_type(kind) else None


def named_type(definition: GraphQLField | None) -> Any:
    return None if definition is None else get_named_type(definition.type)


def assumed(weight: Weight) -> float:
    return ASSUMED if weight.objects is None else weight.objects


def weight_of(schema: GraphQLSchema, definition: GraphQLField | None, name: str) -> Weight:
    """The schema says it in the extensions of its fields; introspection is weighed here."""
    if definition is None:
        return PLAIN
    found: Weight | None = definition.extensions.get("cost")
    if found is None and "strawberry-definition" not in definition.extensions:
        found = introspected(schema).get(name)
    return found or PLAIN


@lru_cache(maxsize=4)
def introspected(schema: GraphQLSchema) -> dict[str, Weight]:
    """How long the lists of introspection are, on average over the types of the schema."""
    types = list(schema.type_map.values())
    inputs = sum(len(kind.fields) for kind in types if isinstance(kind, GraphQLInputObjectType))
    fields = [
        each
        for kind in types
        if isinstance(kind, GraphQLObjectType | GraphQLInterfaceType)
        for each in kind.fields.values()
    ]
    directives = schema.directives
    arguments = sum(len(each.args) for each in (*fields, *directives))
    values = sum(len(kind.values) for kind in types if isinstance(kind, GraphQLEnumType))
    interfaces = sum(len(getattr(kind, "interfaces", ())) for kind in types)
    every = len(types)
    sizes = {
        "types": every,
        "directives": len(directives),
        "fields": len(fields) / every,
        "inputFields": inputs / every,
        "args": arguments / (len(fields) + len(directives)),
        "enumValues": values / every,
        "interfaces": interfaces / every,
        "possibleTypes": interfaces / every,
        "locations": 1,
        "ofType": 0.6,
    }
    return {name: Weight(objects=size) for name, size in sizes.items()}
