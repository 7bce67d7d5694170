"""Keys under which a change was asked for: claimed, with its result, with its answer."""

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

KEPT = table_of(IdempotencyKey)
NEVER_KEPT = 0  # the status of a key whose reply may hold texts of an erased client


def is_the_key() -> ColumnElement[bool]:
    return and_(
        KEPT.c.role == text_parameter("role"),
        KEPT.c.viewer_id == id_parameter("viewer"),
        KEPT.c.contract == text_parameter("contract"),
        KEPT.c.key == text_parameter("key"),
    )


def claim_key(kind: DatabaseKind) -> ClauseElement:
    """A row if it was free. PostgreSQL waits here for whoever is about to claim it, and may yet give up."""
    values = {
        "role": text_parameter("role"),
        "viewer_id": id_parameter("viewer"),
        "contract": text_parameter("contract"),
        "key": text_parameter("key"),
        "fingerprint": text_parameter("fingerprint"),
        "result": literal("null"),  # never seen: the same transaction writes the real one
        "moment": moment_parameter("now"),
    }
    added: ClauseElement = INSERT[kind](KEPT).values(values).on_conflict_do_nothing().returning(KEPT.c.key)
    return added


def find_kept(kind: DatabaseKind) -> ClauseElement:
    return select(KEPT.c.fingerprint, KEPT.c.result, KEPT.c.status, KEPT.c.body).where(is_the_key())


def keep_result(kind: DatabaseKind) -> ClauseElement:
    return update(KEPT).where(is_the_key()).values(result=bindparam("made", type_=Text))


def keep_answer(kind: DatabaseKind) -> ClauseElement:
    """The first reply is stored, because two processes may carry out the same request and all repetitions get
    the same reply. None is stored where a client was erased since the key was claimed."""
    answer = {"status": bindparam("said_status", type_=Integer), "body": bindparam("said", type_=Text)}
    is_mine = KEPT.c.fingerprint == text_parameter("fingerprint")
    return update(KEPT).where(is_the_key(), is_mine, KEPT.c.status.is_(None)).values(answer)


CLAIM_KEY = Statement(claim_key)
FIND_KEPT = Statement(find_kept)
KEEP_RESULT = Statement(keep_result)
KEEP_ANSWER = Statement(keep_answer)
