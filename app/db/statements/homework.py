"""Homework in one statement of PostgreSQL: the fast path of assigning books."""

from itertools import product
from typing import Any

from sqlalchemy import (
    CTE,
    ColumnElement,
    Text,
    bindparam,
    cast,
    exists,
    false,
    func,
    select,
    true,
    update,
)
from sqlalchemy.dialects.postgresql import aggregate_order_by
from sqlalchemy.sql.elements import ClauseElement

from app.db.audit.records import ASSIGNMENTS, Record
from app.db.reader.access import is_of_caregiver
from app.db.sql import (
    NUMBER,
    DatabaseKind,
    Statement,
    among,
    count_parameter,
    each,
    id_parameter,
    literal_text,
    moment_parameter,
)
from app.db.statements.assignments import (
    NEW_ID,
    columns_of_assignment,
    columns_of_reminder,
    insert_rows,
    moments_to_remind,
)
from app.db.statements.events import columns_of_event, of_assignment
from app.db.tables import ASSIGNMENT, AUDIT_RECORD, BOOK, CLIENT, EVENT, REMINDER, SESSION


def assign_on_fast_path(looks_for_repetition: bool, is_recorded: bool) -> Statement:
    """Returns one row: NUMBER, the client, and the ids of the new assignments. The client is NULL if the
    statement added nothing, because

    - the homework would be rejected,
    - another transaction has locked the session or the client: waiting would delay the whole batch,
    - another transaction has assigned homework in the session since this statement began,
    - a book was never assigned before and has to be marked as assigned, or
    - with `looks_for_repetition`, a book was assigned in the session since the moment `since`.
    """

    def build(kind: DatabaseKind) -> ClauseElement:
        books, moments = each("books", kind), moments_to_remind(kind)
        assignable = (
            select(BOOK.c.id)
            .select_from(books.join(BOOK, BOOK.c.id == books.c.value))
            .where(BOOK.c.retire_date.is_(None), BOOK.c.is_assigned)
            .order_by(books.c.position)
            .subquery()
        )
        new = select(NEW_ID.label("id"), assignable.c.id.label("book")).cte("new")
        conditions = [latest_assignment_is_unchanged()]
        if looks_for_repetition:
            conditions.append(~WAS_ASSIGNED)
        locked = (
            select(*SESSION.c["id", "client_id"])
            .where(IS_THE_SESSION, SESSION.c.is_closed == false())
            .where(SESSION.c.start_date <= moment_parameter("now"), *conditions)
            .with_for_update(skip_locked=True)
            .cte("locked")
        )
        # An insert locks the client for its foreign key. An erasure locks the client, then the sessions.
        with_client = (
            select(locked.c.id)
            .select_from(locked.join(CLIENT, CLIENT.c.id == locked.c.client_id))
            .with_for_update(of=CLIENT, read=True, key_share=True, skip_locked=True)
            .cte("with_client")
        )
        changed = (
            update(SESSION)
            .where(IS_THE_SESSION, SESSION.c.id == with_client.c.id)
            .where(select(func.count()).select_from(new).scalar_subquery() == count_parameter("added"))
            .values(
                assignment_count=SESSION.c.assignment_count + count_parameter("added"),
                latest_assignment_id=select(func.max(new.c.id)).scalar_subquery(),
            )
            .returning(SESSION.c.client_id)
            .cte("changed")
        )
        client = changed.c.client_id
        added = new.join(changed, true())
        changes = [
            insert_rows(ASSIGNMENT, columns_of_assignment(new.c.id, new.c.book, client), added),
            insert_rows(
                REMINDER,
                columns_of_reminder(new.c.id, moments.c.value, client),
                added.join(moments, true()),
            ),
            insert_rows(EVENT, columns_of_event(of_assignment(new.c.id), client), added),
        ]
        if is_recorded:
            changes.append(insert_rows(AUDIT_RECORD, columns_of_record(new, client), changed))
        ids = select(func.array_agg(aggregate_order_by(new.c.id, new.c.id))).scalar_subquery()
        names = ("assignments", "reminders", "events", "record")
        ctes = [change.cte(name) for change, name in zip(changes, names, strict=False)]
        return select(NUMBER, select(client).scalar_subquery(), ids).add_cte(*ctes)

    return Statement(build)


IS_THE_SESSION = (SESSION.c.id == id_parameter("session")) & is_of_caregiver(SESSION)

WAS_ASSIGNED = exists().where(
    ASSIGNMENT.c.session_id == SESSION.c.id,
    is_of_caregiver(ASSIGNMENT),
    ASSIGNMENT.c.client_id == SESSION.c.client_id,
    ASSIGNMENT.c.assign_date >= moment_parameter("since"),
    among(ASSIGNMENT.c.book_id, "books"),
)


def latest_assignment_is_unchanged() -> ColumnElement[bool]:
    """PostgreSQL evaluates a condition again on the newest version of a row that it locks. The sub-query
    still reads the session of the statement's snapshot."""
    before = SESSION.alias("before")
    latest = select(before.c.latest_assignment_id).where(
        before.c.id == id_parameter("session"), is_of_caregiver(before)
    )
    return SESSION.c.latest_assignment_id.is_not_distinct_from(latest.scalar_subquery())


def columns_of_record(new: CTE, client: ColumnElement[Any]) -> dict[str, Any]:
    """`about` has the same text as that of the record which a transaction adds."""
    columns: dict[str, Any] = {
        name: bindparam(f"record_{name}", type_=AUDIT_RECORD.c[name].type) for name in Record._fields
    }
    in_order = aggregate_order_by(literal_text(","), new.c.id)
    ids = select(func.string_agg(cast(new.c.id, Text), in_order)).scalar_subquery()
    parts = [
        *("[[", id_parameter("caregiver"), ",", client),
        *(f',{{"{ASSIGNMENTS}":[', ids, "]}]]"),
    ]
    texts = [literal_text(part) if isinstance(part, str) else cast(part, Text) for part in parts]
    columns["about"] = func.concat(*texts)
    return columns


ASSIGN_ON_FAST_PATH = {flags: assign_on_fast_path(*flags) for flags in product((False, True), repeat=2)}
