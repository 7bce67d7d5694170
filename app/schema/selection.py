"""What a GraphQL request selected, as the neutral selection that the reads take."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, TypeVar

import strawberry
from graphql import GraphQLField, GraphQLObjectType, get_named_type, is_composite_type
from graphql.execution.collect_fields import FieldDetails, FragmentDetails, collect_subfields
from graphql.execution.values import VariableValues, get_argument_values

from app.care.context import Context
from app.db.reader.entities import ENTITIES, Table
from app.db.reader.selection import Link, Order, PageRequest, Selection
from app.engine.executor import selection_cache_of
from app.schema.types.lists import page_key, read_window

Info = strawberry.Info[Context, None]
Fields = list[FieldDetails]
Result = TypeVar("Result")


def wanted_rows(info: Info, table: Table) -> Selection:
    """What is wanted of the rows that this field returns."""

    def work(selection: "SelectedFields") -> Selection:
        return selection.wanted(table, selection.root)

    return noted(info, ("rows", table), work)


def wanted_under(info: Info, name: str, table: Table) -> Selection | None:
    """What is wanted of the rows that this field's object holds under `name`; None when not selected."""

    def work(selection: "SelectedFields") -> Selection | None:
        fields = selection.named(selection.return_type, selection.root, name)
        return selection.wanted(table, fields) if fields else None

    return noted(info, ("under", name, table), work)


def wanted_page(info: Info, table: Table, order: Order | None = None) -> tuple[Selection, PageRequest]:
    """What is wanted of the rows of this connection, and whether rows and total are wanted at all."""

    def work(selection: "SelectedFields") -> tuple[Selection, PageRequest]:
        rows, window = selection.connection(selection.return_type, selection.root, order)
        return selection.wanted(table, rows.fields, rows.columns), window

    return noted(info, ("page", table, order), work)


def wanted_shape(info: Info) -> PageRequest:
    """Whether rows and total of this connection are wanted at all, whatever its rows are."""
    return noted(
        info, ("shape",), lambda selection: selection.connection(selection.return_type, selection.root)[1]
    )


def noted(info: Info, what: tuple[object, ...], work: Callable[["SelectedFields"], Result]) -> Result:
    """Worked out once for a prepared operation: what is selected does not depend on the request."""
    raw: Any = info._raw_info
    cache = selection_cache_of(raw)
    key = (*what, *[id(node) for node in raw.field_nodes])
    if key not in cache:
        cache[key] = work(SelectedFields(info))
    found: Result = cache[key]
    return found


@dataclass
class Asked:
    """A selection on one table while it is gathered: aliases and fragments may ask for the same row twice."""

    table: Table
    columns: set[str] = field(default_factory=set)
    links: dict[str, "Asked"] = field(default_factory=dict)
    pages: dict[str, tuple[str, PageRequest, "Asked"]] = field(default_factory=dict)

    def link(self, name: str) -> "Asked":
        target = ENTITIES[self.table].links[name].target
        return self.links.setdefault(name, Asked(target))

    def page(self, name: str, window: PageRequest) -> "Asked":
        """Rows linked under this name as far as the window shows them; by its key they are known."""
        target = ENTITIES[self.table].links[name].target
        return self.pages.setdefault(window.key, (name, window, Asked(target)))[2]

    def freeze(self) -> Selection:
        links = [Link(name, asked.freeze()) for name, asked in self.links.items()]
        pages = [Link(name, asked.freeze(), window) for name, window, asked in self.pages.values()]
        return Selection(frozenset(self.columns), (*links, *pages))


@dataclass
class RowsAsked:
    fields: Fields
    columns: set[str]


def metadata_of(definition: GraphQLField) -> dict[str, Any]:
    """What the field says of the columns and links it needs (schema/types/node.py)."""
    declared: dict[str, Any] = definition.extensions["strawberry-definition"].metadata
    return declared


