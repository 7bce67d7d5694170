"""The outbox: turns due reminders into events, and adds a delivery for each event. Finds waiting rows of all
caregivers, and processes them in one transaction per caregiver."""

import logging
from collections.abc import Callable, Iterator
from datetime import datetime, timedelta
from functools import partial
from itertools import groupby

from app.db.drivers.interface import Database, DatabaseUnavailable, Result
from app.db.sql import Steps, selecting
from app.db.statements.dispatch import (
    ADD_DELIVERIES,
    FIND_DUE_REMINDERS,
    FIND_WAITING_EVENTS,
    INSERT_REMINDER_EVENTS,
    MARK_EVENTS_QUEUED,
    MARK_REMINDERS,
    SEARCH_LIMIT,
    TAKE_EVENTS,
    TAKE_REMINDERS,
)
from app.db.tables import ReminderState

logger = logging.getLogger("care.dispatch")

Keys = list[tuple[int, int]]  # rows of a caregiver id and the id of a waiting row
# Locks and processes rows: moment, caregiver id, row ids. Returns the ids of the processed rows.
Take = Callable[[datetime, int, list[int]], Steps[list[int]]]

WAIT_FOR_WEBHOOK = timedelta(days=1)
BATCH_SIZE = 100  # in one transaction


async def remind(db: Database, now: datetime) -> bool:
    """Processes a batch of due reminders. Returns whether more remain."""
    found = await db.read(selecting(FIND_DUE_REMINDERS, now=now))
    taken = await take_each(db, found, partial(reminding, now))
    return len(found) == SEARCH_LIMIT and bool(taken)


def reminding(now: datetime, caregiver: int, reminders: list[int]) -> Steps[list[int]]:
    """Writes the event and the state in one transaction, so that a reminder fires exactly once."""
    values = {"caregiver": caregiver, "reminders": reminders, "now": now}
    locked = yield TAKE_REMINDERS, values
    due = [id for id, is_open in locked if is_open]
    obsolete = [id for id, is_open in locked if not is_open]
    if obsolete:
        yield MARK_REMINDERS, {**values, "reminders": obsolete, "to": ReminderState.SKIPPED}
    if due:
        yield MARK_REMINDERS, {**values, "reminders": due, "to": ReminderState.SENT}
        yield INSERT_REMINDER_EVENTS, {**values, "reminders": due}
    return [id for id, _ in locked]


async def queue_deliveries(db: Database, has_webhook: bool, now: datetime) -> bool:
    """Adds deliveries for a batch of new events. Returns whether more remain.

    Without a webhook an event waits for WAIT_FOR_WEBHOOK: another process may have a webhook, or the operator
    may set one soon.
    """
    until = now if has_webhook else now - WAIT_FOR_WEBHOOK
    found = await db.read(selecting(FIND_WAITING_EVENTS, until=until))
    taken = await take_each(db, found, partial(queueing_deliveries, has_webhook, now))
    return len(found) == SEARCH_LIMIT and bool(taken)


def queueing_deliveries(
    has_webhook: bool, now: datetime, caregiver: int, events: list[int]
) -> Steps[list[int]]:
    values = {"caregiver": caregiver, "events": events, "now": now}
    locked = [row[0] for row in (yield TAKE_EVENTS, values)]
    if locked:
        yield MARK_EVENTS_QUEUED, {**values, "events": locked}
        if has_webhook:
            yield ADD_DELIVERIES, {**values, "events": locked}
    return locked


# --- batches --------------------------------------------------------------------------------------


async def take_each(
    db: Database,
    found: Keys,
    take: Callable[[int, list[int]], Steps[list[Result]]],
    taken: list[Result] | None = None,
) -> list[Result]:
    """Runs `take` in one transaction per caregiver and batch, and returns all results. An error with the rows
    of one caregiver is logged and does not delay others.

    Raises DatabaseUnavailable. A caller that needs the results up to this error passes the list `taken`.
    """
    taken = [] if taken is None else taken
    for caregiver, ids in batches_of(found):
        try:
            taken += await db.write(take(caregiver, ids))
        except DatabaseUnavailable:
            raise  # the next caregiver would fail as well
        except Exception:
            logger.exception("waiting rows of caregiver %s cannot be processed", caregiver)
    return taken


def batches_of(found: Keys) -> Iterator[tuple[int, list[int]]]:
    for caregiver, keys in groupby(sorted(map(tuple, found)), key=lambda key: key[0]):
        ids = [id for _, id in keys]
        for at in range(0, len(ids), BATCH_SIZE):
            yield caregiver, ids[at : at + BATCH_SIZE]
