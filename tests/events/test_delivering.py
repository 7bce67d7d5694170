"""Promise: the webhook is told what happened, signed, by ids alone, at least once and each time under the
same id, with growing pauses until it answers with a 2xx; what it never takes is given up for all to see."""

import asyncio
import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from app.db.drivers.interface import Database, DatabaseUnavailable
from app.events.deliveries import LEASE, PAUSES, attempting, deliver, settling
from app.events.webhook import TYPES, PostResult, open_webhook
from tests.callers import run_write
from tests.events.conftest import Care, dispatching, on_database
from tests.events.receiver import OTHER_SECRET, SECRET, Receiver
from tests.factories import HOUR, NOW
from tests.fault_injection import Failing

SUBMITTED = (
    b'{"type":"assignment.submitted","timestamp":"2026-11-21T06:30:00.000000Z",'
    b'"data":{"sessionId":1,"assignmentId":2,"caregiverId":1,"clientId":1,"reminderId":null}}'
)
PAGE = Path(__file__).parent.parent.parent / "docs" / "webhook.md"
BEFORE = NOW - 2 * HOUR  # no reminder is due yet
LONG_AGO = "2020-01-01T09:00:00.000000Z"


def test_what_happened_is_told_by_ids_alone(told: Care, receiver: Receiver) -> None:
    told.happened("SUBMITTED")

    told.dispatch(BEFORE)

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
    assert told.deliveries() == [(1, "DELIVERED", 1, "200")]


def test_a_reminder_that_is_due_is_told_in_the_same_round(told: Care, receiver: Receiver) -> None:
    told.dispatch()

    (one,) = receiver.received
    assert one.verified(SECRET) == {
        "type": "reminder.due",
        "timestamp": "2026-11-21T09:00:00.000000Z",
        "data": {"sessionId": 1, "assignmentId": 6, "caregiverId": 1, "clientId": 1, "reminderId": 2},
    }


def test_the_signature_is_that_of_the_secret(told: Care, receiver: Receiver) -> None:
    told.happened("SUBMITTED")

    told.dispatch(BEFORE)

    (one,) = receiver.received
    assert one.verified(SECRET)["type"] == "assignment.submitted"
    with pytest.raises(AssertionError):
        one.verified(OTHER_SECRET)


def test_while_secrets_change_either_verifies(told: Care, receiver: Receiver) -> None:
    told.happened("SUBMITTED")

    told.dispatch(BEFORE, webhook_secret=f"{OTHER_SECRET} {SECRET}")

    (one,) = receiver.received
    assert one.verified(SECRET) == one.verified(OTHER_SECRET)


def test_what_is_not_taken_is_told_again_after_a_pause(told: Care, receiver: Receiver) -> None:
    receiver.answers = [500]
    told.happened("SUBMITTED")

    told.dispatch(BEFORE)
    told.dispatch(BEFORE + PAUSES[0] - timedelta(milliseconds=1))
    after_one = told.deliveries()
    told.dispatch(BEFORE + PAUSES[0])

    assert after_one == [(1, "WAITING", 1, "500")]
    assert told.deliveries() == [(1, "DELIVERED", 2, "200")]
    first, second = receiver.received
    assert (first.id, first.body) == (second.id, second.body)
    assert first.headers["webhook-timestamp"] != second.headers["webhook-timestamp"]
    assert first.verified(SECRET) == second.verified(SECRET)


def test_pauses_grow_until_it_is_given_up(told: Care, receiver: Receiver) -> None:
    told.rows("UPDATE reminder SET state = 'SKIPPED'")
    receiver.answers = [503] * 20
    told.happened("SUBMITTED")
    now, seen = BEFORE, []

    for pause in (*PAUSES, timedelta(days=30), timedelta(0)):
        told.dispatch(now)
        seen += told.deliveries()
        now += pause

    assert list(PAUSES) == sorted(PAUSES)
    assert seen[:10] == [(1, "WAITING", number, "503") for number in range(1, 11)]
    assert seen[10:] == [(1, "DEAD", 11, "503")] * 2
    assert receiver.ids() == ["evt_1"] * 11


