"""Reads as operations: a page, rows by id, one row, each with everything linked that was wanted."""

from collections import Counter, defaultdict
from collections.abc import Callable
from dataclasses import dataclass
from operator import itemgetter
from typing import Any

from sqlalchemy import select

from app.db.entities import Table, table_of
from app.db.plans import Adds, Child, Level, Row, count_of_rows, level_for
from app.db.selection import Viewpoint, Wanted, Where, Window
from app.db.statements import Operation, Statement, Values, id_parameter
from app.db.tables import Relationship

__all__ = ["CountedBy", "Page", "Row", "get_rows", "list_rows", "rows_of_ids"]


@dataclass(frozen=True, slots=True)
class Page:
    key: str
    rows: list[Row]
    has_next: bool
    has_previous: bool
    total: int | None


@dataclass(frozen=True)
class CountedBy:
    """A total that is the sum of a number kept elsewhere, so that no long list is walked to be counted."""

    table: Table
    adds: Adds | None
    where: tuple[Where, ...]


SHOWN = "shown"  # among the values, where no statement asks for it

RELATIONSHIP = table_of(Relationship).c
CAREGIVERS_OF_CLIENT = Statement(
    lambda kind: select(RELATIONSHIP.caregiver_id).where(RELATIONSHIP.client_id == id_parameter("client"))
)


def seen_from(viewpoint: Viewpoint) -> Operation[Values]:
    """The values of the relationship key. A client's caregivers are read first, so statements name them."""
    of_request: Values = {
        "now": viewpoint.now,
        "time_zone": viewpoint.time_zone,
        SHOWN: viewpoint.shown,
    }
    if viewpoint.client is None:
        return of_request | {"caregiver": viewpoint.caregiver}
    found = yield CAREGIVERS_OF_CLIENT, {"client": viewpoint.client}
    return of_request | {"client": viewpoint.client, "caregivers": [row[0] for row in found]}


def list_rows(
    table: Table, viewpoint: Viewpoint, window: Window, wanted: Wanted, counted_by: CountedBy | None = None
) -> Operation[Page]:
    """One page of a list, newest first."""
    values = {**(yield from seen_from(viewpoint)), **window.values}
    total = None
    if window.with_total:
        counter = counted_by or CountedBy(table, None, window.where)
        count = count_of_rows(counter.table, viewpoint.role, counter.where, counter.adds)
        total = int((yield count, values)[0][0])
    if not window.with_rows:
        return as_page([], window, total)
    level = level_for(table, wanted, viewpoint.role, "page", window.where)
    values |= {"before": window.before, "limit": window.first + 1, "offset": window.offset}
    return as_page((yield from rows_of(level, wanted, values, window)), window, total)


def get_rows(
    table: Table, viewpoint: Viewpoint, ids: list[int], wanted: Wanted, where: tuple[Where, ...] = ()
) -> Operation[list[Row]]:
    """Those of the rows that the viewer may see, in the order of their ids."""
    values = yield from seen_from(viewpoint)
    level = level_for(table, wanted, viewpoint.role, "ids", where)
    return (yield from rows_of(level, wanted, {**values, "ids": ids}))


def rows_of_ids(table: Table, viewpoint: Viewpoint, ids: list[int], wanted: Wanted) -> list[Row]:
    """Rows of which only the ids are wanted, and these are at hand."""
    level = level_for(table, wanted, viewpoint.role, "ids")
    return [level.make((id,)) for id in ids]


def as_page(rows: list[Row], window: Window, total: int | None) -> Page:
    """One row more than wanted was asked for: it only tells that there is a next page."""
    has_previous = window.with_rows and (window.offset > 0 or window.before != Window().before)
    return Page(window.key, rows[: window.first], len(rows) > window.first, has_previous, total)


# --- running the levels of a plan -----------------------------------------------------------------


def rows_of(
    level: Level,
    wanted: Wanted,
    values: Values,
    window: Window | None = None,
    parent_of: Callable[[Any], Any] = lambda row: None,
) -> Operation[list[Row]]:
    found = yield level.statement, values
    if not level.children or not found:
        return list(map(level.make, found))
    beyond: list[Any] = []
    if window is not None:
        found, beyond = apart(found, window.first, parent_of)
    linked = []
    for child in level.children:
        linked.append((yield from linked_rows(child, wanted, found, values)))
    linked.reverse()  # as lay_out_child wants it
    rows = [
        level.make((*one, *children)) for one, children in zip(found, zip(*linked, strict=True), strict=True)
    ]
    return rows + list(map(level.make, beyond))


def apart(found: list[Any], first: int, parent_of: Callable[[Any], Any]) -> tuple[list[Any], list[Any]]:
    """What is on the pages, and what is beyond them: nothing linked to that is shown, so it is not read."""
    counts: Counter[Any] = Counter()
    on_page: list[Any] = []
    beyond: list[Any] = []
    for row in found:
        parent = parent_of(row)
        counts[parent] += 1
        (on_page if counts[parent] <= first else beyond).append(row)
    return on_page, beyond


def linked_rows(child: Child, wanted: Wanted, above: list[Any], values: Values) -> Operation[list[Any]]:
    """For each row above, what it is linked with."""
    at = child.at
    parents = list({row[at]: None for row in above if row[at] is not None})
    link = at_path(wanted, child.path)
    own: Values = {**values, "parents": parents}
    if child.shows is not None:
        caregiver, client, kind = child.shows
        shown = {row[at]: (row[caregiver], row[client], row[kind], row[at]) for row in above if row[at]}
        values[SHOWN] += shown.values()
    window = link.window
    if window is not None:
        own |= {**window.values, "before": window.before, "limit": window.first + 1}
    groups: dict[Any, list[Row]] = defaultdict(list)
    if window is None or window.with_rows:
        for row in (yield from rows_of(child.level, link.wanted, own, window, itemgetter(0))):
            groups[row[0]].append(row)
    if window is None:
        if child.is_single:
            return [groups[row[at]][0] if row[at] in groups else None for row in above]
        return [groups.get(row[at], []) for row in above]
    totals = dict((yield child.count, own)) if child.count is not None else None
    return [
        as_page(groups.get(row[at], []), window, None if totals is None else totals.get(row[at], 0))
        for row in above
    ]


def at_path(wanted: Wanted, path: tuple[int, ...]) -> Any:
    """The link at this place of the selection: a plan is shared, the values in the selection are not."""
    link = wanted.links[path[0]]
    for index in path[1:]:
        link = link.wanted.links[index]
    return link
