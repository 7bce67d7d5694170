"""Rows older than their period are removed in batches. Waiting rows, younger rows and rows without a period
stay."""

import asyncio
import sqlite3
from contextlib import closing
from datetime import datetime, timedelta
from functools import partial
from typing import Any

import pytest

from app.db.drivers.interface import Database, sqlite_path
from app.db.moments import moment_as_text
from app.db.statements import retention
from app.db.statements.dispatch import SEARCH_LIMIT
from app.db.statements.retention import REMOVE_DEAD, REMOVE_EVENTS, removing_drafts
from app.events.deliveries import updating
from app.events.dispatcher import dispatch
from app.events.retention import expire, removing_expired
from app.main import create_app
from app.server.background import in_background
from app.settings import KEEP_ALL, Retention
from tests.callers import opened, run_write
from tests.db.sql_text import care_tables, keyless, queries_of, with_names
from tests.db.test_query_plans import explain, is_scan
from tests.events.conftest import Care, add_dead_deliveries, on_database
from tests.factories import DAY, NOW
from tests.patience import PATIENCE
from tests.schema.listening import wait_for

MIDNIGHT = NOW.replace(hour=0)
MOMENT = timedelta(microseconds=1)
OLD = MIDNIGHT - 30 * DAY - MOMENT
PERIODS = Retention(events=30, deliveries=30, drafts=30, audit=0)


def removed(care: Care, periods: Retention = PERIODS, is_dry_run: bool = False) -> dict[str, int]:
    counts: dict[str, int] = {}

    async def work(db: Database) -> None:
        async for kind, count in removing_expired(db, periods, NOW, is_dry_run):
            counts[kind] = counts.get(kind, 0) + count

    asyncio.run(on_database(care.settings.database, work))
    return {kind: count for kind, count in counts.items() if count}


# --- events ---------------------------------------------------------------------------------------


def add_event(
    care: Care, moment: datetime, handed: bool = True, kind: str = "ASSIGNED", who: int = 1
) -> None:
    date = f"'{moment_as_text(moment)}'"
    care.rows(
        "INSERT INTO event (caregiver_id, client_id, kind, session_id, assignment_id, moment, hand_over_date)"
        f" VALUES ({who}, {who}, '{kind}', 1, 2, {date}, {date if handed else 'NULL'})"
    )


def add_delivery(care: Care, event: int, state: str, moment: datetime = OLD) -> None:
    care.rows(
        "INSERT INTO delivery (event_id, caregiver_id, client_id, state, attempts, next_date)"
        f" VALUES ({event}, 1, 1, '{state}', 11, '{moment_as_text(moment)}')"
    )


def events(care: Care) -> list[int]:
    return [row[0] for row in care.rows("SELECT id FROM event ORDER BY id")]


def test_events_are_removed_after_their_period(care: Care) -> None:
    for moment in (OLD, OLD, MIDNIGHT - 30 * DAY, NOW):
        add_event(care, moment)

    counted = removed(care, is_dry_run=True)
    before = events(care)

    assert (counted, before) == ({"events": 2}, [1, 2, 3, 4])
    assert removed(care) == {"events": 2}
    assert (events(care), removed(care)) == ([3, 4], {})
    assert care.rows("SELECT last_event_id FROM event_removal") == [(2,)]


@pytest.mark.once_on_postgresql
@pytest.mark.parametrize(("days", "kept"), [(7, [3]), (10, [2, 3])])
def test_the_server_removes_events_after_the_period_of_its_settings(
    care: Care, days: int, kept: list[int]
) -> None:
    care.rows("UPDATE reminder SET state = 'SKIPPED'")
    for age in (11, 8, 1):
        add_event(care, NOW - age * DAY)
    changed = {"dispatcher": True, "retention_events": days}

    with opened(create_app(care.settings.model_copy(update=changed), clock=lambda: NOW)):
        wait_for(lambda: events(care) == kept)


def test_the_mark_is_the_last_removed_event_in_whichever_order_they_are_stored(care: Care) -> None:
    """PostgreSQL stores a changed row behind the others."""
    for _ in range(3):
        add_event(care, OLD, handed=False)
    for number in (3, 2, 1):
        care.rows(f"UPDATE event SET hand_over_date = moment WHERE id = {number}")
    care.rows("ANALYZE")

    assert removed(care) == {"events": 3}
    assert care.rows("SELECT last_event_id FROM event_removal") == [(3,)]


