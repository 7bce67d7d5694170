"""Audit: what a caregiver may know of who saw and changed the data of a client."""

import logging
from datetime import datetime

from app.care.context import Context, Role
from app.db.audit.reading import listing_events
from app.db.audit.sealing import is_unsealed, sealing
from app.db.drivers import Database, DatabaseUnavailable
from app.db.reads import Page
from app.db.selection import Window

logger = logging.getLogger("care.audit")


async def list_audit_events(ctx: Context, client_id: int, window: Window) -> Page:
    """Of what the caregiver and this client have to do with each other, whoever it was that looked."""
    caregiver = ctx.signed_in_as(Role.CAREGIVER)
    try:
        await seal(ctx.db, ctx.now)
    except DatabaseUnavailable as fault:  # what happened a moment ago is then told a moment later
        logger.warning("request %s: records wait to be sealed (%s)", ctx.request_id, fault.__cause__)
    return await ctx.db.read(listing_events(caregiver, client_id, window))


async def seal(db: Database, now: datetime) -> None:
    """Seals all that is recorded by now; only then records are found by whom they are about."""
    if await db.read(is_unsealed()):
        while await db.write(sealing(now)):
            pass
