"""On PostgreSQL, the fast path assigns homework by one statement, in a batch with that of other callers. It
writes the same rows as a transaction. If it writes nothing, a transaction assigns or rejects the homework."""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import ExitStack
from datetime import datetime, timedelta
from functools import partial
from typing import Any

import pytest

from app.care.homework import MAX_FAST_PATH_ROWS, Homework, assigning
from app.db.audit.records import DONE, Record, as_text, recorded
from app.db.drivers.factory import open_database
from app.db.drivers.fair_turns import CALLER
from app.db.drivers.interface import DatabaseUnavailable, OutcomeUnknown
from app.db.reader.selection import AccessScope
from app.db.tables import AuditActor, Contract
from tests.answers import a_world_to_answer_in
from tests.db import raw
from tests.db.test_waiting_changes import locking
from tests.factories import DAY, HOUR, NOW, starting_with
from tests.patience import PATIENCE

pytestmark = [
    pytest.mark.parametrize("kind", ["postgresql"], indirect=True),
    starting_with(a_world_to_answer_in),
]
BOOKS = (5, 4)  # both were assigned before
MINUTE = timedelta(minutes=1)
WRITTEN = (
    "SELECT caregiver_id, client_id, session_id, book_id, assign_date, start_date, end_date, withdraw_date,"
    " status, attempt, score, feedback_status, submit_date FROM assignment ORDER BY id",
    "SELECT caregiver_id, client_id, remind_date, state FROM reminder ORDER BY id",
    "SELECT caregiver_id, client_id, session_id, kind, actor, moment FROM event ORDER BY id",
    "SELECT id, assignment_count, latest_assignment_id FROM session ORDER BY id",
    "SELECT moment, actor, actor_id, contract, operation, outcome, request_id, about FROM audit_record"
    " ORDER BY id",
)


def homework(session: int = 1, **changed: Any) -> Homework:
    moments = (NOW - MINUTE, NOW + MINUTE)
    usual = dict(book_ids=BOOKS, start_date=NOW - DAY, end_date=NOW + DAY, remind_dates=moments)
    return Homework(session_id=session, **(usual | changed))


def a_record(about: Any) -> Record:
    return Record(
        NOW, AuditActor.CAREGIVER, 1, Contract.GRAPHQL, "assignHomework", DONE, as_text(about), "request"
    )


async def assign(
    db: Any, caregiver: int, given: Homework, within: timedelta | None = None, now: datetime = NOW
) -> list[int]:
    CALLER.state = {"budget": caregiver}  # until the first await that waits
    steps = assigning(AccessScope(now, caregiver=caregiver), given, within)
    try:
        ids: list[int] = await db.write(recorded(steps, a_record))
        return ids
    finally:
        CALLER.state = None


def kind_of(sql: str) -> str:
    return "FAST PATH" if sql.startswith('WITH "new"') else sql.split()[0].strip(";")


def together(url: str, *work: Callable[[Any], Awaitable[list[int]]]) -> tuple[list[Any], list[str]]:
    """Runs the work of several callers in one batch. Returns their results or errors, and the first words of
    the statements that one connection sent."""

    async def main() -> tuple[list[Any], list[str]]:
        db: Any = await open_database(url, 4)
        try:
            async with asyncio.timeout(PATIENCE):
                sent: list[str] = []
                async with db.connection() as connection:
                    connection.add_query_logger(lambda query: sent.append(kind_of(query.query)))
                assert await db.fast_path_turn.acquire()
                running = [asyncio.ensure_future(each(db)) for each in work]
                await asyncio.sleep(0)
                db.fast_path_turn.release()
                found = await asyncio.gather(*running, return_exceptions=True)
                await asyncio.sleep(0)  # asyncpg calls the logger in the next turn of the loop
                assert (db.fast_path_turn.free, len(db.fast_path_turn.waiting.items)) == (1, 0)
                return found, sent
        finally:
            await db.close()

    return asyncio.run(main())


def rows(url: str) -> list[Any]:
    return [raw.run(url, statement) for statement in WRITTEN]


def homework_in(url: str, session: int) -> list[int]:
    return [
        row[0] for row in raw.run(url, f"SELECT id FROM assignment WHERE session_id = {session} ORDER BY id")
    ]