def test_an_event_of_a_clock_that_was_ahead_keeps_no_later_ones(care: Care) -> None:
    for moment in (OLD, NOW + 3650 * DAY, OLD):
        add_event(care, moment)

    assert removed(care) == {"events": 2}
    assert events(care) == [2]


def test_needed_events_are_kept(care: Care) -> None:
    add_event(care, OLD, handed=False)
    add_event(care, OLD, kind="CLIENT_ERASED")
    for event, state in ((3, "WAITING"), (4, "DELIVERED"), (5, "DEAD")):
        add_event(care, OLD)
        add_delivery(care, event, state, moment=NOW)

    assert removed(care) == {}
    assert events(care) == [1, 2, 3, 4, 5]


def reject_early_removal(care: Care) -> None:
    """A trigger that rejects the removal of an event without a mark."""
    marked = "EXISTS (SELECT 1 FROM event_removal WHERE last_event_id >= OLD.id)"
    if care.settings.database.startswith("sqlite:"):
        error = f"SELECT RAISE(ABORT, 'not marked') WHERE NOT {marked}"
        care.rows(f"CREATE TRIGGER marked BEFORE DELETE ON event BEGIN {error}; END")
        return
    body = f"BEGIN IF NOT {marked} THEN RAISE 'not marked'; END IF; RETURN OLD; END"
    care.rows(f"CREATE FUNCTION marked() RETURNS trigger LANGUAGE plpgsql AS $${body}$$")
    care.rows("CREATE TRIGGER marked BEFORE DELETE ON event FOR EACH ROW EXECUTE FUNCTION marked()")


def test_the_mark_is_written_before_events_are_removed(care: Care) -> None:
    """Otherwise a subscriber that resumes between the two steps would miss events without an error. Each
    batch has its own mark."""
    add_many_events(care, handed=f"'{moment_as_text(OLD)}'")
    reject_early_removal(care)

    assert removed(care) == {"events": 6**4}
    assert events(care) == []


def add_many_events(care: Care, handed: str) -> None:
    """6**4 events, which are several batches."""
    care.rows(
        "INSERT INTO event (caregiver_id, client_id, kind, session_id, moment, hand_over_date)"
        f" SELECT 1 + a.id % 3, 1, 'ASSIGNED', 1, '{moment_as_text(OLD)}', {handed}"
        " FROM assignment a, assignment b, assignment c, assignment d"
    )


def test_batches_of_events_that_are_kept_hide_no_later_ones(care: Care) -> None:
    add_many_events(care, handed="NULL")
    add_event(care, OLD)
    care.rows(f"UPDATE event SET moment = '{moment_as_text(NOW)}' WHERE id = 9")  # a clock was ahead

    assert removed(care) == {"events": 1}
    assert len(events(care)) == 6**4


