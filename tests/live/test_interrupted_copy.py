"""An interrupted `copy` leaves nothing and can be repeated. A second copy waits for the first."""

import asyncio
import shutil
import signal
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from app.db.drivers.interface import sqlite_path
from tests.callers import load
from tests.conftest import fresh_database
from tests.db import raw
from tests.db.overlapping import BLOCKED
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
WAITING = (
    "SELECT count(*) FROM pg_locks JOIN pg_database ON pg_database.oid = database"
    " WHERE datname = current_database() AND locktype = 'advisory' AND NOT granted"
)
OTHERS = (
    "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()"
)
COUNT = "SELECT count(*) FROM session"


@pytest.fixture
def source(sqlite_copy: str) -> str:
    load(sqlite_copy, a_world())
    return sqlite_copy


@pytest.fixture
def target(request: pytest.FixtureRequest, migrated_postgresql: str, tmp_path: Path) -> Iterator[str]:
    with fresh_database("postgresql", migrated_postgresql, request, tmp_path) as url:
        yield url


@pytest.mark.parametrize(("number", "code"), [(signal.SIGKILL, -signal.SIGKILL), (signal.SIGINT, 2)])
def test_an_interrupted_copy_leaves_nothing_and_can_be_repeated(
    source: str, target: str, number: signal.Signals, code: int
) -> None:
    raw.run(target, *WAITS)

    ended, rows = asyncio.run(interrupted(source, target, number))
    raw.run(target, "DROP TRIGGER wait ON reminder")
    again = run("copy", "--from", source, "--to", target)

    assert (ended, rows) == (code, 0)
    assert (again.returncode, again.stderr) == (0, "")
    assert raw.run(target, COUNT) == raw.run(source, COUNT)


async def interrupted(source: str, target: str, number: signal.Signals) -> tuple[int, int]:
    """Interrupts a copy in the middle. Returns its exit code and the number of sessions in the target."""
    async with locked(target) as connection:
        copy = start("copy", "--from", source, "--to", target)
        try:
            await until_waiting(connection, copy)
            copy.send_signal(number)
            code = await asyncio.to_thread(copy.wait)
            await connection.execute(f"SELECT pg_advisory_unlock({LOCK})")
            while await connection.fetchval(OTHERS):
                pass
            return code, await connection.fetchval(COUNT)
        finally:
            copy.kill()
            copy.communicate()


def test_a_second_copy_waits_for_the_first_and_is_rejected(source: str, target: str, tmp_path: Path) -> None:
    other = f"sqlite:///{shutil.copy(sqlite_path(source), tmp_path / 'other.db')}"
    raw.run(target, *WAITS)

    results = asyncio.run(concurrent(target, [source, other]))

    [(first, _), (second, message)] = results
    assert (first, second) == (0, 2)
    assert message.startswith("care-gateway: nothing was copied: the target has rows in ")


async def concurrent(target: str, sources: list[str]) -> list[tuple[int, str]]:
    """The exit code and the errors of each copy. The first one begins before the others."""
    copies: list[Process] = []
    try:
        async with locked(target) as connection:
            copies.append(start("copy", "--from", sources[0], "--to", target))
            await until_waiting(connection, copies[0])
            copies += [start("copy", "--from", source, "--to", target) for source in sources[1:]]
            while await connection.fetchval(BLOCKED) < len(copies):
                assert copies[-1].poll() is None, copies[-1].communicate()
        return [(await asyncio.to_thread(copy.wait), copy.communicate()[1]) for copy in copies]
    finally:
        for copy in copies:
            copy.kill()
            copy.communicate()


@asynccontextmanager
async def locked(target: str) -> AsyncIterator[Any]:
    """A copy that begins in the block waits in the middle until its end."""
    import asyncpg

    connection = await asyncpg.connect(target)
    try:
        async with asyncio.timeout(PATIENCE):
            await connection.execute(f"SELECT pg_advisory_lock({LOCK})")
            yield connection
    finally:
        await connection.close()


async def until_waiting(connection: Any, copy: Process) -> None:
    while not await connection.fetchval(WAITING):
        assert copy.poll() is None, copy.communicate()
