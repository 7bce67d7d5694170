"""The synchronous standby is lost: PostgreSQL lets commits wait for it, and reads continue."""

import asyncio
import json
import time
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import pytest

from app.care.audit import seal_some
from app.db.admin.migrate import migrate
from app.db.audit.records import recording
from app.db.audit.verifying import verifying
from app.db.drivers.factory import open_database
from app.db.drivers.interface import DatabaseUnavailable, OutcomeUnknown
from app.db.drivers.waiting_commits import reading_waiting_commits
from app.doctor import runtime
from tests.audit.test_chain import records
from tests.callers import run_write
from tests.crash.server import own_postgres, standby_of
from tests.db import raw
from tests.db.small_steps import adding, counting, modules, with_database
from tests.doctor.conftest import run
from tests.factories import NOW
from tests.live.processes import PATIENCE

pytestmark = pytest.mark.live
UNCONFIRMED = "the database did not confirm the change in time; whether it is kept is not known"
NO_STANDBY = ("ALTER SYSTEM RESET synchronous_standby_names", "SELECT pg_reload_conf()")


def test_a_commit_that_waits_for_the_standby_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runtime, "MAX_WAIT", 0)

    async def use(db: Any) -> tuple[int, int]:
        with pytest.raises(OutcomeUnknown) as unknown:
            await db.write(adding("one"))
        assert str(unknown.value) == UNCONFIRMED
        for _ in range(3):
            with pytest.raises(DatabaseUnavailable) as refused:
                await db.write(adding("two"))
            assert str(refused.value) == str(DatabaseUnavailable())
        waiting, _ = await db.read(reading_waiting_commits())
        return await db.read(counting()), waiting

    with own_postgres(in_memory=True) as (primary, url), standby_of(primary, url) as standby:
        asyncio.run(migrate(url))
        standby.stop()
        seen = with_database(url, use, patience=1)
        found = findings(url)
        raw.run(url, *NO_STANDBY)
        without = [*findings(url), *modules(url)]

    assert seen == (0, 1)
    assert [message.rpartition(" for ")[0] for message in found] == [
        "failed: 1 change waits for a synchronous standby, the first"
    ]
    assert without == ["one"]


@pytest.fixture
def alone() -> Iterator[str]:
    """A database that waits for a standby which does not run, with an audit record that is not sealed."""
    with own_postgres(in_memory=True) as (primary, url), standby_of(primary, url) as standby:
        asyncio.run(migrate(url))
        run_write(url, recording(records(1)))
        standby.stop()
        yield url


async def until_waiting(url: str, number: int) -> None:
    """Returns when this number of commits waits for the standby."""
    db = await open_database(url, patience=None)
    while (await db.read(reading_waiting_commits()))[0] < number:
        pass
    await db.close()


def test_a_seal_that_waits_for_the_standby_holds_up_no_record(
    alone: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The record gets as far as its own commit, whose wait is limited; that for a lock would not be."""
    monkeypatch.setattr("app.db.drivers.postgres.COMMIT_SECONDS", 2)

    async def use(db: Any) -> tuple[int, int]:
        sealer = await open_database(alone, patience=None)
        sealing = asyncio.create_task(seal_some(sealer, NOW))
        await until_waiting(alone, 1)
        with pytest.raises(OutcomeUnknown) as unknown:
            await db.write(recording(records(1)))
        assert str(unknown.value) == UNCONFIRMED
        waiting, _ = await db.read(reading_waiting_commits())
        await asyncio.to_thread(raw.run, alone, *NO_STANDBY)
        await sealing
        while (await db.read(verifying({}))).records < 2:  # the record is kept once its commit is confirmed
            with suppress(DatabaseUnavailable):
                await seal_some(sealer, NOW)
        await sealer.close()
        return waiting, (await db.read(verifying({}))).unsealed

    assert with_database(alone, use) == (2, 0)


def test_commits_that_wait_for_the_standby_leave_a_connection_to_reads(alone: str) -> None:
    async def use(db: Any) -> tuple[int, int, list[BaseException | str]]:
        changes = [asyncio.create_task(db.write(adding(f"{number}"))) for number in range(8)]
        record = asyncio.create_task(db.write(recording(records(1))))
        await until_waiting(alone, 4)
        found = await db.read(counting())
        waiting, _ = await db.read(reading_waiting_commits())
        outcomes = await asyncio.gather(*changes, record, return_exceptions=True)
        return found, waiting, outcomes

    found, waiting, outcomes = with_database(alone, use)
    raw.run(alone, *NO_STANDBY)

    assert (found, waiting) == (0, 4)
    assert [str(one) for one in outcomes].count(UNCONFIRMED) == 4
    assert [str(one) for one in outcomes].count(str(DatabaseUnavailable())) == 5
    while len(made := modules(alone)) < 3:  # until the reload takes effect
        pass
    assert len(made) == 3  # the others were not made


def test_changes_are_accepted_again_when_the_standby_is_back() -> None:
    with own_postgres(in_memory=True) as (primary, url), standby_of(primary, url) as standby:
        asyncio.run(migrate(url))

        async def use(db: Any) -> None:
            standby.stop()
            with pytest.raises(OutcomeUnknown):
                await db.write(adding("one"))
            with pytest.raises(DatabaseUnavailable):
                await db.write(adding("two"))
            await asyncio.to_thread(standby.start)
            until = time.monotonic() + PATIENCE
            while (await db.read(reading_waiting_commits()))[0]:
                assert time.monotonic() < until, "the commit still waits"
            await db.write(adding("three"))

        with_database(url, use, patience=1)

        assert modules(url) == ["one", "three"]


def findings(url: str) -> list[str]:
    """What doctor says about standbys."""
    found = json.loads(run({"database_url": url}, "--json").stdout)["findings"]
    return [f"{one['verdict']}: {one['message']}" for one in found if "synchronous standby" in one["message"]]
