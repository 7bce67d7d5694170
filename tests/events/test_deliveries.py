"""Events are posted signed, with ids only, at least once and always with the same id, with growing pauses
until a 2xx response. A delivery that never succeeds ends as dead."""

import asyncio
import json
import socket
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from app.db.drivers.interface import Database, DatabaseUnavailable
from app.db.moments import moment_as_text
from app.db.statements.deliveries import REMOVE_DELIVERIES, RETRY_DELIVERIES
from app.events import deliveries
from app.events.deliveries import LEASE, PAUSES, counting_attempts, deliver, storing_outcome, updating
from app.events.dispatcher import process_outbox
from app.events.webhook import TYPES, PostResult, open_webhook
from app.telemetry import counters
from tests.callers import run_read, run_write
from tests.database_rows import all_rows, of_other_people
from tests.events.conftest import Care, dispatching, on_database
from tests.events.receiver import OTHER_SECRET, SECRET, Receiver
from tests.factories import HOUR, NOW
from tests.fault_injection import Failing

SUBMITTED = (
    b'{"type":"assignment.submitted","timestamp":"2026-11-21T06:30:00.000000Z",'
    b'"data":{"sessionId":4,"assignmentId":6,"caregiverId":1,"clientId":2,"reminderId":null}}'
)
PAGE = Path(__file__).parent.parent.parent / "docs" / "webhook.md"
BEFORE = NOW - 2 * HOUR  # no reminder is due yet
LONG_AGO = "2020-01-01T09:00:00.000000Z"


def test_an_event_is_posted_with_ids_only(with_webhook: Care, receiver: Receiver) -> None:
    with_webhook.add_event("SUBMITTED")

    with_webhook.dispatch(BEFORE)

    (one,) = receiver.received
    signature = one.headers.pop("webhook-signature")
    assert (one.path, one.body) == ("/care?to=us", SUBMITTED)
    assert one.headers == {
        "host": receiver.url.split("/")[2],
        "content-type": "application/json",
        "user-agent": "care-gateway",
        "webhook-id": "evt_1",
        "webhook-timestamp": str(int(BEFORE.timestamp())),
        "content-length": str(len(SUBMITTED)),
        "connection": "close",
    }
    assert signature.startswith("v1,")
    assert with_webhook.deliveries() == [(1, "DELIVERED", 1, "200")]


def test_a_due_reminder_is_posted_in_the_same_run(with_webhook: Care, receiver: Receiver) -> None:
    with_webhook.rows("UPDATE reminder SET id = 7 WHERE id = 2")

    with_webhook.dispatch()

    (one,) = receiver.received
    assert one.verified(SECRET) == {
        "type": "reminder.due",
        "timestamp": "2026-11-21T09:00:00.000000Z",
        "data": {"sessionId": 4, "assignmentId": 6, "caregiverId": 1, "clientId": 2, "reminderId": 7},
    }
    assert of_other_people(run_read(with_webhook.settings.database, all_rows())) == []


@pytest.mark.sqlite_only
def test_the_request_is_signed_with_the_secret(with_webhook: Care, receiver: Receiver) -> None:
    with_webhook.add_event("SUBMITTED")

    with_webhook.dispatch(BEFORE)

    (one,) = receiver.received
    assert one.verified(SECRET)["type"] == "assignment.submitted"
    with pytest.raises(AssertionError):
        one.verified(OTHER_SECRET)


@pytest.mark.sqlite_only
def test_during_a_rotation_both_secrets_verify(with_webhook: Care, receiver: Receiver) -> None:
    with_webhook.add_event("SUBMITTED")

    with_webhook.dispatch(BEFORE, webhook_secret=f"{OTHER_SECRET} {SECRET}")

    (one,) = receiver.received
    assert one.verified(SECRET) == one.verified(OTHER_SECRET)


def test_a_failed_delivery_is_retried_after_a_pause(with_webhook: Care, receiver: Receiver) -> None:
    receiver.answers = [500]
    with_webhook.add_event("SUBMITTED")

    with_webhook.dispatch(BEFORE)
    with_webhook.dispatch(BEFORE + PAUSES[0] - timedelta(milliseconds=1))
    after_one = with_webhook.deliveries()
    with_webhook.dispatch(BEFORE + PAUSES[0])

    assert after_one == [(1, "WAITING", 1, "500")]
    assert with_webhook.deliveries() == [(1, "DELIVERED", 2, "200")]
    first, second = receiver.received
    assert (first.id, first.body) == (second.id, second.body)
    assert first.headers["webhook-timestamp"] != second.headers["webhook-timestamp"]
    assert first.verified(SECRET) == second.verified(SECRET)


