"""Reads: a page of rows or rows by id, with their selected linked rows.

levels.py reads them on SQLite, document.py on PostgreSQL, and on Citus wherever one machine has all rows.
"""

from collections.abc import Sequence
from functools import cache
from typing import Any

from app.db.reader import document, levels
from app.db.reader.access import ReaderScope, reading_scope_values, scope_values
from app.db.reader.plans import Page, Row, plan_rows
from app.db.reader.queries import CountedBy
from app.db.reader.selection import AccessScope, PageRequest, ReaderRole, Selection, Where
from app.db.sql import DATABASE_KIND, Steps
from app.db.tables import Table

__all__ = ["CountedBy", "Page", "Row", "get_rows", "known_rows", "list_rows"]


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


def known_rows(table: Table, selection: Selection, known: Sequence[dict[str, Any]]) -> list[Row] | None:
    """Rows without a statement: their columns by name. None if more is selected."""
    if selection.links or not all(selection.columns <= each.keys() for each in known):
        return None
    row_class = row_class_of(table, selection.columns)
    names = sorted(selection.columns)
    return [row_class([each[name] for name in names]) for each in known]


@cache
def row_class_of(table: Table, columns: frozenset[str]) -> type[Row]:
    return plan_rows(table, Selection(columns), "anonymous", "ids")[0].row_class
