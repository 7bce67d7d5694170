"""Audit: what a caregiver may know of who saw and changed the data of a client."""

import asyncio
import logging
from datetime import datetime

from app.care.context import Context, Role
from app.db.audit.reading import listing_events
from app.db.audit.sealing import is_unsealed, sealing
from app.db.drivers.interface import Database, DatabaseUnavailable
from app.db.reader.reads import Page
from app.db.reader.selection import PageRequest

logger = logging.getLogger("care.audit")


async def list_audit_events(ctx: Context, client_id: int, window: PageRequest) -> Page:
    """Of what the caregiver and this client have to do with each other, whoever it was that looked."""
    caregiver = ctx.signed_in_as(Role.CAREGIVER)
    if ctx.sealing is None:  # one sealing per request: its lists share it
        ctx.sealing = asyncio.ensure_future(seal_some(ctx.db, ctx.now))
    try:
        has_more = await ctx.sealing
    except DatabaseUnavailable as fault:  # what happened a moment ago is then told a moment later
        logger.warning("request %s: records wait to be sealed (%s)", ctx.request_id, fault.__cause__)
    else:
        if has_more:
            logger.warning("request %s: many records wait to be sealed", ctx.request_id)
    return await ctx.db.read(listing_events(caregiver, client_id, window))


async def seal_some(db: Database, now: datetime) -> bool:
    """Seals the oldest records without a seal, MOST_SEALED at most. Are there more?"""
    return await db.read(is_unsealed()) and await db.write(sealing(now))


async def seal(db: Database, now: datetime) -> None:
    """Seals all that is recorded by now; only then records are found by whom they are about."""
    while await seal_some(db, now):
        pass
