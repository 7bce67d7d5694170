"""Maintenance that ends between any two statements leaves a state that verifies, and the next run completes
it: each row is then as after one run, and each change has one audit record."""

import asyncio
import shutil
from collections.abc import Awaitable, Callable
from contextlib import suppress
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from app.care.audit import seal
from app.cli.client_data import erasing_on_record
from app.cli.restore import applying
from app.db.admin.tombstones import Mark
from app.db.audit.records import recording
from app.db.drivers.factory import open_database
from app.db.drivers.interface import Database, sqlite_path
from app.db.moments import moment_as_text
from app.db.session_counters import differences
from app.db.sql import Repeatable, Step, Steps, mapping_steps
from app.db.tables import TombstoneState
from app.events.outbox import queue_deliveries, remind
from app.events.retention import clean_up, removing_expired
from app.settings import Retention
from tests.audit.audit_log import audited
from tests.audit.test_chain import records, seal_all, verified
from tests.callers import load, run_read, run_write
from tests.database_rows import all_rows
from tests.db import raw
from tests.events.conftest import a_world_with_a_due_reminder
from tests.factories import DAY, NOW, prepared_by

pytestmark = pytest.mark.parametrize("kind", ["sqlite"], indirect=True)
OLD = moment_as_text(NOW - 60 * DAY)
PERIODS = Retention(events=30, deliveries=30, drafts=30, audit=30)
TOMBSTONES = {
    ("CLIENT", 1): Mark(TombstoneState.ERASED, NOW),
    ("CLIENT", 2): Mark(TombstoneState.DISABLED, NOW),
    ("CAREGIVER", 2): Mark(TombstoneState.DISABLED, NOW),
}
DRAFT = "51, 1, 1, 2, 'DRAFT', 1, 1, '[[null,\"How?\",\"Unsent\"]]'"


def fill(url: str) -> None:
    """Each kind of maintenance has something to do, for two caregivers."""
    load(url, a_world_with_a_due_reminder())
    columns = "caregiver_id, client_id, kind, session_id, assignment_id, moment, hand_over_date"
    raw.run(
        url,
        *(
            f"INSERT INTO event ({columns}) VALUES ({who}, {who}, 'ASSIGNED', 1, 2, '{OLD}', {handed})"
            for who, handed in (
                (1, f"'{OLD}'"),
                (2, f"'{OLD}'"),
                (1, f"'{OLD}'"),
                (1, f"'{OLD}'"),
                (2, "NULL"),
            )
        ),
        "INSERT INTO delivery (event_id, caregiver_id, client_id, state, attempts, next_date)"
        f" VALUES (3, 1, 1, 'DEAD', 11, '{OLD}'), (4, 1, 1, 'DELIVERED', 1, '{OLD}')",
        "INSERT INTO answer_set"
        " (id, caregiver_id, client_id, assignment_id, save_type, attempt, revision, answers)"
        f" VALUES ({DRAFT})",
        f"UPDATE assignment SET withdraw_date = '{OLD}' WHERE id = 2",
        "UPDATE session SET assignment_count = 1, latest_assignment_id = 1 WHERE id = 1",
        "INSERT INTO idempotency_key (role, viewer_id, contract, key, fingerprint, result, moment)"
        f" VALUES ('CLIENT', 1, 'GRAPHQL', 'k', 'f', 'null', '{OLD}')",
    )
    about = '[[1,1,{"answerSets":[1]}],[1,2,{"answerSets":[2]}]]'
    for moment in (NOW - 60 * DAY, NOW - 50 * DAY, NOW):
        run_write(url, recording(records(2, about, moment)))
        seal_all(url, moment)
    run_write(url, recording(records(2, about)))


class Crash(Exception):
    """The process has ended."""


class Crashing:
    """A database that runs so many statements and no more."""

    def __init__(self, db: Database, statements: int) -> None:
        self.db = db
        self.left = statements
        self.has_ended = False

    def count(self, step: Step) -> Step:
        if self.left == 0:
            self.has_ended = True  # the caller may continue after an error
            raise Crash
        self.left -= 1
        return step

    async def read(self, steps: Steps[Any]) -> Any:
        return await self.db.read(mapping_steps(steps, self.count))

    async def write(self, steps: Steps[Any] | Repeatable[Any]) -> Any:
        return await self.db.write(mapping_steps(steps, self.count))


async def run_retention(db: Any) -> None:
    async for _ in removing_expired(db, PERIODS, NOW):
        pass


async def run_outbox(db: Any) -> None:
    await remind(db, NOW)
    await queue_deliveries(db, True, NOW)


Work = Callable[[Any], Awaitable[object]]
WORKS: dict[str, Work] = {
    "retention": run_retention,
    "removal of accepted deliveries and of keys": lambda db: clean_up(db, NOW),
    "outbox": run_outbox,
    "seals": lambda db: seal(db, NOW),
    "erasure": lambda db: db.write(erasing_on_record(1, NOW)),
    "tombstones after a restore": lambda db: applying(db, TOMBSTONES, NOW),
}


def completes(url: str, work: Work, statements: int = 10_000) -> bool:
    async def run() -> bool:
        db = await open_database(url)
        crashing = Crashing(db, statements)
        try:
            with suppress(Crash):
                await work(crashing)
        finally:
            await db.close()
        return not crashing.has_ended

    return asyncio.run(run())


def copy_of(url: str, copy: Path) -> str:
    return f"sqlite:///{shutil.copyfile(sqlite_path(url), copy)}"


def events(url: str) -> set[int]:
    return {row[0] for row in raw.run(url, "SELECT id FROM event")}


def newest_mark(url: str) -> int:
    """The id up to which events may be removed."""
    return int(raw.run(url, "SELECT coalesce(max(last_event_id), 0) FROM event_removal")[0][0])


def stored(url: str) -> Any:
    """Every row, the newest of the marks of removed events, and the audit records in any order."""
    rows = run_read(url, all_rows()) | {"event_removal": [{"last": newest_mark(url)}]}
    return rows, sorted(map(repr, audited(url)))


@prepared_by(fill)
@pytest.mark.parametrize("name", WORKS)
def test_maintenance_that_ends_between_any_two_statements(
    database_url: str, tmp_path: Path, name: str
) -> None:
    work, whole = WORKS[name], copy_of(database_url, tmp_path / "whole.db")
    assert completes(whole, work)
    expected, before = stored(whole), stored(database_url)
    assert expected != before or name == "seals"

    for number in count():
        url = copy_of(database_url, tmp_path / f"{number}.db")
        if completes(url, work, number):
            break
        if name == "erasure":
            assert stored(url) == before, number
        assert run_read(url, differences()) == []
        assert max(events(database_url) - events(url), default=0) <= newest_mark(url), number
        seal_all(url)  # as a running service does every second
        assert verified(url).faults == [], number

        assert completes(url, work), number
        assert stored(url) == expected, number

    seal_all(url)
    assert (number > 2, verified(url).faults) == (True, [])
