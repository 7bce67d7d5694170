"""Reads slowly and obviously what `list_rows` and `get_rows` read: all rows at hand, one loop per parent.

Which row may be seen, which draft is whose and what order a list has is written here once more, in Python.
"""

from collections.abc import Callable
from datetime import datetime
from typing import Any

from app.db.moments import Moment, as_moment
from app.db.reader.entities import ENTITIES, ToOne
from app.db.reader.reads import Page
from app.db.reader.selection import FIRST, NEWEST, AccessScope, Link, PageRequest, Selection
from app.db.tables import Table
from tests.db.random_world import PlainRow, PlainWorld, name_of

CARE = {"session", "assignment", "reminder", "answer_set", "answer", "feedback"}
Keep = Callable[[PlainRow], bool]
Said = dict[str, Any]

IN_ORDER = {
    "questions": lambda row: row["position"],
    "assignments": lambda row: -row["id"],
    "answer_sets": lambda row: (-row["attempt"], -row["id"]),
    "draft": lambda row: -row["id"],
    "feedbacks": lambda row: row["id"],
    "feedback": lambda row: row["id"],
    "reminders": lambda row: (row["remind_date"], row["id"]),
    "answers": lambda row: row["position"],
}


# Where pending assignments without an end date and submitted ones stand among those that are due.
UNENDING = datetime.fromisoformat("9999-12-30T00:00:00Z")
SUBMITTED = datetime.fromisoformat("9999-12-31T00:00:00.000000Z")


def due(row: PlainRow) -> datetime:
    if row["status"] != "PENDING":
        return SUBMITTED
    end: datetime | None = row["end_date"]
    return UNENDING if end is None else end


PLACES: dict[str, Callable[[PlainRow], tuple[datetime, int]]] = {
    "DUE_SOONEST": lambda row: (due(row), row["id"]),
    "STARTS_SOONEST": lambda row: (row["start_date"], row["id"]),
}


class ObviousReader:
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
        hers = {row["caregiver_id"] for row in self.world["relationship"] if row["client_id"] == client}
        return [row for row in rows if row["client_id"] == client and row["caregiver_id"] in hers]

    def one(self, table: Table, row_id: int | None) -> PlainRow | None:
        return next((row for row in self.visible(table) if row["id"] == row_id), None)

    def get_rows(self, table: Table, ids: list[int], wanted: Selection) -> list[Said]:
        rows = sorted((row for row in self.visible(table) if row["id"] in ids), key=lambda row: row["id"])
        return [self.say(table, row, wanted) for row in rows]

    def list_rows(self, table: Table, window: PageRequest, keep: Keep, wanted: Selection) -> Said:
        return self.page(table, [row for row in self.visible(table) if keep(row)], window, wanted)

    def page(self, table: Table, rows: list[PlainRow], window: PageRequest, wanted: Selection) -> Said:
        total = len(rows) if window.with_total else None
        if not window.with_rows:
            return {"rows": [], "has_next": False, "has_previous": False, "total": total}
        if window.order is None:
            in_order = sorted((r for r in rows if r["id"] < window.before), key=lambda r: -r["id"])
            is_later = window.before != NEWEST
        else:
            place = PLACES[window.order.name]
            in_order = sorted((r for r in rows if place(r) > window.after), key=place)
            is_later = window.after != FIRST
        behind = in_order[window.offset :]
        return {
            "rows": [self.say(table, row, wanted) for row in behind[: window.first]],
            "has_next": len(behind) > window.first,
            "has_previous": window.offset > 0 or is_later,
            "total": total,
        }

    def say(self, table: Table, row: PlainRow, wanted: Selection) -> Said:
        said = {name: self.access.now if name == "now" else row[name] for name in wanted.columns}
        return said | {key_of(link): self.linked(table, row, link) for link in wanted.links}

    def linked(self, table: Table, row: PlainRow, link: Link) -> Any:
        known = ENTITIES[table].links[link.name]
        if isinstance(known, ToOne):
            found = self.one(known.target, row[known.key])
            return None if found is None else self.say(known.target, found, link.selection)
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
        said = [
            self.say(known.target, child, link.selection) for child in sorted(rows, key=IN_ORDER[link.name])
        ]
        if link.name in ("draft", "feedback"):
            return said[0] if said else None
        return said


def as_said(found: Any, wanted: Selection) -> Any:
    """What the service read, in the form in which the obvious reader says it."""
    if isinstance(found, Page):
        return {
            "rows": as_said(found.rows, wanted),
            "has_next": found.has_next,
            "has_previous": found.has_previous,
            "total": found.total,
        }
    if isinstance(found, list):
        return [as_said(row, wanted) for row in found]
    if found is None:
        return None
    said = {name: said_of(found, name) for name in wanted.columns}
    return said | {key_of(link): as_said(linked_to(found, link), link.selection) for link in wanted.links}


def said_of(row: Any, name: str) -> Any:
    """The value; a moment as a moment, whatever the database keeps it as."""
    value = getattr(row, name)
    is_moment = name == "now" or isinstance(ENTITIES[row.table].columns[name].type, Moment)
    return as_moment(value) if is_moment else value


def key_of(link: Link) -> str:
    return link.name if link.page is None else link.page.key


def linked_to(found: Any, link: Link) -> Any:
    if link.page is None:
        return getattr(found, link.name)
    (page,) = [page for page in found.pages if page.key == link.page.key]
    return page


def exact(said: Any) -> Any:
    """With the type of every value beside it: 1 is not True here."""
    if isinstance(said, dict):
        return {name: exact(value) for name, value in said.items()}
    if isinstance(said, list):
        return [exact(value) for value in said]
    if isinstance(said, datetime):
        assert said.tzinfo is not None
    return type(said).__name__, said
