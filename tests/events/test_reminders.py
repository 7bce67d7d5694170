"""A due reminder becomes exactly one event, whichever dispatcher processes it, and none if its work is
finished. Local time decides when it is due."""

import asyncio
from datetime import UTC, datetime

import pytest

from app.care.assignment_changes import withdrawing
from app.care.sessions import closing
from app.db.drivers.factory import open_database
from app.db.moments import moment_as_text
from app.db.reader.selection import AccessScope
from app.db.sql import selecting
from app.db.statements.assignments import DROP_SCHEDULED_REMINDERS, SKIP_REMINDERS
from app.db.statements.sessions import MOVE_REMINDERS, SKIP_REMINDERS_OF_SESSION
from app.main import create_app
from app.settings import Settings
from tests.callers import Gateway, load, opened, run_write
from tests.events.conftest import Care
from tests.events.dispatch_once import dispatch_once
from tests.factories import DAY, HOUR, NOW, a_session, a_world, an_assignment, starting_with
from tests.rest_compat.legacy import ASSIGNMENTS, homework

DUE = (1, 2, "REMINDER_DUE", "SERVICE", 4, 6, 2)
IS_DUE = "remind_date <= '2026-11-21T09:00:00.000000Z'"
SECOND = HOUR / 3600


def test_a_due_reminder_becomes_an_event(care: Care) -> None:
    care.dispatch()

    assert care.reminders() == {1: "SCHEDULED", 2: "SENT"}
    assert care.events() == [DUE]


def test_reminders_that_are_due_together_become_events_in_the_order_of_their_dates(care: Care) -> None:
    care.rows(f"UPDATE reminder SET remind_date = '{moment_as_text(NOW - HOUR / 2)}' WHERE id = 1")

    care.dispatch()

    assert [event[-1] for event in care.events()] == [2, 1]


def test_a_reminder_fires_once(care: Care) -> None:
    for _ in range(3):
        care.dispatch()

    assert care.events() == [DUE]


def test_a_reminder_is_due_at_its_exact_moment(care: Care) -> None:
    care.dispatch(NOW + DAY - SECOND)
    before = care.reminders()
    care.dispatch(NOW + DAY)

    assert before == {1: "SCHEDULED", 2: "SENT"}
    assert care.reminders() == {1: "SENT", 2: "SENT"}


def test_concurrent_dispatchers_fire_each_reminder_once(settings: Settings) -> None:
    due = [{"remindDate": NOW - HOUR / number} for number in range(1, 51)]
    more = [an_assignment(10 + at, session=1 + 4 * (at % 2), reminders=due) for at in range(14)]
    load(settings.database, [*a_world(), *more])
    care = Care(settings)

    async def both() -> None:
        databases = [await open_database(settings.database) for _ in range(3)]
        try:
            await asyncio.gather(*(dispatch_once(db, settings, NOW) for db in databases))
        finally:
            for db in databases:
                await db.close()

    asyncio.run(both())
    care.dispatch()  # what each left out, because another one had locked the session

    assert care.rows("SELECT state, count(*) FROM reminder WHERE remind_date < '2026-11-22' GROUP BY 1") == [
        ("SENT", 700)
    ]
    assert care.rows("SELECT count(*), count(DISTINCT reminder_id) FROM event") == [(700, 700)]
    assert care.rows(
        "SELECT count(*) FROM event JOIN reminder ON reminder.id = reminder_id"
        " AND reminder.caregiver_id = event.caregiver_id AND reminder.client_id = event.client_id"
        " AND reminder.assignment_id = event.assignment_id"
    ) == [(700,)]


def test_a_concurrent_withdrawal_or_closing_skips_the_reminder_or_comes_after_it(
    settings: Settings,
) -> None:
    due = [{"remindDate": NOW - HOUR / number} for number in range(1, 6)]
    sessions = range(11, 23)
    load(settings.database, [*a_world(), *(a_session(number) for number in sessions)])
    load(
        settings.database,
        (
            an_assignment(10 * number + at, session=number, reminders=due)
            for number in sessions
            for at in range(5)
        ),
    )
    care = Care(settings)
    mine = AccessScope(NOW, caregiver=1)

    async def all_at_once() -> None:
        changing, one, other = [await open_database(settings.database) for _ in range(3)]
        try:
            await asyncio.gather(
                dispatch_once(one, settings, NOW),
                *(changing.write(closing(mine, number)) for number in sessions[::2]),
                *(changing.write(withdrawing(mine, 10 * number)) for number in sessions[1::2]),
                dispatch_once(other, settings, NOW),
            )
        finally:
            for db in (changing, one, other):
                await db.close()

    asyncio.run(all_at_once())
    care.dispatch()  # what the others left out, because a change had locked it

    fired = care.rows("SELECT reminder_id FROM event WHERE kind = 'REMINDER_DUE' ORDER BY reminder_id")
    assert fired == care.rows("SELECT id FROM reminder WHERE state = 'SENT' ORDER BY id")
    assert care.rows(f"SELECT id FROM reminder WHERE state = 'SCHEDULED' AND {IS_DUE}") == []
    assert care.rows(
        "SELECT kind, count(*) FROM event WHERE kind <> 'REMINDER_DUE' GROUP BY kind ORDER BY kind"
    ) == [
        ("SESSION_CLOSED", 6),
        ("WITHDRAWN", 6),
    ]


