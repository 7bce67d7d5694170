"""The outbox: reminders that are due become events, and events are handed over to their delivery."""

from datetime import datetime, timedelta
from functools import partial

from app.db.drivers.interface import Database
from app.db.sql import Operation
from app.db.statements.dispatch import (
    ADD_DELIVERIES,
    FIND_DUE_REMINDERS,
    FIND_WAITING_EVENTS,
    HAND_OVER_EVENTS,
    INSERT_REMINDER_EVENTS,
    MARK_REMINDERS,
    MOST_FOUND,
    TAKE_EVENTS,
    TAKE_REMINDERS,
)
from app.db.tables import ReminderState
from app.events.batches import finding, take_each

WAIT_FOR_WEBHOOK = timedelta(days=1)


async def remind(db: Database, now: datetime) -> bool:
    """Fires some of the reminders that are due. Is there more to do?"""
    found = await db.read(finding(FIND_DUE_REMINDERS, {"now": now}))
    taken = await take_each(db, found, partial(reminding, now))
    return len(found) == MOST_FOUND and bool(taken)


def reminding(now: datetime, caregiver: int, reminders: list[int]) -> Operation[list[int]]:
    """The event is written with the state, so a reminder fires once, whoever dies when."""
    values = {"caregiver": caregiver, "reminders": reminders, "now": now}
    held = yield TAKE_REMINDERS, values
    due = [id for id, is_to_do in held if is_to_do]
    over = [id for id, is_to_do in held if not is_to_do]
    if over:
        yield MARK_REMINDERS, {**values, "reminders": over, "to": ReminderState.SKIPPED}
    if due:
        yield MARK_REMINDERS, {**values, "reminders": due, "to": ReminderState.SENT}
        yield INSERT_REMINDER_EVENTS, {**values, "reminders": due}
    return [id for id, _ in held]


async def hand_over(db: Database, has_webhook: bool, now: datetime) -> bool:
    """Hands over some of the events that wait. Is there more to do?

    Without a webhook nobody is to be told. But another process may know of one, or will soon: so long they
    wait for it.
    """
    until = now if has_webhook else now - WAIT_FOR_WEBHOOK
    found = await db.read(finding(FIND_WAITING_EVENTS, {"until": until}))
    taken = await take_each(db, found, partial(handing_over, has_webhook, now))
    return len(found) == MOST_FOUND and bool(taken)


def handing_over(has_webhook: bool, now: datetime, caregiver: int, events: list[int]) -> Operation[list[int]]:
    values = {"caregiver": caregiver, "events": events, "now": now}
    held = [row[0] for row in (yield TAKE_EVENTS, values)]
    if held:
        yield HAND_OVER_EVENTS, {**values, "events": held}
        if has_webhook:
            yield ADD_DELIVERIES, {**values, "events": held}
    return held
