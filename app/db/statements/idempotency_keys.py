"""Statements for idempotency keys: claim a key, store the result and the response, remove old keys."""

from sqlalchemy import Integer, Text, and_, bindparam, delete, literal, select, tuple_, update

from app.db.sql import Statement, id_parameter, insert_if_absent, moment_parameter, text_parameter
from app.db.statements.dispatch import SEARCH_LIMIT
from app.db.tables import IDEMPOTENCY_KEY

NO_RESPONSE = 0  # the status of a key whose response may contain texts of an erased client

PRIMARY_KEY = {
    "role": text_parameter("role"),
    "viewer_id": id_parameter("viewer"),
    "contract": text_parameter("contract"),
    "key": text_parameter("key"),
}
IS_THE_KEY = and_(*(IDEMPOTENCY_KEY.c[name] == value for name, value in PRIMARY_KEY.items()))

# Returns a row if the key was free. PostgreSQL waits for a transaction that claims the same key.
CLAIM_KEY = insert_if_absent(
    IDEMPOTENCY_KEY,
    {
        **PRIMARY_KEY,
        "fingerprint": text_parameter("fingerprint"),
        "result": literal("null"),  # a placeholder: the same transaction stores the result
        "moment": moment_parameter("now"),
    },
    returning=[IDEMPOTENCY_KEY.c.key],
)
FIND_KEY = Statement(select(*IDEMPOTENCY_KEY.c["fingerprint", "result", "status", "body"]).where(IS_THE_KEY))
STORE_RESULT = Statement(
    update(IDEMPOTENCY_KEY).where(IS_THE_KEY).values(result=bindparam("new_result", type_=Text))
)

# Stores the first response only: two processes may run the same request, and all repetitions get the same
# response. Stores none if a client was erased after the key was claimed.
STORE_RESPONSE = Statement(
    update(IDEMPOTENCY_KEY)
    .where(
        IS_THE_KEY,
        IDEMPOTENCY_KEY.c.fingerprint == text_parameter("fingerprint"),
        IDEMPOTENCY_KEY.c.status.is_(None),
    )
    .values(status=bindparam("new_status", type_=Integer), body=bindparam("new_body", type_=Text))
)

# Removes some of the keys that were claimed before `before`; returns their moments.
REMOVE_IDEMPOTENCY_KEYS = Statement(
    delete(IDEMPOTENCY_KEY)
    .where(
        tuple_(*IDEMPOTENCY_KEY.primary_key).in_(
            select(*IDEMPOTENCY_KEY.primary_key)
            .where(IDEMPOTENCY_KEY.c.moment < moment_parameter("before"))
            .order_by(IDEMPOTENCY_KEY.c.moment)
            .limit(SEARCH_LIMIT)
        )
    )
    .returning(IDEMPOTENCY_KEY.c.moment)
)
