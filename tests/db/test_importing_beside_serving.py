"""Session counters stay correct when an import and requests of the service run concurrently."""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from functools import partial
from typing import Any, cast

import pytest

from app.care.answers import Answers, submitting
from app.care.assignment_changes import reopening
from app.care.homework import Homework, assigning
from app.care.new_sessions import NewSession, opening
from app.care.questions import GivenAnswer
from app.db.admin.accounts import switching_account
from app.db.admin.books import importing_books
from app.db.admin.erasing import erasing
from app.db.admin.tombstones import Mark, merging_tombstones
from app.db.drivers.interface import Database, DatabaseError
from app.db.interchange import load as load_module
from app.db.interchange.load import ImportRejected, importing
from app.db.reader.selection import AccessScope
from app.db.session_counters import Difference, differences
from app.db.sql import Bulk, Steps, selecting
from app.db.tables import TombstoneState
from tests.callers import load, run_read
from tests.db import raw
from tests.db.overlapping import uncommitted, until_blocked
from tests.db.small_steps import sql, with_database
from tests.factories import (
    DAY,
    NOW,
    Record,
    a_module,
    a_session,
    a_world,
    an_answer_set,
    an_assignment,
    lines,
    starting_with,
)

pytestmark = starting_with(a_world)

on_postgresql = pytest.mark.parametrize("kind", ["postgresql"], indirect=True)
MORE_HOMEWORK = [an_assignment(9, session=1)]
Importing = Callable[[Any], Steps[Any]]


def homework_in(session: int) -> Steps[list[int]]:
    return assigning(AccessScope(NOW, caregiver=1), Homework(session, (1, 2), NOW, NOW + DAY))


def importing_while_uncommitted(
    url: str, steps: Steps[Any], records: list[Record]
) -> Callable[[Database], Awaitable[None]]:
    """The steps commit when the import waits for it."""

    async def use(db: Database) -> None:
        async with uncommitted(url, steps):
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
def test_homework_in_other_sessions_does_not_wait_for_an_import(database_url: str) -> None:
    async def use(db: Database) -> bool:
        async with uncommitted(database_url, importing(lines(MORE_HOMEWORK))):
            assigned = asyncio.create_task(db.write(homework_in(4)))
            has_waited = await until_blocked(database_url, assigned)
        await assigned
        return has_waited

    has_waited = with_database(database_url, use)

    assert run_read(database_url, differences()) == []
    assert not has_waited


GATE = sql("SELECT pg_advisory_xact_lock(1)")
WAITING_NO_LONGER = sql("SET LOCAL lock_timeout = '100ms'")


def waiting_after_the_first_rows(steps: Steps[dict[str, int]]) -> Steps[dict[str, int]]:
    """Waits for GATE once, and later for no other lock."""
    waits = [GATE, WAITING_NO_LONGER]
    try:
        step = next(steps)
        while True:
            rows = yield step
            while isinstance(step, Bulk) and waits:
                yield waits.pop(0), {}
            step = steps.send(rows)
    except StopIteration as done:
        return cast(dict[str, int], done.value)


