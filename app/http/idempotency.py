"""Idempotency-Key: a request with a key is executed once, and its first response is replayed."""

import hashlib
import logging
import re
from collections.abc import Awaitable, Callable
from dataclasses import replace

from starlette.types import Scope

from app.care.budgets import KIB, POINTS_PER_STORED_KIB
from app.care.context import Context
from app.care.errors import InvalidValue
from app.care.idempotency import IdempotentRequest, KeyScope, Outcome, finding_result, storing_response
from app.db.drivers.interface import DatabaseUnavailable
from app.http.errors import Failure, RequestRejected
from app.http.messages import RETRY_AFTER, Reply

HEADER = b"idempotency-key"
VISIBLE = re.compile(rb"[!-~]{1,255}")
IN_PROGRESS = "a request with this Idempotency-Key is still in progress"
REPLAYED = (b"idempotency-replayed", b"true")
REPLAY_POINTS = 5  # the lookup by id
MAX_STORED = 64 * 1024  # bytes of a response; a longer one is built again from the result of the change

logger = logging.getLogger("care.retries")

# Returns the reply and whether it is final: a reply with errors is not stored.
Run = Callable[[Context], Awaitable[tuple[Reply, bool]]]


def read_key(scope: Scope) -> str:
    """The key of the request. A repeated header is rejected."""
    keys: list[bytes] = [value for name, value in scope["headers"] if name == HEADER]
    if len(keys) != 1:
        raise InvalidValue("Idempotency-Key", "must be given once")
    if VISIBLE.fullmatch(keys[0]) is None:
        raise InvalidValue("Idempotency-Key", "must be 1 to 255 visible ASCII characters")
    return keys[0].decode("ascii")


def idempotency_for(ctx: Context, contract: str, key: str, *request: bytes) -> IdempotentRequest:
    """The fingerprint is a hash of the parts of the request. Their lengths are hashed, too, because the same
    bytes could be divided in another way."""
    viewer = ctx.signed_in()
    parts = (contract.encode(), *request)
    fingerprint = hashlib.sha256(b"".join(b"%d:%b" % (len(part), part) for part in parts)).hexdigest()
    return IdempotentRequest(KeyScope(viewer.role, viewer.id, contract, key), fingerprint)


async def run_once(running: set[KeyScope], ctx: Context, request: IdempotentRequest, run: Run) -> Reply:
    """Replays the stored reply of an earlier request with this key, or runs the request and stores its reply.

    `running` contains the keys of requests in progress in this process; a second request is rejected.
    """
    if request.scope in running:
        raise RequestRejected(IN_PROGRESS, Failure.KEY_IN_USE, (RETRY_AFTER,))
    running.add(request.scope)
    try:
        stored = await ctx.db.read(finding_result(request))
        if stored is not None and stored.body is not None and stored.status is not None:
            ctx.charge(REPLAY_POINTS)
            return Reply(stored.body.encode(), stored.status, (REPLAYED,))
        request.is_repeated = stored is not None
        reply, is_final = await run(replace(ctx, idempotent_request=request))
        may_be_stored = is_final and not request.shows_answers and len(reply.body) <= MAX_STORED
        if request.outcome is not None and may_be_stored:
            await store_reply(ctx, request, reply)
        if request.outcome is Outcome.REPLAYED:
            reply = reply._replace(headers=(*reply.headers, REPLAYED))
        return reply
    finally:
        running.discard(request.scope)


async def store_reply(ctx: Context, request: IdempotentRequest, reply: Reply) -> None:
    """Ignores database failures: a missing reply is rebuilt from the stored result of the change."""
    ctx.budget.charge(len(reply.body) // KIB * POINTS_PER_STORED_KIB, needed=0)
    try:
        await ctx.db.write(storing_response(request, reply.status, reply.body))
    except DatabaseUnavailable as fault:
        logger.warning("request %s: its response was not stored (%s)", ctx.request_id, fault.__cause__)
