"""Fast paths: changes in one statement of PostgreSQL.

The rules are conditions of the statement, which returns one row: NUMBER, the client, and what else the caller
needs. The client is NULL if the statement changed nothing: the change would be rejected, a row has changed
since the caller read it, or another transaction has locked one, and waiting would delay the whole batch.
"""

from itertools import product
from typing import Any

from sqlalchemy import (
    CTE,
    ColumnElement,
    Insert,
    Select,
    Text,
    Update,
    cast,
    exists,
    false,
    func,
    literal,
    null,
    select,
    true,
    update,
)
from sqlalchemy.dialects.postgresql import aggregate_order_by, insert

from app.db.audit.records import ASSIGNMENTS, Record
from app.db.reader.access import is_final, is_not_withdrawn, is_of_caregiver
from app.db.sql import (
    NUMBER,
    Statement,
    among,
    count_parameter,
    each,
    id_parameter,
    is_locked_before,
    literal_text,
    moment_parameter,
    new_id,
    parameters_of,
)
from app.db.statements.answers import COLUMNS_OF_SET, DROP_DRAFT, QUESTIONS, SAVE_DRAFT, select_for_answers
from app.db.statements.assignments import (
    COMPLETE,
    NEW_ID,
    SKIP_REMINDERS,
    columns_of_assignment,
    columns_of_reminder,
    insert_rows,
    moments_to_remind,
)
from app.db.statements.events import CLIENT_ID, columns_of_event, of_assignment
from app.db.statements.sessions import COUNT_COMPLETE, IS_SESSION
from app.db.tables import (
    ANSWER_SET,
    ASSIGNMENT,
    AUDIT_RECORD,
    BOOK,
    EVENT,
    REMINDER,
    SESSION,
    AssignmentStatus,
)

# A setting of the transaction: the number of the request whose first run was the last to lock its rows.
LOCKED_BY = literal_text("care.locked_by")


def assign_on_fast_path(looks_for_repetition: bool, is_recorded: bool) -> Statement:
    """Returns the ids of the new assignments. Also adds nothing

    - if another transaction has assigned homework in the session since this statement began,
    - if a book was never assigned before and has to be marked as assigned, and
    - with `looks_for_repetition`, if a book was assigned in the session since the moment `since`.
    """
    books, moments = each("books", "postgresql"), moments_to_remind("postgresql")
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
        select(SESSION.c.id)
        .where(IS_SESSION, SESSION.c.is_closed == false())
        .where(SESSION.c.start_date <= moment_parameter("now"), *conditions)
        .with_for_update(skip_locked=True)
        .cte("locked")
    )
    changed = (
        update(SESSION)
        .where(IS_SESSION, SESSION.c.id == locked.c.id)
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
            *(new.c.id, moments.c.position),
        ),
        insert_rows(EVENT, columns_of_event(of_assignment(new.c.id), client), added),
    ]
    if is_recorded:
        changes.append(insert_record(changed, about=about_assignments(new, client)))
    ids = select(func.array_agg(aggregate_order_by(new.c.id, new.c.id))).scalar_subquery()
    return Statement(select_result(changed, changes, ids))


def find_for_answers(new_set: ColumnElement[Any]) -> Statement:
    """What LOCK_FOR_ANSWERS returns, without a lock. NULL if there is no assignment."""
    found = select_for_answers(QUESTIONS, new_set).subquery()
    row = select(literal(1).label("row")).subquery()
    return Statement(select(NUMBER, *found.c).select_from(row.outerjoin(found, true())))


def save_on_fast_path(is_first: bool, is_recorded: bool) -> Statement:
    """Saves the first draft of an assignment that is as the caller has read it, or the draft that has the
    revision `last`."""
    locked = locked_for_answers()
    if is_first:
        new = select(*COLUMNS_OF_SET.values()).select_from(locked)
        saved: Any = insert(ANSWER_SET).from_select(list(COLUMNS_OF_SET), new).on_conflict_do_nothing()
    else:
        assert isinstance(SAVE_DRAFT.expression, Update)
        is_locked = exists().where(locked.c.id == id_parameter("session"))
        is_as_read = ANSWER_SET.c.revision == count_parameter("last")
        saved = SAVE_DRAFT.expression.where(is_locked, is_as_read, ~is_final(ANSWER_SET))
    changed = saved.returning(ANSWER_SET.c.client_id).cte("changed")
    changes = [insert_event(changed)]
    if is_recorded:
        changes.append(insert_record(changed))
    return Statement(select_result(changed, changes))


