"""Read operations: a page of rows or rows by id, with their selected linked rows.

levels.py reads them on SQLite, document.py on PostgreSQL.
"""

from app.db.reader import document, levels
from app.db.reader.plans import Page, Row, plan_of
from app.db.reader.queries import CountedBy
from app.db.reader.selection import AccessScope, PageRequest, Selection, Where
from app.db.sql import DATABASE_KIND, Operation
from app.db.tables import Table

__all__ = ["CountedBy", "Page", "Row", "get_rows", "list_rows", "rows_of_ids"]


def list_rows(
    table: Table,
    access: AccessScope,
    request: PageRequest,
    selection: Selection,
    counted_by: CountedBy | None = None,
) -> Operation[Page]:
    """One page of a list."""
    counted = counted_by or CountedBy(table, None, request.where)
    (kind,) = yield DATABASE_KIND
    reading_page = document.reading_page if kind == "postgresql" else levels.reading_page
    return (yield from reading_page(table, access, request, selection, counted))


def get_rows(
    table: Table, access: AccessScope, ids: list[int], selection: Selection, where: tuple[Where, ...] = ()
) -> Operation[list[Row]]:
    """The rows that the viewer may see, in the order of their ids."""
    (kind,) = yield DATABASE_KIND
    reading_ids = document.reading_ids if kind == "postgresql" else levels.reading_ids
    return (yield from reading_ids(table, access, ids, selection, where))


def rows_of_ids(table: Table, access: AccessScope, ids: list[int], selection: Selection) -> list[Row]:
    """Rows with only their ids selected, without a statement."""
    node = plan_of(table, selection, access.role, "ids")
    return [node.row_class((id,)) for id in ids]
