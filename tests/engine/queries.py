"""Random valid operations over any schema: aliases, merged fields, fragments, variables, directives."""

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from graphql import (
    GraphQLEnumType,
    GraphQLField,
    GraphQLObjectType,
    GraphQLSchema,
    get_named_type,
    get_nullable_type,
    is_abstract_type,
    is_composite_type,
    is_required_argument,
)
from hypothesis import strategies as st

Pool = Mapping[str, Sequence[Any]]  # values by `Type.field(argument)`, by the argument's name, or by its type
CONDITIONS = ("yes", "no", "maybe")
Where = tuple[str, ...] | None  # the response keys above; None in a fragment, which can be spread anywhere


@dataclass(frozen=True)
class GeneratedOperation:
    text: str
    variables: dict[str, Any]


@dataclass
class OperationWriter:
    """Writes one operation."""

    draw: st.DrawFn
    schema: GraphQLSchema
    pool: Pool
    most_fields: int
    fragments: list[tuple[str, str, str]] = field(default_factory=list)  # name, type, text
    variables: dict[str, tuple[str, Any]] = field(default_factory=dict)  # name -> declared type, value
    # Response key -> field and arguments: everywhere under None, and in one place of the response.
    written: dict[tuple[Where, str], tuple[str, str]] = field(default_factory=dict)

    def some(self, most: int, least: int = 0) -> int:
        return self.draw(st.integers(least, most))

    def one_in(self, one_in: int) -> bool:
        return self.some(one_in - 1) == one_in - 1

    def one_of(self, values: Sequence[Any]) -> Any:
        return values[self.some(len(values) - 1)]

    # --- selections ---

    def selection(self, kind: Any, depth: int, where: Where) -> str:
        parts = [self.part(kind, depth, where) for _ in range(self.some(self.most_fields, least=2))]
        return "{ " + " ".join(parts) + " }"

    def part(self, kind: Any, depth: int, where: Where) -> str:
        choice = self.some(11)
        if choice == 0:
            return "__typename" if self.one_in(2) else f"kind: __typename {self.condition()}"
        if choice == 1 and depth > 0:
            return f"... {self.condition()} {self.selection(kind, depth - 1, where)}"
        if choice == 2 and depth > 0:
            other = self.fitting(kind)
            return f"... on {other.name} {self.condition()} {self.selection(other, depth - 1, where)}"
        if choice == 3 and depth > 0:
            return f"...{self.fragment(kind, depth)} {self.condition()}"
        return self.field(kind, depth, where)

    def fitting(self, kind: Any) -> Any:
        """A type that a value of this type may also have."""
        if is_abstract_type(kind):
            return self.one_of([kind, *self.schema.get_possible_types(kind)])
        return self.one_of([kind, *kind.interfaces])

    def fragment(self, kind: Any, depth: int) -> str:
        kind = self.fitting(kind)
        known = [name for name, on, _ in self.fragments if on == kind.name]
        if known and self.one_in(2):
            return str(self.one_of(known))
        text = self.selection(kind, depth - 1, None)
        name = f"f{len(self.fragments)}"
        self.fragments.append((name, kind.name, text))
        return name

    def field(self, kind: Any, depth: int, where: Where) -> str:
        fields: dict[str, GraphQLField] = getattr(kind, "fields", {})
        names = [
            name
            for name, each in fields.items()
            if depth > 0 or not is_composite_type(get_named_type(each.type))
        ]
        if not names:
            return "__typename"
        name = self.one_of(names)
        return self.one_field(kind, name, fields[name], depth, where)

    def one_field(self, kind: Any, name: str, definition: GraphQLField, depth: int, where: Where = ()) -> str:
        """Fields that are merged must be the same: those with one response key in one place. A key that ends
        in `here` can mean something else in another place, such as below `edges` and below `nodes`."""
        arguments = self.arguments(kind, name, definition)
        is_plain = self.one_in(2) and not arguments and name not in AMBIGUOUS
        key = name if is_plain else f"{kind.name}_{name}_{self.some(1)}"
        if not is_plain and where is not None and self.one_in(2):
            key = f"{kind.name}_here"
            name, arguments = self.written.setdefault((where, key), (name, arguments))
            definition = kind.fields[name]
        else:
            arguments = self.written.setdefault((None, key), (name, arguments))[1]
        text = f"{'' if key == name else f'{key}: '}{name}{arguments} {self.condition()}"
        named = get_named_type(definition.type)
        if not is_composite_type(named):
            return text
        return f"{text} {self.selection(named, depth - 1, None if where is None else (*where, key))}"

    def condition(self) -> str:
        choice = self.some(9)
        if choice > 2:
            return ""
        directive = self.one_of(["@include", "@skip"])
        if choice == 0:
            return f"{directive}(if: {self.one_of(['true', 'false'])})"
        name = self.one_of(CONDITIONS)
        if name not in self.variables:
            declared = {"yes": "Boolean!", "no": "Boolean! = false", "maybe": "Boolean = true"}[name]
            value = self.draw(st.booleans())
            left_out = name != "yes" and self.one_in(3)
            self.variables[name] = (declared, None if left_out else [value])
        return f"{directive}(if: ${name})"

    # --- arguments ---

    def arguments(self, kind: Any, name: str, definition: GraphQLField) -> str:
        parts = []
        for argument, declared in definition.args.items():
            if not is_required_argument(declared) and self.one_in(2):
                continue
            value = self.value(f"{kind.name}.{name}({argument})", argument, declared.type)
            parts.append(f"{argument}: {value}")
        return f"({', '.join(parts)})" if parts else ""

    def value(self, argument_path: str, argument: str, kind: Any) -> str:
        named = get_named_type(kind)
        values = self.pool.get(argument_path) or self.pool.get(argument) or self.pool.get(named.name)
        if values is None:
            values = list(named.values) if isinstance(named, GraphQLEnumType) else [1]
        value = self.one_of(values)
        if self.one_in(2):
            variable = f"v{len(self.variables)}"
            self.variables[variable] = (str(kind), [value])
            if get_nullable_type(kind) is kind and self.one_in(4):
                self.variables[variable] = (str(kind), None)
            return f"${variable}"
        return literal(value, named)

    def operation(
        self, root: GraphQLObjectType, word: str, depth: int, most_roots: int, roots: Sequence[str]
    ) -> GeneratedOperation:
        parts = [self.part_of_root(root, depth, roots) for _ in range(self.some(most_roots, least=1))]
        return self.assembled(word, "{ " + " ".join(parts) + " }")

    def assembled(self, word: str, body: str) -> GeneratedOperation:
        fragments = [f"fragment {name} on {kind} {text}" for name, kind, text in self.fragments]
        used = set(re.findall(r"\$(\w+)", " ".join((body, *fragments))))
        declared = ", ".join(f"${name}: {kind}" for name, (kind, _) in self.variables.items() if name in used)
        head = f"{word} Q({declared})" if declared else word
        given = {name: value[0] for name, (_, value) in self.variables.items() if value is not None}
        return GeneratedOperation("\n".join((f"{head} {body}", *fragments)), given)

    def part_of_root(self, root: GraphQLObjectType, depth: int, roots: Sequence[str]) -> str:
        if self.one_in(8):
            return self.part(root, depth, ())
        name = self.one_of(roots)
        return self.one_field(root, name, root.fields[name], depth)


