"""A second implementation of `list_rows` and `get_rows`: loops over all rows in Python.

The access conditions, the conditions of links and the orders of lists are repeated here in Python.
"""

from collections.abc import Callable
from datetime import datetime
from typing import Any

from sqlalchemy import DateTime

from app.db.moments import as_moment
from app.db.reader.entities import ENTITIES, ToOne
from app.db.reader.reads import Page
from app.db.reader.selection import FIRST, NEWEST, AccessScope, Link, PageRequest, Selection
from app.db.tables import Table
from tests.db.random_world import PlainRow, PlainWorld, name_of

CARE = {"session", "assignment", "reminder", "answer_set", "feedback"}
Keep = Callable[[PlainRow], bool]
PlainResult = dict[str, Any]

IN_ORDER = {
    "questions": lambda row: row["position"],
    "assignments": lambda row: -row["id"],
    "answer_sets": lambda row: (-row["attempt"], -row["id"]),
    "draft": lambda row: -row["id"],
    "feedbacks": lambda row: row["id"],
    "feedback": lambda row: row["id"],
    "reminders": lambda row: (row["remind_date"], row["id"]),
}


# The due dates of pending assignments without an end date, and of submitted assignments.
WITHOUT_END_DATE = datetime.fromisoformat("9999-12-30T00:00:00Z")
SUBMITTED = datetime.fromisoformat("9999-12-31T00:00:00.000000Z")


def due(row: PlainRow) -> datetime:
    if row["status"] != "PENDING":
        return SUBMITTED
    end: datetime | None = row["end_date"]
    return WITHOUT_END_DATE if end is None else end


SORT_KEYS: dict[str, Callable[[PlainRow], tuple[datetime, int]]] = {
    "DUE_SOONEST": lambda row: (due(row), row["id"]),
    "STARTS_SOONEST": lambda row: (row["start_date"], row["id"]),
}


class SimpleReader:
    def __init__(self, world: PlainWorld, access: AccessScope) -> None:
        self.world = world
        self.access = access

    def visible(self, table: Table) -> list[PlainRow]:
        rows = [row for row in self.world[name_of(table)] if row.get("withdraw_date") is None]
        if name_of(table) not in CARE:
            return rows
        if self.access.caregiver is not None:
            return [row for row in rows if row["caregiver_id"] == self.access.caregiver]
        client = self.access.client
        caregivers = {row["caregiver_id"] for row in self.world["relationship"] if row["client_id"] == client}
        return [row for row in rows if row["client_id"] == client and row["caregiver_id"] in caregivers]

    def one(self, table: Table, row_id: int | None) -> PlainRow | None:
        return next((row for row in self.visible(table) if row["id"] == row_id), None)

    def get_rows(self, table: Table, ids: list[int], selection: Selection) -> list[PlainResult]:
        rows = sorted((row for row in self.visible(table) if row["id"] in ids), key=lambda row: row["id"])
        return [self.plain_row(table, row, selection) for row in rows]

    def list_rows(self, table: Table, request: PageRequest, keep: Keep, selection: Selection) -> PlainResult:
        return self.page(table, [row for row in self.visible(table) if keep(row)], request, selection)

    def page(
        self, table: Table, rows: list[PlainRow], request: PageRequest, selection: Selection
    ) -> PlainResult:
        total = len(rows) if request.with_total else None
        if not request.with_rows:
            return {"rows": [], "has_next": False, "has_previous": False, "total": total}
        if request.order is None:
            in_order = sorted((r for r in rows if r["id"] < request.before), key=lambda r: -r["id"])
            is_later = request.before != NEWEST
        else:
            sort_key = SORT_KEYS[request.order.name]
            in_order = sorted((r for r in rows if sort_key(r) > request.after), key=sort_key)
            is_later = request.after != FIRST
        remaining = in_order[request.offset :]
        return {
            "rows": [self.plain_row(table, row, selection) for row in remaining[: request.first]],
            "has_next": len(remaining) > request.first,
            "has_previous": request.offset > 0 or is_later,
            "total": total,
        }

    def plain_row(self, table: Table, row: PlainRow, selection: Selection) -> PlainResult:
        result = {name: self.access.now if name == "now" else row[name] for name in selection.columns}
        return result | {key_of(link): self.linked(table, row, link) for link in selection.links}

    def linked(self, table: Table, row: PlainRow, link: Link) -> Any:
        known = ENTITIES[table].links[link.name]
        if isinstance(known, ToOne):
            found = self.one(known.target, row[known.key])
            return None if found is None else self.plain_row(known.target, found, link.selection)
        rows = [child for child in self.visible(known.target) if child[known.key] == row["id"]]
        if link.name == "answer_sets":
            rows = [child for child in rows if child["save_type"] == "FINAL"]
        if link.name == "draft":
            rows = [
                child
                for child in rows
                if child["save_type"] != "FINAL" and child["client_id"] == self.access.client
            ]
        if link.page is not None:
            status = link.page.values.get("status")
            rows = [child for child in rows if status is None or child["status"] == status]
            return self.page(known.target, rows, link.page, link.selection)
        result = [
            self.plain_row(known.target, child, link.selection)
            for child in sorted(rows, key=IN_ORDER[link.name])
        ]
        if link.name in ("draft", "feedback"):
            return result[0] if result else None
        return result


def as_plain(found: Any, selection: Selection) -> Any:
    """A result of the service in the form of the simple reader's results."""
    if isinstance(found, Page):
        return {
            "rows": as_plain(found.rows, selection),
            "has_next": found.has_next,
            "has_previous": found.has_previous,
            "total": found.total,
        }
    if isinstance(found, list):
        return [as_plain(row, selection) for row in found]
    if found is None:
        return None
    result = {name: value_of(found, name) for name in selection.columns}
    return result | {
        key_of(link): as_plain(linked_to(found, link), link.selection) for link in selection.links
    }


def value_of(row: Any, name: str) -> Any:
    """The value of a column, with a stored moment converted."""
    value = getattr(row, name)
    is_moment = name == "now" or isinstance(ENTITIES[row.table].columns[name].type, DateTime)
    if name == "answers":
        return [list(answer) for answer in value]
    return as_moment(value) if is_moment else value


def key_of(link: Link) -> str:
    return link.name if link.page is None else link.page.key


def linked_to(found: Any, link: Link) -> Any:
    if link.page is None:
        return getattr(found, link.name)
    (page,) = [page for page in found.pages if page.key == link.page.key]
    return page


def typed(result: Any) -> Any:
    """Adds the type to every value, so that 1 differs from True."""
    if isinstance(result, dict):
        return {name: typed(value) for name, value in result.items()}
    if isinstance(result, list):
        return [typed(value) for value in result]
    if isinstance(result, datetime):
        assert result.tzinfo is not None
    return type(result).__name__, result