ANSWERS = {
    204: ("DELIVERED", "204"),
    301: ("WAITING", "301"),
    307: ("WAITING", "307"),
    404: ("WAITING", "404"),
    410: ("WAITING", "410"),
}


@pytest.mark.parametrize("status", ANSWERS)
def test_only_a_2xx_takes_it_and_a_redirect_is_not_followed(
    told: Care, receiver: Receiver, status: int
) -> None:
    receiver.answers = [status]
    told.happened("SUBMITTED")

    told.dispatch(BEFORE)

    state, said = ANSWERS[status]
    assert told.deliveries() == [(1, state, 1, said)]
    assert [one.path for one in receiver.received] == ["/care?to=us"]


def test_one_that_is_not_taken_keeps_no_other_waiting(told: Care, receiver: Receiver) -> None:
    receiver.answers = [500] * 8
    for _ in range(20):
        told.happened("SUBMITTED")

    told.dispatch(BEFORE)

    assert sorted(receiver.ids()) == sorted(f"evt_{number}" for number in range(1, 21))
    assert [one[1] for one in told.deliveries()].count("DELIVERED") == 12


def test_several_dispatchers_deliver_each_event_once(told: Care, receiver: Receiver) -> None:
    for number in range(60):
        told.happened("SUBMITTED", client=1 + number % 2)

    async def all_at_once() -> None:
        await asyncio.gather(*(dispatching(told.settings, BEFORE) for _ in range(3)))

    asyncio.run(all_at_once())

    assert sorted(receiver.ids()) == sorted(f"evt_{number}" for number in range(1, 61))
    assert {one[1:] for one in told.deliveries()} == {("DELIVERED", 1, "200")}


def test_what_was_taken_by_somebody_who_died_is_told_after_the_lease(told: Care, receiver: Receiver) -> None:
    receiver.answers = [500]
    told.happened("SUBMITTED")
    told.dispatch(BEFORE)
    later = BEFORE + HOUR
    (taken,) = run_write(told.settings.database, attempting(later, 1, [1]))

    told.dispatch(later + LEASE - timedelta(milliseconds=1))
    meanwhile = told.deliveries()
    told.dispatch(later + LEASE)

    assert (taken.number, taken.happened.event) == (2, 1)
    assert meanwhile[0] == (1, "WAITING", 2, "500")
    assert told.deliveries()[0] == (1, "DELIVERED", 3, "200")
    assert receiver.ids().count("evt_1") == 2


def test_a_late_failure_of_an_attempt_does_not_undo_that_the_next_one_delivered(
    told: Care, receiver: Receiver
) -> None:
    url = told.settings.database
    receiver.answers = [500]
    told.happened("SUBMITTED")
    told.dispatch(BEFORE)
    (late,) = run_write(url, attempting(BEFORE + HOUR, 1, [1]))
    told.dispatch(BEFORE + HOUR + LEASE)
    delivered = told.deliveries()[0]

    run_write(url, settling(late, PostResult("500"), BEFORE + HOUR + 2 * LEASE))

    assert delivered == (1, "DELIVERED", 3, "200")
    assert told.deliveries()[0] == delivered


def test_what_was_taken_is_posted_although_the_database_fails_at_the_next_caregiver(
    told: Care, receiver: Receiver
) -> None:
    told.rows("UPDATE reminder SET state = 'SKIPPED'")
    for caregiver in (1, 2, 3):
        told.rows(
            "INSERT INTO event (caregiver_id, client_id, kind, session_id, moment, hand_over_date)"
            f" VALUES ({caregiver}, 1, 'SESSION_UPDATED', 1, '{LONG_AGO}', '{LONG_AGO}')"
        )
        told.rows(
            "INSERT INTO delivery (event_id, caregiver_id, client_id, state, attempts, next_date)"
            f" VALUES ({caregiver}, {caregiver}, 1, 'WAITING', 0, '{LONG_AGO}')"
        )
    webhook = open_webhook(told.settings)
    assert webhook is not None

    async def work(db: Database) -> None:
        faults = [DatabaseUnavailable(), None, None, None]  # at the fourth call: a read, and a write for each
        with pytest.raises(DatabaseUnavailable):
            await deliver(Failing(db, faults), webhook, lambda: NOW)

    asyncio.run(on_database(told.settings.database, work))

    assert sorted(receiver.ids()) == ["evt_1", "evt_2"]
    assert told.deliveries() == [
        (1, "DELIVERED", 1, "200"),
        (2, "DELIVERED", 1, "200"),
        (3, "WAITING", 0, None),
    ]