AMBIGUOUS = frozenset({"name", "score", "submitDate"})  # of different types in different places


def literal(value: Any, kind: Any) -> str:
    if isinstance(value, dict):
        fields = getattr(kind, "fields", None)  # a scalar may be written as an object as well
        inner = (
            f"{key}: {literal(each, get_named_type(fields[key].type) if fields else None)}"
            for key, each in value.items()
        )
        return "{" + ", ".join(inner) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(literal(each, kind) for each in value) + "]"
    if isinstance(kind, GraphQLEnumType) and value is not None:
        return str(value)
    return json.dumps(value)


@st.composite
def operations(
    draw: st.DrawFn,
    schema: GraphQLSchema,
    pool: Pool,
    depth: int = 4,
    most_fields: int = 4,
    most_roots: int = 3,
    word: str = "query",
    roots: Sequence[str] = (),
) -> GeneratedOperation:
    root = schema.query_type if word == "query" else schema.mutation_type
    assert root is not None
    writer = OperationWriter(draw, schema, pool, most_fields)
    return writer.operation(root, word, depth, most_roots, roots or list(root.fields))


@st.composite
def lists_by_edges_and_nodes(
    draw: st.DrawFn, schema: GraphQLSchema, pool: Pool, depth: int = 3, most_fields: int = 5
) -> GeneratedOperation:
    """A list of the schema by `edges` if `$byEdges`, and by `nodes` if `$byNodes`, with other selections."""
    assert schema.query_type is not None
    writer = OperationWriter(draw, schema, pool, most_fields)
    writer.variables |= {name: ("Boolean! = true", None) for name in ("byEdges", "byNodes")}
    lists = {
        name: get_named_type(get_named_type(each.type).fields["nodes"].type)
        for name, each in schema.query_type.fields.items()
        if get_named_type(each.type).name.endswith("Connection")
        and not any(map(is_required_argument, each.args.values()))
    }
    name = writer.one_of(list(lists))
    by_edges = writer.selection(lists[name], depth, ("edges", "node"))
    by_nodes = writer.selection(lists[name], depth, ("nodes",))
    branches = f"edges @include(if: $byEdges) {{ node {by_edges} }} nodes @include(if: $byNodes) {by_nodes}"
    return writer.assembled("query", f"{{ {name} {{ {branches} }} }}")
