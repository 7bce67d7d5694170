"""Statements of the dispatcher, for due reminders and waiting events.

The dispatcher finds rows of all caregivers and takes them by statements that name one caregiver. To take a
row is to lock it: another dispatcher skips it on PostgreSQL, and on SQLite writes later and finds nothing.
"""

import re
from typing import Any

from sqlalchemy import (
    ColumnElement,
    FromClause,
    Select,
    Text,
    and_,
    bindparam,
    insert,
    literal,
    select,
    text,
    true,
    update,
)
from sqlalchemy.sql.compiler import SQLCompiler
from sqlalchemy.sql.elements import ClauseElement

from app.db.reader.access import has_caregiver_of, is_not_withdrawn, is_of_caregiver
from app.db.sql import (
    DIALECTS,
    DatabaseKind,
    Statement,
    among,
    id_parameter,
    literal_text,
    moment_parameter,
    text_parameter,
)
from app.db.tables import (
    ASSIGNMENT,
    DELIVERY,
    EVENT,
    REMINDER,
    SESSION,
    Actor,
    AssignmentStatus,
    DeliveryState,
    EventKind,
    ReminderState,
)

SEARCH_LIMIT = 500  # rows that one search finds


def has_state(row: FromClause, state: str) -> ColumnElement[bool]:
    """The state as a literal, because a database chooses a partial index before it knows the parameters."""
    return row.c.state == literal_text(state)


PARAMETER = re.compile(r"\$(\d+)")
ROWS_OF_SHARDS = """
SELECT {columns} FROM run_command_on_shards(CAST(:of_table AS regclass), format(:command, {values})) AS shard
CROSS JOIN LATERAL json_array_elements(CAST(shard.result AS json)) WITH ORDINALITY AS found (value, place)
WHERE shard.success AND shard.result <> '' ORDER BY found.place LIMIT :{limit}
"""


def of_all_caregivers(rows: Select[Any]) -> Statement:
    """A search in the rows of all caregivers. On Citus it leaves out the rows of machines that are down, so
    that they do not stop the dispatcher for others."""

    def build(kind: DatabaseKind) -> ClauseElement:
        if kind != "citus":
            return rows
        table = rows.columns_clause_froms[0].description
        compiled = rows.compile(dialect=DIALECTS[kind])
        assert isinstance(compiled, SQLCompiler)
        shard = compiled.string.replace(f"FROM {table} ", f"FROM %s AS {table} ").replace("%", "%%")
        shard = PARAMETER.sub(r"%\1$L", shard)
        command = f"SELECT json_agg(found) FROM ({shard}) AS found"
        columns = [f"CAST(found.value->>'{column.name}' AS bigint)" for column in rows.selected_columns]
        names = list(dict.fromkeys(compiled.positiontup or ()))
        binds = [compiled.binds[name] for name in names]
        values = [
            bindparam(name, None if bind.required else bind.value, bind.type, required=bind.required)
            for name, bind in zip(names, binds, strict=True)
        ]
        sql = ROWS_OF_SHARDS.format(
            columns=", ".join(columns), limit=names[-1], values=", ".join(f":{name}" for name in names)
        )
        return text(sql).bindparams(
            bindparam("of_table", table, type_=Text), bindparam("command", command, type_=Text), *values
        )

    return Statement(build)


# --- due reminders --------------------------------------------------------------------------------

IS_DUE = and_(has_state(REMINDER, ReminderState.SCHEDULED), REMINDER.c.remind_date <= moment_parameter("now"))
IS_AMONG_REMINDERS = and_(is_of_caregiver(REMINDER), among(REMINDER.c.id, "reminders"))
# An INSERT on Citus needs the join of the caregivers too.
ITS_ASSIGNMENT = and_(
    ASSIGNMENT.c.id == REMINDER.c.assignment_id,
    is_of_caregiver(ASSIGNMENT),
    has_caregiver_of(ASSIGNMENT, REMINDER),
)
ITS_SESSION = and_(SESSION.c.id == ASSIGNMENT.c.session_id, is_of_caregiver(SESSION))
CAN_BE_ANSWERED = and_(
    ASSIGNMENT.c.status == AssignmentStatus.PENDING.value,
    is_not_withdrawn(ASSIGNMENT),
    SESSION.c.is_closed != true(),
)


