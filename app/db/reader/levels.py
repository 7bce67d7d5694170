"""Reads rows by a statement for the page, and one for each level of linked rows.

A statement of an embedded database takes microseconds, and its rows need no conversion to JSON. Citus needs
several statements too if the rows of a client with several caregivers are on several machines.
"""

from collections import Counter, defaultdict
from dataclasses import dataclass
from typing import Any

from app.db.reader.access import ReaderScope
from app.db.reader.entities import ToMany
from app.db.reader.plan_cache import Plan, finding_plan, known_plan, nodes_of
from app.db.reader.plans import ChildPlan, Page, PlanNode, Queries, Row, as_page, note_shown, plan_rows
from app.db.reader.queries import ROWS_OF_IDS, CountedBy, select_count, select_count_of_children, select_rows
from app.db.reader.selection import PageRequest, ReaderRole, Selection, Where
from app.db.sql import DatabaseKind, Statement, Steps, Values, compiled_statement, is_the_id
from app.db.tables import Table

Read = tuple[Any, Values]  # a statement and its values

SHOWN = "shown"  # a value that no statement has as a parameter


@dataclass(eq=False)
class LevelsPlan(Plan):
    total: Statement | None  # the number of rows of a list

    def statements(self) -> list[Statement]:
        nodes = nodes_of(self.root, set())
        found = [each for node in nodes for each in (node.statement, node.single_statement, node.count)]
        return [each for each in (*found, self.total) if each is not None]


def reading_page(
    table: Table, scope: ReaderScope, request: PageRequest, selection: Selection, counted: CountedBy
) -> Steps[Page]:
    key = ("levels", table, scope.role, request.shape, counted)
    plan: LevelsPlan = known_plan(selection, key) or (
        yield from finding_plan(
            selection, key, scope.kind, plan_of_page, table, selection, scope.role, request, counted
        )
    )
    values = scope.values | request.values | {SHOWN: scope.shown}
    total = None
    if plan.total is not None:
        total = int((yield plan.total, values)[0][0])
    if not request.with_rows:
        return page_of([], request, total)
    values |= {**request.bounds, "limit": request.first + 1, "offset": request.offset}
    rows = yield from reading_node(plan.root, selection, (plan.root.statement, values), request, False)
    return page_of(rows, request, total)


def reading_ids(
    table: Table, scope: ReaderScope, ids: list[int], selection: Selection, where: tuple[Where, ...]
) -> Steps[list[Row]]:
    key = ("levels of ids", table, scope.role, where)
    plan: LevelsPlan = known_plan(selection, key) or (
        yield from finding_plan(selection, key, scope.kind, plan_of_ids, table, selection, scope.role, where)
    )
    read = read_of_ids(plan.root, scope.values | {SHOWN: scope.shown}, "ids", ids)
    return (yield from reading_node(plan.root, selection, read))


# --- writing the statements -----------------------------------------------------------------------


def plan_of_page(
    table: Table,
    selection: Selection,
    role: ReaderRole,
    request: PageRequest,
    counted: CountedBy,
    kind: DatabaseKind,
) -> LevelsPlan:
    root, queries = plan_rows(table, selection, role, "page", request.where, request.order)
    total = compiled_statement(kind, select_count(counted, role)) if request.with_total else None
    write_statements(queries, kind)
    return LevelsPlan(root, total)


def plan_of_ids(
    table: Table, selection: Selection, role: ReaderRole, where: tuple[Where, ...], kind: DatabaseKind
) -> LevelsPlan:
    root, queries = plan_rows(table, selection, role, "ids", where)
    write_statements(queries, kind)
    return LevelsPlan(root, None)


def write_statements(queries: Queries, kind: DatabaseKind) -> None:
    for node, (query, form, page) in queries.items():
        if page is None or page.with_rows:
            node.statement = compiled_statement(kind, select_rows(query, form, kind))
        if form in ROWS_OF_IDS:
            node.single_statement = compiled_statement(kind, ROWS_OF_IDS[form](query, is_the_id))
        if page is not None and page.with_total:
            assert isinstance(query.link, ToMany)
            count = select_count_of_children(query.link, query.role, query.where)
            node.count = compiled_statement(kind, count)


def page_of(found: list[Row], request: PageRequest, total: int | None) -> Page:
    return as_page(found[: request.first], len(found) > request.first, request, total)


# --- running a plan -------------------------------------------------------------------------------


def reading_node(
    node: PlanNode,
    selection: Selection,
    read: Read,
    request: PageRequest | None = None,
    is_linked: bool = True,
) -> Steps[list[Row]]:
    """The rows of a statement with their linked rows; the pages of several parents if `is_linked`."""
    found = yield read
    if not (node.children or node.shown) or not found:
        return list(map(node.row_class, found))
    not_on_page: list[Any] = []
    if request is not None:
        found, not_on_page = split_pages(found, request.first, is_linked)
    note_shown(node, found, read[1][SHOWN])
    if not node.children:
        return list(map(node.row_class, [*found, *not_on_page]))
    linked = []
    for child in node.children:
        linked.append((yield from reading_linked(child, selection, found, read[1])))
    linked.reverse()  # the order in which plans.py places them
    rows = [
        node.row_class((*values, *members))
        for values, members in zip(found, zip(*linked, strict=True), strict=True)
    ]
    return rows + list(map(node.row_class, not_on_page))


def split_pages(found: list[Any], first: int, is_linked: bool) -> tuple[list[Any], list[Any]]:
    """Separates the rows on the pages from the rows after them, whose linked rows are not read. The first
    column of linked rows is the id of their parent."""
    if not is_linked:
        return found[:first], found[first:]
    counts: Counter[Any] = Counter()
    on_page: list[Any] = []
    not_on_page: list[Any] = []
    for row in found:
        counts[row[0]] += 1
        (on_page if counts[row[0]] <= first else not_on_page).append(row)
    return on_page, not_on_page


def reading_linked(
    child: ChildPlan, selection: Selection, parents: list[Any], values: Values
) -> Steps[list[Any]]:
    """The linked rows of each parent row: a list, a page, or one row or None."""
    keys = [row[child.parent_index] for row in parents]
    ids = [key for key in dict.fromkeys(keys) if key is not None]
    link = selection.link_at(child.path)
    request = link.page
    if request is not None:
        values = {**values, **request.values, **request.bounds, "limit": request.first + 1}
    groups: dict[Any, list[Row]] = defaultdict(list)
    if request is None or request.with_rows:
        read = read_of_ids(child.node, values, "parents", ids)
        for row in (yield from reading_node(child.node, link.selection, read, request)):
            groups[row[0]].append(row)
    if request is None:
        if child.is_single:
            return [groups[key][0] if key in groups else None for key in keys]
        return [groups[key] for key in keys]
    totals = None
    if child.node.count is not None:
        totals = dict((yield child.node.count, {**values, "parents": ids}))
    return [page_of(groups[key], request, None if totals is None else totals.get(key, 0)) for key in keys]


def read_of_ids(node: PlanNode, values: Values, name: str, ids: list[int]) -> Read:
    if len(ids) == 1 and node.single_statement is not None:
        return node.single_statement, {**values, name: ids[0]}
    return node.statement, {**values, name: ids}