@pytest.mark.sqlite_only
def test_pauses_grow_until_the_delivery_is_dead(with_webhook: Care, receiver: Receiver) -> None:
    with_webhook.rows("UPDATE reminder SET state = 'SKIPPED'")
    receiver.answers = [503] * 20
    with_webhook.add_event("SUBMITTED")
    now, seen = BEFORE, []

    for pause in (*PAUSES, timedelta(days=30), timedelta(0)):
        with_webhook.dispatch(now)
        seen += with_webhook.deliveries()
        now += pause

    assert list(PAUSES) == sorted(PAUSES)
    assert seen[:10] == [(1, "WAITING", number, "503") for number in range(1, 11)]
    assert seen[10:] == [(1, "DEAD", 11, "503")] * 2
    failed = moment_as_text(BEFORE + sum(PAUSES, timedelta(0)))  # from which its retention counts
    assert with_webhook.rows("SELECT next_date FROM delivery") == [(failed,)]
    assert receiver.ids() == ["evt_1"] * 11


ANSWERS = {
    204: ("DELIVERED", "204"),
    301: ("WAITING", "301"),
    307: ("WAITING", "307"),
    404: ("WAITING", "404"),
    410: ("WAITING", "410"),
}


@pytest.mark.once_on_postgresql
@pytest.mark.parametrize("status", ANSWERS)
def test_only_a_2xx_accepts_and_redirects_are_not_followed(
    with_webhook: Care, receiver: Receiver, status: int
) -> None:
    receiver.answers = [status]
    with_webhook.add_event("SUBMITTED")

    with_webhook.dispatch(BEFORE)

    state, outcome = ANSWERS[status]
    assert with_webhook.deliveries() == [(1, state, 1, outcome)]
    assert [one.path for one in receiver.received] == ["/care?to=us"]


@pytest.mark.sqlite_only
@pytest.mark.parametrize(("events", "more"), [(0, []), (1, []), (2, []), (3, [True]), (5, [True, True])])
def test_due_deliveries_are_made_in_batches_without_a_pause(
    with_webhook: Care, receiver: Receiver, monkeypatch: pytest.MonkeyPatch, events: int, more: list[bool]
) -> None:
    """A batch has at most two here."""
    monkeypatch.setattr(deliveries, "MAX_CONCURRENT", 2)
    for _ in range(events):
        with_webhook.add_event("SUBMITTED")
    webhook = open_webhook(with_webhook.settings)
    assert webhook is not None
    results = []

    async def work(db: Database) -> None:
        await process_outbox(db, True, BEFORE)
        results.extend([await deliver(db, webhook, lambda: BEFORE) for _ in (*more, "the last")])

    asyncio.run(on_database(with_webhook.settings.database, work))

    assert results == [*more, False]
    assert sorted(receiver.ids()) == [f"evt_{number}" for number in range(1, events + 1)]


