"""Statements that insert events, in the transaction of the change."""

from collections.abc import Callable
from typing import Any

from sqlalchemy import ColumnElement, Insert, cast, insert, null, select

from app.db.facts import Id
from app.db.sql import DatabaseKind, Statement, each, id_parameter, in_order, moment_parameter, text_parameter
from app.db.tables import EVENT

CLIENT_ID = id_parameter("client")


def columns_of_event(
    subject: dict[str, ColumnElement[Any]], client: ColumnElement[int] = CLIENT_ID
) -> dict[str, ColumnElement[Any]]:
    return {
        "caregiver_id": id_parameter("caregiver"),
        "client_id": client,
        "kind": text_parameter("event"),
        "actor": text_parameter("actor"),
        **subject,
        "moment": moment_parameter("now"),
    }


def insert_events_for_each(
    name: str, subject: Callable[[ColumnElement[int]], dict[str, ColumnElement[Any]]]
) -> Statement:
    """Inserts one event for each id in the list parameter `name`."""

    def build(kind: DatabaseKind) -> Insert:
        ids = each(name, kind)
        columns = columns_of_event(subject(ids.c.value))
        rows = in_order(select(*columns.values()).select_from(ids), kind, ids)
        return insert(EVENT).from_select(list(columns), rows)

    return Statement(build, adds_events=True)


def of_assignment(id: ColumnElement[int]) -> dict[str, ColumnElement[Any]]:
    return {"session_id": id_parameter("session"), "assignment_id": id}


INSERT_ASSIGNMENT_EVENTS = insert_events_for_each("assignments", of_assignment)
INSERT_SESSION_EVENTS = insert_events_for_each(
    "sessions", lambda id: {"session_id": id, "assignment_id": cast(null(), Id)}
)
