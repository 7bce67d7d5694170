"""Reads every row of every table, to compare the database before and after a request.

Omits the audit log, which also records rejected requests, and the legacy usage, which is written later.
"""

from typing import Any

from sqlalchemy import Table, select
from sqlmodel import SQLModel

from app.db.moments import Moment, as_moment
from app.db.session_counters import Difference, differences
from app.db.sql import Operation, Statement
from tests.callers import Gateway

Row = dict[str, Any]
Stored = dict[str, list[Row]]  # by table name


def every_row(table: Table) -> Statement:
    return Statement(lambda kind: select(table).order_by(*table.primary_key))


EVERY_ROW = {
    table: every_row(table)
    for table in SQLModel.metadata.sorted_tables
    if not table.name.startswith(("audit_", "legacy_"))
}


def all_rows() -> Operation[Stored]:
    found = {}
    for table, statement in EVERY_ROW.items():
        found[table.name] = [
            {
                column.name: as_moment(value) if isinstance(column.type, Moment) else value
                for column, value in zip(table.columns, row, strict=True)
            }
            for row in (yield statement, {})
        ]
    return found


def stored(gateway: Gateway) -> Stored:
    """Every row of every table, by primary key."""
    return gateway.read(all_rows())


def added(before: Stored, after: Stored, table: str) -> list[Row]:
    """The new rows, without their ids."""
    known = {row["id"] for row in before[table]}
    return [
        {name: value for name, value in row.items() if name != "id"}
        for row in after[table]
        if row["id"] not in known
    ]


def changed(before: Stored, after: Stored) -> dict[str, dict[int, Row]]:
    """The changed columns of existing rows, by table and id. A deleted row has an empty dict."""
    found: dict[str, dict[int, Row]] = {}
    for table, rows in before.items():
        now = {row["id"]: row for row in after[table] if "id" in row}
        for row in rows:
            if "id" in row and now.get(row["id"]) != row:
                new = now.get(row["id"], {})
                columns = {name: value for name, value in new.items() if value != row[name]}
                found.setdefault(table, {})[row["id"]] = columns
    return found


def new_events(before: Stored, after: Stored) -> list[tuple[Any, ...]]:
    """The new events: kind, actor, caregiver, client, session, assignment, moment."""
    names = ("kind", "actor", "caregiver_id", "client_id", "session_id", "assignment_id", "moment")
    return [tuple(row[name] for name in names) for row in added(before, after, "event")]


def wrong_counters(gateway: Gateway) -> list[Difference]:
    return gateway.read(differences())
