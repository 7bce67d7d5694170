"""Converts the fields selected by a GraphQL request to a Selection for the reader."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any, TypeVar

import strawberry
from graphql import GraphQLField, GraphQLObjectType, get_named_type, is_composite_type
from graphql.execution.collect_fields import FieldDetails, FragmentDetails, collect_subfields
from graphql.execution.values import VariableValues, get_argument_values

from app.care.context import Context
from app.db.reader.entities import ENTITIES
from app.db.reader.plans import Row
from app.db.reader.selection import Link, Order, PageRequest, Selection
from app.db.tables import Table
from app.engine.executor import selection_cache_of
from app.schema.types.lists import page_key, read_page_request

Info = strawberry.Info[Context, None]
Fields = list[FieldDetails]
Result = TypeVar("Result")


def selected_rows(info: Info, table: Table) -> Selection:
    """The selection on the rows that this field returns."""

    return cached(info, ("rows", table), lambda fields: fields.selection(table, fields.root))


def selected_member(info: Info, name: str, table: Table) -> Selection | None:
    """The selection on the member `name` of the object that this field returns; None if not selected."""

    def work(fields: "SelectedFields") -> Selection | None:
        named = fields.named(fields.return_type, fields.root, name)
        return fields.selection(table, named) if named else None

    return cached(info, ("under", name, table), work)


def selected_page(info: Info, table: Table, order: Order | None = None) -> tuple[Selection, PageRequest]:
    """The selection on the rows of this connection, and whether rows and total are selected."""

    def work(fields: "SelectedFields") -> tuple[Selection, PageRequest]:
        nodes, columns, parts = fields.connection(fields.return_type, fields.root, order)
        return fields.selection(table, nodes, columns), parts

    return cached(info, ("page", table, order), work)


def selected_parts(info: Info) -> PageRequest:
    """Whether rows and total of this connection are selected."""
    return cached(info, ("parts",), lambda fields: fields.connection(fields.return_type, fields.root)[2])


async def read_one(
    get: Callable[..., Awaitable[list[Row]]], ctx: Context, number: int | None, selection: Selection | None
) -> Any:
    """The row with this id; None if it is not selected or does not exist."""
    if selection is None or number is None:
        return None
    rows = await get(ctx, [number], selection)
    return rows[0] if rows else None


def cached(info: Info, kind: tuple[object, ...], work: Callable[["SelectedFields"], Result]) -> Result:
    """Computes once per prepared operation, as the selection does not depend on the request."""
    raw: Any = info._raw_info
    cache = selection_cache_of(raw)
    key = (*kind, *[id(node) for node in raw.field_nodes])
    if key not in cache:
        cache[key] = work(SelectedFields(info))
    found: Result = cache[key]
    return found


@dataclass
class SelectionBuilder:
    """Builds the selection on one table; aliases and fragments can select the same row repeatedly."""

    table: Table
    columns: set[str] = field(default_factory=set)
    links: dict[str, "SelectionBuilder"] = field(default_factory=dict)
    pages: dict[str, tuple[str, PageRequest, "SelectionBuilder"]] = field(default_factory=dict)

    def link(self, name: str) -> "SelectionBuilder":
        target = ENTITIES[self.table].links[name].target
        return self.links.setdefault(name, SelectionBuilder(target))

    def page(self, name: str, page_request: PageRequest) -> "SelectionBuilder":
        """Linked rows under this name, restricted by the page request and identified by its key."""
        target = ENTITIES[self.table].links[name].target
        return self.pages.setdefault(page_request.key, (name, page_request, SelectionBuilder(target)))[2]

    def freeze(self) -> Selection:
        links = [Link(name, builder.freeze()) for name, builder in self.links.items()]
        pages = [
            Link(name, builder.freeze(), page_request) for name, page_request, builder in self.pages.values()
        ]
        return Selection(frozenset(self.columns), (*links, *pages))


class SelectedFields:
    """The part of a document below one field. Collects fields by graphql-core, so that fragments, aliases
    and directives work exactly as in the executor."""

    def __init__(self, info: Info) -> None:
        raw = info._raw_info
        coerced: Any = raw.variable_values  # a plain dict in Strawberry
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

    def selection(self, table: Table, fields: Fields, columns: set[str] | None = None) -> Selection:
        builder = SelectionBuilder(table, columns or set())
        self.gather(builder, fields)
        return builder.freeze()

    def gather(self, builder: SelectionBuilder, fields: Fields) -> None:
        """Gathers aliases of one field together, as separate passes would double the work on each level."""
        kind: Any = self.schema.type_map[builder.table.__name__]
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
            self.gather_field(builder, definition, group)

    def arguments(self, definition: GraphQLField, group: Fields) -> dict[str, Any]:
        return get_argument_values(definition, group[0].node, self.variables)

    def gather_field(self, builder: SelectionBuilder, definition: GraphQLField, group: Fields) -> None:
        own = definition.extensions["strawberry-definition"]
        name, metadata = own.python_name, own.metadata  # see schema/types/node.py
        if name in ENTITIES[builder.table].through:
            link, name = ENTITIES[builder.table].through[name]
            builder = builder.link(link)
        if "columns" in metadata:
            builder.columns.update(metadata["columns"])
        elif "gathers" in metadata:
            metadata["gathers"](self, builder, definition, group)
        elif "page" in metadata:
            self.gather_page(builder, name, metadata, definition, group)
        elif is_composite_type(get_named_type(definition.type)):
            self.gather(builder.link(name), group)
        else:
            builder.columns.add(name)

    def gather_page(
        self,
        builder: SelectionBuilder,
        name: str,
        metadata: dict[str, Any],
        definition: GraphQLField,
        group: Fields,
    ) -> None:
        """A list inside a row, identified by its arguments: lists with equal arguments are read once."""
        arguments = self.arguments(definition, group)
        kind: Any = get_named_type(definition.type)
        order = metadata["orders"].get(arguments.get("orderBy"))
        nodes, columns, parts = self.connection(kind, group, order)
        key = page_key(name, arguments)
        rows = builder.page(name, PageRequest(key=key, with_rows=False))
        known = builder.pages[key][1]
        rows.columns |= columns
        self.gather(rows, nodes)
        where, values = metadata["page"](arguments)
        page_request = PageRequest(
            key=key,
            where=where,
            values=values,
            with_rows=parts.with_rows or known.with_rows,
            with_total=parts.with_total or known.with_total,
        )
        first, after = arguments.get("first"), arguments.get("after")
        page_request = read_page_request(page_request, rows.table, first, after, order=order)
        builder.pages[key] = (name, page_request, rows)

    def connection(
        self, kind: GraphQLObjectType, fields: Fields, order: Order | None = None
    ) -> tuple[Fields, set[str], PageRequest]:
        """The fields and columns of a connection's rows, and which parts of the connection are selected."""
        edge: Any = get_named_type(kind.fields["edges"].type)
        edges = self.named(kind, fields, "edges")
        nodes = self.named(kind, fields, "nodes") + self.named(edge, edges, "node")
        page_info = self.named(kind, fields, "pageInfo")
        columns = set()
        if edges or page_info:  # cursors need the id and the order column
            columns = {"id"} if order is None else {"id", order.column}
        parts = PageRequest(
            with_rows=bool(nodes or edges or page_info),
            with_total=bool(self.named(kind, fields, "totalCount")),
        )
        return nodes, columns, parts
