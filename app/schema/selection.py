"""Converts the fields selected by a GraphQL request to a Selection for the reader."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, NamedTuple, TypeVar

import strawberry
from graphql import GraphQLField, GraphQLObjectType, get_named_type
from graphql.execution.collect_fields import FieldDetails, FragmentDetails, collect_subfields
from graphql.execution.values import VariableValues, get_argument_values

from app.care.context import Context
from app.db.reader.entities import ENTITIES
from app.db.reader.selection import Link, Order, PageRequest, Selection
from app.db.tables import Table
from app.engine.executor import resolver_cache_of
from app.schema.types.lists import page_key, read_page_request

Info = strawberry.Info[Context, None]
Fields = list[FieldDetails]
Result = TypeVar("Result")


def selected_rows(info: Info, table: Table) -> Selection:
    """The selection on the rows that this field returns."""
    return cached(info, ("rows", table), lambda collector: collector.selection(table, collector.root))


def selected_member(info: Info, name: str, table: Table) -> Selection | None:
    """The selection on the member `name` of the object that this field returns; None if not selected."""

    def compute(collector: "FieldCollector") -> Selection | None:
        fields = collector.collect_named(collector.return_type, collector.root, name)
        return collector.selection(table, fields) if fields else None

    return cached(info, ("member", name, table), compute)


def selected_page(info: Info, table: Table, order: Order | None = None) -> tuple[Selection, PageRequest]:
    """The selection on the rows of this connection, and whether rows and total are selected."""

    def compute(collector: "FieldCollector") -> tuple[Selection, PageRequest]:
        row_fields, columns, page_request = collector.connection(collector.return_type, collector.root, order)
        return collector.selection(table, row_fields, columns), page_request

    return cached(info, ("page", table, order), compute)


def selected_page_request(info: Info) -> PageRequest:
    """Whether rows and total of this connection are selected."""
    return cached(
        info,
        ("page request",),
        lambda collector: collector.connection(collector.return_type, collector.root).page_request,
    )


def cached(info: Info, key: tuple[object, ...], compute: Callable[["FieldCollector"], Result]) -> Result:
    """Computes once per compiled operation, as the result does not depend on the request."""
    raw: Any = info._raw_info
    cache = resolver_cache_of(raw)
    key = (*key, *[id(node) for node in raw.field_nodes])
    if key not in cache:
        cache[key] = compute(FieldCollector(info))
    found: Result = cache[key]
    return found


class LinkedPage(NamedTuple):
    """A page of linked rows."""

    link: str
    page_request: PageRequest
    rows: "SelectionBuilder"


@dataclass
class SelectionBuilder:
    """Builds the selection on one table; aliases and fragments can select the same row repeatedly."""

    table: Table
    columns: set[str] = field(default_factory=set)
    links: dict[str, "SelectionBuilder"] = field(default_factory=dict)
    pages: dict[str, LinkedPage] = field(default_factory=dict)  # by the key of the page request

    def linked_table(self, link: str) -> Table:
        return ENTITIES[self.table].links[link].target

    def link(self, name: str) -> "SelectionBuilder":
        return self.links.setdefault(name, SelectionBuilder(self.linked_table(name)))

    def page(self, link: str, page_request: PageRequest) -> "SelectionBuilder":
        """The rows of a page. Page requests with the same key are merged into one."""
        key = page_request.key
        page = self.pages.get(key) or LinkedPage(
            link, page_request, SelectionBuilder(self.linked_table(link))
        )
        page_request = page_request._replace(
            with_rows=page_request.with_rows or page.page_request.with_rows,
            with_total=page_request.with_total or page.page_request.with_total,
        )
        self.pages[key] = page._replace(page_request=page_request)
        return page.rows

    def build(self) -> Selection:
        links = [Link(name, rows.build()) for name, rows in self.links.items()]
        pages = [Link(page.link, page.rows.build(), page.page_request) for page in self.pages.values()]
        return Selection(frozenset(self.columns), (*links, *pages))


class ConnectionFields(NamedTuple):
    rows: Fields
    columns: set[str]  # of the rows, for their cursors
    page_request: PageRequest  # whether rows and total are selected


class FieldCollector:
    """Collects the fields below one field of the document. Uses graphql-core, so that fragments, aliases and
    directives work exactly as in the executor."""

    def __init__(self, info: Info) -> None:
        raw = info._raw_info
        coerced: Any = raw.variable_values  # a plain dict in Strawberry
        self.schema = raw.schema
        self.operation = raw.operation
        self.fragments = {name: FragmentDetails(node) for name, node in raw.fragments.items()}
        self.variables = VariableValues({}, coerced)
        self.root: Fields = [FieldDetails(node, None) for node in raw.field_nodes]
        self.return_type: Any = get_named_type(raw.return_type)

    def collect(self, kind: GraphQLObjectType, fields: Fields) -> Fields:
        """The fields selected below `fields` on an object of this type.

        Fields with one response key can differ here: `fields` may stand in several places of the response,
        as the `nodes` and `edges` of a list do.
        """
        groups = collect_subfields(
            self.schema, self.fragments, self.variables, self.operation, kind, fields
        ).grouped_field_set
        return [each for group in groups.values() for each in group]

    def collect_named(self, kind: GraphQLObjectType, fields: Fields, name: str) -> Fields:
        return [each for each in self.collect(kind, fields) if each.node.name.value == name]

    def selection(self, table: Table, fields: Fields, columns: set[str] | None = None) -> Selection:
        builder = SelectionBuilder(table, columns or set())
        self.gather(builder, fields)
        return builder.build()

    def gather(self, builder: SelectionBuilder, fields: Fields) -> None:
        """Adds the columns and linked rows that the fields below `fields` need.

        Selections of one field are gathered together, as separate passes would double the work on each level.
        """
        kind: Any = self.schema.type_map[builder.table.__name__]
        groups: dict[str, tuple[GraphQLField, Fields]] = {}
        for each in self.collect(kind, fields):
            name = each.node.name.value
            if name.startswith("__"):
                continue
            definition = kind.fields[name]
            if definition.args:
                name = page_key(name, self.arguments(definition, [each]))
            groups.setdefault(name, (definition, []))[1].append(each)
        for definition, group in groups.values():
            self.gather_field(builder, definition, group)

    def arguments(self, definition: GraphQLField, group: Fields) -> dict[str, Any]:
        return get_argument_values(definition, group[0].node, self.variables)

    def gather_field(self, builder: SelectionBuilder, definition: GraphQLField, group: Fields) -> None:
        own = definition.extensions["strawberry-definition"]
        name, metadata = own.python_name, own.metadata  # see schema/types/scalars.py
        if name in ENTITIES[builder.table].through:
            link, name = ENTITIES[builder.table].through[name]
            builder = builder.link(link)
        if "columns" in metadata:
            builder.columns.update(metadata["columns"])
        elif "gathers" in metadata:
            metadata["gathers"](self, builder, definition, group)
        elif "filter" in metadata:
            self.gather_page(builder, name, metadata, definition, group)
        elif name in ENTITIES[builder.table].links:
            self.gather(builder.link(name), group)
        else:
            builder.columns.add(name)

    def gather_page(
        self,
        builder: SelectionBuilder,
        link: str,
        metadata: dict[str, Any],
        definition: GraphQLField,
        group: Fields,
    ) -> None:
        """A list inside a row, identified by its arguments."""
        arguments = self.arguments(definition, group)
        kind: Any = get_named_type(definition.type)
        order = metadata["orders"].get(arguments.get("orderBy"))
        row_fields, columns, selected = self.connection(kind, group, order)
        where, values = metadata["filter"](arguments)
        page_request = read_page_request(
            selected._replace(key=page_key(link, arguments), where=where, values=values),
            builder.linked_table(link),
            arguments.get("first"),
            arguments.get("after"),
            order=order,
        )
        rows = builder.page(link, page_request)
        rows.columns |= columns
        self.gather(rows, row_fields)

    def connection(
        self, kind: GraphQLObjectType, fields: Fields, order: Order | None = None
    ) -> ConnectionFields:
        """The fields of a connection's rows, and whether its rows and its total are selected."""
        edge: Any = get_named_type(kind.fields["edges"].type)
        edges = self.collect_named(kind, fields, "edges")
        rows = self.collect_named(kind, fields, "nodes") + self.collect_named(edge, edges, "node")
        page_info = self.collect_named(kind, fields, "pageInfo")
        columns = set()
        if edges or page_info:  # cursors need the id and the order column
            columns = {"id"} if order is None else {"id", order.column}
        page_request = PageRequest(
            with_rows=bool(rows or edges or page_info),
            with_total=bool(self.collect_named(kind, fields, "totalCount")),
        )
        return ConnectionFields(rows, columns, page_request)
