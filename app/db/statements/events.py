"""Statements that insert events, in the transaction of the change."""

from collections.abc import Callable
from typing import Any

from sqlalchemy import ColumnElement, Insert, cast, insert, null, select

from app.db.facts import Id
from app.db.sql import DatabaseKind, Statement, each, id_parameter, in_order, moment_parameter, text_parameter
from app.db.tables import EVENT


def insert_events_for_each(
    name: str, subject: Callable[[ColumnElement[int]], dict[str, ColumnElement[Any]]]
) -> Statement:
    """Inserts one event for each id in the list parameter `name`."""

    def build(kind: DatabaseKind) -> Insert:
        ids = each(name, kind)
        columns: dict[str, Any] = {
            "caregiver_id": id_parameter("caregiver"),
            "client_id": id_parameter("client"),
            "kind": text_parameter("event"),
            "actor": text_parameter("actor"),
            **subject(ids.c.value),
            "moment": moment_parameter("now"),
        }
        rows = in_order(select(*columns.values()).select_from(ids), kind, ids)
        return insert(EVENT).from_select(list(columns), rows)

    return Statement(build, adds_events=True)


INSERT_ASSIGNMENT_EVENTS = insert_events_for_each(
    "assignments", lambda id: {"session_id": id_parameter("session"), "assignment_id": id}
)
INSERT_SESSION_EVENTS = insert_events_for_each(
    "sessions", lambda id: {"session_id": id, "assignment_id": cast(null(), Id)}
)
