"""The audit log for caregivers: who read and changed the data of a client."""

import asyncio
import logging
from datetime import datetime

from app.care.context import Context, Role
from app.db.audit.chain import finding_newest, finding_writers, is_unsealed, sealing
from app.db.audit.reading import listing_events
from app.db.drivers.interface import Database, DatabaseUnavailable
from app.db.reader.reads import Page
from app.db.reader.selection import PageRequest

WAIT_SECONDS, MAX_WAITS = 0.01, 20  # for transactions that add records

logger = logging.getLogger("care.audit")


async def list_audit_events(ctx: Context, client_id: int, page_request: PageRequest) -> Page:
    """Lists events of the relationship between the caregiver and this client, by any actor."""
    caregiver = ctx.signed_in_as(Role.CAREGIVER)
    if ctx.sealing is None:  # once per request: its lists share the result
        ctx.sealing = asyncio.ensure_future(seal_some(ctx.db, ctx.now))
    try:
        has_more = await ctx.sealing
    except DatabaseUnavailable as fault:  # the latest events are listed once they are sealed
        logger.warning("request %s: records wait to be sealed (%s)", ctx.request_id, fault.__cause__ or fault)
    else:
        if has_more:
            logger.warning("request %s: many records wait to be sealed", ctx.request_id)
    return await ctx.db.read(listing_events(caregiver, client_id, page_request))


async def seal_some(db: Database, now: datetime) -> bool:
    """Seals up to MAX_SEALED of the oldest unsealed records. Returns whether more wait."""
    if not await db.read(is_unsealed()):
        return False
    newest, writers = await db.read(finding_newest())
    for _ in range(MAX_WAITS):
        if not writers:
            return await db.write(sealing(newest, now))
        await asyncio.sleep(WAIT_SECONDS)
        writers &= await db.read(finding_writers())
    raise DatabaseUnavailable("a transaction that adds audit records does not end")


async def seal(db: Database, now: datetime) -> None:
    """Seals all records. Records are found by the people they are about only once they are sealed."""
    while await seal_some(db, now):
        pass