@pytest.mark.sqlite_only
def test_a_batch_of_which_another_process_has_taken_a_part_is_not_filled_up(
    with_webhook: Care, receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two events are posted at once here, at most."""
    monkeypatch.setattr(deliveries, "MAX_CONCURRENT", 2)
    for _ in range(4):
        with_webhook.add_event("SUBMITTED")
    webhook = open_webhook(with_webhook.settings)
    assert webhook is not None
    results = []

    class TakenMeanwhile(Failing):
        async def read(self, steps: Any) -> Any:
            found = await super().read(steps)
            await self.db.write(counting_attempts(BEFORE, 1, [1]))
            return found

    async def work(db: Database) -> None:
        await process_outbox(db, True, BEFORE)
        for _ in range(2):
            has_more = await deliver(TakenMeanwhile(db, []), webhook, lambda: BEFORE)
            results.append((has_more, sorted(receiver.ids())))

    asyncio.run(on_database(with_webhook.settings.database, work))

    assert results == [(True, ["evt_2"]), (False, ["evt_2", "evt_3", "evt_4"])]


@pytest.mark.sqlite_only
def test_a_failed_delivery_does_not_delay_others(with_webhook: Care, receiver: Receiver) -> None:
    receiver.answers = [500] * 8
    for _ in range(20):
        with_webhook.add_event("SUBMITTED")

    with_webhook.dispatch(BEFORE)

    assert sorted(receiver.ids()) == sorted(f"evt_{number}" for number in range(1, 21))
    assert [one[1] for one in with_webhook.deliveries()].count("DELIVERED") == 12


def test_several_dispatchers_deliver_each_event_once(with_webhook: Care, receiver: Receiver) -> None:
    for number in range(60):
        with_webhook.add_event("SUBMITTED", client=1 + number % 2)

    async def all_at_once() -> None:
        await asyncio.gather(*(dispatching(with_webhook.settings, BEFORE) for _ in range(3)))

    asyncio.run(all_at_once())

    assert sorted(receiver.ids()) == sorted(f"evt_{number}" for number in range(1, 61))
    assert {one[1:] for one in with_webhook.deliveries()} == {("DELIVERED", 1, "200")}


def test_a_delivery_of_a_killed_process_is_retried_after_the_lease(
    with_webhook: Care, receiver: Receiver
) -> None:
    receiver.answers = [500]
    with_webhook.add_event("SUBMITTED")
    with_webhook.dispatch(BEFORE)
    later = BEFORE + HOUR
    (taken,) = run_write(with_webhook.settings.database, counting_attempts(later, 1, [1]))

    with_webhook.dispatch(later + LEASE - timedelta(milliseconds=1))
    meanwhile = with_webhook.deliveries()
    with_webhook.dispatch(later + LEASE)

    assert (taken.number, taken.event.id) == (2, 1)
    assert meanwhile[0] == (1, "WAITING", 2, "500")
    assert with_webhook.deliveries()[0] == (1, "DELIVERED", 3, "200")
    assert receiver.ids().count("evt_1") == 2


def test_a_late_failure_does_not_undo_a_later_success(with_webhook: Care, receiver: Receiver) -> None:
    url = with_webhook.settings.database
    receiver.answers = [500]
    with_webhook.add_event("SUBMITTED")
    with_webhook.dispatch(BEFORE)
    (late,) = run_write(url, counting_attempts(BEFORE + HOUR, 1, [1]))
    with_webhook.dispatch(BEFORE + HOUR + LEASE)
    delivered = with_webhook.deliveries()[0]

    run_write(url, storing_outcome(late, PostResult("500"), BEFORE + HOUR + 2 * LEASE))

    assert delivered == (1, "DELIVERED", 3, "200")
    assert with_webhook.deliveries()[0] == delivered


def test_an_attempt_that_was_begun_before_a_retry_by_an_operator_does_not_delay_it(
    with_webhook: Care, receiver: Receiver
) -> None:
    url = with_webhook.settings.database
    receiver.answers = [500]
    with_webhook.add_event("SUBMITTED")
    with_webhook.dispatch(BEFORE)
    (late,) = run_write(url, counting_attempts(BEFORE + HOUR, 1, [1]))
    run_write(url, updating(RETRY_DELIVERIES, NOW, 1, [1]))
    due = with_webhook.rows("SELECT state, attempts, next_date FROM delivery")

    run_write(url, storing_outcome(late, PostResult("500"), BEFORE + HOUR))

    assert due[0][:2] == ("WAITING", 0)
    assert with_webhook.rows("SELECT state, attempts, next_date FROM delivery") == due


def test_a_delivery_whose_state_has_changed_since_it_was_found_stays(
    with_webhook: Care, receiver: Receiver
) -> None:
    url = with_webhook.settings.database
    receiver.answers = [200, 500]
    with_webhook.add_event("SUBMITTED")
    with_webhook.dispatch(BEFORE)
    with_webhook.add_event("SUBMITTED")
    with_webhook.dispatch(BEFORE)
    before = with_webhook.deliveries()

    run_write(url, updating(RETRY_DELIVERIES, NOW, 1, [1]))
    run_write(url, updating(REMOVE_DELIVERIES, NOW, 1, [2]))

    assert before == with_webhook.deliveries() == [(1, "DELIVERED", 1, "200"), (2, "WAITING", 1, "500")]


def test_counted_attempts_are_posted_although_the_database_fails_afterwards(
    with_webhook: Care, receiver: Receiver
) -> None:
    with_webhook.rows("UPDATE reminder SET state = 'SKIPPED'")
    for caregiver in (1, 2, 3):
        with_webhook.rows(
            "INSERT INTO event (caregiver_id, client_id, kind, session_id, moment, hand_over_date)"
            f" VALUES ({caregiver}, 1, 'SESSION_UPDATED', 1, '{LONG_AGO}', '{LONG_AGO}')"
        )
        with_webhook.rows(
            "INSERT INTO delivery (event_id, caregiver_id, client_id, state, attempts, next_date)"
            f" VALUES ({caregiver}, {caregiver}, 1, 'WAITING', 0, '{LONG_AGO}')"
        )
    webhook = open_webhook(with_webhook.settings)
    assert webhook is not None

    async def work(db: Database) -> None:
        faults = [DatabaseUnavailable(), None, None, None]  # at the fourth call: a read, and a write for each
        with pytest.raises(DatabaseUnavailable):
            await deliver(Failing(db, faults), webhook, lambda: NOW)

    asyncio.run(on_database(with_webhook.settings.database, work))

    assert sorted(receiver.ids()) == ["evt_1", "evt_2"]
    assert with_webhook.deliveries() == [
        (1, "DELIVERED", 1, "200"),
        (2, "DELIVERED", 1, "200"),
        (3, "WAITING", 0, None),
    ]


@pytest.mark.sqlite_only
def test_the_pause_begins_when_the_attempt_has_ended(with_webhook: Care, receiver: Receiver) -> None:
    receiver.answers = [500]
    with_webhook.rows("UPDATE reminder SET state = 'SKIPPED'")
    with_webhook.add_event("SUBMITTED")
    webhook = open_webhook(with_webhook.settings)
    assert webhook is not None
    found, posted, ended = (BEFORE + minutes * HOUR / 60 for minutes in range(3))
    moments = iter([found, posted, ended])

    async def work(db: Database) -> None:
        await process_outbox(db, True, BEFORE)
        await deliver(db, webhook, lambda: next(moments))

    asyncio.run(on_database(with_webhook.settings.database, work))

    assert receiver.received[0].headers["webhook-timestamp"] == str(int(posted.timestamp()))
    assert with_webhook.rows("SELECT next_date FROM delivery") == [(moment_as_text(ended + PAUSES[0]),)]


@pytest.mark.sqlite_only
@pytest.mark.parametrize(
    ("last", "stored"),
    [
        ("assignment.feedback_given", [(1, "WAITING", 1, None), (2, "DELIVERED", 1, "200")]),
        ("assignment.submitted", [(1, "DELIVERED", 1, "200"), (2, "WAITING", 1, None)]),
    ],
)
def test_an_outcome_that_cannot_be_stored_cancels_no_other_attempt(
    with_webhook: Care, receiver: Receiver, last: str, stored: list[Any]
) -> None:
    """The first outcome cannot be stored, of whichever attempt; the dispatcher logs it, and pauses. Both
    attempts are counted."""
    before = counters.deliveries.copy()
    with_webhook.rows("UPDATE reminder SET state = 'SKIPPED'")
    for kind in ("SUBMITTED", "FEEDBACK_GIVEN"):
        with_webhook.add_event(kind)
    receiver.hold(last)
    webhook = open_webhook(with_webhook.settings)
    assert webhook is not None

    class Full(Failing):
        def fail(self) -> None:
            receiver.is_released.set() if len(self.faults) == 1 else None
            super().fail()

    async def work(db: Database) -> None:
        await process_outbox(db, True, BEFORE)
        with pytest.raises(DatabaseUnavailable):
            await deliver(Full(db, [DatabaseUnavailable(), None, None]), webhook, lambda: BEFORE)

    asyncio.run(on_database(with_webhook.settings.database, work))

    assert with_webhook.deliveries() == stored
    assert counters.deliveries - before == {"accepted": 2}


@pytest.mark.sqlite_only
def test_an_event_that_cannot_be_posted_counts_as_a_failed_attempt(
    with_webhook: Care, receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    def look_up(*_: object, **__: object) -> None:
        raise MemoryError

    with_webhook.add_event("SUBMITTED")
    monkeypatch.setattr(socket, "getaddrinfo", look_up)
    before = dict(counters.deliveries)

    with_webhook.dispatch(BEFORE)

    assert with_webhook.deliveries() == [(1, "WAITING", 1, "not posted")]
    counted = {name: number - before.get(name, 0) for name, number in counters.deliveries.items()}
    assert {name: number for name, number in counted.items() if number} == {"failed": 1}


@pytest.mark.sqlite_only
def test_an_event_of_an_unknown_kind_is_retried_until_it_is_dead(
    with_webhook: Care, receiver: Receiver, caplog: pytest.LogCaptureFixture
) -> None:
    """A newer version wrote it, and may run again."""
    with_webhook.rows("UPDATE reminder SET state = 'SKIPPED'")
    with_webhook.add_event("SESSION_DREAMT_OF")
    with_webhook.dispatch(BEFORE)
    first = with_webhook.deliveries()
    with_webhook.dispatch(BEFORE + PAUSES[0] - timedelta(milliseconds=1))
    before_its_time = with_webhook.deliveries()

    with_webhook.rows("UPDATE delivery SET attempts = 10")
    with_webhook.dispatch(BEFORE + PAUSES[0])

    assert first == before_its_time == [(1, "WAITING", 1, "unknown kind")]
    assert with_webhook.deliveries() == [(1, "DEAD", 11, "unknown kind")]
    assert receiver.ids() == []
    unknown = "event 1 has a kind that this version does not know: SESSION_DREAMT_OF"
    assert caplog.messages == [unknown, unknown, "event 1 was not delivered: unknown kind; given up"]


@pytest.mark.sqlite_only
def test_no_secret_is_logged(
    with_webhook: Care, receiver: Receiver, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("DEBUG")
    with_webhook.add_event("SUBMITTED")
    with_webhook.rows("UPDATE reminder SET state = 'SKIPPED'")
    with_webhook.dispatch(BEFORE, webhook_url="http://127.0.0.1:1/hidden-in-the-path")
    with_webhook.rows("UPDATE delivery SET attempts = 10")

    with_webhook.dispatch(BEFORE + HOUR, webhook_url="http://127.0.0.1:1/hidden-in-the-path")

    assert with_webhook.deliveries() == [(1, "DEAD", 11, "connection refused")]
    ours = [record.message for record in caplog.records if record.name == "care.dispatch"]
    assert ours == ["event 1 was not delivered: connection refused; given up"]
    for hidden in (SECRET, SECRET.removeprefix("whsec_"), "hidden-in-the-path"):
        assert hidden not in caplog.text
        assert hidden not in repr(with_webhook.settings) + str(with_webhook.settings)
        assert hidden not in repr(open_webhook(with_webhook.settings))


@pytest.mark.sqlite_only
def test_the_documented_verification_accepts_only_our_requests(
    with_webhook: Care, receiver: Receiver
) -> None:
    shown: dict[str, Any] = {}
    exec(PAGE.read_text().partition("```python\n")[2].partition("```")[0], shown)
    with_webhook.add_event("SUBMITTED")
    with_webhook.dispatch(datetime.now(UTC))  # the page's lines look at the clock

    for one in receiver.received:
        assert shown["verified"](SECRET, one.headers, one.body) == json.loads(one.body)
        with pytest.raises(ValueError, match="not signed"):
            shown["verified"](OTHER_SECRET, one.headers, one.body)
        with pytest.raises(ValueError, match="not signed"):
            shown["verified"](SECRET, one.headers, one.body.replace(b"1", b"2"))
        with pytest.raises(ValueError, match="too old"):
            shown["verified"](SECRET, one.headers | {"webhook-timestamp": "1"}, one.body)
    assert "evt_1" in receiver.ids()


def test_the_page_lists_every_type_and_a_real_body() -> None:
    page = PAGE.read_text()

    assert [name for name in TYPES.values() if f"`{name}`" not in page] == []
    assert SUBMITTED.replace(b"06:30", b"09:00").decode() in page
