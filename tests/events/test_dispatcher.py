"""The dispatcher continues after errors, sends reminders although receivers are slow, and at shutdown
finishes work in progress without beginning more."""

import asyncio
import re
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from functools import partial
from typing import Any

import pytest

from app.db.audit.records import recording
from app.db.drivers.factory import open_database
from app.db.drivers.interface import Database, DatabaseUnavailable
from app.db.moments import moment_as_text
from app.db.sql import Steps
from app.events import dispatcher
from app.events.deliveries import DELIVERED_PERIOD, MAX_CONCURRENT, deliver
from app.events.dispatcher import dispatch, process_outbox, seal_some
from app.events.webhook import open_webhook
from app.main import create_app
from app.server.background import in_background
from app.settings import KEEP_ALL, Settings
from app.telemetry import counters
from tests.audit.test_chain import records
from tests.callers import opened
from tests.db.small_steps import sql
from tests.events.conftest import Care
from tests.events.receiver import SECRET, Receiver
from tests.factories import DAY, HOUR, NOW
from tests.fault_injection import Failing
from tests.patience import PATIENCE

BEFORE = NOW - 2 * HOUR  # no reminder is due yet
WORKS = ("audit trail", "outbox", "removal", "retention", "webhook")
SENT = sql("SELECT count(*) FROM reminder WHERE state = 'SENT'")


@asynccontextmanager
async def open_care(care: Care) -> AsyncIterator[Database]:
    db = await open_database(care.settings.database)
    try:
        yield db
    finally:
        await db.close()


async def wait_for_requests(receiver: Receiver, times: int = 1) -> None:
    for _ in range(times):
        assert await asyncio.to_thread(receiver.has_received.acquire, timeout=PATIENCE)


def is_sent() -> Steps[bool]:
    return (yield SENT, {})[0][0] > 0


async def until(is_so: Callable[[], Awaitable[bool]]) -> None:
    async with asyncio.timeout(PATIENCE):
        while not await is_so():
            await asyncio.sleep(0)


def test_the_dispatcher_sends_reminders_and_deliveries_by_itself(
    with_webhook: Care, receiver: Receiver
) -> None:
    async def work() -> None:
        async with (
            open_care(with_webhook) as db,
            in_background(partial(dispatch, db, open_webhook(with_webhook.settings), lambda: NOW)),
        ):
            await wait_for_requests(receiver)

    asyncio.run(work())

    assert with_webhook.deliveries() == [(1, "DELIVERED", 1, "200")]
    assert receiver.ids() == ["evt_1"]


@pytest.mark.sqlite_only
def test_the_dispatcher_continues_after_errors(
    with_webhook: Care, receiver: Receiver, caplog: pytest.LogCaptureFixture
) -> None:
    faults = [RuntimeError("broken"), DatabaseUnavailable("the disk is full"), RuntimeError("broken")]

    async def work() -> None:
        async with open_care(with_webhook) as db:
            stop = asyncio.Event()
            failing = Failing(db, [*faults, *faults])
            webhook = open_webhook(with_webhook.settings)
            working = asyncio.create_task(dispatch(failing, webhook, lambda: NOW, stop, pause=0.001))
            await wait_for_requests(receiver)
            stop.set()
            await working

    asyncio.run(work())

    messages = sorted(re.sub(r" \(.*?\)", "", message) for message in caplog.messages)
    assert messages == [
        *["the dispatcher failed and is started again"] * 4,
        *["the dispatcher waits for the database: the disk is full"] * 2,
    ]


def test_an_error_with_one_caregiver_does_not_delay_others(
    with_webhook: Care, receiver: Receiver, caplog: pytest.LogCaptureFixture
) -> None:
    with_webhook.add_event("SUBMITTED")
    with_webhook.rows(
        "INSERT INTO delivery (event_id, caregiver_id, client_id, state, attempts, next_date)"
        " VALUES (1, 1, 1, 'DEAD', 0, '2026-11-21T06:30:00.000000Z')"  # there already: a second one breaks
    )
    with_webhook.rows(
        "INSERT INTO event (caregiver_id, client_id, kind, session_id, moment)"
        " VALUES (2, 2, 'SESSION_UPDATED', 5, '2026-11-21T06:30:00.000000Z')"
    )

    with_webhook.dispatch(BEFORE)

    assert receiver.ids() == ["evt_2"]
    assert {record.message for record in caplog.records if record.name == "care.dispatch"} == {
        "waiting rows of caregiver 1 cannot be processed"
    }


