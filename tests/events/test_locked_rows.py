"""A row that one dispatcher has locked is skipped by others, without waiting; SQLite has one writer."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from app.db.sql import Steps
from app.events.deliveries import counting_attempts
from app.events.outbox import queueing_deliveries, reminding
from tests.callers import run_write
from tests.events.conftest import Care
from tests.factories import NOW

on_postgresql = pytest.mark.parametrize("kind", ["postgresql"], indirect=True)
Take = Callable[[], Steps[list[Any]]]

TAKING: dict[str, Take] = {
    "a reminder": lambda: reminding(NOW, 1, [2]),
    "an event": lambda: queueing_deliveries(True, NOW, 1, [1]),
    "a delivery": lambda: counting_attempts(NOW, 1, [2]),
}


@pytest.fixture
def waiting(care: Care) -> Care:
    """Reminder 2, event 1 and the delivery of event 2 wait."""
    care.add_event("SUBMITTED")
    care.add_event("FEEDBACK_GIVEN")
    care.rows("UPDATE event SET hand_over_date = moment WHERE id = 2")
    care.rows(
        "INSERT INTO delivery (event_id, caregiver_id, client_id, state, attempts, next_date)"
        " VALUES (2, 1, 1, 'WAITING', 0, '2026-11-21T06:30:00.000000Z')"
    )
    return care


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


@pytest.mark.parametrize("take", TAKING.values(), ids=list(TAKING))
def test_a_processed_row_is_not_processed_again(waiting: Care, take: Take) -> None:
    mine, others = [run_write(waiting.settings.database, take()) for _ in range(2)]

    assert (len(mine), others) == (1, [])


@pytest.mark.parametrize("take", TAKING.values(), ids=list(TAKING))
def test_a_row_of_another_caregiver_is_not_processed(waiting: Care, take: Take) -> None:
    for table in ("reminder", "event", "delivery"):
        waiting.rows(f"UPDATE {table} SET caregiver_id = 2")

    assert run_write(waiting.settings.database, take()) == []
