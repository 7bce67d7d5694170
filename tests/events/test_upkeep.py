"""Promise: what was delivered goes after a week, kept answers after two days; the rest stays."""

import asyncio
from datetime import datetime, timedelta

from app.db.drivers.interface import Database
from app.db.tables import moment_as_text
from app.events.retention import clean_up
from tests.events.conftest import Care, on_database
from tests.events.receiver import Receiver
from tests.factories import DAY, HOUR, NOW

BEFORE = NOW - 2 * HOUR
WEEK = timedelta(days=7)
MOMENT = timedelta(microseconds=1)


def tidied(care: Care, now: datetime) -> None:
    async def work(db: Database) -> None:
        while await clean_up(db, now):
            pass

    asyncio.run(on_database(care.settings.database, work))


def test_a_delivery_goes_a_week_after_it_was_taken(told: Care, receiver: Receiver) -> None:
    told.happened("SUBMITTED")
    told.dispatch(BEFORE)

    tidied(told, BEFORE + WEEK - MOMENT)
    before = told.deliveries()
    tidied(told, BEFORE + WEEK)

    assert before == [(1, "DELIVERED", 1, "200")]
    assert told.deliveries() == []
    assert len(told.events()) == 1


def test_what_was_not_delivered_stays(told: Care, receiver: Receiver) -> None:
    receiver.answers = [500, 500]
    told.happened("SUBMITTED")
    told.happened("FEEDBACK_GIVEN")
    told.dispatch(BEFORE)
    told.rows("UPDATE delivery SET state = 'DEAD' WHERE event_id = 2")

    tidied(told, BEFORE + 52 * WEEK)

    assert [one[:2] for one in told.deliveries()] == [(1, "WAITING"), (2, "DEAD")]


def test_more_than_fits_into_one_step_goes_too(told: Care) -> None:
    told.rows("UPDATE reminder SET state = 'SKIPPED'")
    told.rows(
        "INSERT INTO event (caregiver_id, client_id, kind, session_id, moment)"
        " SELECT 1 + a.id % 3, 1, 'ASSIGNED', 1, '2026-11-21T06:30:00.000000Z'"
        " FROM assignment a, assignment b, assignment c, assignment d"
    )
    told.rows(
        "INSERT INTO delivery (event_id, caregiver_id, client_id, state, attempts, next_date)"
        " SELECT id, caregiver_id, client_id, 'DELIVERED', 1, moment FROM event"
    )
    key = "SELECT 'CLIENT', a.id, 'graphql', 'key ' || b.id || ' ' || c.id || ' ' || d.id, '', ''"
    told.rows(
        "INSERT INTO kept_answer (role, viewer_id, contract, key, fingerprint, result, moment)"
        f" {key}, '2026-11-01T08:30:00.000000Z'"
        " FROM assignment a, assignment b, assignment c, assignment d"
    )

    tidied(told, NOW)

    assert told.deliveries() == []
    assert told.rows("SELECT count(*) FROM kept_answer") == [(0,)]


def test_a_kept_answer_goes_after_two_days(care: Care) -> None:
    for number, moment in enumerate((NOW - 2 * DAY, NOW - 2 * DAY - MOMENT, NOW)):
        care.rows(
            "INSERT INTO kept_answer (role, viewer_id, contract, key, fingerprint, result, moment)"
            f" VALUES ('CLIENT', 1, 'graphql', 'key {number}', '', '', '{moment_as_text(moment)}')"
        )

    tidied(care, NOW)

    assert care.rows("SELECT key FROM kept_answer ORDER BY key") == [("key 0",), ("key 2",)]