def test_more_events_than_one_batch_are_removed(care: Care) -> None:
    old = moment_as_text(OLD)
    add_many_events(care, handed=f"'{old}'")
    care.rows(
        "INSERT INTO delivery (event_id, caregiver_id, client_id, state, attempts, next_date)"
        f" SELECT id, caregiver_id, 1, 'DEAD', 11, '{old}' FROM event WHERE id % 2 = 0"
    )
    add_event(care, OLD, handed=False)

    assert removed(care, is_dry_run=True) == {"deliveries": 6**4 // 2, "events": 6**4 // 2}
    assert removed(care) == {"deliveries": 6**4 // 2, "events": 6**4}
    assert (events(care), care.deliveries()) == ([6**4 + 1], [])
    assert care.rows("SELECT last_event_id FROM event_removal") == [(6**4,)]


# --- deliveries -----------------------------------------------------------------------------------


def test_dead_deliveries_and_their_events_are_removed(care: Care) -> None:
    for number, (state, moment) in enumerate(
        [("DEAD", OLD), ("DEAD", MIDNIGHT - 30 * DAY), ("WAITING", OLD), ("DELIVERED", OLD)], 1
    ):
        add_event(care, OLD)
        add_delivery(care, number, state, moment)

    assert removed(care, is_dry_run=True) == {"deliveries": 1}
    assert removed(care) == {"deliveries": 1, "events": 1}
    assert [one[:2] for one in care.deliveries()] == [(2, "DEAD"), (3, "WAITING"), (4, "DELIVERED")]
    assert events(care) == [2, 3, 4]


def test_more_dead_deliveries_than_one_search_finds_are_removed_with_their_events(care: Care) -> None:
    add_dead_deliveries(care, 1, SEARCH_LIMIT + 1)

    assert removed(care, is_dry_run=True) == {"deliveries": SEARCH_LIMIT + 1}
    assert removed(care) == {"deliveries": SEARCH_LIMIT + 1, "events": SEARCH_LIMIT + 1}
    assert (care.deliveries(), events(care)) == ([], [])


def test_a_delivery_that_is_retried_after_it_was_found_stays(care: Care) -> None:
    add_event(care, OLD)
    add_delivery(care, 1, "WAITING")

    for statement in (REMOVE_DEAD, REMOVE_EVENTS):
        run_write(care.settings.database, updating(statement, NOW, 1, [1]))

    assert ([one[:2] for one in care.deliveries()], events(care)) == ([(1, "WAITING")], [1])


# --- drafts ---------------------------------------------------------------------------------------


def add_draft(care: Care, draft: int, assignment: int, session: int) -> None:
    care.rows(
        "INSERT INTO answer_set"
        " (id, caregiver_id, client_id, assignment_id, save_type, attempt, revision, answers)"
        f" SELECT {draft}, caregiver_id, client_id, id, 'DRAFT', 1, 1, '[[null,\"How?\",\"Unsent\"]]'"
        f" FROM assignment WHERE id = {assignment}"
    )


def drafts(care: Care) -> list[Any]:
    return [row[0] for row in care.rows("SELECT id FROM answer_set WHERE save_type <> 'FINAL' ORDER BY id")]


@pytest.mark.parametrize(
    "closing",
    [f"close_date = '{moment_as_text(OLD)}'", f"close_date = NULL, start_date = '{moment_as_text(OLD)}'"],
    ids=["with date", "imported without date"],
)
def test_unusable_drafts_are_removed_with_an_audit_record(care: Care, closing: str) -> None:
    add_draft(care, 50, assignment=4, session=4)
    care.rows("UPDATE answer_set SET save_type = 'FINAL', attempt = 7 WHERE id = 50")
    add_draft(care, 51, assignment=2, session=1)
    add_draft(care, 52, assignment=5, session=5)
    add_draft(care, 53, assignment=4, session=4)
    add_draft(care, 54, assignment=1, session=1)
    add_draft(care, 55, assignment=3, session=3)
    care.rows(f"UPDATE assignment SET withdraw_date = '{moment_as_text(OLD)}' WHERE id IN (1, 2, 5)")
    care.rows(f"UPDATE session SET is_closed = true, {closing} WHERE id = 4")

    counted = removed(care, is_dry_run=True)
    before = drafts(care)

    assert (counted, before) == ({"drafts": 4}, [51, 52, 53, 54, 55])
    assert removed(care) == {"drafts": 4}
    assert drafts(care) == [55]
    assert care.rows("SELECT actor, operation, about FROM audit_record ORDER BY about") == [
        ("OPERATOR", "retention drafts", '[[1,1,{"drafts":[51,54]}],[1,2,{"drafts":[53]}]]'),
        ("OPERATOR", "retention drafts", '[[2,2,{"drafts":[52]}]]'),
    ]


def test_more_drafts_than_one_search_finds_are_removed(care: Care) -> None:
    last = 100 + SEARCH_LIMIT
    columns = "caregiver_id, client_id, session_id, book_id, assign_date, start_date, status, attempt, score"
    new = f"n.id, {columns}, feedback_status, '{moment_as_text(OLD)}'"
    care.rows(
        f"WITH RECURSIVE n (id) AS (SELECT 100 UNION ALL SELECT id + 1 FROM n WHERE id < {last})"
        f" INSERT INTO assignment (id, {columns}, feedback_status, withdraw_date)"
        f" SELECT {new} FROM n, assignment WHERE assignment.id = 4"
    )
    care.rows(
        "INSERT INTO answer_set"
        " (caregiver_id, client_id, assignment_id, save_type, attempt, revision, answers)"
        " SELECT caregiver_id, client_id, id, 'DRAFT', 1, 1, '[]' FROM assignment WHERE id >= 100"
    )

    assert removed(care, is_dry_run=True) == {"drafts": SEARCH_LIMIT + 1}
    assert removed(care) == {"drafts": SEARCH_LIMIT + 1}
    assert drafts(care) == []


@pytest.mark.sqlite_only
@pytest.mark.parametrize("name", ["deliveries", "events", "drafts"])
def test_each_kind_has_a_period_of_its_own(care: Care, name: str) -> None:
    for _ in range(2):
        add_event(care, OLD)
    add_delivery(care, 2, "DEAD")
    add_draft(care, 51, assignment=2, session=1)
    care.rows(f"UPDATE assignment SET withdraw_date = '{moment_as_text(OLD)}' WHERE id = 2")
    longer = Retention(events=31, deliveries=31, drafts=31, audit=0)

    assert removed(care, longer) == {}
    assert removed(care, longer._replace(**{name: 30})) == {name: 1}


@pytest.mark.parametrize(
    "change",
    [
        "assignment SET withdraw_date = {}",
        "session SET is_closed = true, close_date = {}",
        "session SET is_closed = true, close_date = NULL, start_date = {}",
    ],
    ids=["withdrawn", "closed", "imported without date"],
)
def test_drafts_are_kept_until_their_period_ends(care: Care, change: str) -> None:
    add_draft(care, 51, assignment=2, session=1)
    date = f"'{moment_as_text(MIDNIGHT - 30 * DAY)}'"
    care.rows(f"UPDATE {change.format(date)}")

    assert removed(care) == {}
    assert drafts(care) == [51]


def test_a_draft_that_is_submitted_after_it_was_found_stays(care: Care) -> None:
    add_draft(care, 51, assignment=2, session=1)
    care.rows("UPDATE answer_set SET save_type = 'FINAL' WHERE id = 51")

    run_write(care.settings.database, removing_drafts(NOW, 1, [51]))

    assert care.rows("SELECT save_type FROM answer_set WHERE id = 51") == [("FINAL",)]
    assert care.rows("SELECT operation FROM audit_record") == []


# --- the statements -------------------------------------------------------------------------------

REMOVING = {name: one for name, one in vars(retention).items() if name.startswith("REMOVE_")}


def test_every_removal_names_the_caregiver(kind: str) -> None:
    for name, statement in REMOVING.items():
        written = statement.for_(kind)

        assert keyless(queries_of(with_names(written)), "caregiver") == []
        assert (care_tables(written) != []) is (name != "REMOVE_OLDER_MARKS")
    assert len(REMOVING) == 4


@pytest.mark.parametrize("kind", ["sqlite"], indirect=True)
def test_no_removal_scans_a_table(care: Care) -> None:
    values = {"caregiver": 1, "ids": [1], "events": [1], "last": 1}
    with closing(sqlite3.connect(sqlite_path(care.settings.database))) as connection:
        plans = [explain(connection, one.for_("sqlite"), values) for one in REMOVING.values()]

    assert [step for plan in plans for step in plan if is_scan(step)] == []


# --- as the dispatcher does it --------------------------------------------------------------------


def test_without_periods_nothing_is_removed(care: Care) -> None:
    add_event(care, OLD)
    add_event(care, OLD)
    add_delivery(care, 2, "DEAD")
    add_draft(care, 51, assignment=2, session=1)
    care.rows(f"UPDATE assignment SET withdraw_date = '{moment_as_text(OLD)}' WHERE id = 2")

    assert removed(care, KEEP_ALL) == {}
    assert (events(care), drafts(care), len(care.deliveries())) == ([1, 2], [51], 1)


@pytest.mark.sqlite_only
def test_the_dispatcher_runs_retention(care: Care) -> None:
    add_event(care, OLD)

    async def work(db: Database) -> None:
        dispatcher = partial(dispatch, db, None, lambda: NOW, periods=PERIODS)
        async with in_background(dispatcher), asyncio.timeout(PATIENCE):
            while await asyncio.to_thread(events, care) != [2]:  # the event of the reminder that is due
                pass

    asyncio.run(on_database(care.settings.database, work))


@pytest.mark.sqlite_only
def test_a_stopped_dispatcher_ends_between_two_batches(care: Care) -> None:
    add_event(care, OLD)
    add_delivery(care, 1, "DEAD")

    async def work(db: Database) -> None:
        stop = asyncio.Event()
        stop.set()
        await expire(db, PERIODS, NOW, stop)

    asyncio.run(on_database(care.settings.database, work))

    assert (care.deliveries(), events(care)) == ([], [1])
