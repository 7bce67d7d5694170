"""Runs all work of a dispatcher that is due at one moment."""

from datetime import datetime

from app.db.drivers.interface import Database
from app.events.deliveries import deliver
from app.events.dispatcher import process_outbox
from app.events.webhook import open_webhook
from app.settings import Settings


async def dispatch_once(db: Database, settings: Settings, now: datetime) -> None:
    webhook = open_webhook(settings)
    while await process_outbox(db, webhook is not None, now):
        pass
    while webhook is not None and await deliver(db, webhook, lambda: now):
        pass