def submit_on_fast_path(is_recorded: bool) -> Statement:
    """Submits answers of an assignment that is as the caller has read it and whose draft has the revision
    `last`, which is 0 without a draft. The first run only locks, and the second reads what was committed."""
    locked = locked_for_answers()
    draft = ANSWER_SET.alias("draft")
    revision = select(draft.c.revision).where(
        draft.c.assignment_id == id_parameter("assignment"), ~is_final(draft), is_of_caregiver(draft)
    )
    is_as_read = func.coalesce(revision.scalar_subquery(), 0) == count_parameter("last")
    own_score = count_parameter("own_score")
    columns = {**COLUMNS_OF_SET, "score": own_score, "own_score": own_score}
    # The first run may have skipped the locked session, and then the second has read too early.
    number = cast(NUMBER.element, Text)
    has_locked = is_locked_before() & (func.current_setting(LOCKED_BY, true()) == number)
    new = select(*columns.values()).select_from(locked).where(has_locked, is_as_read)
    added = insert(ANSWER_SET).from_select(list(columns), new)
    changed = added.returning(ANSWER_SET.c.client_id).cte("changed")
    changes: list[Any] = [insert_event(changed)]
    for statement in (COMPLETE, COUNT_COMPLETE, SKIP_REMINDERS, DROP_DRAFT):
        expression: Any = statement.expression
        changes.append(expression.where(exists().where(changed.c.client_id == CLIENT_ID)))
    if is_recorded:
        changes.append(insert_record(changed))
    locks = select(func.set_config(LOCKED_BY, number, true())).select_from(locked)
    return Statement(select_result(changed, changes, locks.scalar_subquery()), reads_after_lock=True)


def locked_for_answers() -> CTE:
    """The session, if the assignment is pending and in the attempt that the caller has read."""
    return (
        select(SESSION.c.id)
        .select_from(SESSION.join(ASSIGNMENT, ASSIGNMENT.c.session_id == SESSION.c.id))
        .where(IS_SESSION, SESSION.c.is_closed == false())
        .where(ASSIGNMENT.c.id == id_parameter("assignment"), is_of_caregiver(ASSIGNMENT))
        .where(ASSIGNMENT.c.client_id == CLIENT_ID)
        .where(ASSIGNMENT.c.status == literal_text(AssignmentStatus.PENDING))
        .where(ASSIGNMENT.c.attempt == count_parameter("attempt"), is_not_withdrawn(ASSIGNMENT))
        .with_for_update(of=(SESSION, ASSIGNMENT), skip_locked=True)
        .cte("locked")
    )


def insert_event(changed: CTE) -> Insert:
    subject = of_assignment(id_parameter("assignment"))
    return insert_rows(EVENT, columns_of_event(subject, changed.c.client_id), changed)


def insert_record(changed: CTE, **columns: ColumnElement[Any]) -> Insert:
    given = parameters_of(AUDIT_RECORD, Record._fields, "record_")
    return insert_rows(AUDIT_RECORD, given | columns, changed)


def select_result(changed: CTE, changes: list[Any], *columns: ColumnElement[Any]) -> Select[Any]:
    ctes = [change.cte(f"change_{number}") for number, change in enumerate(changes)]
    return select(NUMBER, select(changed.c.client_id).scalar_subquery(), *columns).add_cte(*ctes)


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


def about_assignments(new: CTE, client: ColumnElement[Any]) -> ColumnElement[str]:
    """The same text as `about` of the record which a transaction adds."""
    in_order = aggregate_order_by(literal_text(","), new.c.id)
    ids = select(func.string_agg(cast(new.c.id, Text), in_order)).scalar_subquery()
    parts = [
        *("[[", id_parameter("caregiver"), ",", client),
        *(f',{{"{ASSIGNMENTS}":[', ids, "]}]]"),
    ]
    texts = [literal_text(part) if isinstance(part, str) else cast(part, Text) for part in parts]
    return func.concat(*texts)


ASSIGN_ON_FAST_PATH = {flags: assign_on_fast_path(*flags) for flags in product((False, True), repeat=2)}
FIND_FOR_ANSWERS = {False: find_for_answers(null()), True: find_for_answers(new_id("answer_set"))}
SUBMIT_ON_FAST_PATH = [submit_on_fast_path(is_recorded) for is_recorded in (False, True)]
SAVE_ON_FAST_PATH = {
    is_first: [save_on_fast_path(is_first, is_recorded) for is_recorded in (False, True)]
    for is_first in (False, True)
}
