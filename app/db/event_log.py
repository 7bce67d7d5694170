"""Reads the event log of a viewer, from an event id on."""

from datetime import datetime
from functools import lru_cache
from typing import Any, NamedTuple

from sqlalchemy import ColumnElement, literal_column, select
from sqlalchemy.sql.elements import ClauseElement

from app.db.reader.entities import known_moment, table_of
from app.db.reader.relationship import relationship_key
from app.db.reader.selection import ViewerRole
from app.db.sql import (
    DatabaseKind,
    Statement,
    count_parameter,
    id_parameter,
    moment_parameter,
)
from app.db.tables import Event, EventKind

EVENT = table_of(Event).c


class LoggedEvent(NamedTuple):
    """An event, as subscriptions receive it."""

    id: int
    kind: str
    stored_moment: Any
    session_id: int
    assignment_id: int | None
    reminder_id: int | None

    @property
    def moment(self) -> datetime:
        return known_moment(self.stored_moment)


def belongs(role: ViewerRole, kind: DatabaseKind) -> ColumnElement[bool]:
    return relationship_key(table_of(Event), role, kind, leads=True)


def is_one_of(kinds: tuple[EventKind, ...]) -> ColumnElement[bool]:
    return EVENT.kind.in_([literal_column(f"'{kind.value}'") for kind in kinds])


@lru_cache(maxsize=64)
def events_from(role: ViewerRole, kinds: tuple[EventKind, ...], in_session: bool) -> Statement:
    """The events after the id `floor`, in the order of their ids."""

    def build(kind: DatabaseKind) -> ClauseElement:
        columns = (
            EVENT.id,
            EVENT.kind,
            EVENT.moment,
            EVENT.session_id,
            EVENT.assignment_id,
            EVENT.reminder_id,
        )
        found = select(*columns).where(
            belongs(role, kind), EVENT.id > id_parameter("floor"), is_one_of(kinds)
        )
        if in_session:
            found = found.where(EVENT.session_id == id_parameter("watched"))
        return found.order_by(EVENT.id).limit(count_parameter("limit"))

    return Statement(build)


@lru_cache(maxsize=8)
def newest_stable_event(role: ViewerRole) -> Statement:
    """The newest event between `floor` and `top` before which no concurrent transaction can add one."""

    def build(kind: DatabaseKind) -> ClauseElement:
        return (
            select(EVENT.id)
            .where(
                belongs(role, kind),
                EVENT.id > id_parameter("floor"),
                EVENT.id <= id_parameter("top"),
                EVENT.moment <= moment_parameter("stable_before"),
            )
            .order_by(EVENT.id.desc())
            .limit(1)
        )

    return Statement(build)


@lru_cache(maxsize=64)
def find_event(role: ViewerRole, kinds: tuple[EventKind, ...]) -> Statement:
    def build(kind: DatabaseKind) -> ClauseElement:
        return select(EVENT.id).where(
            belongs(role, kind), EVENT.id == id_parameter("event"), is_one_of(kinds)
        )

    return Statement(build)