def insert_reminder_events() -> Statement:
    """Inserts one event for each of `reminders`."""
    columns: dict[str, Any] = {
        "caregiver_id": id_parameter("caregiver"),
        "client_id": REMINDER.c.client_id,
        "kind": literal(EventKind.REMINDER_DUE.value),
        "actor": literal(Actor.SERVICE.value),
        "session_id": ASSIGNMENT.c.session_id,
        "assignment_id": REMINDER.c.assignment_id,
        "reminder_id": REMINDER.c.id,
        "moment": moment_parameter("now"),
    }
    rows = (
        select(*columns.values())
        .select_from(REMINDER.join(ASSIGNMENT, ITS_ASSIGNMENT))
        .where(IS_AMONG_REMINDERS)
        .order_by(REMINDER.c.remind_date, REMINDER.c.id)
    )
    return Statement(insert(EVENT).from_select(list(columns), rows), adds_events=True)


FIND_DUE_REMINDERS = of_all_caregivers(
    select(REMINDER.c.caregiver_id, REMINDER.c.id)
    .where(IS_DUE)
    .order_by(REMINDER.c.remind_date, REMINDER.c.caregiver_id)
    .limit(SEARCH_LIMIT)
)
# Locks the `reminders` that are still due; each with whether its assignment can still be answered.
#
# Also locks what every change of a session or an assignment locks first: the rows of FROM in their order.
# Either the change waits until the reminder is sent, or this statement leaves it to the next search, so that
# the event of the one that was made first has the lower position.
TAKE_REMINDERS = Statement(
    select(REMINDER.c.id, CAN_BE_ANSWERED)
    .select_from(SESSION.join(ASSIGNMENT, ITS_SESSION).join(REMINDER, ITS_ASSIGNMENT))
    .where(IS_AMONG_REMINDERS, IS_DUE)
    .order_by(REMINDER.c.remind_date, REMINDER.c.id)
    .with_for_update(skip_locked=True, key_share=True)
)
MARK_REMINDERS = Statement(update(REMINDER).where(IS_AMONG_REMINDERS).values(state=text_parameter("to")))
INSERT_REMINDER_EVENTS = insert_reminder_events()

# --- waiting events -------------------------------------------------------------------------------

IS_WAITING = EVENT.c.hand_over_date.is_(None)
IS_AMONG_EVENTS = and_(is_of_caregiver(EVENT), among(EVENT.c.id, "events"))


def add_deliveries() -> Statement:
    """Adds a delivery for each of `events` except saved drafts, which only the client may see."""
    columns: dict[str, Any] = {
        "caregiver_id": id_parameter("caregiver"),
        "client_id": EVENT.c.client_id,
        "event_id": EVENT.c.id,
        "state": literal(DeliveryState.WAITING.value),
        "attempts": literal(0),
        "next_date": moment_parameter("now"),
    }
    rows = select(*columns.values()).where(IS_AMONG_EVENTS, EVENT.c.kind != EventKind.DRAFT_SAVED.value)
    return Statement(insert(DELIVERY).from_select(list(columns), rows))


FIND_WAITING_EVENTS = of_all_caregivers(
    select(EVENT.c.caregiver_id, EVENT.c.id)
    .where(IS_WAITING, EVENT.c.moment <= moment_parameter("until"))
    .order_by(EVENT.c.moment, EVENT.c.caregiver_id)
    .limit(SEARCH_LIMIT)
)
# Locks the `events` that still wait.
TAKE_EVENTS = Statement(
    select(EVENT.c.id)
    .where(IS_AMONG_EVENTS, IS_WAITING)
    .order_by(EVENT.c.id)
    .with_for_update(skip_locked=True)
)
MARK_EVENTS_QUEUED = Statement(
    update(EVENT).where(IS_AMONG_EVENTS).values(hand_over_date=moment_parameter("now"))
)
ADD_DELIVERIES = add_deliveries()
