"""Statements that open, change and close a session."""

from sqlalchemy import Boolean, and_, case, exists, insert, literal, select, true, update

from app.db.reader.access import is_known_client, is_not_withdrawn, is_of_caregiver, without_index
from app.db.session_counters import recomputed
from app.db.sql import (
    Statement,
    among,
    count_parameter,
    id_parameter,
    insert_if_absent,
    moment_parameter,
    text_parameter,
)
from app.db.tables import ASSIGNMENT, CLIENT, RELATIONSHIP, REMINDER, SESSION, AssignmentStatus, ReminderState

# --- opening --------------------------------------------------------------------------------------

HAS_CAREGIVER = is_known_client(CLIENT)
LIVING = select(CLIENT.c.id).where(CLIENT.c.erase_date.is_(None))
# Finds a client by the external identifier, and whether there is a relationship with the caregiver. Waits for
# a concurrent erasure.
FIND_CLIENT = Statement(
    LIVING.add_columns(HAS_CAREGIVER)
    .where(CLIENT.c.oppt_id == text_parameter("oppt_id"))
    .with_for_update(read=True, key_share=True, of=CLIENT)
)
FIND_MY_CLIENT = Statement(
    LIVING.where(CLIENT.c.id == id_parameter("of_client"), HAS_CAREGIVER).with_for_update(
        read=True, key_share=True, of=CLIENT
    )
)
RELATE = insert_if_absent(
    RELATIONSHIP, {"client_id": id_parameter("client"), "caregiver_id": id_parameter("caregiver")}
)
ADD_SESSION = Statement(
    insert(SESSION).values(
        caregiver_id=id_parameter("caregiver"),
        client_id=id_parameter("client"),
        title=text_parameter("title"),
        description=text_parameter("description"),
        chat_id=text_parameter("chat"),
        create_date=moment_parameter("now"),
        start_date=moment_parameter("session_start"),
        is_closed=literal(False, Boolean),
        assignment_count=literal(0),
        completed_assignment_count=literal(0),
    ),
    returns_ids=True,
)

# --- changing -------------------------------------------------------------------------------------

IS_SESSION = and_(SESSION.c.id == id_parameter("session"), is_of_caregiver(SESSION))
IS_OF_SESSION = and_(ASSIGNMENT.c.session_id == id_parameter("session"), is_of_caregiver(ASSIGNMENT))
IS_PENDING_OF_SESSION = and_(
    IS_OF_SESSION, ASSIGNMENT.c.status == AssignmentStatus.PENDING.value, is_not_withdrawn(ASSIGNMENT)
)
IS_SCHEDULED = and_(is_of_caregiver(REMINDER), REMINDER.c.state == ReminderState.SCHEDULED.value)

UPDATE_SESSION = update(SESSION).where(IS_SESSION)

LOCK_SESSION = Statement(
    select(*SESSION.c["client_id", "is_closed", "start_date", "title", "description"])
    .where(IS_SESSION)
    .with_for_update()
)
CHANGE_SESSION = Statement(
    UPDATE_SESSION.values(
        title=text_parameter("title"),
        description=text_parameter("description"),
        start_date=moment_parameter("session_start"),
    )
)

# The pending assignments of the session with their start and end.
FIND_PENDING = Statement(
    select(*ASSIGNMENT.c["id", "start_date", "end_date"])
    .where(IS_PENDING_OF_SESSION)
    .order_by(ASSIGNMENT.c.id)
)
MOVE_ASSIGNMENTS = Statement(
    update(ASSIGNMENT)
    .where(
        among(ASSIGNMENT.c.id, "assignments"),  # SQLite searches by the ids
        without_index(ASSIGNMENT.c.caregiver_id) == id_parameter("caregiver"),
    )
    .values(start_date=moment_parameter("start"), end_date=moment_parameter("end"))
)
FIND_SCHEDULED_REMINDERS = Statement(
    select(REMINDER.c.id, REMINDER.c.remind_date)
    .where(REMINDER.c.assignment_id.in_(select(ASSIGNMENT.c.id).where(IS_PENDING_OF_SESSION)), IS_SCHEDULED)
    .order_by(REMINDER.c.id)
)
# Leaves out reminders that the dispatcher has fired since they were found.
MOVE_REMINDERS = Statement(
    update(REMINDER)
    .where(among(REMINDER.c.id, "reminders"), IS_SCHEDULED)
    .values(remind_date=moment_parameter("remind"), state=text_parameter("state"))
)

# --- closing --------------------------------------------------------------------------------------

CLOSE_SESSION = Statement(UPDATE_SESSION.values(is_closed=true(), close_date=moment_parameter("now")))
# A closed session cannot be answered.
SKIP_REMINDERS_OF_SESSION = Statement(
    update(REMINDER)
    .where(REMINDER.c.assignment_id.in_(select(ASSIGNMENT.c.id).where(IS_OF_SESSION)), IS_SCHEDULED)
    .values(state=ReminderState.SKIPPED.value)
)
# Recomputes all assignment counters of the session.
RECOUNT = Statement(UPDATE_SESSION.values(recomputed(id_parameter("caregiver"))))

LATER = ASSIGNMENT.alias("later")
HAS_LATER_COMPLETE = exists().where(
    LATER.c.session_id == id_parameter("session"),
    is_of_caregiver(LATER),
    LATER.c.id > id_parameter("assignment"),
    LATER.c.status == AssignmentStatus.COMPLETE.value,
    is_not_withdrawn(LATER),
)
# The same result for one assignment that becomes complete, without reading its row.
COUNT_COMPLETE = Statement(
    UPDATE_SESSION.values(
        completed_assignment_count=SESSION.c.completed_assignment_count + 1,
        last_assignment_score=case(
            (HAS_LATER_COMPLETE, SESSION.c.last_assignment_score), else_=count_parameter("score")
        ),
    )
)
