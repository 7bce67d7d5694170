"""The outbox: new events become deliveries if there is a webhook; saved drafts never do."""

import asyncio
from datetime import datetime

import pytest

from app.db.drivers.interface import Database
from app.db.tables import EventKind
from app.events import outbox
from app.events.dispatcher import process_outbox
from app.events.webhook import TYPES
from tests.events.conftest import Care, on_database
from tests.events.receiver import Receiver
from tests.factories import DAY, HOUR, NOW

WAITING = "SELECT count(*) FROM event WHERE hand_over_date IS NULL"


def test_every_kind_but_saved_drafts_has_a_webhook_type() -> None:
    assert set(TYPES) == set(EventKind) - {EventKind.DRAFT_SAVED}
    assert len(set(TYPES.values())) == len(TYPES)


def test_without_a_webhook_events_are_dropped_after_a_day(
    care: Care, with_webhook: Care, receiver: Receiver
) -> None:
    care.add_event("SUBMITTED")
    care.dispatch(NOW + 2 * DAY)
    with_webhook.dispatch(NOW + 2 * DAY)

    assert sorted(receiver.ids()) == ["evt_2", "evt_3"]  # the reminders that fell due since


def test_a_process_without_a_webhook_leaves_events_to_others(
    care: Care, with_webhook: Care, receiver: Receiver
) -> None:
    care.add_event("SUBMITTED")
    care.dispatch(NOW - 2 * HOUR)
    waiting = care.rows(WAITING)
    with_webhook.dispatch(NOW - HOUR)

    assert waiting == [(1,)]
    assert "evt_1" in receiver.ids()


def test_a_saved_draft_has_no_delivery(with_webhook: Care, receiver: Receiver) -> None:
    with_webhook.add_event("DRAFT_SAVED")
    with_webhook.add_event("SUBMITTED")

    with_webhook.dispatch(NOW - 2 * HOUR)

    assert with_webhook.rows(WAITING) == [(0,)]
    assert with_webhook.deliveries() == [(2, "DELIVERED", 1, "200")]
    assert receiver.ids() == ["evt_2"]


def test_more_events_than_one_batch_are_processed(care: Care) -> None:
    care.rows(
        "INSERT INTO event (caregiver_id, client_id, kind, session_id, moment)"
        " SELECT a.id + b.id, 1, 'ASSIGNED', 1, '2026-11-21T06:30:00.000000Z'"
        " FROM assignment a, assignment b, assignment c, assignment d"
    )

    care.dispatch(NOW + 2 * DAY)

    assert care.rows("SELECT count(*) > 1000 FROM event WHERE hand_over_date IS NOT NULL") == [(True,)]
    assert care.rows("SELECT DISTINCT kind FROM event WHERE hand_over_date IS NULL") == [("REMINDER_DUE",)]


def damage(table: str) -> str:
    return f"CREATE TRIGGER damaged BEFORE UPDATE ON {table} BEGIN SELECT RAISE(ABORT, 'damaged'); END"


@pytest.mark.sqlite_only
@pytest.mark.parametrize(
    ("change", "now", "goes_on"),
    [
        ("SELECT 1", NOW, True),
        ("UPDATE assignment SET withdraw_date = assign_date", NOW, True),
        ("SELECT 1", NOW + 12 * HOUR, True),
        (damage("reminder"), NOW, False),
        (damage("event"), NOW + 12 * HOUR, False),
    ],
    ids=["a reminder", "a reminder of finished work", "an event", "a damaged reminder", "a damaged event"],
)
def test_a_full_batch_is_followed_by_the_next_unless_all_of_it_fails(
    care: Care, monkeypatch: pytest.MonkeyPatch, change: str, now: datetime, goes_on: bool
) -> None:
    """Rows that fail would otherwise be read again without a pause. A batch has one row here."""
    if now > NOW:
        care.rows("UPDATE reminder SET state = 'SKIPPED'")
        care.rows(
            "INSERT INTO event (caregiver_id, client_id, kind, session_id, moment)"
            " VALUES (1, 1, 'ASSIGNED', 1, '2026-11-20T06:30:00.000000Z')"
        )
    care.rows(change)
    monkeypatch.setattr(outbox, "SEARCH_LIMIT", 1)
    results = []

    async def run(db: Database) -> None:
        results.append(await process_outbox(db, False, now))

    asyncio.run(on_database(care.settings.database, run))
    assert results == [goes_on]


@pytest.mark.sqlite_only
@pytest.mark.parametrize("table", ["reminder", "event"])
def test_a_full_batch_of_which_a_part_fails_is_followed_by_the_next(
    care: Care, monkeypatch: pytest.MonkeyPatch, table: str
) -> None:
    """A batch has two rows here, and the one of caregiver 2 is damaged."""
    if table == "reminder":
        care.rows("UPDATE reminder SET caregiver_id = 2 WHERE id = 1")
    else:
        care.rows("UPDATE reminder SET state = 'SKIPPED'")
        care.rows(
            "INSERT INTO event (caregiver_id, client_id, kind, session_id, moment)"
            " SELECT id, 1, 'ASSIGNED', 1, '2026-11-20T06:30:00.000000Z' FROM caregiver WHERE id < 3"
        )
    care.rows(damage(table).replace("BEGIN", "WHEN NEW.caregiver_id = 2 BEGIN"))
    monkeypatch.setattr(outbox, "SEARCH_LIMIT", 2)
    results = []

    async def run(db: Database) -> None:
        results.append(await process_outbox(db, False, NOW + DAY))

    asyncio.run(on_database(care.settings.database, run))
    assert results == [True]


@pytest.mark.parametrize("count", [1, 99, 100, 101, 200, 201])
def test_rows_are_processed_by_caregiver_in_batches_of_a_hundred(count: int) -> None:
    found = [(caregiver, id) for id in range(count, 0, -1) for caregiver in (2, 1)]

    batches = list(outbox.batches_of(found))

    expected = [range(at, min(at + 100, count + 1)) for at in range(1, count + 1, 100)]
    assert batches == [(caregiver, list(ids)) for caregiver in (1, 2) for ids in expected]
