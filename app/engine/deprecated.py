"""Finds the deprecated parts of a schema, and which of them an operation uses; by schema coordinate."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from graphql import (
    ArgumentNode,
    EnumValueNode,
    FieldNode,
    FragmentSpreadNode,
    GraphQLEnumType,
    GraphQLInputObjectType,
    GraphQLInterfaceType,
    GraphQLList,
    GraphQLObjectType,
    GraphQLSchema,
    Node,
    ObjectFieldNode,
    OperationDefinitionNode,
    TypeInfo,
    TypeInfoVisitor,
    Visitor,
    get_named_type,
    get_nullable_type,
    type_from_ast,
    visit,
)

from app.engine.nodes import Fragments, free, nodes_of

Parts = Mapping[str, str]  # the reason by coordinate, such as `Query.session(id:)`


def deprecated_parts(schema: GraphQLSchema) -> Parts:
    """The deprecated fields, arguments, input fields and enum values."""
    return {
        coordinate: part.deprecation_reason
        for coordinate, part in parts_of(schema)
        if part.deprecation_reason is not None
    }


def parts_of(schema: GraphQLSchema) -> Iterator[tuple[str, Any]]:
    for name, kind in schema.type_map.items():
        if isinstance(kind, GraphQLEnumType):
            yield from ((f"{name}.{value}", part) for value, part in kind.values.items())
        elif isinstance(kind, GraphQLObjectType | GraphQLInterfaceType | GraphQLInputObjectType):
            for field, part in kind.fields.items():
                yield f"{name}.{field}", part
                for argument, below in getattr(part, "args", {}).items():
                    yield f"{name}.{field}({argument}:)", below


@dataclass(frozen=True)
class DeprecatedUse:
    """What an operation uses of the deprecated parts."""

    in_document: tuple[str, ...]
    variables: tuple[tuple[str, Any], ...]  # names and types of those whose values can contain such parts

    def with_values(self, values: Mapping[str, Any] | None) -> tuple[str, ...]:
        found = set(self.in_document)
        for name, kind in self.variables:
            found.update(in_value(kind, (values or {}).get(name)))
        return tuple(sorted(found))


def find_use(
    schema: GraphQLSchema, parts: Parts, operation: OperationDefinitionNode, fragments: Fragments
) -> DeprecatedUse | None:
    """None if a valid operation uses no deprecated part, whatever its variables are."""
    used: set[str] = set()
    spread: set[str] = set()
    waiting: list[Node] = [operation]
    while waiting:
        node = waiting.pop()
        used |= coordinates_in(schema, node)
        names = {each.name.value for each in nodes_of(node) if isinstance(each, FragmentSpreadNode)} - spread
        waiting.extend(fragments[name] for name in names)
        spread |= names
    kinds = [
        (one.variable.name.value, type_from_ast(schema, one.type))
        for one in operation.variable_definitions or ()
    ]
    variables = tuple((name, kind) for name, kind in kinds if reaches(kind, parts, set()))
    found = tuple(sorted(used & parts.keys()))
    return DeprecatedUse(found, variables) if found or variables else None


def coordinates_in(schema: GraphQLSchema, node: Node) -> set[str]:
    types = TypeInfo(schema)
    visitor = Coordinates(types)
    typed = TypeInfoVisitor(types, visitor)
    visit(node, typed)
    found = visitor.found
    free(visitor, typed, types)
    return found


class Coordinates(Visitor):
    """Collects the coordinates of the parts that a document names."""

    def __init__(self, types: TypeInfo) -> None:
        super().__init__()
        self.types = types
        self.field = ""
        self.found: set[str] = set()

    def enter_field(self, node: FieldNode, *_: Any) -> None:
        self.field = f"{self.types.get_parent_type()}.{node.name.value}"
        self.found.add(self.field)

    def enter_argument(self, node: ArgumentNode, *_: Any) -> None:
        if self.types.get_directive() is None:
            self.found.add(f"{self.field}({node.name.value}:)")

    def enter_object_field(self, node: ObjectFieldNode, *_: Any) -> None:
        self.found.add(f"{get_named_type(self.types.get_parent_input_type())}.{node.name.value}")

    def enter_enum_value(self, node: EnumValueNode, *_: Any) -> None:
        self.found.add(f"{get_named_type(self.types.get_input_type())}.{node.value}")


def reaches(kind: Any, parts: Parts, seen: set[str]) -> bool:
    """Whether a value of this input type can contain a deprecated part."""
    named = get_named_type(kind)
    if named.name in seen:
        return False
    seen.add(named.name)
    if any(coordinate.startswith(f"{named.name}.") for coordinate in parts):
        return True
    fields = named.fields.values() if isinstance(named, GraphQLInputObjectType) else ()
    return any(reaches(field.type, parts, seen) for field in fields)


def in_value(kind: Any, value: Any) -> Iterator[str]:
    """The coordinates of the parts in the value of a variable, which may be invalid."""
    kind = get_nullable_type(kind)
    if isinstance(kind, GraphQLList):
        for each in value if isinstance(value, list) else [value]:
            yield from in_value(kind.of_type, each)
    elif isinstance(kind, GraphQLInputObjectType) and isinstance(value, dict):
        for name in value.keys() & kind.fields.keys():
            field = kind.fields[name]
            if field.deprecation_reason is not None:
                yield f"{kind.name}.{name}"
            yield from in_value(field.type, value[name])
    elif isinstance(kind, GraphQLEnumType) and isinstance(value, str):
        part = kind.values.get(value)
        if part is not None and part.deprecation_reason is not None:
            yield f"{kind.name}.{value}"
