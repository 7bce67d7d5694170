"""Statements that erase the names, texts and answers of a client; numbers, dates and audit records stay.

They find rows by the client alone, so that they do not miss a row of an unknown relationship.
"""

from sqlalchemy import (
    ColumnElement,
    Select,
    Text,
    and_,
    case,
    cast,
    delete,
    func,
    literal,
    null,
    or_,
    select,
    text,
    true,
    update,
)
from sqlalchemy.sql.elements import ClauseElement

from app.db.reader.entities import is_final, table_of
from app.db.sql import (
    DatabaseKind,
    Statement,
    among,
    id_parameter,
    moment_parameter,
)
from app.db.statements.idempotency_keys import NO_RESPONSE
from app.db.tables import (
    Answer,
    AnswerSet,
    Assignment,
    Client,
    Delivery,
    Event,
    EventKind,
    Feedback,
    IdempotencyKey,
    Reminder,
    ReminderState,
    Session,
)

CLIENT = table_of(Client)
SESSION = table_of(Session)
ASSIGNMENT = table_of(Assignment)
REMINDER = table_of(Reminder)
SET = table_of(AnswerSet)
ANSWER = table_of(Answer)
FEEDBACK = table_of(Feedback)
EVENT = table_of(Event)
DELIVERY = table_of(Delivery)
KEY = table_of(IdempotencyKey)

ERASED = "erased"


def their_assignments() -> Select[tuple[int]]:
    return select(ASSIGNMENT.c.id).where(ASSIGNMENT.c.client_id == id_parameter("client"))


def their_sets() -> Select[tuple[int]]:
    return select(SET.c.id).where(SET.c.client_id == id_parameter("client"))


def erased_name(row_id: ColumnElement[int]) -> ColumnElement[str]:
    return literal(f"{ERASED}-") + cast(row_id, Text)


def lock_client(kind: DatabaseKind) -> ClauseElement:
    """Until the transaction ends, no other transaction opens a session with the client."""
    return select(CLIENT.c.id).where(CLIENT.c.id == id_parameter("client")).with_for_update()


def lock_sessions_of_client(kind: DatabaseKind) -> ClauseElement:
    rows = select(SESSION.c.id, SESSION.c.caregiver_id).where(SESSION.c.client_id == id_parameter("client"))
    return rows.order_by(SESSION.c.id).with_for_update()


def find_erased_sessions(kind: DatabaseKind) -> ClauseElement:
    """The sessions with a CLIENT_ERASED event."""
    return select(EVENT.c.session_id).where(
        among(EVENT.c.caregiver_id, "caregivers", kind),
        EVENT.c.client_id == id_parameter("client"),
        EVENT.c.kind == EventKind.CLIENT_ERASED.value,
    )


def erase_client(kind: DatabaseKind) -> ClauseElement:
    erased = update(CLIENT).where(CLIENT.c.id == id_parameter("client"))
    return erased.values(
        name=ERASED,
        oppt_id=erased_name(CLIENT.c.id),
        user_name=null(),
        is_disabled=true(),
        erase_date=func.coalesce(CLIENT.c.erase_date, moment_parameter("now")),
    )


def erase_sessions(kind: DatabaseKind) -> ClauseElement:
    closed_now = case((SESSION.c.is_closed, SESSION.c.close_date), else_=moment_parameter("now"))
    erased = update(SESSION).where(SESSION.c.client_id == id_parameter("client"))
    return erased.values(
        title="", description="", chat_id=erased_name(SESSION.c.id), is_closed=true(), close_date=closed_now
    )


def skip_reminders(kind: DatabaseKind) -> ClauseElement:
    waiting = REMINDER.c.state == ReminderState.SCHEDULED.value
    theirs = REMINDER.c.assignment_id.in_(their_assignments())
    return update(REMINDER).where(theirs, waiting).values(state=ReminderState.SKIPPED.value)


def drop_draft_answers(kind: DatabaseKind) -> ClauseElement:
    return delete(ANSWER).where(ANSWER.c.answer_set_id.in_(their_sets().where(~is_final(SET))))


def drop_drafts(kind: DatabaseKind) -> ClauseElement:
    drafts = and_(SET.c.client_id == id_parameter("client"), ~is_final(SET))
    return delete(SET).where(drafts).returning(SET.c.id)


def blank_answers(kind: DatabaseKind) -> ClauseElement:
    theirs = ANSWER.c.answer_set_id.in_(their_sets())
    return update(ANSWER).where(theirs, ANSWER.c.answer != "").values(answer="").returning(literal(1))


def blank_feedbacks(kind: DatabaseKind) -> ClauseElement:
    theirs = FEEDBACK.c.assignment_id.in_(their_assignments())
    return update(FEEDBACK).where(theirs, FEEDBACK.c.text != "").values(text="").returning(literal(1))


def lock_idempotency_keys(kind: DatabaseKind) -> ClauseElement:
    """Waits for transactions that claim a key, and blocks others until the transaction ends.

    A response is read after its change is committed. So a response with the data of the client belongs to a
    key that this transaction finds; a later response has the erased data. SQLite has one writer anyway."""
    if kind == "sqlite":
        return select(literal(1))
    return text("LOCK TABLE kept_answer IN SHARE ROW EXCLUSIVE MODE")


def clear_responses(kind: DatabaseKind) -> ClauseElement:
    """Removes the stored responses of the client and the caregivers, which may contain texts of the client,
    and marks their keys: a response that was read before the erasure must not be stored after it. The results
    of the changes stay, so that a repeated request still changes nothing."""
    of_client = and_(KEY.c.role == "CLIENT", KEY.c.viewer_id == id_parameter("client"))
    of_caregivers = and_(KEY.c.role == "CAREGIVER", among(KEY.c.viewer_id, "caregivers", kind))
    return update(KEY).where(or_(of_client, of_caregivers)).values(status=NO_RESPONSE, body=null())


def clear_webhook_answers(kind: DatabaseKind) -> ClauseElement:
    """Removes the stored webhook responses, which may contain texts of the client."""
    events = select(EVENT.c.id).where(
        among(EVENT.c.caregiver_id, "caregivers", kind), EVENT.c.client_id == id_parameter("client")
    )
    return update(DELIVERY).where(DELIVERY.c.event_id.in_(events)).values(last_answer=null())


LOCK_IDEMPOTENCY_KEYS = Statement(lock_idempotency_keys)
LOCK_CLIENT = Statement(lock_client)
LOCK_SESSIONS_OF_CLIENT = Statement(lock_sessions_of_client)
FIND_ERASED_SESSIONS = Statement(find_erased_sessions)
ERASE_CLIENT = Statement(erase_client)
ERASE_SESSIONS = Statement(erase_sessions)
SKIP_REMINDERS = Statement(skip_reminders)
DROP_DRAFT_ANSWERS = Statement(drop_draft_answers)
DROP_DRAFTS = Statement(drop_drafts)
BLANK_ANSWERS = Statement(blank_answers)
BLANK_FEEDBACKS = Statement(blank_feedbacks)
CLEAR_RESPONSES = Statement(clear_responses)
CLEAR_WEBHOOK_ANSWERS = Statement(clear_webhook_answers)
