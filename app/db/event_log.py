"""Reads the event log of a viewer, from an event id on."""

from datetime import datetime
from functools import lru_cache
from typing import Any, NamedTuple

from sqlalchemy import ColumnElement, select

from app.db.moments import known_moment
from app.db.reader.access import relationship_key
from app.db.reader.selection import ViewerRole
from app.db.sql import (
    Statement,
    count_parameter,
    id_parameter,
    literal_text,
    moment_parameter,
    only_on_postgresql,
)
from app.db.tables import EVENT, EventKind


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


def is_of_kind(kinds: tuple[EventKind, ...]) -> ColumnElement[bool]:
    return EVENT.c.kind.in_([literal_text(kind) for kind in kinds])


@lru_cache(maxsize=64)
def events_from(role: ViewerRole, kinds: tuple[EventKind, ...], in_session: bool) -> Statement:
    """The events after the id `floor`, in the order of their ids."""
    found = select(*EVENT.c["id", "kind", "moment", "session_id", "assignment_id", "reminder_id"]).where(
        relationship_key(EVENT, role, uses_index=True), EVENT.c.id > id_parameter("floor"), is_of_kind(kinds)
    )
    if in_session:
        found = found.where(EVENT.c.session_id == id_parameter("watched"))
    return Statement(found.order_by(EVENT.c.id).limit(count_parameter("limit")))


@lru_cache(maxsize=8)
def newest_event(
    role: ViewerRole, is_old: bool = False, kinds: tuple[EventKind, ...] | None = None
) -> Statement:
    """The newest event between `floor` and `top`, or the newest from before the moment `old`."""
    found = select(EVENT.c.id).where(
        relationship_key(EVENT, role, uses_index=True),
        EVENT.c.id > id_parameter("floor"),
        EVENT.c.id <= id_parameter("top"),
    )
    if is_old:
        found = found.where(EVENT.c.moment <= moment_parameter("old"))
    if kinds is not None:
        found = found.where(is_of_kind(kinds))
    return Statement(found.order_by(EVENT.c.id.desc()).limit(1))


# Every transaction that has changed something locks its own id until its changes are visible or undone.
# Each role may read the locks of all.
OPEN_TRANSACTIONS = only_on_postgresql(
    "SELECT CAST(transactionid AS text) FROM pg_locks"
    " WHERE locktype = 'transactionid' AND mode = 'ExclusiveLock' AND granted"
)


@lru_cache(maxsize=64)
def find_event(role: ViewerRole, kinds: tuple[EventKind, ...]) -> Statement:
    return Statement(
        select(EVENT.c.id).where(
            relationship_key(EVENT, role, uses_index=True),
            EVENT.c.id == id_parameter("event"),
            is_of_kind(kinds),
        )
    )
