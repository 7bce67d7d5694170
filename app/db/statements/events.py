"""Statements that insert events, in the transaction of the change."""

from typing import Any

from sqlalchemy import Insert, Select, Text, cast, func, insert, null, select
from sqlalchemy.sql.elements import ClauseElement

from app.db.reader.entities import table_of
from app.db.sql import (
    DatabaseKind,
    Statement,
    each,
    id_parameter,
    in_order,
    moment_parameter,
    text_parameter,
)
from app.db.tables import Event, Id

EVENT = table_of(Event)
CHANNEL = "care_event"  # the channel on which PostgreSQL sends the caregiver and the client of an event


def insert_events(kind: DatabaseKind, rows: Select[Any], columns: list[str]) -> Insert:
    """PostgreSQL notifies listeners when the transaction commits; SQLite is polled."""
    added = insert(EVENT).from_select(columns, rows)
    if kind == "sqlite":
        return added
    parties = cast(EVENT.c.caregiver_id, Text) + " " + cast(EVENT.c.client_id, Text)
    return added.returning(func.pg_notify(CHANNEL, parties))


def insert_assignment_events(kind: DatabaseKind) -> ClauseElement:
    """Inserts one event for each of `assignments`."""
    assignments = each("assignments", kind)
    columns: dict[str, Any] = {
        "caregiver_id": id_parameter("caregiver"),
        "client_id": id_parameter("client"),
        "kind": text_parameter("event"),
        "actor": text_parameter("actor"),
        "session_id": id_parameter("session"),
        "assignment_id": assignments.c.value,
        "moment": moment_parameter("now"),
    }
    rows = in_order(select(*columns.values()).select_from(assignments), kind, assignments)
    return insert_events(kind, rows, list(columns))


def insert_session_events(kind: DatabaseKind) -> ClauseElement:
    """Inserts one event for each of `sessions`."""
    sessions = each("sessions", kind)
    columns: dict[str, Any] = {
        "caregiver_id": id_parameter("caregiver"),
        "client_id": id_parameter("client"),
        "kind": text_parameter("event"),
        "actor": text_parameter("actor"),
        "session_id": sessions.c.value,
        "assignment_id": cast(null(), Id),
        "moment": moment_parameter("now"),
    }
    rows = in_order(select(*columns.values()).select_from(sessions), kind, sessions)
    return insert_events(kind, rows, list(columns))


INSERT_ASSIGNMENT_EVENTS = Statement(insert_assignment_events)
INSERT_SESSION_EVENTS = Statement(insert_session_events)