def test_deliveries_that_cannot_be_processed_do_not_stop_the_webhook(
    with_webhook: Care, receiver: Receiver
) -> None:
    """They fill several batches, and are due before the others."""
    damaged = 3 * MAX_CONCURRENT
    events, due = [], []
    for number in range(1, damaged + 2):
        who = 1 if number <= damaged else 2
        moment = f"'2026-11-21T0{who}:00:00.000000Z'"
        events.append(f"({who}, {who}, 'SESSION_UPDATED', 1, {moment}, {moment})")
        due.append(f"({number}, {who}, {who}, 'WAITING', 0, {moment})")
    of_event = "caregiver_id, client_id, kind, session_id, moment, hand_over_date"
    of_delivery = "event_id, caregiver_id, client_id, state, attempts, next_date"
    with_webhook.rows(f"INSERT INTO event ({of_event}) VALUES {', '.join(events)}")
    with_webhook.rows(f"INSERT INTO delivery ({of_delivery}) VALUES {', '.join(due)}")
    reject_deliveries_of_caregiver_1(with_webhook)

    with_webhook.dispatch(BEFORE)

    assert receiver.ids() == [f"evt_{damaged + 1}"]


def test_deliveries_that_cannot_be_processed_are_tried_again_after_a_pause(with_webhook: Care) -> None:
    """Without it the dispatcher would do nothing else."""
    with_webhook.rows("UPDATE reminder SET state = 'SKIPPED'")
    for _ in range(MAX_CONCURRENT + 1):
        with_webhook.add_event("SUBMITTED")
    webhook = open_webhook(with_webhook.settings)
    assert webhook is not None

    async def work() -> bool:
        async with open_care(with_webhook) as db:
            await process_outbox(db, True, BEFORE)
            await asyncio.to_thread(reject_deliveries_of_caregiver_1, with_webhook)
            return await deliver(db, webhook, lambda: BEFORE)

    assert asyncio.run(work()) is False
    assert {state for _, state, _, _ in with_webhook.deliveries()} == {"WAITING"}


