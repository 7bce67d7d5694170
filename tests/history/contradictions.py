"""What contradicts the history of a run: the rows, the webhook, subscribers and the audit log."""

import asyncio
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import closing, suppress
from datetime import UTC, datetime
from functools import partial
from random import Random
from typing import Any

from app.db.drivers.factory import open_database
from app.db.session_counters import differences
from app.events.deliveries import retry_event
from app.events.webhook import TYPES
from app.telemetry.wording import OperatorError
from tests.callers import run_read
from tests.crash.changes import moment
from tests.db import raw
from tests.events.receiver import SECRET
from tests.history.callers import Caller
from tests.history.checker import Act, Call, check, printed, shrink
from tests.history.gateways import Gateways, wait_until
from tests.history.life import PARTIES, Life, Name, new_life, number_of
from tests.history.recording import History
from tests.history.subscribers import wrong

# A session is known by its description, which never changes.
NAMES = "SELECT id, description FROM session"
NUMBERS = "SELECT id, session_id, book_id, start_date FROM assignment ORDER BY id"
EVENTS = "SELECT id, session_id, kind, assignment_id, caregiver_id, client_id FROM event ORDER BY id"
AUDIT = "SELECT operation, count(*) FROM audit_record WHERE outcome = 'DONE' GROUP BY operation"
UNDELIVERED = "SELECT event_id FROM delivery WHERE state <> 'DELIVERED' AND attempts > 0"
OPERATIONS = {
    "SESSION_CREATED": "createSession",
    "SESSION_UPDATED": "updateSession",
    "ASSIGNED": "assignHomework",
    "EXTENDED": "extendAssignment",
    "REMINDERS_SET": "setReminders",
    "WITHDRAWN": "withdrawAssignment",
    "DRAFT_SAVED": "saveAnswers",
    "SUBMITTED": "submitAnswers",
    "REOPENED": "reopenAssignment",
    "FEEDBACK_GIVEN": "giveFeedback",
    "SESSION_CLOSED": "closeSession",
}
Kinds = dict[int | None, list[str]]  # of events, by the number of their assignment


def contradictions(gateways: Gateways, history: History) -> list[str]:
    """The stored rows are read last, so the order has to end with them."""
    for session in PARTIES:
        for is_client in (False, True):
            last = Caller(history, session, is_client, Random(0))
            with closing(last.sender):
                for name in last.sessions():
                    last.look(name)
    found = wrong_deliveries(gateways)
    names = dict(raw.run(gateways.url, NAMES))
    numbers, made = numbers_of_assignments(gateways.url, names)
    kinds: dict[Name, Kinds] = {name: {} for name in [*names.values(), *history.lines]}
    for _, session, kind, assignment, *_ in raw.run(gateways.url, EVENTS):
        kinds[names[session]].setdefault(numbers.get(assignment), []).append(kind)
    for name in list(history.lines):
        found += without_order(history, name, kinds[name], made.get(name, []), not found)
    is_sqlite = gateways.url.startswith("sqlite:")  # with one writer
    for subscriber in gateways.subscribers:
        role, number = subscriber.role, subscriber.number
        faults = wrong(subscriber, gateways.visible(role, number), commits_in_order=is_sqlite)
        found += [f"{role} {number}: {each}" for each in faults]
    found += wrong_records(gateways.url, kinds)
    return [*history.unexpected, *found, *map(str, run_read(gateways.url, differences()))]


def numbers_of_assignments(url: str, names: dict[int, Name]) -> tuple[dict[int, int], dict[Name, list[int]]]:
    """The number of each assignment in its session, and those of each session in the order of their ids."""
    numbers: dict[int, int] = {}
    made: dict[Name, list[int]] = {}
    for id, session, book, start in raw.run(url, NUMBERS):
        numbers[id] = number_of(book, moment(start))
        made.setdefault(names[session], []).append(numbers[id])
    return numbers, made


def without_order(
    history: History, name: Name, kinds: Kinds, numbers: list[int], is_first: bool
) -> list[str]:
    """The first one is shrunk."""
    now = time.monotonic()
    stored = Call("the stored events", now, now, (Act(lambda life: life.kinds, kinds),))
    lines = [*history.lines_of(name), [stored]]
    life, fits = new_life(name), partial(Life.leads_to, kinds=kinds, numbers=numbers)
    verdict = check(lines, life, fits)
    if verdict.order is not None:
        return []
    found = f"seed {history.seed}, session {name}: " + ("no order" if verdict.is_over else "no order found")
    if not is_first or not verdict.is_over:
        return [found]
    small = shrink(lines, life, fits)
    verdict = check(small, life, fits)
    return [found, *printed(small), "explained:", *verdict.longest, "not explained:", *verdict.stuck]


def wrong_records(url: str, kinds: dict[Name, Kinds]) -> Iterator[str]:
    """One audit record for each performed change, none for a rejected one."""
    emitted = Counter(kind for of in kinds.values() for own in of.values() for kind in own)
    created = sum(None in own and "ASSIGNED" in own.get(0, ()) for own in kinds.values())
    emitted["ASSIGNED"] -= created  # together with their session
    recorded: dict[str, int] = dict(raw.run(url, AUDIT))
    for kind, operation in OPERATIONS.items():
        if recorded.get(operation, 0) != emitted[kind]:
            yield f"{emitted[kind]} events {kind}, but {recorded.get(operation, 0)} audit records"


def wrong_deliveries(gateways: Gateways) -> list[str]:
    """Each event was posted at least once, except saved drafts, which only the client sees. Attempts that
    failed or whose process ended are made again at once, as by the command."""

    def are_delivered() -> bool:
        failed = [event for (event,) in raw.run(gateways.url, UNDELIVERED)]
        asyncio.run(retry(gateways.url, failed))
        return not failed and {each.id for each in gateways.receiver.received} >= expected.keys()

    expected = {
        f"evt_{id}": (TYPES[kind], session, assignment, caregiver, client)
        for id, session, kind, assignment, caregiver, client in raw.run(gateways.url, EVENTS)
        if kind in TYPES
    }
    wait_until(are_delivered, "all events are posted", pause=0.5)
    posted = {each.id: read_post(each.verified(SECRET)) for each in list(gateways.receiver.received)}
    return [
        f"posted {id} {posted[id]}, not {expected.get(id)}" for id in posted if posted[id] != expected.get(id)
    ]


def read_post(body: dict[str, Any]) -> tuple[Any, ...]:
    names = ("sessionId", "assignmentId", "caregiverId", "clientId")
    return (body["type"], *(body["data"][name] for name in names))


async def retry(url: str, events: list[int]) -> None:
    if events:
        db = await open_database(url)
        for event in events:
            with suppress(OperatorError):  # it is delivered by now
                await retry_event(db, event, datetime.now(UTC))
        await db.close()
