"""Accepted deliveries are removed after a week, idempotency keys after two days; other rows stay."""

import asyncio
from datetime import datetime, timedelta

import pytest

from app.db.drivers.interface import Database
from app.db.moments import moment_as_text
from app.events import retention
from app.events.retention import clean_up
from tests.events.conftest import Care, on_database
from tests.events.receiver import Receiver
from tests.factories import DAY, HOUR, NOW

BEFORE = NOW - 2 * HOUR
WEEK = timedelta(days=7)
MOMENT = timedelta(microseconds=1)


def clean_up_at(care: Care, now: datetime) -> None:
    async def work(db: Database) -> None:
        while await clean_up(db, now):
            pass

    asyncio.run(on_database(care.settings.database, work))


def test_an_accepted_delivery_is_removed_after_a_week(with_webhook: Care, receiver: Receiver) -> None:
    with_webhook.add_event("SUBMITTED")
    with_webhook.dispatch(BEFORE)

    clean_up_at(with_webhook, BEFORE + WEEK - MOMENT)
    before = with_webhook.deliveries()
    clean_up_at(with_webhook, BEFORE + WEEK)

    assert before == [(1, "DELIVERED", 1, "200")]
    assert with_webhook.deliveries() == []
    assert len(with_webhook.events()) == 1


def test_other_deliveries_are_kept(with_webhook: Care, receiver: Receiver) -> None:
    receiver.answers = [500, 500]
    with_webhook.add_event("SUBMITTED")
    with_webhook.add_event("FEEDBACK_GIVEN")
    with_webhook.dispatch(BEFORE)
    with_webhook.rows("UPDATE delivery SET state = 'DEAD' WHERE event_id = 2")

    clean_up_at(with_webhook, BEFORE + 52 * WEEK)

    assert [one[:2] for one in with_webhook.deliveries()] == [(1, "WAITING"), (2, "DEAD")]


def test_more_deliveries_than_one_batch_are_removed_beside_an_idempotency_key(with_webhook: Care) -> None:
    with_webhook.rows(
        "INSERT INTO idempotency_key (role, viewer_id, contract, key, fingerprint, result, moment)"
        " VALUES ('CLIENT', 1, 'graphql', 'key', '', '', '2026-11-01T08:30:00.000000Z')"
    )
    with_webhook.rows("UPDATE reminder SET state = 'SKIPPED'")
    with_webhook.rows(
        "INSERT INTO event (caregiver_id, client_id, kind, session_id, moment)"
        " SELECT 1 + a.id % 3, 1, 'ASSIGNED', 1, '2026-11-21T06:30:00.000000Z'"
        " FROM assignment a, assignment b, assignment c, assignment d"
    )
    with_webhook.rows(
        "INSERT INTO delivery (event_id, caregiver_id, client_id, state, attempts, next_date)"
        " SELECT id, caregiver_id, client_id, 'DELIVERED', 1, moment FROM event"
    )

    clean_up_at(with_webhook, NOW)

    assert with_webhook.deliveries() == []
    assert with_webhook.rows("SELECT count(*) FROM idempotency_key") == [(0,)]


@pytest.mark.sqlite_only
def test_deliveries_that_cannot_be_removed_are_tried_again_after_a_pause(
    with_webhook: Care, receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    with_webhook.add_event("SUBMITTED")
    with_webhook.dispatch(BEFORE)
    error = "SELECT RAISE(ABORT, 'damaged')"
    with_webhook.rows(f"CREATE TRIGGER damaged BEFORE DELETE ON delivery BEGIN {error}; END")
    monkeypatch.setattr(retention, "SEARCH_LIMIT", 1)

    more_remain = []

    async def work(db: Database) -> None:
        more_remain.append(await clean_up(db, BEFORE + WEEK))

    asyncio.run(on_database(with_webhook.settings.database, work))

    assert (more_remain, len(with_webhook.deliveries())) == ([False], 1)


def test_more_idempotency_keys_than_one_batch_are_removed(care: Care) -> None:
    key = "SELECT 'CLIENT', a.id, 'graphql', 'key ' || b.id || ' ' || c.id || ' ' || d.id, '', ''"
    care.rows(
        "INSERT INTO idempotency_key (role, viewer_id, contract, key, fingerprint, result, moment)"
        f" {key}, '2026-11-01T08:30:00.000000Z'"
        " FROM assignment a, assignment b, assignment c, assignment d"
    )

    clean_up_at(care, NOW)

    assert care.rows("SELECT count(*) FROM idempotency_key") == [(0,)]


def test_an_idempotency_key_is_removed_after_two_days(care: Care) -> None:
    for number, moment in enumerate((NOW - 2 * DAY, NOW - 2 * DAY - MOMENT, NOW)):
        care.rows(
            "INSERT INTO idempotency_key (role, viewer_id, contract, key, fingerprint, result, moment)"
            f" VALUES ('CLIENT', 1, 'graphql', 'key {number}', '', '', '{moment_as_text(moment)}')"
        )

    clean_up_at(care, NOW)

    assert care.rows("SELECT key FROM idempotency_key ORDER BY key") == [("key 0",), ("key 2",)]
