"""Changes asked for under an Idempotency-Key: made once, and remembered with what they led to."""

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Any, NamedTuple, TypeVar

import orjson

from app.care.errors import KeyTaken
from app.db.sql import Operation, Values
from app.db.statements.idempotency_keys import CLAIM_KEY, FIND_KEY, STORE_RESPONSE, STORE_RESULT

Result = TypeVar("Result")


class Outcome(StrEnum):
    MADE = "MADE"  # by this request
    RECALLED = "RECALLED"  # it was made before; what it led to was read again


class KeyScope(NamedTuple):
    """Where a key means the same: everywhere else it is another one."""

    role: str
    viewer: int
    contract: str
    key: str


@dataclass
class Once:
    """A request under a key, and what became of its one change: nothing as long as it was not made."""

    scope: KeyScope
    fingerprint: str
    outcome: Outcome | None = None
    shows_answers: bool = False  # the reply to it does, and must not be given again without a read

    def values(self) -> Values:
        return {**self.scope._asdict(), "fingerprint": self.fingerprint}


class Kept(NamedTuple):
    """What is there of a request that came before."""

    result: str
    status: int | None
    body: str | None


def making_once(once: Once, now: datetime, operation: Operation[Result]) -> Operation[tuple[Result, Outcome]]:
    """The change and its result in one transaction: a refused or failed change leaves its key free.

    Results go through JSON the first time too, so that what JSON would lose is not found out years later.
    """
    values = once.values()
    if not (yield CLAIM_KEY, {**values, "now": now}):
        operation.close()
        kept = yield from finding_kept(once)
        assert kept is not None
        return orjson.loads(kept.result), Outcome.RECALLED
    made = orjson.dumps((yield from operation)).decode()
    yield STORE_RESULT, {**values, "new_result": made}
    return orjson.loads(made), Outcome.MADE


def finding_kept(once: Once) -> Operation[Kept | None]:
    found: list[Any] = yield FIND_KEY, once.values()
    if not found:
        return None
    fingerprint, *kept = found[0]
    if fingerprint != once.fingerprint:
        raise KeyTaken
    return Kept(*kept)


def keeping_answer(once: Once, status: int, body: bytes) -> Operation[None]:
    yield STORE_RESPONSE, {**once.values(), "new_status": status, "new_body": body.decode()}
