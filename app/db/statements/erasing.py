"""What erases a client: names, texts and answers go; numbers, dates and the trail stay.

All of them find rows by the client alone: nothing may be left behind because a relationship is not known.
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
from app.db.statements.idempotency_keys import NEVER_KEPT
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
KEPT = table_of(IdempotencyKey)

ERASED = "erased"


def their_assignments() -> Select[tuple[int]]:
    return select(ASSIGNMENT.c.id).where(ASSIGNMENT.c.client_id == id_parameter("client"))


def their_sets() -> Select[tuple[int]]:
    return select(SET.c.id).where(SET.c.client_id == id_parameter("client"))


def erased_name(row_id: ColumnElement[int]) -> ColumnElement[str]:
    return literal(f"{ERASED}-") + cast(row_id, Text)


def hold_client(kind: DatabaseKind) -> ClauseElement:
    """Until the transaction ends nobody opens a session with them."""
    return select(CLIENT.c.id).where(CLIENT.c.id == id_parameter("client")).with_for_update()


def hold_sessions(kind: DatabaseKind) -> ClauseElement:
    rows = select(SESSION.c.id, SESSION.c.caregiver_id).where(SESSION.c.client_id == id_parameter("client"))
    return rows.order_by(SESSION.c.id).with_for_update()


def find_told(kind: DatabaseKind) -> ClauseElement:
    """The sessions of which an earlier erasing has told."""
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


def hold_kept_answers(kind: DatabaseKind) -> ClauseElement:
    """Wait for the changes that are claiming a key, and let no other claim one until the transaction ends.

    A reply is read after its change is committed. So a reply that shows the client as they were belongs to a
    key that this transaction finds; a later change shows them erased. SQLite has one writer anyway."""
    if kind == "sqlite":
        return select(literal(1))
    return text("LOCK TABLE kept_answer IN SHARE ROW EXCLUSIVE MODE")


def forget_kept_answers(kind: DatabaseKind) -> ClauseElement:
    """Empties the replies of the client and of their caregivers, which may hold the client's texts, and marks
    their keys: a reply that was read before the erasure must not be stored after it. The results of the
    changes stay, so that a repetition still does nothing twice."""
    of_client = and_(KEPT.c.role == "CLIENT", KEPT.c.viewer_id == id_parameter("client"))
    of_caregivers = and_(KEPT.c.role == "CAREGIVER", among(KEPT.c.viewer_id, "caregivers", kind))
    return update(KEPT).where(or_(of_client, of_caregivers)).values(status=NEVER_KEPT, body=null())


def forget_deliveries(kind: DatabaseKind) -> ClauseElement:
    """What a receiver of events answered; who knows what it repeats."""
    events = select(EVENT.c.id).where(
        among(EVENT.c.caregiver_id, "caregivers", kind), EVENT.c.client_id == id_parameter("client")
    )
    return update(DELIVERY).where(DELIVERY.c.event_id.in_(events)).values(last_answer=null())


HOLD_KEPT_ANSWERS = Statement(hold_kept_answers)
HOLD_CLIENT = Statement(hold_client)
HOLD_SESSIONS = Statement(hold_sessions)
FIND_TOLD = Statement(find_told)
ERASE_CLIENT = Statement(erase_client)
ERASE_SESSIONS = Statement(erase_sessions)
SKIP_REMINDERS = Statement(skip_reminders)
DROP_DRAFT_ANSWERS = Statement(drop_draft_answers)
DROP_DRAFTS = Statement(drop_drafts)
BLANK_ANSWERS = Statement(blank_answers)
BLANK_FEEDBACKS = Statement(blank_feedbacks)
FORGET_KEPT_ANSWERS = Statement(forget_kept_answers)
FORGET_DELIVERIES = Statement(forget_deliveries)
