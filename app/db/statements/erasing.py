"""Statements that erase the names, texts and answers of a client; numbers, dates and audit records stay.

They find rows by the client alone, so that they do not miss a row of an unknown relationship.
"""

from typing import Any

from sqlalchemy import (
    ColumnElement,
    FromClause,
    Select,
    and_,
    case,
    delete,
    exists,
    func,
    literal,
    or_,
    select,
    true,
    update,
)

from app.db.facts import erased_texts
from app.db.reader.access import is_final, is_of_caregiver
from app.db.sql import PerDatabase, Statement, among, id_parameter, moment_parameter, only_on_postgresql
from app.db.statements.answers import ANSWERS
from app.db.statements.events import CLIENT_ID
from app.db.statements.idempotency_keys import NO_RESPONSE
from app.db.tables import (
    ANSWER_SET,
    ASSIGNMENT,
    CLIENT,
    DELIVERY,
    EVENT,
    FEEDBACK,
    IDEMPOTENCY_KEY,
    REMINDER,
    SESSION,
    EventKind,
    ReminderState,
)


def belongs_to(child: FromClause, key: str, parent: FromClause, is_of_client: ColumnElement[bool]) -> Any:
    """The row belongs to a parent row of the client. Citus finds that within the rows of a caregiver."""
    is_listed = child.c[key].in_(select(parent.c.id).where(is_of_client))
    is_there = exists().where(
        parent.c.caregiver_id == child.c.caregiver_id, parent.c.id == child.c[key], is_of_client
    )
    return PerDatabase(sqlite=is_listed, postgresql=is_listed, citus=is_there)


def locked(rows: Select[Any]) -> Statement:
    """Citus locks rows of one caregiver only, so `erasing` locks the sessions there. Every change of other
    rows locks its session first."""
    return Statement(lambda kind: rows if kind == "citus" else rows.with_for_update())


IS_ASSIGNMENT_OF_CLIENT = ASSIGNMENT.c.client_id == CLIENT_ID
IS_EVENT_OF_CLIENT = and_(among(EVENT.c.caregiver_id, "caregivers"), EVENT.c.client_id == CLIENT_ID)


# Waits for transactions that claim a key, and blocks others until the transaction ends. A response is read
# after its change is committed. So a response with the data of the client belongs to a key that this
# transaction finds; a later response has the erased data.
LOCK_IDEMPOTENCY_KEYS = only_on_postgresql("LOCK TABLE idempotency_key IN SHARE ROW EXCLUSIVE MODE")

# Until the transaction ends, no other transaction opens a session with the client.
LOCK_CLIENT = Statement(select(CLIENT.c.id).where(CLIENT.c.id == CLIENT_ID).with_for_update())
LOCK_SESSIONS_OF_CLIENT = locked(
    select(SESSION.c.id, SESSION.c.caregiver_id)
    .where(SESSION.c.client_id == CLIENT_ID)
    .order_by(SESSION.c.id)
)
# The sessions with a CLIENT_ERASED event.
FIND_ERASED_SESSIONS = Statement(
    select(EVENT.c.session_id).where(IS_EVENT_OF_CLIENT, EVENT.c.kind == EventKind.CLIENT_ERASED.value)
)
ERASE_CLIENT = Statement(
    update(CLIENT)
    .where(CLIENT.c.id == CLIENT_ID)
    .values(
        **erased_texts(CLIENT),
        is_disabled=true(),
        erase_date=func.coalesce(CLIENT.c.erase_date, moment_parameter("now")),
    )
)
ERASE_SESSIONS = Statement(
    update(SESSION)
    .where(SESSION.c.client_id == CLIENT_ID)
    .values(
        **erased_texts(SESSION),
        is_closed=true(),
        close_date=case((SESSION.c.is_closed, SESSION.c.close_date), else_=moment_parameter("now")),
    )
)
SKIP_REMINDERS = Statement(
    update(REMINDER)
    .where(
        belongs_to(REMINDER, "assignment_id", ASSIGNMENT, IS_ASSIGNMENT_OF_CLIENT),
        REMINDER.c.state == ReminderState.SCHEDULED.value,
    )
    .values(state=ReminderState.SKIPPED.value)
)
DROP_DRAFTS = Statement(
    delete(ANSWER_SET)
    .where(ANSWER_SET.c.client_id == CLIENT_ID, ~is_final(ANSWER_SET))
    .returning(ANSWER_SET.c.id)
)
FIND_SETS = locked(
    select(*ANSWER_SET.c["caregiver_id", "id", "answers"]).where(ANSWER_SET.c.client_id == CLIENT_ID)
)
REWRITE_SET = Statement(
    update(ANSWER_SET)
    .where(ANSWER_SET.c.id == id_parameter("answer_set"), is_of_caregiver(ANSWER_SET))
    .values(answers=ANSWERS)
)
BLANK_FEEDBACKS = Statement(
    update(FEEDBACK)
    .where(
        belongs_to(FEEDBACK, "assignment_id", ASSIGNMENT, IS_ASSIGNMENT_OF_CLIENT),
        or_(*(FEEDBACK.c[name] != erased for name, erased in erased_texts(FEEDBACK).items())),
    )
    .values(erased_texts(FEEDBACK))
    .returning(literal(1))
)
# Removes the stored responses of the client and the caregivers, which may contain texts of the client, and
# marks their keys: a response that was read before the erasure must not be stored after it. The results of
# the changes stay, so that a repeated request still changes nothing.
CLEAR_RESPONSES = Statement(
    update(IDEMPOTENCY_KEY)
    .where(
        or_(
            and_(IDEMPOTENCY_KEY.c.role == "CLIENT", IDEMPOTENCY_KEY.c.viewer_id == CLIENT_ID),
            and_(IDEMPOTENCY_KEY.c.role == "CAREGIVER", among(IDEMPOTENCY_KEY.c.viewer_id, "caregivers")),
        )
    )
    .values(status=NO_RESPONSE, **erased_texts(IDEMPOTENCY_KEY))
)
# Removes the stored webhook responses, which may contain texts of the client.
CLEAR_WEBHOOK_ANSWERS = Statement(
    update(DELIVERY)
    .where(belongs_to(DELIVERY, "event_id", EVENT, IS_EVENT_OF_CLIENT))
    .values(erased_texts(DELIVERY))
)
