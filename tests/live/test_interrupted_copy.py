"""An interrupted `copy` leaves nothing in the target and can be repeated."""

import asyncio
import shutil
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from app.db.drivers.interface import sqlite_path
from tests.callers import load
from tests.conftest import fresh_database
from tests.db import raw
from tests.factories import a_world
from tests.live.processes import PATIENCE, Process, run, start

pytestmark = pytest.mark.live

LOCK = 77  # an advisory lock
# The copy waits for the lock after the sessions, before the reminders.
WAITS = (
    "CREATE FUNCTION wait() RETURNS trigger LANGUAGE plpgsql AS"
    f" $$ BEGIN PERFORM pg_advisory_xact_lock({LOCK}); RETURN NULL; END $$",
    "CREATE TRIGGER wait BEFORE INSERT ON reminder FOR EACH STATEMENT EXECUTE FUNCTION wait()",
)
WAITING = "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND NOT granted"
OTHERS = (
    "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()"
)
COUNT = "SELECT count(*) FROM session"


@pytest.fixture
def source(migrated_sqlite: str, tmp_path: Path) -> str:
    url = f"sqlite:///{shutil.copy(sqlite_path(migrated_sqlite), tmp_path / 'source.db')}"
    load(url, a_world())
    return url


@pytest.fixture
def target(request: pytest.FixtureRequest, migrated_postgresql: str, tmp_path: Path) -> Iterator[str]:
    with fresh_database("postgresql", migrated_postgresql, request, tmp_path) as url:
        yield url


@pytest.mark.parametrize(("number", "code"), [(signal.SIGKILL, -signal.SIGKILL), (signal.SIGINT, 1)])
def test_an_interrupted_copy_leaves_nothing_and_can_be_repeated(
    source: str, target: str, number: signal.Signals, code: int
) -> None:
    words = ("copy", "--from", source, "--to", target)
    raw.run(target, *WAITS)

    ended, rows = asyncio.run(interrupted(target, start(*words), number))
    raw.run(target, "DROP TRIGGER wait ON reminder")
    again = run(*words)

    assert (ended, rows) == (code, 0)
    assert (again.returncode, again.stderr) == (0, "")
    assert raw.run(target, COUNT) == raw.run(source, COUNT)


async def interrupted(target: str, copy: Process, number: signal.Signals) -> tuple[int, int]:
    """Interrupts the copy in the middle. Returns its exit code and the number of sessions in the target."""
    import asyncpg

    connection = await asyncpg.connect(target)
    try:
        async with asyncio.timeout(PATIENCE):
            async with connection.transaction():
                await connection.execute(f"SELECT pg_advisory_xact_lock({LOCK})")
                while not await connection.fetchval(WAITING):
                    assert copy.poll() is None, copy.communicate()
                copy.send_signal(number)
                code = await asyncio.to_thread(copy.wait)
            while await connection.fetchval(OTHERS):
                pass
        return code, await connection.fetchval(COUNT)
    finally:
        copy.kill()
        copy.communicate()
        await connection.close()
