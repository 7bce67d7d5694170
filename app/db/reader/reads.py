"""Read operations for a page and for rows by id, with their selected linked rows."""

from collections import Counter, defaultdict
from collections.abc import Callable
from dataclasses import dataclass
from operator import itemgetter
from typing import Any

from sqlalchemy import select

from app.db.reader.entities import Table, table_of
from app.db.reader.plans import Adds, Child, PlanNode, Row, count_of_rows, level_for
from app.db.reader.selection import AccessScope, Order, PageRequest, ReaderRole, Selection, Where
from app.db.sql import Operation, Statement, Values, id_parameter
from app.db.tables import Relationship

__all__ = ["CountedBy", "Page", "Row", "get_rows", "list_rows", "rows_of_ids"]


@dataclass(frozen=True, slots=True)
class Page:
    key: str
    rows: list[Row]
    has_next: bool
    has_previous: bool
    total: int | None
    order: Order | None = None


@dataclass(frozen=True)
class CountedBy:
    """A total as the sum of a stored counter, so that no long list is counted."""

    table: Table
    adds: Adds | None
    where: tuple[Where, ...]


Key = Callable[[Any], Any]
Read = tuple[Statement, Values]

PARENT: Key = itemgetter(0)  # the first column of linked rows is the id of their parent
SHOWN = "shown"  # a value that no statement has as a parameter

RELATIONSHIP = table_of(Relationship).c
CAREGIVERS_OF_CLIENT = Statement(
    lambda kind: select(RELATIONSHIP.caregiver_id).where(RELATIONSHIP.client_id == id_parameter("client"))
)


def seen_from(access: AccessScope) -> Operation[Values]:
    """The values of the relationship key; reads the caregivers of a client first."""
    values: Values = {
        "now": access.now,
        "time_zone": access.time_zone,
        "client": access.client,  # None for a caregiver, who sees no drafts (entities.is_own_draft)
        SHOWN: access.shown,
    }
    if access.client is None:
        values["caregiver"] = access.caregiver
    else:
        values["caregivers"] = [row[0] for row in (yield CAREGIVERS_OF_CLIENT, {"client": access.client})]
    return values


def read_from(access: AccessScope) -> Operation[tuple[ReaderRole, Values]]:
    """The same for the statements of a plan, which use no list for a client with one caregiver."""
    values = yield from seen_from(access)
    if access.client is None or len(values["caregivers"]) != 1:
        return access.role, values
    return "client of one", {**values, "caregivers": values["caregivers"][0]}


def list_rows(
    table: Table,
    access: AccessScope,
    window: PageRequest,
    wanted: Selection,
    counted_by: CountedBy | None = None,
) -> Operation[Page]:
    """One page of a list."""
    role, values = yield from read_from(access)
    values |= window.values
    total = None
    if window.with_total:
        counter = counted_by or CountedBy(table, None, window.where)
        count = count_of_rows(counter.table, role, counter.where, counter.adds)
        total = int((yield count, values)[0][0])
    if not window.with_rows:
        return as_page([], window, total)
    level = level_for(table, wanted, role, "page", window.where, window.order)
    values |= {**window.bounds, "limit": window.first + 1, "offset": window.offset}
    rows = yield from rows_of(level, wanted, (level.statement, values), window)
    return as_page(rows, window, total)


def get_rows(
    table: Table, access: AccessScope, ids: list[int], wanted: Selection, where: tuple[Where, ...] = ()
) -> Operation[list[Row]]:
    """The rows that the viewer may see, in the order of their ids."""
    role, values = yield from read_from(access)
    level = level_for(table, wanted, role, "ids", where)
    return (yield from rows_of(level, wanted, read_of_ids(level, values, "ids", ids)))


def rows_of_ids(table: Table, access: AccessScope, ids: list[int], wanted: Selection) -> list[Row]:
    """Rows with only their ids selected, without a statement."""
    level = level_for(table, wanted, access.role, "ids")
    return [level.row((id,)) for id in ids]


def as_page(rows: list[Row], window: PageRequest, total: int | None) -> Page:
    """The statement reads one more row than requested, which shows that there is a next page."""
    has_previous = window.with_rows and window.is_later_page
    has_next = len(rows) > window.first
    return Page(window.key, rows[: window.first], has_next, has_previous, total, window.order)


# --- running the levels of a plan -----------------------------------------------------------------


def rows_of(
    level: PlanNode, wanted: Selection, read: Read, window: PageRequest | None = None, key: Key | None = None
) -> Operation[list[Row]]:
    """The rows of a statement with their linked rows; `key` gives the parent of a row in a read of pages."""
    found = yield read
    if not level.children or not found:
        return list(map(level.row, found))
    beyond: list[Any] = []
    if window is not None:
        found, beyond = apart(found, window.first, key)
    linked = []
    for child in level.children:
        linked.append((yield from linked_rows(child, wanted, found, read[1])))
    linked.reverse()  # the order that lay_out_child uses
    rows = [
        level.row((*one, *children)) for one, children in zip(found, zip(*linked, strict=True), strict=True)
    ]
    return rows + list(map(level.row, beyond))


def apart(found: list[Any], first: int, key: Key | None) -> tuple[list[Any], list[Any]]:
    """Separates the rows on the pages from the rows after them, whose linked rows are not read."""
    if key is None:
        return found[:first], found[first:]
    counts: Counter[Any] = Counter()
    on_page: list[Any] = []
    beyond: list[Any] = []
    for row in found:
        parent = key(row)
        counts[parent] += 1
        (on_page if counts[parent] <= first else beyond).append(row)
    return on_page, beyond


def linked_rows(child: Child, wanted: Selection, above: list[Any], values: Values) -> Operation[list[Any]]:
    """The linked rows of each row above."""
    keys = list(map(child.key, above))
    parents = [key for key in dict.fromkeys(keys) if key is not None]
    if child.shows is not None:
        values[SHOWN] += {
            shown[-1]: shown for shown in map(child.shows, above) if shown[-1] is not None
        }.values()
    link = at_path(wanted, child.path)
    window = link.window
    if window is not None:
        values = {**values, **window.values, **window.bounds, "limit": window.first + 1}
    groups: dict[Any, list[Row]] = defaultdict(list)
    if window is None or window.with_rows:
        read = read_of_ids(child.level, values, "parents", parents)
        for row in (yield from rows_of(child.level, link.wanted, read, window, PARENT)):
            groups[row[0]].append(row)
    if window is None:
        if child.is_single:
            return [groups[key][0] if key in groups else None for key in keys]
        return [groups[key] for key in keys]
    totals = None
    if child.count is not None:
        totals = dict((yield child.count, {**values, "parents": parents}))
    return [as_page(groups[key], window, None if totals is None else totals.get(key, 0)) for key in keys]


def read_of_ids(level: PlanNode, values: Values, name: str, ids: list[int]) -> Read:
    if len(ids) == 1 and level.of_one is not None:
        return level.of_one, {**values, name: ids[0]}
    return level.statement, {**values, name: ids}


def at_path(wanted: Selection, path: tuple[int, ...]) -> Any:
    """The link at this path of the selection. Plans are shared, but values belong to a selection."""
    link = wanted.links[path[0]]
    for index in path[1:]:
        link = link.wanted.links[index]
    return link
