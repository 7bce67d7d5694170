"""Session counters stay correct when an import and requests of the service run concurrently."""

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from app.care.homework import Homework, assigning
from app.care.new_sessions import NewSession, opening
from app.db.admin.importing import importing
from app.db.drivers.interface import Database
from app.db.reader.selection import AccessScope
from app.db.session_counters import Difference, differences
from app.db.sql import Operation
from tests.callers import load, run_read
from tests.db import raw
from tests.db.operations import with_database
from tests.db.overlapping import uncommitted, until_blocked
from tests.factories import DAY, NOW, Record, a_session, a_world, an_assignment, lines, starting_with

pytestmark = starting_with(a_world)

on_postgresql = pytest.mark.parametrize("kind", ["postgresql"], indirect=True)
MORE_HOMEWORK = [an_assignment(9, session=1)]


def homework_in(session: int) -> Operation[list[int]]:
    return assigning(AccessScope(NOW, caregiver=1), Homework(session, (1, 2), NOW, NOW + DAY))


def importing_while_uncommitted(
    url: str, operation: Operation[list[int]], records: list[Record]
) -> Callable[[Database], Awaitable[None]]:
    """The operation commits when the import waits for it."""

    async def use(db: Database) -> None:
        async with uncommitted(url, operation):
            imported = asyncio.create_task(db.write(importing(lines(records))))
            assert await until_blocked(url, imported)
        await imported

    return use


@on_postgresql
def test_homework_that_is_committed_while_an_import_waits_for_its_session_is_counted(
    database_url: str,
) -> None:

    with_database(database_url, importing_while_uncommitted(database_url, homework_in(1), MORE_HOMEWORK))

    assert run_read(database_url, differences()) == []
    counted = "SELECT assignment_count, latest_assignment_id FROM session WHERE id = 1"
    assert raw.run(database_url, counted) == [(5, 9)]


@on_postgresql
def test_homework_that_waits_for_an_import_into_its_session_is_counted(database_url: str) -> None:

    async def use(db: Database) -> list[int]:
        async with uncommitted(database_url, importing(lines(MORE_HOMEWORK))):
            assigned = asyncio.create_task(db.write(homework_in(1)))
            assert await until_blocked(database_url, assigned)
        return await assigned

    first, second = with_database(database_url, use)

    assert 9 < first < second  # the import has added assignment 9
    assert run_read(database_url, differences()) == []
    counted = "SELECT assignment_count, latest_assignment_id FROM session WHERE id = 1"
    assert raw.run(database_url, counted) == [(5, second)]


@on_postgresql
def test_an_import_does_not_wait_for_homework_in_other_sessions(
    database_url: str,
) -> None:

    async def use(db: Database) -> bool:
        async with uncommitted(database_url, homework_in(4)):
            imported = asyncio.create_task(db.write(importing(lines(MORE_HOMEWORK))))
            has_waited = await until_blocked(database_url, imported)
        await imported
        return has_waited

    has_waited = with_database(database_url, use)

    assert run_read(database_url, differences()) == []
    assert not has_waited


@on_postgresql
def test_an_import_and_a_request_may_add_the_same_relationship(database_url: str) -> None:
    opened = opening(AccessScope(NOW, caregiver=2), [NewSession(None, "OPPT-1", "Sleep", "", NOW)])
    imported = [a_session(9, caregiver=2, client=1)]

    with_database(database_url, importing_while_uncommitted(database_url, opened, imported))

    known = "SELECT caregiver_id FROM relationship WHERE client_id = 1 ORDER BY 1"
    assert raw.run(database_url, known) == [(1,), (2,)]


def test_an_import_recomputes_only_the_sessions_of_its_lines(database_url: str) -> None:
    """`verify` reports differences of other sessions."""
    raw.run(database_url, "UPDATE session SET assignment_count = 7 WHERE id IN (1, 4)")

    load(database_url, MORE_HOMEWORK)

    assert run_read(database_url, differences()) == [Difference(4, "assignment_count", 7, 1)]
