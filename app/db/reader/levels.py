"""Reads rows by a statement for the page, and one for each level of linked rows.

A statement of an embedded database takes microseconds, and its rows need no conversion to JSON. Citus needs
several statements too if the rows of a client with several caregivers are on several machines.
"""

from collections import Counter, defaultdict
from collections.abc import Callable
from operator import itemgetter
from typing import Any

from app.db.reader.access import ReaderScope
from app.db.reader.plans import ChildPlan, Page, PlanNode, Row, as_page, note_shown, plan_of
from app.db.reader.queries import CountedBy, count_of_rows
from app.db.reader.selection import PageRequest, Selection, Where
from app.db.sql import Operation, Statement, Values
from app.db.tables import Table

Read = tuple[Statement, Values]

SHOWN = "shown"  # a value that no statement has as a parameter


def reading_page(
    table: Table, scope: ReaderScope, request: PageRequest, selection: Selection, counted: CountedBy
) -> Operation[Page]:
    values = scope.values | request.values | {SHOWN: scope.shown}
    total = None
    if request.with_total:
        count = count_of_rows(counted.table, scope.role, counted.where, counted.counter)
        total = int((yield count, values)[0][0])
    if not request.with_rows:
        return page_of([], request, total)
    node = plan_of(table, selection, scope.role, "page", request.where, request.order)
    values |= {**request.bounds, "limit": request.first + 1, "offset": request.offset}
    rows = yield from reading_node(node, selection, (node.statement, values), request)
    return page_of(rows, request, total)


def reading_ids(
    table: Table, scope: ReaderScope, ids: list[int], selection: Selection, where: tuple[Where, ...]
) -> Operation[list[Row]]:
    node = plan_of(table, selection, scope.role, "ids", where)
    read = read_of_ids(node, scope.values | {SHOWN: scope.shown}, "ids", ids)
    return (yield from reading_node(node, selection, read))


def page_of(found: list[Row], request: PageRequest, total: int | None) -> Page:
    return as_page(found[: request.first], len(found) > request.first, request, total)


# --- running a plan -------------------------------------------------------------------------------


def reading_node(
    node: PlanNode,
    selection: Selection,
    read: Read,
    request: PageRequest | None = None,
    parent_id: Callable[[Any], Any] | None = None,
) -> Operation[list[Row]]:
    """The rows of a statement with their linked rows; `parent_id` is for the pages of several parents."""
    found = yield read
    if not (node.children or node.shown) or not found:
        return list(map(node.row_class, found))
    not_on_page: list[Any] = []
    if request is not None:
        found, not_on_page = split_pages(found, request.first, parent_id)
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


def split_pages(
    found: list[Any], first: int, parent_id: Callable[[Any], Any] | None
) -> tuple[list[Any], list[Any]]:
    """Separates the rows on the pages from the rows after them, whose linked rows are not read."""
    if parent_id is None:
        return found[:first], found[first:]
    counts: Counter[Any] = Counter()
    on_page: list[Any] = []
    not_on_page: list[Any] = []
    for row in found:
        parent = parent_id(row)
        counts[parent] += 1
        (on_page if counts[parent] <= first else not_on_page).append(row)
    return on_page, not_on_page


def reading_linked(
    child: ChildPlan, selection: Selection, parents: list[Any], values: Values
) -> Operation[list[Any]]:
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
        for row in (yield from reading_node(child.node, link.selection, read, request, itemgetter(0))):
            groups[row[0]].append(row)  # the first column of linked rows is the id of their parent
    if request is None:
        if child.is_single:
            return [groups[key][0] if key in groups else None for key in keys]
        return [groups[key] for key in keys]
    totals = None
    if child.count is not None:
        totals = dict((yield child.count, {**values, "parents": ids}))
    return [page_of(groups[key], request, None if totals is None else totals.get(key, 0)) for key in keys]


def read_of_ids(node: PlanNode, values: Values, name: str, ids: list[int]) -> Read:
    if len(ids) == 1 and node.single_statement is not None:
        return node.single_statement, {**values, name: ids[0]}
    return node.statement, {**values, name: ids}
