"""Reads a page, or rows by id, with all linked rows by one PostgreSQL statement.

The statement returns one JSON document, [total, rows]. A row is an array of its columns and linked rows, in
the order of plans.py. Linked rows are an array of rows, or [total, rows] for a page. PostgreSQL limits a page
before it joins anything, and reads linked rows in sub-queries, so that the document shows one snapshot. It
writes moments in its own form, which takes a third of the time of `to_char`; plans.py converts them.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import orjson
from sqlalchemy import ColumnElement, Select, func, literal_column, null, select
from sqlalchemy.dialects.postgresql import aggregate_order_by

from app.db.reader.access import ReaderScope
from app.db.reader.entities import ENTITIES
from app.db.reader.named_tables import all_columns, named_table, rows_of_page
from app.db.reader.plan_cache import Plan, finding_plan, known_plan
from app.db.reader.plans import ChildPlan, Page, PlanNode, Queries, Row, as_page, note_shown, plan_rows
from app.db.reader.queries import (
    CountedBy,
    Query,
    Source,
    is_after_previous_page,
    is_of_parent,
    is_readable,
    order_of_linked,
    select_count,
    select_count_of_linked,
    sort_columns,
    with_number,
)
from app.db.reader.selection import Link, PageRequest, Path, ReaderRole, Selection, Shown, Where
from app.db.sql import (
    NUMBER,
    Batchable,
    DatabaseKind,
    OnlyStatement,
    Statement,
    Steps,
    Values,
    among,
    compiled_statement,
    count_parameter,
    is_the_id,
)
from app.db.tables import Table

Expression = ColumnElement[Any]

MAX_ARGUMENTS = 100  # of a function of PostgreSQL
MAX_DOCUMENT = 16 * 1024 * 1024  # bytes: a text is repeated in each row that refers to it
MAX_BATCHABLE_ROWS = 50  # more would delay the other requests of a batch


class ReadTooLong(Exception):
    """The rows have more than MAX_DOCUMENT bytes."""


@dataclass(eq=False)
class DocumentPlan(Plan):
    """A plan with the statement that reads all of its rows."""

    statement: Statement
    pages: tuple[Path, ...]  # the paths of the pages of linked rows

    def statements(self) -> list[Statement]:
        return [self.statement]

    def run(self, selection: Selection, values: Values, rows: int) -> Steps[tuple[int | None, list[Any]]]:
        """Reads at most this number of `rows`, with those before the page."""
        is_short = not self.pages and rows <= MAX_BATCHABLE_ROWS
        values = values | self.values_of_pages(selection)
        [(_, document)] = yield (Batchable if is_short else OnlyStatement)(self.statement, values)
        if len(document) > MAX_DOCUMENT:
            raise ReadTooLong
        total, arrays = orjson.loads(document)
        return total, arrays or []

    def values_of_pages(self, selection: Selection) -> Values:
        """Each page has its own parameters, with its number in their names."""
        values: Values = {"number": 0}
        for number, path in enumerate(self.pages):
            page = selection.link_at(path).page
            assert page is not None
            values |= {f"{name}_{number}": value for name, value in page_values(page).items()}
        return values


def page_values(request: PageRequest) -> Values:
    """One more row than requested shows that there is a next page."""
    return {**request.values, **request.bounds, "limit": request.first + 1}


def reading_page(
    table: Table, scope: ReaderScope, request: PageRequest, selection: Selection, counted: CountedBy
) -> Steps[Page]:
    if not (request.with_rows or request.with_total):
        return as_page([], has_next=False, request=request, total=None)
    key = ("document", table, scope.role, request.shape, counted)
    plan: DocumentPlan = known_plan(selection, key) or (
        yield from finding_plan(
            selection, key, scope.kind, plan_of_page, table, selection, scope.role, request, counted
        )
    )
    values = scope.values | page_values(request) | {"offset": request.offset}
    count, arrays = yield from plan.run(selection, values, request.offset + request.first)
    return page_of(plan.root, selection, request, count, arrays, scope.shown)


def reading_ids(
    table: Table, scope: ReaderScope, ids: list[int], selection: Selection, where: tuple[Where, ...]
) -> Steps[list[Row]]:
    is_single = len(ids) == 1
    key = ("document of ids", table, scope.role, where, is_single)
    plan: DocumentPlan = known_plan(selection, key) or (
        yield from finding_plan(
            selection, key, scope.kind, plan_of_ids, table, selection, scope.role, where, is_single
        )
    )
    values = scope.values | {"ids": ids[0] if is_single else ids}
    _, arrays = yield from plan.run(selection, values, len(ids))
    return rows_of(plan.root, selection, arrays, scope.shown)


# --- writing the statement ------------------------------------------------------------------------


def plan_of_page(
    table: Table,
    selection: Selection,
    role: ReaderRole,
    request: PageRequest,
    counted: CountedBy,
    kind: DatabaseKind,
) -> DocumentPlan:
    planned = plan_rows(table, selection, role, "page", request.where, request.order, True)
    writer = StatementWriter(selection, *planned)
    query = writer.query_of(writer.root)
    rows: Expression = null()
    if request.with_rows:
        page = page_of_table(query, uses_index=query.uses_key_index).offset(count_parameter("offset"))
        order = sort_columns(query.order, query.table)
        rows = writer.rows_as_json(writer.root, (), order, page=page)
    total: Expression = null()
    if request.with_total:
        total = select_count(counted, role).scalar_subquery()
    return writer.plan(kind, rows, total)


def plan_of_ids(
    table: Table,
    selection: Selection,
    role: ReaderRole,
    where: tuple[Where, ...],
    is_single: bool,
    kind: DatabaseKind,
) -> DocumentPlan:
    writer = StatementWriter(selection, *plan_rows(table, selection, role, "ids", where, None, True))
    query = writer.query_of(writer.root)
    row_id = query.table.c.id
    matches = is_the_id(row_id, "ids") if is_single else among(row_id, "ids")
    conditions = [is_readable(query.source, query.role), *query.conditions(), matches]
    order = [] if is_single else [row_id]
    return writer.plan(kind, writer.rows_as_json(writer.root, (), order, conditions), null())


@dataclass
class StatementWriter:
    selection: Selection
    root: PlanNode
    queries: Queries
    pages: list[Path] = field(default_factory=list)

    def plan(self, kind: DatabaseKind, rows: Expression, total: Expression) -> DocumentPlan:
        # Ends above the limit, so that no longer document is sent. A text would be measured by character.
        document = func.json_send(func.json_build_array(total, rows))
        limited = func.substring(document, 1, literal_column(str(MAX_DOCUMENT + 1)))
        statement = compiled_statement(kind, select(NUMBER, limited))
        return DocumentPlan(self.root, statement, tuple(self.pages))

    def query_of(self, node: PlanNode) -> Query:
        return self.queries[node][0]

    def rows_as_json(
        self,
        node: PlanNode,
        path: Path,
        order: Sequence[Expression],
        conditions: Sequence[ColumnElement[bool]] = (),
        page: Select[Any] | None = None,
    ) -> Expression:
        """A sub-query for the rows of a node: of its table by `conditions`, or of a page of the table."""
        query = self.query_of(node)
        tables = query.joined_to(query.table if page is None else rows_of_page(query.table, page))
        columns = [column.element for column in query.columns]
        linked = [
            self.linked_rows(child, columns[child.parent_index], (*path, *child.path))
            for child in node.children
        ]
        row = array_of([*columns, *reversed(linked)])
        array = func.json_agg(aggregate_order_by(row, *order) if order else row)
        return select(array).select_from(tables).where(*conditions).correlate(None).scalar_subquery()

    def linked_rows(self, child: ChildPlan, parent: Expression, path: Path) -> Expression:
        """The linked rows, or their page, of one parent row; `parent` is its id."""
        query, request = self.query_of(child.node), self.selection.link_at(path).page
        of_parent = is_of_parent(query.link, query.table, parent)
        if request is None:
            order = [] if child.is_single else order_of_linked(query.link, query.table)
            conditions = [of_parent, is_readable(query.source, query.role)]
            return self.rows_as_json(child.node, path, order, conditions)
        number = f"_{len(self.pages)}"
        self.pages.append(path)
        rows: Expression = null()
        total: Expression = null()
        if request.with_rows:
            page = page_of_table(query, number).where(of_parent)
            rows = self.rows_as_json(child.node, path, sort_columns(query.order, query.table), page=page)
        if request.with_total:
            total = select_count_of_linked(query, parent, number).correlate(None).scalar_subquery()
        return func.json_build_array(total, rows)


def page_of_table(query: Query, number: str = "", uses_index: bool = False) -> Select[Any]:
    """The rows of a page with all columns of their table, before anything else is joined to them.

    Each page has its own parameters, with its `number` in their names.
    """
    table = query.table
    conditions = [is_readable(query.source, query.role, uses_index)]
    conditions += [with_number(condition_of_page(where, query), number) for where in query.where]
    conditions += is_after_previous_page(query.order, table, number)
    page = select(all_columns(table)).select_from(table).where(*conditions).correlate(None)
    return page.order_by(*sort_columns(query.order, table)).limit(count_parameter(f"limit{number}"))


def condition_of_page(where: Where, query: Query) -> Expression:
    """Compares columns of a linked row in a sub-query, which PostgreSQL runs row by row up to the limit. It
    could read a join as a whole, and sort it."""
    if where.via is None:
        return where.condition(query.table)
    link = query.entity.links[where.via]
    linked = Source(ENTITIES[link.target], named_table(link.target, query.new_name))
    tables = (query.table, linked.table) if where.beside else (linked.table,)
    found = select(where.condition(*tables)).select_from(linked.table)
    matches = linked.table.c.id == query.table.c[link.key]
    return found.where(matches, is_readable(linked, query.role)).correlate(None).scalar_subquery()


def array_of(values: Sequence[Expression]) -> Expression:
    """A JSON array; an array of arrays if a function cannot take that many values."""
    if len(values) <= MAX_ARGUMENTS:
        return func.json_build_array(*values)
    parts = [values[start : start + MAX_ARGUMENTS] for start in range(0, len(values), MAX_ARGUMENTS)]
    return func.json_build_array(*[func.json_build_array(*part) for part in parts])


# --- reading the document -------------------------------------------------------------------------


def page_of(
    node: PlanNode,
    selection: Selection,
    request: PageRequest,
    total: int | None,
    arrays: list[Any],
    shown: dict[int, Shown],
) -> Page:
    rows = rows_of(node, selection, arrays[: request.first], shown)
    return as_page(rows, len(arrays) > request.first, request, total)


def rows_of(node: PlanNode, selection: Selection, arrays: list[Any], shown: dict[int, Shown]) -> list[Row]:
    """The rows of JSON arrays. Collects the answer sets whose answers are read."""
    if node.width + len(node.children) > MAX_ARGUMENTS:
        arrays = [[value for part in array for value in part] for array in arrays]
    note_shown(node, arrays, shown)
    for place, child in enumerate(node.children, 1):
        link = selection.link_at(child.path)
        for array in arrays:
            array[-place] = linked_of(child, link, array[-place], shown)
    return list(map(node.row_class, arrays))


def linked_of(child: ChildPlan, link: Link, found: Any, shown: dict[int, Shown]) -> Any:
    """A page, a list, or one row or None."""
    if link.page is not None:
        total, arrays = found
        return page_of(child.node, link.selection, link.page, total, arrays or [], shown)
    rows = rows_of(child.node, link.selection, found or [], shown)
    return (rows[0] if rows else None) if child.is_single else rows