class SelectedFields:
    """The part of a document below one field. Collecting is graphql-core's own, so fragments, aliases and
    directives mean here what they mean to the executor."""

    def __init__(self, info: Info) -> None:
        raw = info._raw_info
        coerced: Any = raw.variable_values  # strawberry hands over the plain dict
        self.schema = raw.schema
        self.operation = raw.operation
        self.fragments = {name: FragmentDetails(node) for name, node in raw.fragments.items()}
        self.variables = VariableValues({}, coerced)
        self.root: Fields = [FieldDetails(node, None) for node in raw.field_nodes]
        self.return_type: Any = get_named_type(raw.return_type)

    def below(self, kind: GraphQLObjectType, fields: Fields) -> dict[str, Fields]:
        """Response key -> the fields selected under it on an object of this kind."""
        return collect_subfields(
            self.schema, self.fragments, self.variables, self.operation, kind, fields
        ).grouped_field_set

    def named(self, kind: GraphQLObjectType, fields: Fields, name: str) -> Fields:
        groups = self.below(kind, fields).values()
        return [each for group in groups if group[0].node.name.value == name for each in group]

    def wanted(self, table: Table, fields: Fields, columns: set[str] | None = None) -> Selection:
        asked = Asked(table, columns or set())
        self.gather(asked, fields)
        return asked.freeze()

    def gather(self, asked: Asked, fields: Fields) -> None:
        """Aliases of one field are gathered together: one by one, each level would double the work."""
        kind: Any = self.schema.type_map[asked.table.__name__]
        groups: dict[str, tuple[GraphQLField, Fields]] = {}
        for group in self.below(kind, fields).values():
            name = group[0].node.name.value
            if name.startswith("__"):
                continue
            definition = kind.fields[name]
            if definition.args:
                name = page_key(name, self.arguments(definition, group))
            groups.setdefault(name, (definition, []))[1].extend(group)
        for definition, group in groups.values():
            self.gather_field(asked, definition, group)

    def arguments(self, definition: GraphQLField, group: Fields) -> dict[str, Any]:
        return get_argument_values(definition, group[0].node, self.variables)

    def gather_field(self, asked: Asked, definition: GraphQLField, group: Fields) -> None:
        metadata = metadata_of(definition)
        name = definition.extensions["strawberry-definition"].python_name
        if name in ENTITIES[asked.table].through:
            link, name = ENTITIES[asked.table].through[name]
            asked = asked.link(link)
        if "columns" in metadata:
            asked.columns.update(metadata["columns"])
        elif "gathers" in metadata:
            metadata["gathers"](self, asked, definition, group)
        elif "page" in metadata:
            self.gather_page(asked, name, definition, group)
        elif is_composite_type(get_named_type(definition.type)):
            self.gather(asked.link(name), group)
        else:
            asked.columns.add(name)

    def gather_page(self, asked: Asked, name: str, definition: GraphQLField, group: Fields) -> None:
        """A list inside a row: known by its arguments, so that equal ones are read once and others apart."""
        arguments = self.arguments(definition, group)
        kind: Any = get_named_type(definition.type)
        metadata = metadata_of(definition)
        order = metadata["orders"].get(arguments.get("orderBy"))
        rows, shape = self.connection(kind, group, order)
        key = page_key(name, arguments)
        target = ENTITIES[asked.table].links[name].target
        _, known, into = asked.pages.get(key, (name, PageRequest(with_rows=False), Asked(target)))
        into.columns |= rows.columns
        self.gather(into, rows.fields)
        where, values = metadata["page"](arguments)
        window = PageRequest(
            key=key,
            where=where,
            values=values,
            with_rows=shape.with_rows or known.with_rows,
            with_total=shape.with_total or known.with_total,
        )
        first, after = arguments.get("first"), arguments.get("after")
        window = read_window(window, target, first, after, order=order)
        asked.pages[key] = (name, window, into)

    def connection(
        self, kind: GraphQLObjectType, fields: Fields, order: Order | None = None
    ) -> tuple[RowsAsked, PageRequest]:
        """What a connection asks of its rows; cursors are made of ids and of what the order compares."""
        edge: Any = get_named_type(kind.fields["edges"].type)
        edges = self.named(kind, fields, "edges")
        nodes = self.named(kind, fields, "nodes") + self.named(edge, edges, "node")
        page_info = self.named(kind, fields, "pageInfo")
        columns = set() if order is None else {order.column}
        return RowsAsked(nodes, {"id", *columns} if edges or page_info else set()), PageRequest(
            with_rows=bool(nodes or edges or page_info),
            with_total=bool(self.named(kind, fields, "totalCount")),
        )
