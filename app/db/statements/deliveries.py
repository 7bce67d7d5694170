"""Statements for webhook deliveries: due deliveries, outcomes, retries and removal."""

from sqlalchemy import Text, and_, bindparam, delete, select, update

from app.db.reader.access import has_caregiver_of, is_of_caregiver, without_index
from app.db.sql import Statement, among, count_parameter, id_parameter, moment_parameter, text_parameter
from app.db.statements.dispatch import SEARCH_LIMIT, has_state, of_all_caregivers
from app.db.tables import DELIVERY, EVENT, DeliveryState

FIND = select(DELIVERY.c.caregiver_id, DELIVERY.c.event_id)
IS_AMONG_EVENTS = and_(is_of_caregiver(DELIVERY), among(DELIVERY.c.event_id, "events"))
IS_DELIVERED = has_state(DELIVERY, DeliveryState.DELIVERED)
IS_DUE = and_(has_state(DELIVERY, DeliveryState.WAITING), DELIVERY.c.next_date <= moment_parameter("now"))
IS_UNDELIVERED = DELIVERY.c.state != DeliveryState.DELIVERED.value

# --- delivering -----------------------------------------------------------------------------------

FIND_DUE_DELIVERIES = of_all_caregivers(
    FIND.where(IS_DUE).order_by(DELIVERY.c.next_date, DELIVERY.c.caregiver_id).limit(count_parameter("limit"))
)
# Locks the deliveries of `events` that are still due, and reads the content of their events.
TAKE_DELIVERIES = Statement(
    select(
        DELIVERY.c.event_id,
        DELIVERY.c.attempts,
        *EVENT.c["kind", "moment", "client_id", "session_id", "assignment_id", "reminder_id"],
    )
    .select_from(DELIVERY.join(EVENT, and_(EVENT.c.id == DELIVERY.c.event_id, is_of_caregiver(EVENT))))
    .where(IS_AMONG_EVENTS, IS_DUE)
    .order_by(DELIVERY.c.event_id)
    .with_for_update(of=DELIVERY, skip_locked=True)
)
# Makes the deliveries due again at `until`, in case no outcome is stored.
COUNT_ATTEMPTS = Statement(
    update(DELIVERY)
    .where(IS_AMONG_EVENTS)
    .values(attempts=DELIVERY.c.attempts + 1, next_date=moment_parameter("until"))
)
# Stores the outcome of an attempt, unless a later attempt has begun.
STORE_OUTCOME = Statement(
    update(DELIVERY)
    .where(
        is_of_caregiver(DELIVERY),
        DELIVERY.c.event_id == id_parameter("event"),
        DELIVERY.c.attempts == count_parameter("attempt"),
    )
    .values(
        state=text_parameter("to"),
        next_date=moment_parameter("next"),
        last_answer=bindparam("outcome", type_=Text),
    )
)

# --- commands of the operator ---------------------------------------------------------------------


def list_deliveries(state: DeliveryState | None) -> Statement:
    listed = select(
        DELIVERY.c.event_id, EVENT.c.kind, *DELIVERY.c["state", "attempts", "next_date", "last_answer"]
    ).select_from(
        DELIVERY.join(EVENT, and_(EVENT.c.id == DELIVERY.c.event_id, has_caregiver_of(EVENT, DELIVERY)))
    )
    if state is not None:
        listed = listed.where(has_state(DELIVERY, state))
    listed = listed.where(DELIVERY.c.event_id > id_parameter("after"))
    return Statement(listed.order_by(DELIVERY.c.event_id).limit(SEARCH_LIMIT))


LIST_DELIVERIES = {state: list_deliveries(state) for state in (None, *DeliveryState)}
FIND_DELIVERY = Statement(FIND.where(DELIVERY.c.event_id == id_parameter("event"), IS_UNDELIVERED))
# In the order of the key: by the index on the state, SQLite would sort all dead deliveries for each page.
FIND_DEAD_DELIVERIES = Statement(
    FIND.where(
        without_index(DELIVERY.c.state) == DeliveryState.DEAD.value,
        DELIVERY.c.event_id > id_parameter("after"),
    )
    .order_by(DELIVERY.c.event_id)
    .limit(SEARCH_LIMIT)
)
RETRY_DELIVERIES = Statement(
    update(DELIVERY)
    .where(IS_AMONG_EVENTS, IS_UNDELIVERED)
    .values(state=DeliveryState.WAITING.value, attempts=0, next_date=moment_parameter("now"))
)

# --- removal --------------------------------------------------------------------------------------

FIND_OLD_DELIVERIES = Statement(
    FIND.where(IS_DELIVERED, DELIVERY.c.next_date <= moment_parameter("now")).limit(SEARCH_LIMIT)
)
REMOVE_DELIVERIES = Statement(delete(DELIVERY).where(IS_AMONG_EVENTS, IS_DELIVERED))
