"""The synchronous standby is lost: PostgreSQL lets commits wait for it, and reads continue."""

import asyncio
import json
import time
from typing import Any

import pytest

from app.db.admin.migrate import migrate
from app.db.drivers.interface import DatabaseUnavailable, OutcomeUnknown
from app.db.drivers.waiting_commits import reading_waiting_commits
from app.doctor import replication
from tests.crash.server import own_postgres, standby_of
from tests.db import raw
from tests.db.operations import adding, counting, modules, with_database
from tests.doctor.conftest import run
from tests.live.processes import PATIENCE

pytestmark = pytest.mark.live
UNCONFIRMED = "the database did not confirm the change in time; whether it is kept is not known"
NO_STANDBY = ("ALTER SYSTEM RESET synchronous_standby_names", "SELECT pg_reload_conf()")


def test_a_commit_that_waits_for_the_standby_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(replication, "MAX_WAIT", 0)

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
