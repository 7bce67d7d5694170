"""A row that one dispatcher has locked is skipped by others, without waiting; SQLite has one writer."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from app.db.moments import moment_as_text
from app.db.sql import Steps
from app.events.deliveries import counting_attempts
from app.events.outbox import queueing_deliveries, reminding
from tests.callers import run_write
from tests.db.small_steps import sql
from tests.events.conftest import Care
from tests.factories import DAY, NOW

on_postgresql = pytest.mark.parametrize("kind", ["postgresql"], indirect=True)
Take = Callable[[], Steps[list[Any]]]

TAKING: dict[str, Take] = {
    "a reminder": lambda: reminding(NOW, 1, [2]),
    "an event": lambda: queueing_deliveries(True, NOW, 1, [1]),
    "a delivery": lambda: counting_attempts(NOW, 1, [2]),
}
LATER = NOW + 2 * DAY
# With another row, and what shows that the first one was processed.
TAKING_BOTH: dict[str, tuple[Take, str]] = {
    "a reminder": (lambda: reminding(LATER, 1, [1, 2]), "SELECT moment FROM event WHERE reminder_id = 2"),
    "an event": (
        lambda: queueing_deliveries(True, LATER, 1, [1, 3]),
        "SELECT hand_over_date FROM event WHERE id = 1",
    ),
    "a delivery": (
        lambda: counting_attempts(NOW, 1, [2, 3]),
        "SELECT attempts, next_date FROM delivery WHERE event_id = 2",
    ),
}


@pytest.fixture
def waiting(care: Care) -> Care:
    """Reminder 2, the events 1 and 3, and the delivery of event 2 wait."""
    for kind in ("SUBMITTED", "FEEDBACK_GIVEN", "EXTENDED"):
        care.add_event(kind)
    add_delivery(care, 2)
    return care


def add_delivery(care: Care, event: int) -> None:
    care.rows(f"UPDATE event SET hand_over_date = moment WHERE id = {event}")
    care.rows(
        "INSERT INTO delivery (event_id, caregiver_id, client_id, state, attempts, next_date)"
        f" VALUES ({event}, 1, 1, 'WAITING', 0, '2026-11-21T06:30:00.000000Z')"
    )


@on_postgresql
@pytest.mark.parametrize("take", TAKING.values(), ids=list(TAKING))
def test_a_locked_row_is_skipped(waiting: Care, take: Take) -> None:
    url = waiting.settings.database

    def both() -> Steps[tuple[list[Any], list[Any]]]:
        mine = yield from take()  # and not committed yet
        with ThreadPoolExecutor(1) as thread:
            others = thread.submit(run_write, url, take()).result()
        return mine, others

    mine, others = run_write(url, both())

    assert (len(mine), others) == (1, [])


@on_postgresql
@pytest.mark.parametrize("row", ["session WHERE id = 4", "assignment WHERE id = 6"])
def test_a_reminder_of_what_another_transaction_changes_is_left_to_the_next_search(
    waiting: Care, row: str
) -> None:
    """The change may end the homework, and its event has a lower id."""
    url = waiting.settings.database

    def changing() -> Steps[list[int]]:
        yield sql(f"SELECT FROM {row} FOR UPDATE"), {}
        with ThreadPoolExecutor(1) as thread:
            return thread.submit(run_write, url, reminding(NOW, 1, [2])).result()

    assert (run_write(url, changing()), waiting.reminders()[2]) == ([], "SCHEDULED")
    assert run_write(url, reminding(NOW, 1, [2])) == [2]


@pytest.mark.parametrize("take", TAKING.values(), ids=list(TAKING))
def test_a_processed_row_is_not_processed_again(waiting: Care, take: Take) -> None:
    mine, others = [run_write(waiting.settings.database, take()) for _ in range(2)]

    assert (len(mine), others) == (1, [])


@pytest.mark.parametrize("name", TAKING)
def test_a_row_that_another_process_has_taken_since_stays_as_it_is(waiting: Care, name: str) -> None:
    url, (take_both, rows) = waiting.settings.database, TAKING_BOTH[name]
    run_write(url, TAKING[name]())
    taken = waiting.rows(rows)
    if name == "a delivery":
        add_delivery(waiting, 3)

    mine = run_write(url, take_both())

    assert (len(mine), waiting.rows(rows)) == (1, taken)


def test_a_reminder_that_a_change_has_moved_since_waits_for_its_new_moment(waiting: Care) -> None:
    url = waiting.settings.database
    waiting.rows(f"UPDATE reminder SET remind_date = '{moment_as_text(LATER)}' WHERE id = 2")

    assert (run_write(url, reminding(NOW, 1, [2])), waiting.reminders()[2]) == ([], "SCHEDULED")
    assert run_write(url, reminding(LATER, 1, [2])) == [2]


@pytest.mark.parametrize("take", TAKING.values(), ids=list(TAKING))
def test_a_row_of_another_caregiver_is_not_processed(waiting: Care, take: Take) -> None:
    for table in ("reminder", "event", "delivery"):
        waiting.rows(f"UPDATE {table} SET caregiver_id = 2")

    assert run_write(waiting.settings.database, take()) == []
