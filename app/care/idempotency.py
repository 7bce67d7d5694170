"""Changes with an Idempotency-Key: performed once, and stored with their result."""

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Any, NamedTuple, TypeVar

import orjson

from app.care.errors import KeyTaken
from app.db.sql import Repeatable, Steps, Values, repeatable
from app.db.statements.idempotency_keys import CLAIM_KEY, FIND_KEY, STORE_RESPONSE, STORE_RESULT

Result = TypeVar("Result")


class Outcome(StrEnum):
    PERFORMED = "PERFORMED"  # by this request
    REPLAYED = "REPLAYED"  # by an earlier request; its stored result was read


class KeyScope(NamedTuple):
    """A key identifies a request only within this viewer and contract."""

    role: str
    viewer: int
    contract: str
    key: str


@dataclass
class IdempotentRequest:
    """A request with a key. `outcome` is None until its change is performed or replayed."""

    scope: KeyScope
    fingerprint: str
    outcome: Outcome | None = None
    is_repeated: bool = False  # the result of an earlier request is stored
    shows_answers: bool = False  # then the response must not be replayed without a new, audited read

    def values(self) -> Values:
        return {**self.scope._asdict(), "fingerprint": self.fingerprint}


class StoredResult(NamedTuple):
    """The result of an earlier request, and its response if that was stored."""

    result: str
    status: int | None
    body: str | None


@repeatable
def performing_once(
    request: IdempotentRequest, now: datetime, steps: Repeatable[Result]
) -> Steps[tuple[Result, Outcome]]:
    """Performs the change and stores its result in one transaction. A rejected change leaves its key free.
    The first result also goes through JSON, so that a value which JSON cannot keep fails in tests."""
    values = request.values()
    if not (yield CLAIM_KEY, {**values, "now": now}):
        stored = yield from finding_result(request)
        assert stored is not None
        return orjson.loads(stored.result), Outcome.REPLAYED
    made = orjson.dumps((yield from steps)).decode()
    yield STORE_RESULT, {**values, "new_result": made}
    return orjson.loads(made), Outcome.PERFORMED


def finding_result(request: IdempotentRequest) -> Steps[StoredResult | None]:
    found: list[Any] = yield FIND_KEY, request.values()
    if not found:
        return None
    fingerprint, *stored = found[0]
    if fingerprint != request.fingerprint:
        raise KeyTaken
    return StoredResult(*stored)


def storing_response(request: IdempotentRequest, status: int, body: bytes) -> Steps[None]:
    yield STORE_RESPONSE, {**request.values(), "new_status": status, "new_body": body.decode()}