def test_an_event_of_an_unknown_kind_waits_as_others_do_and_is_given_up(
    told: Care, receiver: Receiver, caplog: pytest.LogCaptureFixture
) -> None:
    """A newer version wrote it, and may be back."""
    told.rows("UPDATE reminder SET state = 'SKIPPED'")
    told.happened("SESSION_DREAMT_OF")
    told.dispatch(BEFORE)
    first = told.deliveries()
    told.dispatch(BEFORE + PAUSES[0] - timedelta(milliseconds=1))
    before_its_time = told.deliveries()

    told.rows("UPDATE delivery SET attempts = 10")
    told.dispatch(BEFORE + PAUSES[0])

    assert first == before_its_time == [(1, "WAITING", 1, "unknown kind")]
    assert told.deliveries() == [(1, "DEAD", 11, "unknown kind")]
    assert receiver.ids() == []
    unknown = "event 1 has a kind that this version does not know: SESSION_DREAMT_OF"
    assert caplog.messages == [unknown, unknown, "event 1 was not delivered: unknown kind; given up"]


def test_nothing_secret_is_logged(told: Care, receiver: Receiver, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("DEBUG")
    told.happened("SUBMITTED")
    told.rows("UPDATE reminder SET state = 'SKIPPED'")
    told.dispatch(BEFORE, webhook_url="http://127.0.0.1:1/hidden-in-the-path")
    told.rows("UPDATE delivery SET attempts = 10")

    told.dispatch(BEFORE + HOUR, webhook_url="http://127.0.0.1:1/hidden-in-the-path")

    assert told.deliveries() == [(1, "DEAD", 11, "connection refused")]
    ours = [record.message for record in caplog.records if record.name.startswith("care")]
    assert ours == ["event 1 was not delivered: connection refused; given up"]
    for hidden in (SECRET, SECRET.removeprefix("whsec_"), "hidden-in-the-path"):
        assert hidden not in caplog.text
        assert hidden not in repr(told.settings) + str(told.settings)
        assert hidden not in repr(open_webhook(told.settings))


def test_who_verifies_as_the_page_shows_believes_what_we_send_and_nothing_else(
    told: Care, receiver: Receiver
) -> None:
    shown: dict[str, Any] = {}
    exec(PAGE.read_text().partition("```python\n")[2].partition("```")[0], shown)
    told.happened("SUBMITTED")
    told.dispatch(datetime.now(UTC))  # the page's lines look at the clock

    for one in receiver.received:
        assert shown["verified"](SECRET, one.headers, one.body) == json.loads(one.body)
        with pytest.raises(ValueError, match="not signed"):
            shown["verified"](OTHER_SECRET, one.headers, one.body)
        with pytest.raises(ValueError, match="not signed"):
            shown["verified"](SECRET, one.headers, one.body.replace(b"1", b"2"))
        with pytest.raises(ValueError, match="too old"):
            shown["verified"](SECRET, one.headers | {"webhook-timestamp": "1"}, one.body)
    assert "evt_1" in receiver.ids()


def test_the_page_names_every_type_and_shows_a_real_body() -> None:
    page = PAGE.read_text()

    assert [name for name in TYPES.values() if f"`{name}`" not in page] == []
    assert SUBMITTED.replace(b"06:30", b"09:00").decode() in page