@pytest.mark.parametrize("moments", [(), (NOW - MINUTE, NOW + HOUR)], ids=["no reminders", "reminders"])
@pytest.mark.parametrize("within", [None, MINUTE], ids=["GraphQL", "legacy"])
def test_it_writes_what_a_transaction_writes(
    database_url: str, moments: Any, within: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    for join in ("nestloop", "hashjoin"):  # PostgreSQL then joins the books in the order of their ids
        setting = f"EXECUTE format('ALTER DATABASE %I SET enable_{join} = off', current_database())"
        raw.run(database_url, f"DO $$ BEGIN {setting}; END $$", "ANALYZE")
    given = homework(session=4, remind_dates=moments)  # of caregiver 1 and client 2
    written = []
    for day, limit in enumerate((MAX_FAST_PATH_ROWS, 0)):
        monkeypatch.setattr("app.care.homework.MAX_FAST_PATH_ROWS", limit)
        now = NOW + day * 2 * MINUTE  # not a repetition
        before = rows(database_url)
        [ids], sent = together(
            database_url, partial(assign, caregiver=1, given=given, within=within, now=now)
        )
        assert ("FAST PATH" in sent, "BEGIN" in sent) == (limit > 0, limit == 0)
        assert homework_in(database_url, 4)[-2:] == ids
        written.append(new_rows(before, rows(database_url), ids))

    assert written[0] == written[1]
    assert [len(table) for table in written[0]] == [2, 2 * len(moments), 2, 1, 1]


def new_rows(before: list[Any], after: list[Any], ids: list[int]) -> list[Any]:
    """The added rows, with words instead of the ids, and without the moments of the request."""
    words = {str(id): f"id {place}" for place, id in enumerate(ids)}
    [(session, count, latest)] = set(after[3]) - set(before[3])
    [old] = [row[1] for row in before[3] if row[0] == session]
    found = [now[len(past) :] for past, now in zip(before, after, strict=True)]
    found[0] = [row[:4] + row[5:] for row in found[0]]
    found[2] = [row[:-1] for row in found[2]]
    found[4] = [row[1:] for row in found[4]]
    found[3] = [(session, count - old, words[str(latest)])]
    for id, word in words.items():
        found[4] = [tuple(str(value).replace(id, word) for value in row) for row in found[4]]
    return found


def test_homework_of_several_callers_is_one_batch(database_url: str) -> None:
    before = homework_in(database_url, 1)

    found, sent = together(
        database_url,
        *[partial(assign, caregiver=1, given=homework()) for _ in range(3)],
        partial(assign, caregiver=1, given=homework(4)),
        partial(assign, caregiver=2, given=homework(5)),
    )

    assert sent.count("FAST PATH") == 1 and "BEGIN" not in sent
    assert homework_in(database_url, 1) == [*before, *sorted(id for ids in found[:3] for id in ids)]
    assert homework_in(database_url, 4)[-2:] == found[3]
    assert homework_in(database_url, 5)[-2:] == found[4]


def test_rejected_homework_does_not_reject_the_rest_of_the_batch(database_url: str) -> None:
    """Rejected are a future, a closed, a foreign and a missing session, a missing and a retired book."""
    raw.run(database_url, f"UPDATE book SET retire_date = '{NOW}', is_assigned = true WHERE id = 2")
    before = rows(database_url)
    bad = [homework(2), homework(3), homework(5), homework(77)]
    bad += [homework(book_ids=(5, 77)), homework(book_ids=(2, 5))]
    works = [partial(assign, caregiver=1, given=each) for each in bad]

    found, _ = together(database_url, *works)

    assert [getattr(each, "code", each) for each in found] == ["NOT_RUNNING"] * 2 + ["NOT_FOUND"] * 4
    assert rows(database_url) == before

    found, _ = together(
        database_url,
        *works,
        partial(assign, caregiver=1, given=homework()),
        partial(assign, caregiver=2, given=homework(5, book_ids=(1, 3))),  # never assigned before
    )

    assert homework_in(database_url, 1)[-2:] == found[-2]
    assert homework_in(database_url, 5)[-2:] == found[-1]
    assigned = raw.run(database_url, "SELECT id FROM book WHERE is_assigned ORDER BY id")
    assert assigned == [(number,) for number in range(1, 6)]


def plant(url: str, fault: str) -> None:
    """Homework of session 4 causes the fault."""
    raw.run(
        url,
        f"CREATE FUNCTION fault() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN {fault}; RETURN new; END $$",
        "CREATE TRIGGER fault AFTER INSERT ON assignment FOR EACH ROW WHEN (new.session_id = 4)"
        " EXECUTE FUNCTION fault()",
    )


def test_an_error_of_one_homework_fails_its_own_caller_only(database_url: str) -> None:
    plant(database_url, "RAISE EXCEPTION 'no'")
    before = homework_in(database_url, 4)

    found, _ = together(
        database_url,
        partial(assign, caregiver=1, given=homework()),
        partial(assign, caregiver=1, given=homework(4)),
        partial(assign, caregiver=2, given=homework(5)),
    )

    assert str(found[1]) == "no"
    assert homework_in(database_url, 1)[-2:] == found[0]
    assert homework_in(database_url, 4) == before
    assert homework_in(database_url, 5)[-2:] == found[2]


def test_after_a_lost_connection_every_outcome_is_unknown_and_nothing_runs_again(database_url: str) -> None:
    plant(database_url, "PERFORM pg_terminate_backend(pg_backend_pid())")
    before = rows(database_url)

    found, _ = together(
        database_url,
        partial(assign, caregiver=1, given=homework()),
        partial(assign, caregiver=1, given=homework(4)),
        partial(assign, caregiver=2, given=homework(5)),
    )

    assert [type(each) for each in found] == [OutcomeUnknown] * 3
    assert rows(database_url) == before


def test_a_caller_who_times_out_while_the_batch_runs_gets_an_unknown_outcome(database_url: str) -> None:
    plant(database_url, "PERFORM pg_advisory_xact_lock_shared(7)")
    before = homework_in(database_url, 1), homework_in(database_url, 4)

    with ExitStack() as blocking:
        blocking.enter_context(locking(database_url, "SELECT pg_advisory_xact_lock(7)"))

        async def first(db: Any) -> list[int]:
            db.commit_seconds = None
            return await assign(db, 1, homework())

        async def second(db: Any) -> list[int]:
            db.acquire_seconds = 2  # read when the caller begins to wait; the first has begun with 10
            try:
                return await assign(db, 1, homework(4))
            finally:
                await asyncio.to_thread(blocking.close)

        found, _ = together(database_url, first, second)

    assert type(found[1]) is OutcomeUnknown
    assert homework_in(database_url, 1) == [*before[0], *found[0]]
    assert len(homework_in(database_url, 4)) == len(before[1]) + 2


def test_another_transaction_that_has_locked_the_session_does_not_delay_a_batch(
    database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    from app.db.drivers import postgres

    monkeypatch.setattr(postgres, "LIMITED_CHANGE", postgres.LIMITED_CHANGE.replace("'3s'", "'50ms'"))
    before = homework_in(database_url, 1)

    with locking(database_url, "SELECT FROM session WHERE id = 1 FOR UPDATE"):
        works = [partial(assign, caregiver=1, given=homework(session)) for session in (1, 4)]
        [rejected, ids], _ = together(database_url, *works)

    assert type(rejected) is DatabaseUnavailable
    assert (homework_in(database_url, 1), homework_in(database_url, 4)[-2:]) == (before, ids)


def test_homework_that_was_assigned_since_the_statement_began_is_seen(database_url: str) -> None:
    """Another caller assigns homework after the statement has read the books, before it locks the session."""
    raw.run(
        database_url,
        "ALTER TABLE book RENAME TO stored_book",
        "CREATE VIEW book AS SELECT * FROM stored_book WHERE pg_advisory_xact_lock_shared(7) IS NOT NULL",
    )
    import asyncpg  # here, because the suite on SQLite does without the driver

    waiting = "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND NOT granted"

    async def meanwhile(db: Any) -> list[int]:
        other = await asyncpg.connect(database_url)
        await other.execute("SELECT pg_advisory_lock(7)")
        running = asyncio.create_task(assign(db, 1, homework()))
        while await other.fetchval(waiting) != 1:
            pass
        await other.execute("UPDATE session SET latest_assignment_id = 1 WHERE id = 1")
        await other.close()
        return await running

    [ids], sent = together(database_url, meanwhile)

    assert ("FAST PATH" in sent, "BEGIN" in sent) == (True, True)
    assert homework_in(database_url, 1)[-2:] == ids