@on_postgresql
def test_an_import_of_many_rows_goes_on_while_homework_waits_for_its_session(
    database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """PostgreSQL ends one of two transactions that wait for each other, which can be the import."""
    monkeypatch.setattr(load_module, "MAX_ROWS_IN_MEMORY", 1)
    records = [an_assignment(number, session=1) for number in (11, 12)]

    async def use(db: Database) -> tuple[dict[str, int], list[int]]:
        async with uncommitted(database_url, selecting(GATE)):
            imported = asyncio.create_task(db.write(waiting_after_the_first_rows(importing(lines(records)))))
            assert await until_blocked(database_url, imported)
            assigned = asyncio.create_task(db.write(homework_in(1)))
            assert await until_blocked(database_url, assigned, transactions=2)
        return await imported, await assigned

    imported, (first, second) = with_database(database_url, use)

    assert imported == {"assignment": 2}
    assert 12 < first < second
    assert run_read(database_url, differences()) == []
    counted = "SELECT assignment_count, latest_assignment_id FROM session WHERE id = 1"
    assert raw.run(database_url, counted) == [(6, second)]


@on_postgresql
def test_answers_to_an_assignment_that_is_submitted_meanwhile_are_not_imported(database_url: str) -> None:
    """The draft could not be submitted any more, and would be that of a later attempt."""
    submitted = submitting(AccessScope(NOW, client=1), Answers(2, (GivenAnswer(2, "Better"),)))
    draft = [an_answer_set(50, assignment=2, saveType="DRAFT")]

    with pytest.raises(DatabaseError) as raised:
        with_database(database_url, importing_while_uncommitted(database_url, submitted, draft))

    assert str(raised.value) == (
        "assignment 2 was changed by another process meanwhile; nothing was imported: import again, or stop "
        "the service first"
    )
    stored = "SELECT save_type, attempt FROM answer_set WHERE assignment_id = 2"
    assert raw.run(database_url, stored) == [("FINAL", 1)]


@on_postgresql
def test_a_draft_of_an_assignment_that_is_reopened_meanwhile_is_not_imported(database_url: str) -> None:
    """The reopening takes no id of an answer set, so the import waits for the session only."""
    reopened = reopening(AccessScope(NOW, caregiver=2), 5)
    drafts = [an_answer_set(49 + each, assignment=each, saveType="DRAFT") for each in (1, 5)]

    with pytest.raises(DatabaseError, match=r"^assignment 5 was changed by another process meanwhile; "):
        with_database(database_url, importing_while_uncommitted(database_url, reopened, drafts))

    stored = "SELECT save_type, attempt FROM answer_set WHERE assignment_id IN (1, 5)"
    assert raw.run(database_url, stored) == [("FINAL", 1)] * 2


LOCKS = sql("SELECT count(*) FROM pg_locks WHERE pid = pg_backend_pid()")


@on_postgresql
def test_an_import_of_many_rows_holds_no_more_locks_than_one_of_few(
    database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All transactions share PostgreSQL's memory for locks."""
    monkeypatch.setattr(load_module, "MAX_ROWS_IN_MEMORY", 1)

    def importing_modules(*numbers: int) -> Steps[int]:
        yield from importing(lines(map(a_module, numbers)))
        return int((yield LOCKS, {})[0][0])

    async def locks_of(*numbers: int) -> int:
        async with uncommitted(database_url, importing_modules(*numbers)) as locks:
            return locks

    few, many = asyncio.run(locks_of(10, 11)), asyncio.run(locks_of(*range(20, 60)))

    assert many == few


# --- ids ------------------------------------------------------------------------------------------


def newest_ids(url: str) -> dict[str, int]:
    """What the sequences of PostgreSQL have given last."""
    rows = raw.run(url, "SELECT sequencename, last_value FROM pg_sequences WHERE last_value IS NOT NULL")
    return {str(name).removesuffix("_id_seq"): int(last) for name, last in rows}


@on_postgresql
def test_an_id_that_the_service_takes_during_an_import_is_reported(database_url: str) -> None:
    """The service has given the id to homework that is not committed yet, and the one before to no row."""
    before = raw.run(database_url, "SELECT max(id) FROM assignment")[0][0]
    raw.run(database_url, "SELECT nextval('assignment_id_seq')")
    records = [an_assignment(before + number, session=4) for number in (1, 2, 3)]

    with pytest.raises(DatabaseError) as raised:
        with_database(database_url, importing_while_uncommitted(database_url, homework_in(1), records))

    assert str(raised.value) == (
        f"assignment {before + 2} was added by another process meanwhile; nothing was imported: import "
        "again, or stop the service first"
    )
    assert raw.run(database_url, "SELECT max(id) FROM assignment") == [(before + 3,)]  # the homework
    with pytest.raises(ImportRejected, match=f"line 2: id: {before + 2} exists already"):
        with_database(database_url, lambda db: db.write(importing(lines(records))))


@on_postgresql
def test_a_change_during_an_import_never_gets_an_id_of_the_import(database_url: str) -> None:
    """The import has added its rows, and waits for a row that another transaction has locked."""
    before = raw.run(database_url, "SELECT max(id) FROM assignment")[0][0]
    records = [an_assignment(before + number, session=1, book=3) for number in (1, 2)]
    raw.run(database_url, "UPDATE book SET is_assigned = FALSE WHERE id = 3")
    lock_book = selecting(sql("SELECT id FROM book WHERE id = 3 FOR NO KEY UPDATE"))

    async def use(db: Database) -> list[int]:
        async with uncommitted(database_url, lock_book):
            imported = asyncio.create_task(db.write(importing(lines(records))))
            assert await until_blocked(database_url, imported)
            assigned = await db.write(homework_in(4))
        await imported
        return assigned

    assert with_database(database_url, use) == [before + 3, before + 4]


@on_postgresql
def test_an_import_moves_no_sequence_backwards(database_url: str) -> None:
    """Ids are taken without a pause meanwhile, and none is given twice."""
    records = [{"kind": "module", "id": 50 + 3 * number, "name": "New"} for number in range(30)]
    taken: list[int] = []

    async def use(db: Database) -> None:
        import asyncpg

        async def take_ids() -> None:
            connection = await asyncpg.connect(database_url)
            try:
                while not is_done.is_set():
                    found = await connection.fetch(
                        "SELECT nextval('module_id_seq') FROM generate_series(1, 1000)"
                    )
                    taken.extend(row[0] for row in found)
            finally:
                await connection.close()

        is_done = asyncio.Event()
        takers = [asyncio.create_task(take_ids()) for _ in range(4)]
        for record in records:
            with suppress(ImportRejected, DatabaseError):
                await db.write(importing(lines([record])))
        is_done.set()
        await asyncio.gather(*takers)

    with_database(database_url, use)

    imported = {row[0] for row in raw.run(database_url, "SELECT id FROM module WHERE name = 'New'")}
    assert len(taken) > 1000
    assert len(set(taken)) == len(taken)
    assert newest_ids(database_url)["module"] == max(*taken, *imported)


@on_postgresql
@pytest.mark.parametrize("command", [importing, importing_books])
def test_an_older_id_leaves_the_sequence_as_it_is(database_url: str, command: Importing) -> None:
    raw.run(database_url, "SELECT setval('module_id_seq', 900)", "SELECT setval('book_id_seq', 800)")

    records = [{"kind": "module", "id": 7, "name": "Rest"}, {"kind": "module", "id": 901, "name": "Mood"}]
    with_database(database_url, lambda db: db.write(command(lines(records))))

    newest = newest_ids(database_url)
    assert (newest["module"], newest["book"]) == (901, 800)


@on_postgresql
def test_an_import_and_a_request_may_add_the_same_relationship(database_url: str) -> None:
    opened = opening(AccessScope(NOW, caregiver=2), [NewSession(None, "OPPT-1", "Sleep", "", NOW)])
    imported = [a_session(9, caregiver=2, client=1)]

    with_database(database_url, importing_while_uncommitted(database_url, opened, imported))

    known = "SELECT caregiver_id FROM relationship WHERE client_id = 1 ORDER BY 1"
    assert raw.run(database_url, known) == [(1,), (2,)]


@on_postgresql
def test_an_import_waits_for_an_erasure_and_rejects_the_rows_of_the_client(database_url: str) -> None:
    with pytest.raises(ImportRejected, match="line 1: clientId: client 1 is erased"):
        with_database(
            database_url,
            importing_while_uncommitted(database_url, erasing(1, NOW), [a_session(9, caregiver=2, client=1)]),
        )


@on_postgresql
@pytest.mark.parametrize(
    "saving",
    [
        partial(erasing, 1, NOW),
        partial(switching_account, "CLIENT", "client-1", True, NOW),
        partial(merging_tombstones, {("CLIENT", 1): Mark(TombstoneState.ERASED, NOW)}),
    ],
    ids=["an erasure", "a disabled account", "tombstones of a file"],
)
def test_a_tombstone_waits_for_an_import(database_url: str, saving: Callable[[], Steps[Any]]) -> None:
    """The import has read no row yet, and has therefore locked none of the client."""

    async def use(db: Database) -> None:
        async with uncommitted(database_url, importing([])):
            saved = asyncio.create_task(db.write(saving()))
            assert await until_blocked(database_url, saved)
        await saved

    with_database(database_url, use)


def test_an_import_recomputes_only_the_sessions_of_its_lines(database_url: str) -> None:
    """`verify` reports differences of other sessions."""
    raw.run(database_url, "UPDATE session SET assignment_count = 7 WHERE id IN (1, 4)")

    load(database_url, MORE_HOMEWORK)

    assert run_read(database_url, differences()) == [Difference(4, "assignment_count", 7, 1)]