@pytest.mark.parametrize(
    "change",
    [
        "UPDATE assignment SET status = 'COMPLETE', submit_date = assign_date WHERE id IN (2, 6)",
        "UPDATE assignment SET withdraw_date = assign_date WHERE id IN (2, 6)",
        "UPDATE session SET is_closed = true, close_date = create_date WHERE id IN (1, 4)",
    ],
    ids=["submitted", "withdrawn", "closed"],
)
def test_reminders_of_finished_work_are_skipped(care: Care, change: str) -> None:
    care.rows(change)

    care.dispatch(NOW + DAY)

    assert care.reminders() == {1: "SKIPPED", 2: "SKIPPED"}
    assert care.events() == []


def test_reminders_of_finished_and_of_other_work_are_processed_together(care: Care) -> None:
    care.rows("UPDATE assignment SET withdraw_date = assign_date WHERE id = 6")

    care.dispatch(NOW + DAY)

    assert care.reminders() == {1: "SENT", 2: "SKIPPED"}
    assert care.events() == [(1, 1, "REMINDER_DUE", "SERVICE", 1, 2, 1)]


@pytest.mark.sqlite_only
def test_a_skipped_reminder_stays_skipped(care: Care) -> None:
    care.rows("UPDATE reminder SET state = 'SKIPPED'")

    care.dispatch()

    assert care.events() == []


CHANGING = {
    "removed": DROP_SCHEDULED_REMINDERS,
    "moved": MOVE_REMINDERS,
    "skipped": SKIP_REMINDERS,
    "skipped with the session": SKIP_REMINDERS_OF_SESSION,
}


@pytest.mark.parametrize("change", CHANGING)
def test_a_reminder_that_was_sent_after_it_was_found_stays(care: Care, change: str) -> None:
    care.rows("DELETE FROM reminder WHERE id = 1")
    care.dispatch()
    before = care.rows("SELECT * FROM reminder")
    values = {"caregiver": 1, "session": 1, "assignment": 6, "reminders": [2]}
    moved = {"remind": NOW + DAY, "state": "SCHEDULED"}

    run_write(care.settings.database, selecting(CHANGING[change], **values, **moved))

    assert care.reminders() == {2: "SENT"}
    assert care.rows("SELECT * FROM reminder") == before


WALL_TIMES = {
    "a day before the clocks go forward": ("2027/03/27", datetime(2027, 3, 27, 8, 0, tzinfo=UTC)),
    "the day they go forward": ("2027/03/28", datetime(2027, 3, 28, 7, 0, tzinfo=UTC)),
    "a day before they go back": ("2027/10/30", datetime(2027, 10, 30, 7, 0, tzinfo=UTC)),
    "the day they go back": ("2027/10/31", datetime(2027, 10, 31, 8, 0, tzinfo=UTC)),
}


@starting_with(a_world)
@pytest.mark.once_on_postgresql
@pytest.mark.parametrize(("date", "moment"), WALL_TIMES.values(), ids=list(WALL_TIMES))
def test_a_reminder_at_nine_fires_at_nine_local_time(settings: Settings, date: str, moment: datetime) -> None:
    there = settings.model_copy(update={"time_zone": "Europe/Berlin"})
    care = Care(there)
    body = homework(bookIds=[1], endDate="2027/12/31", remindDates=[{"date": date, "time": "09:00"}])
    with opened(create_app(there, clock=lambda: NOW)) as client:
        assert Gateway(client, there).as_caregiver(1).put(ASSIGNMENTS, json=body).status_code == 200

    care.dispatch(moment - SECOND)
    before = care.reminders()[2]
    care.dispatch(moment)

    assert (before, care.reminders()[2]) == ("SCHEDULED", "SENT")
