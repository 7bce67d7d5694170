"""Promise: what happened is told to the webhook that is there when it is handed over, and drafts to none."""

from app.db.tables import EventKind
from app.events.webhook import TYPES
from tests.events.conftest import Care
from tests.events.receiver import Receiver
from tests.factories import DAY, HOUR, NOW

WAITING = "SELECT count(*) FROM event WHERE hand_over_date IS NULL"


def test_everything_that_happens_is_told_but_drafts() -> None:
    assert set(TYPES) == set(EventKind) - {EventKind.DRAFT_SAVED}
    assert len(set(TYPES.values())) == len(TYPES)


def test_without_a_webhook_nobody_is_told_of_what_is_a_day_old(
    care: Care, told: Care, receiver: Receiver
) -> None:
    care.happened("SUBMITTED")
    care.dispatch(NOW + 2 * DAY)
    told.dispatch(NOW + 2 * DAY)

    assert sorted(receiver.ids()) == ["evt_2", "evt_3"]  # the reminders that fell due since


def test_a_process_without_the_webhook_takes_nothing_from_one_that_has_it(
    care: Care, told: Care, receiver: Receiver
) -> None:
    care.happened("SUBMITTED")
    care.dispatch(NOW - 2 * HOUR)
    waiting = care.rows(WAITING)
    told.dispatch(NOW - HOUR)

    assert waiting == [(1,)]
    assert "evt_1" in receiver.ids()


def test_a_draft_is_handed_over_to_nobody(told: Care, receiver: Receiver) -> None:
    told.happened("DRAFT_SAVED")
    told.happened("SUBMITTED")

    told.dispatch(NOW - 2 * HOUR)

    assert told.rows(WAITING) == [(0,)]
    assert told.deliveries() == [(2, "DELIVERED", 1, "200")]
    assert receiver.ids() == ["evt_2"]


def test_more_than_fits_into_one_step_is_handed_over_too(care: Care) -> None:
    care.rows(
        "INSERT INTO event (caregiver_id, client_id, kind, session_id, moment)"
        " SELECT a.id + b.id, 1, 'ASSIGNED', 1, '2026-11-21T06:30:00.000000Z'"
        " FROM assignment a, assignment b, assignment c, assignment d"
    )

    care.dispatch(NOW + 2 * DAY)

    assert care.rows("SELECT count(*) > 1000 FROM event WHERE hand_over_date IS NOT NULL") == [(True,)]
    assert care.rows("SELECT DISTINCT kind FROM event WHERE hand_over_date IS NULL") == [("REMINDER_DUE",)]
