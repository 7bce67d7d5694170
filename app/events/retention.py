"""Retention: removes rows older than their period, in small batches, so that other writers hardly wait.

The settings give the periods of dead deliveries, events, drafts and audit records. The periods of accepted
deliveries and of idempotency keys are fixed.
"""

import asyncio
import logging
from collections.abc import AsyncGenerator
from contextlib import aclosing
from datetime import datetime, timedelta
from functools import partial

from app.care.audit import seal
from app.db.audit.removing import (
    Checkpoint,
    adding_checkpoint,
    finding_checkpoints,
    finding_leftovers,
    removing_records,
)
from app.db.audit.verifying import Verdict, verifying_next
from app.db.drivers.interface import Database
from app.db.sql import selecting
from app.db.statements.deliveries import FIND_OLD_DELIVERIES, REMOVE_DELIVERIES
from app.db.statements.dispatch import SEARCH_LIMIT
from app.db.statements.idempotency_keys import REMOVE_IDEMPOTENCY_KEYS
from app.db.statements.retention import (
    FIND_DEAD,
    FIND_DRAFTS,
    REMOVE_DEAD,
    REMOVE_EVENTS,
    Find,
    finding,
    finding_events,
    marking_removed,
    removing_drafts,
)
from app.events.deliveries import updating
from app.events.outbox import Take, take_each
from app.settings import Retention
from app.telemetry.wording import OperatorError

logger = logging.getLogger("care.dispatch")

# The documentation promises replays for half of this time.
IDEMPOTENCY_KEY_PERIOD = timedelta(hours=48)
MAX_VERIFIED = 200  # seals in one read; each covers at most some hundred records


class RetentionRejected(OperatorError):
    """Audit records were changed after they were sealed, so none is removed."""


# By the name of the period. Deliveries come before events, since an event with a delivery is kept.
KINDS: tuple[tuple[str, Find, Take], ...] = (
    ("deliveries", partial(finding, FIND_DEAD), partial(updating, REMOVE_DEAD)),
    ("events", finding_events, partial(updating, REMOVE_EVENTS)),
    ("drafts", partial(finding, FIND_DRAFTS), removing_drafts),
)
AUDIT = "audit"

Removed = tuple[str, int]  # the kind of rows, and their number


async def removing_expired(
    db: Database, periods: Retention, now: datetime, is_dry_run: bool = False
) -> AsyncGenerator[Removed, None]:
    """Yields the kind and number of removed rows after each batch. With `is_dry_run`, removes nothing."""
    for name, find, remove in KINDS:
        before = periods.before(name, now)
        after: int | None = 0
        while before is not None and after is not None:
            found, after = await db.read(find(after, before))
            if is_dry_run or not found:
                yield name, len(found)
                continue
            if name == "events":
                await db.write(marking_removed(found[-1][1], now))
            yield name, len(await take_each(db, found, partial(remove, now)))
    async with aclosing(removing_audit(db, periods.before(AUDIT, now), now, is_dry_run)) as steps:
        async for step in steps:
            yield step


async def removing_audit(
    db: Database, before: datetime | None, now: datetime, is_dry_run: bool
) -> AsyncGenerator[Removed, None]:
    due = None
    if before is not None:
        verdict = Verdict(removed=await db.read(finding_checkpoints()))
        if verdict.removed:
            verdict.last = verdict.removed[-1].seal
        while found := await db.read(verifying_next(verdict, before, MAX_VERIFIED)):
            if verdict.faults:
                if await db.read(finding_checkpoints()) != verdict.removed:
                    return  # another process removes what this one verifies
                raise RetentionRejected(
                    f"no audit record was removed: {verdict.faults[0]}; see `care-gateway audit verify`"
                )
            due = found if due is None else merge(due, found)
            yield AUDIT, found.record_count if is_dry_run else 0
    if is_dry_run:
        return
    if due is not None and await db.write(adding_checkpoint(due, now)):
        await seal(db, now)
        logger.info("audit records up to seal %s:%s are removed", due.seal_id, due.hash)
    while await db.read(finding_leftovers()):  # also after an interrupted run
        yield AUDIT, await db.write(removing_records())


def merge(first: Checkpoint, second: Checkpoint) -> Checkpoint:
    return second._replace(
        record_count=first.record_count + second.record_count, seal_count=first.seal_count + second.seal_count
    )


async def expire(db: Database, periods: Retention, now: datetime, stop: asyncio.Event) -> None:
    """Runs retention for the dispatcher, until no batch remains or the process stops."""
    try:
        async with aclosing(removing_expired(db, periods, now)) as steps:
            async for _ in steps:
                if stop.is_set():
                    break
    except RetentionRejected as rejection:
        logger.error("%s", rejection)


# --- fixed periods ---------------------------------------------------------------------------------


async def clean_up(db: Database, now: datetime) -> bool:
    """Removes one batch of old deliveries and idempotency keys. Returns whether more remain."""
    found = await db.read(selecting(FIND_OLD_DELIVERIES, now=now))
    removed = await take_each(db, found, partial(updating, REMOVE_DELIVERIES, now))
    keys = await db.write(selecting(REMOVE_IDEMPOTENCY_KEYS, before=now - IDEMPOTENCY_KEY_PERIOD))
    return SEARCH_LIMIT in (len(removed), len(keys))
