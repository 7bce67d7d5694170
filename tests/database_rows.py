"""What is stored: every row of every table, to be compared before and after. The audit trail aside, where
what is refused leaves a record, and the calls of the legacy paths, which are counted and written later."""

import json
from typing import Any

from sqlalchemy import Column, DateTime, Table, select
from sqlmodel import SQLModel

from app.db.moments import as_moment
from app.db.session_counters import Difference, differences
from app.db.sql import Statement, Steps
from tests.callers import Gateway

Row = dict[str, Any]
Stored = dict[str, list[Row]]  # by the table's name


def every_row(table: Table) -> Statement:
    return Statement(lambda kind: select(table).order_by(*table.primary_key))


EVERY_ROW = {
    table: every_row(table)
    for table in SQLModel.metadata.sorted_tables
    if not table.name.startswith(("audit_", "legacy_"))
}


def all_rows() -> Steps[Stored]:
    found = {}
    for table, statement in EVERY_ROW.items():
        found[table.name] = [
            {column.name: value_of(column, value) for column, value in zip(table.columns, row, strict=True)}
            for row in (yield statement, {})
        ]
    return found


def value_of(column: Column[Any], stored: Any) -> Any:
    if column.name == "answers":
        return json.loads(stored)
    return as_moment(stored) if isinstance(column.type, DateTime) else stored


def stored(gateway: Gateway) -> Stored:
    """Every row of every table, oldest first."""
    return gateway.read(all_rows())


def added(before: Stored, after: Stored, table: str) -> list[Row]:
    """The rows that are new, without the ids of their own."""
    there = {row["id"] for row in before[table]}
    return [
        {name: value for name, value in row.items() if name != "id"}
        for row in after[table]
        if row["id"] not in there
    ]


def changed(before: Stored, after: Stored) -> dict[str, dict[int, Row]]:
    """What became of the rows that were there: by table and id the columns that are others now. A row that
    is gone has none left."""
    found: dict[str, dict[int, Row]] = {}
    for table, rows in before.items():
        now = {row["id"]: row for row in after[table] if "id" in row}
        for row in rows:
            if "id" in row and now.get(row["id"]) != row:
                left = now.get(row["id"], {})
                moved = {name: value for name, value in left.items() if value != row[name]}
                found.setdefault(table, {})[row["id"]] = moved
    return found


def added_events(before: Stored, after: Stored) -> list[tuple[Any, ...]]:
    """The new events: kind, actor, relationship, session, assignment and time."""
    names = ("kind", "actor", "caregiver_id", "client_id", "session_id", "assignment_id", "moment")
    return [tuple(row[name] for name in names) for row in added(before, after, "event")]


PARENTS = {
    "session_id": "session",
    "assignment_id": "assignment",
    "reminder_id": "reminder",
    "event_id": "event",
}


def of_other_people(rows: Stored) -> list[tuple[str, Row]]:
    """The rows, with their tables, whose caregiver or client is not that of a row that they belong to."""
    people = {
        (table, row["id"]): (row["caregiver_id"], row["client_id"])
        for table in PARENTS.values()
        for row in rows[table]
    }
    return [
        (table, row)
        for table, of_table in rows.items()
        for row in of_table
        for name, parent in PARENTS.items()
        if (parent, row.get(name)) in people
        and people[parent, row[name]] != (row["caregiver_id"], row["client_id"])
    ]


def wrong_counters(gateway: Gateway) -> list[Difference]:
    return gateway.read(differences())
