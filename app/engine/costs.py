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

ASSUMED = 10  # size of a list with unknown length


@dataclass(frozen=True)
class Page:
    """The argument that sets the number of objects: a number, or a list with one entry per object."""

    argument: str
    default: int
    most: int


@dataclass(frozen=True)
class Weight:
    """The cost of a field, and the factor for the selections below it."""

    own: int = 1
    objects: float | None = (
        None  # list length; None: page size, or ASSUMED; of one object: how often it is present
    )
    page: Page | None = None  # for its own list, or for the `of_page` lists in its object
    of_page: bool = False


PLAIN = Weight()


class Size(NamedTuple):
    """A number of objects that is set by a variable."""

    variable: str
    absent: float
    page: Page

    def of(self, variables: Mapping[str, Any]) -> float:
        value = variables.get(self.variable)
        if value.__class__ is int and 0 < value <= self.page.most:
            return value
        return size_of(variables[self.variable], self.page) if self.variable in variables else self.absent


def size_of(value: object, page: Page) -> float:
    """Clamped; the resolver rejects invalid values."""
    if value is None:
        return page.default
    size = len(value) if isinstance(value, list) else value if isinstance(value, int | float) else 1
    return min(max(1, size), page.most)


Sum = dict[tuple[Size, ...], float]  # a polynomial: the coefficient of each product of sizes
Cost = Callable[[Mapping[str, Any] | None], int]
Part = tuple[Any, SelectionSetNode]  # a type and its selection; None if the type is unknown


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
        """The cost of these parts together; `page` is the size of the `of_page` lists."""
        total: Sum = defaultdict(float)
        for kind, fields in self.fields(parts):
            definition = definition_of(self.schema, kind, fields[0].name.value)
            weight = weight_of(self.schema, definition, fields[0].name.value)
            total[()] += weight.own
            below = [(named_type(definition), each.selection_set) for each in fields if each.selection_set]
            if not below:
                continue
            size = self.page_size(weight.page, fields[0]) if weight.page else 1
            times: float | Size = 1
            if definition is not None and is_list_type(get_nullable_type(definition.type)):
                times, size = (page if weight.of_page else size if weight.page else assumed(weight)), 1
            elif weight.objects is not None:
                times = weight.objects
            for sizes, each in self.of(below, size).items():
                if isinstance(times, Size):
                    total[(*sizes, times)] += each
                else:
                    total[sizes] += each * times
        return total

    def fields(self, parts: list[Part]) -> list[tuple[Any, list[FieldNode]]]:
        """Fields by response key and type; a field selected in several places is merged."""
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


def definition_of(schema: GraphQLSchema, kind: Any, name: str) -> GraphQLField | None:
    return schema.get_field(kind, name) if is_composite_type(kind) else None


def named_type(definition: GraphQLField | None) -> Any:
    return None if definition is None else get_named_type(definition.type)


def assumed(weight: Weight) -> float:
    return ASSUMED if weight.objects is None else weight.objects


def weight_of(schema: GraphQLSchema, definition: GraphQLField | None, name: str) -> Weight:
    """From the field's extensions; introspection has computed weights."""
    if definition is None:
        return PLAIN
    found: Weight | None = definition.extensions.get("cost")
    if found is None and "strawberry-definition" not in definition.extensions:
        found = introspected(schema).get(name)
    return found or PLAIN


@lru_cache(maxsize=4)
def introspected(schema: GraphQLSchema) -> dict[str, Weight]:
    """Average lengths of the introspection lists in this schema."""
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