@pytest.mark.sqlite_only
def test_a_full_seal_is_followed_by_the_next(care: Care, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("app.db.audit.chain.MAX_SEALED", 2)

    async def run() -> list[bool]:
        async with open_care(care) as db:
            await db.write(recording(records(3)))
            return [await seal_some(db, NOW) for _ in range(2)]

    assert asyncio.run(run()) == [True, False]


HOURLY = 3600 * PATIENCE


@pytest.mark.sqlite_only
@pytest.mark.parametrize(
    ("fails", "pauses"),
    [(False, [PATIENCE] * 3 + [HOURLY] * 2), (True, [5 * PATIENCE] * 5)],
    ids=["a run", "an error"],
)
def test_the_dispatcher_pauses_after_each_run_and_after_an_error(
    care: Care, monkeypatch: pytest.MonkeyPatch, fails: bool, pauses: list[float]
) -> None:
    """The time of a pause is longer than the test. Nothing is left to do. The end interrupts each pause."""
    webhook = open_webhook(Settings(webhook_url="http://127.0.0.1:1", webhook_secret=SECRET))
    care.rows("UPDATE reminder SET state = 'SKIPPED'")
    monkeypatch.setattr(dispatcher, "FINISH_SECONDS", PATIENCE)
    seen: list[float] = []
    limit = asyncio.timeout

    def timeout(seconds: float | None) -> asyncio.Timeout:
        if seconds in pauses:
            seen.append(seconds)
        return limit(seconds)

    async def work() -> None:
        async with open_care(care) as db:
            stop = asyncio.Event()
            failing = Failing(db, [RuntimeError("broken") for _ in range(100)] if fails else [])
            monkeypatch.setattr(asyncio, "timeout", timeout)
            working = asyncio.create_task(dispatch(failing, webhook, lambda: NOW, stop, pause=PATIENCE))
            while len(seen) < len(pauses):
                await asyncio.sleep(0)
            stop.set()
            await working

    asyncio.run(work())

    assert sorted(seen) == pauses


@pytest.mark.sqlite_only
def test_after_an_error_the_dispatcher_pauses(with_webhook: Care, caplog: pytest.LogCaptureFixture) -> None:
    """The time of a pause is longer than the test."""

    async def work() -> None:
        async with open_care(with_webhook) as db:
            stop = asyncio.Event()
            failing = Failing(db, [RuntimeError("broken") for _ in range(100)])
            webhook = open_webhook(with_webhook.settings)
            working = asyncio.create_task(dispatch(failing, webhook, lambda: NOW, stop, pause=PATIENCE))
            async with asyncio.timeout(PATIENCE):
                while len(caplog.messages) < len(WORKS):
                    await asyncio.sleep(0)
            for _ in range(100):
                await asyncio.sleep(0)
            stop.set()
            await working

    asyncio.run(work())

    assert sorted(caplog.messages) == [
        f"the dispatcher ({name}) failed and is started again" for name in WORKS
    ]


def reject_deliveries_of_caregiver_1(care: Care) -> None:
    if care.settings.database.startswith("sqlite:"):
        error = "SELECT RAISE(ABORT, 'damaged') WHERE OLD.caregiver_id = 1"
        care.rows(f"CREATE TRIGGER damaged BEFORE UPDATE ON delivery BEGIN {error}; END")
        return
    body = "BEGIN IF OLD.caregiver_id = 1 THEN RAISE 'damaged'; END IF; RETURN NEW; END"
    care.rows(f"CREATE FUNCTION damaged() RETURNS trigger LANGUAGE plpgsql AS $${body}$$")
    care.rows("CREATE TRIGGER damaged BEFORE UPDATE ON delivery FOR EACH ROW EXECUTE FUNCTION damaged()")


@pytest.mark.sqlite_only
def test_a_hanging_receiver_does_not_delay_reminders(with_webhook: Care, receiver: Receiver) -> None:
    with_webhook.rows("UPDATE reminder SET state = 'SKIPPED'")
    receiver.hold()
    for _ in range(MAX_CONCURRENT + 3):
        with_webhook.add_event("SUBMITTED")

    async def work() -> None:
        async with (
            open_care(with_webhook) as db,
            in_background(partial(dispatch, db, open_webhook(with_webhook.settings), lambda: NOW)),
        ):
            await wait_for_requests(receiver, MAX_CONCURRENT)
            await asyncio.to_thread(with_webhook.rows, "UPDATE reminder SET state = 'SCHEDULED' WHERE id = 2")
            await until(lambda: db.read(is_sent()))
            assert len(receiver.received) == MAX_CONCURRENT
            receiver.is_released.set()

    asyncio.run(work())

    assert with_webhook.reminders()[2] == "SENT"


@pytest.mark.sqlite_only
def test_an_attempt_in_progress_is_finished_at_shutdown(with_webhook: Care, receiver: Receiver) -> None:
    receiver.hold()

    async def work() -> None:
        async with open_care(with_webhook) as db:
            stop = asyncio.Event()
            working = asyncio.create_task(
                dispatch(db, open_webhook(with_webhook.settings), lambda: NOW, stop)
            )
            await wait_for_requests(receiver)
            stop.set()
            receiver.is_released.set()
            await working

    asyncio.run(work())

    assert with_webhook.deliveries() == [(1, "DELIVERED", 1, "200")]


@pytest.mark.sqlite_only
def test_a_receiver_that_hangs_does_not_delay_a_shutdown(
    with_webhook: Care, receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(dispatcher, "FINISH_SECONDS", 0.01)
    receiver.hold()

    async def work() -> None:
        async with open_care(with_webhook) as db:
            stop = asyncio.Event()
            working = asyncio.create_task(
                dispatch(db, open_webhook(with_webhook.settings), lambda: NOW, stop)
            )
            await wait_for_requests(receiver)
            stop.set()
            await working
            assert [task for task in asyncio.all_tasks() if "keep_running" in repr(task)] == []

    asyncio.run(work())

    assert with_webhook.deliveries() == [(1, "WAITING", 1, None)]


@pytest.mark.sqlite_only
def test_all_work_is_done_at_the_time_of_its_run(with_webhook: Care, receiver: Receiver) -> None:
    """A dispatcher runs for months. Two months later it sends the reminders, seals the record, and removes
    the delivery and its event."""
    later = NOW + 60 * DAY
    now = [BEFORE]
    with_webhook.add_event("SUBMITTED")

    async def are(sql: str, rows: list[Any]) -> bool:
        return await asyncio.to_thread(with_webhook.rows, sql) == rows

    async def work() -> None:
        async with (
            open_care(with_webhook) as db,
            in_background(
                partial(
                    dispatch,
                    db,
                    open_webhook(with_webhook.settings),
                    lambda: now[0],
                    pause=0,
                    periods=KEEP_ALL._replace(events=30),
                )
            ),
        ):
            await until(lambda: are("SELECT event_id, state FROM delivery", [(1, "DELIVERED")]))
            now[0] = later
            await db.write(recording(records(1)))
            await until(lambda: are("SELECT moment FROM audit_seal", [(moment_as_text(later),)]))
            await until(lambda: are("SELECT DISTINCT moment FROM event", [(moment_as_text(later),)]))
            week_on = moment_as_text(later + DELIVERED_PERIOD)
            posted = [(2, "DELIVERED", week_on), (3, "DELIVERED", week_on)]
            await until(lambda: are("SELECT event_id, state, next_date FROM delivery ORDER BY 1", posted))

    asyncio.run(work())

    assert with_webhook.reminders() == {1: "SENT", 2: "SENT"}


@pytest.mark.sqlite_only
def test_a_cancelled_dispatcher_ends_at_once_and_the_event_waits(
    with_webhook: Care, receiver: Receiver
) -> None:
    receiver.hold()

    async def work() -> None:
        async with open_care(with_webhook) as db:
            webhook = open_webhook(with_webhook.settings)
            working = asyncio.create_task(dispatch(db, webhook, lambda: NOW, asyncio.Event()))
            await wait_for_requests(receiver)
            working.cancel()
            with pytest.raises(asyncio.CancelledError):
                await working
            assert [task for task in asyncio.all_tasks() if "keep_running" in repr(task)] == []

    asyncio.run(work())

    assert with_webhook.deliveries() == [(1, "WAITING", 1, None)]


@pytest.mark.once_on_postgresql
@pytest.mark.parametrize("is_on", [True, False], ids=["on", "off"])
def test_the_server_dispatches_unless_disabled(with_webhook: Care, receiver: Receiver, is_on: bool) -> None:
    changed: dict[str, Any] = {"dispatcher": is_on}
    app = create_app(with_webhook.settings.model_copy(update=changed), clock=lambda: NOW)

    with opened(app) as client:
        if is_on:
            assert receiver.has_received.acquire(timeout=PATIENCE)
        assert client.get("/readyz").status_code == 200

    assert with_webhook.deliveries() == ([(1, "DELIVERED", 1, "200")] if is_on else [])
    assert with_webhook.reminders()[2] == ("SENT" if is_on else "SCHEDULED")


@pytest.mark.parametrize("reads", [0, 1])
def test_a_run_is_recorded_when_it_has_ended(care: Care, reads: int) -> None:
    """The database fails at the first read, of reminders, or at the second, of events."""
    care.rows("UPDATE reminder SET state = 'SKIPPED'")

    async def run() -> tuple[set[str], set[str]]:
        async with open_care(care) as db:
            counters.last_runs.clear()
            with pytest.raises(DatabaseUnavailable):
                await process_outbox(Failing(db, [DatabaseUnavailable(), *[None] * reads]), False, NOW)
            before = set(counters.last_runs)
            await process_outbox(db, False, NOW)
            if reads == 0:
                with pytest.raises(DatabaseUnavailable):
                    await seal_some(Failing(db, [DatabaseUnavailable()]), NOW)
            return before, set(counters.last_runs)

    assert asyncio.run(run()) == (set(), {"outbox"})
