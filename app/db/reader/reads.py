"""Reads: a page of rows or rows by id, with their selected linked rows.

levels.py reads them on SQLite, document.py on PostgreSQL, and on Citus wherever one machine has all rows.
"""

from functools import cache
from typing import Any

from app.db.reader import document, levels
from app.db.reader.access import ReaderScope, reading_scope_values, scope_values
from app.db.reader.plans import Page, Row, plan_rows
from app.db.reader.queries import CountedBy
from app.db.reader.selection import AccessScope, PageRequest, ReaderRole, Selection, Where
from app.db.sql import DATABASE_KIND, Steps
from app.db.tables import Table

__all__ = ["CountedBy", "Page", "Row", "get_rows", "list_rows", "rows_of_ids"]


def list_rows(
    table: Table,
    access: AccessScope,
    request: PageRequest,
    selection: Selection,
    counted_by: CountedBy | None = None,
) -> Steps[Page]:
    """One page of a list."""
    counted = counted_by or CountedBy(table, None, request.where)
    reader, scope = yield from choosing_reader(access)
    page: Page = yield from reader.reading_page(table, scope, request, selection, counted)
    return page


def get_rows(
    table: Table, access: AccessScope, ids: list[int], selection: Selection, where: tuple[Where, ...] = ()
) -> Steps[list[Row]]:
    """The rows that the viewer may see, in the order of their ids."""
    reader, scope = yield from choosing_reader(access)
    rows: list[Row] = yield from reader.reading_ids(table, scope, ids, selection, where)
    return rows


def choosing_reader(access: AccessScope) -> Steps[tuple[Any, ReaderScope]]:
    """The module for this database and viewer. PostgreSQL finds the caregivers of a client in the statement
    itself. Citus must know them before, to find the machines: one has all rows of a single caregiver."""
    (kind,) = yield DATABASE_KIND
    role: ReaderRole = access.role
    if kind == "sqlite":
        return levels, ReaderScope(kind, role, (yield from reading_scope_values(access)), access.shown)
    if role != "client":
        return document, ReaderScope(kind, role, scope_values(access), access.shown)
    if kind == "postgresql":
        return document, ReaderScope(kind, "client in a document", scope_values(access), access.shown)
    values = yield from reading_scope_values(access)
    if len(values["caregivers"]) != 1:
        return levels, ReaderScope(kind, role, values, access.shown)
    values["caregivers"] = values["caregivers"][0]
    return document, ReaderScope(kind, "client in a document", values, access.shown)


def rows_of_ids(table: Table, access: AccessScope, ids: list[int], selection: Selection) -> list[Row]:
    """Rows with only their ids selected, without a statement."""
    assert selection.is_only_ids
    return list(map(row_class_of_ids(table), zip(ids, strict=True)))


@cache
def row_class_of_ids(table: Table) -> type[Row]:
    return plan_rows(table, Selection(frozenset({"id"})), "anonymous", "ids")[0].row_class
