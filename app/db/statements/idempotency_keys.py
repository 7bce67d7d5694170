"""Statements for idempotency keys: claim a key, store the result of the change, store the response."""

from sqlalchemy import ColumnElement, Integer, Text, and_, bindparam, literal, select, update
from sqlalchemy.sql.elements import ClauseElement

from app.db.reader.entities import table_of
from app.db.sql import (
    INSERT,
    DatabaseKind,
    Statement,
    id_parameter,
    moment_parameter,
    text_parameter,
)
from app.db.tables import IdempotencyKey

KEY = table_of(IdempotencyKey)
NO_RESPONSE = 0  # the status of a key whose response may contain texts of an erased client


def is_the_key() -> ColumnElement[bool]:
    return and_(
        KEY.c.role == text_parameter("role"),
        KEY.c.viewer_id == id_parameter("viewer"),
        KEY.c.contract == text_parameter("contract"),
        KEY.c.key == text_parameter("key"),
    )


def claim_key(kind: DatabaseKind) -> ClauseElement:
    """Returns a row if the key was free. PostgreSQL waits for a transaction that claims the same key."""
    values = {
        "role": text_parameter("role"),
        "viewer_id": id_parameter("viewer"),
        "contract": text_parameter("contract"),
        "key": text_parameter("key"),
        "fingerprint": text_parameter("fingerprint"),
        "result": literal("null"),  # a placeholder: the same transaction stores the result
        "moment": moment_parameter("now"),
    }
    added: ClauseElement = INSERT[kind](KEY).values(values).on_conflict_do_nothing().returning(KEY.c.key)
    return added


def find_key(kind: DatabaseKind) -> ClauseElement:
    return select(KEY.c.fingerprint, KEY.c.result, KEY.c.status, KEY.c.body).where(is_the_key())


def store_result(kind: DatabaseKind) -> ClauseElement:
    return update(KEY).where(is_the_key()).values(result=bindparam("new_result", type_=Text))


def store_response(kind: DatabaseKind) -> ClauseElement:
    """Stores the first response only: two processes may run the same request, and all repetitions get the
    same response. Stores none if a client was erased after the key was claimed."""
    response = {"status": bindparam("new_status", type_=Integer), "body": bindparam("new_body", type_=Text)}
    is_mine = KEY.c.fingerprint == text_parameter("fingerprint")
    return update(KEY).where(is_the_key(), is_mine, KEY.c.status.is_(None)).values(response)


CLAIM_KEY = Statement(claim_key)
FIND_KEY = Statement(find_key)
STORE_RESULT = Statement(store_result)
STORE_RESPONSE = Statement(store_response)
