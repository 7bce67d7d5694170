"""On PostgreSQL, the fast path saves a draft by one read and one statement, in batches with those of other
callers. It writes the same rows as a transaction. If it writes nothing, a transaction saves the draft
or rejects it."""

import asyncio
from collections.abc import Awaitable, Callable
from functools import partial
from itertools import chain
from typing import Any

import pytest

from app.care.answers import Answers, saving
from app.care.errors import CareError
from app.care.questions import GivenAnswer
from app.db.audit.records import DONE, Record, as_text, recorded
from app.db.drivers.factory import open_database
from app.db.drivers.fair_turns import CALLER
from app.db.drivers.interface import DatabaseUnavailable
from app.db.reader.selection import AccessScope
from app.db.sql import FastPath, FastRead, Statement, Steps, mapping_steps, selecting
from app.db.statements.fast_paths import SAVE_ON_FAST_PATH, SUBMIT_ON_FAST_PATH
from app.db.tables import AuditActor, Contract, SaveType
from tests.care.actions import QUESTION, sessions_with_homework
from tests.db import raw
from tests.db.everything import Ran
from tests.db.small_steps import sql, with_database
from tests.db.test_query_plans import postgres_plans
from tests.db.test_waiting_changes import locking
from tests.factories import NOW, an_answer_set, starting_with
from tests.factories import Record as Line
from tests.patience import PATIENCE

SESSIONS = 3
WRITTEN = (
    "SELECT id, caregiver_id, client_id, assignment_id, save_type, attempt, revision, submit_date, score,"
    " answers FROM answer_set ORDER BY id",
    "SELECT caregiver_id, client_id, session_id, assignment_id, kind, actor, moment FROM event ORDER BY id",
    "SELECT moment, actor, actor_id, contract, operation, outcome, request_id, about FROM audit_record"
    " ORDER BY id",
)


def drafts() -> list[Line]:
    """Sessions 1 to 5 of caregiver 1 with client 2; each has the assignment of its number. Assignments 1 to 3
    have drafts 11 to 13."""
    given = [{"questionText": "How strongly?", "answer": "0"}]
    saved = {"saveType": "DRAFT", "revision": 1, "answers": given}
    homework = sessions_with_homework(SESSIONS + 2)
    with_client_2 = [each | {"clientId": 2} if each["kind"] == "session" else each for each in homework]
    return [
        *with_client_2,
        *(an_answer_set(10 + number, number, **saved) for number in range(1, SESSIONS + 1)),
    ]


pytestmark = [
    pytest.mark.parametrize("kind", ["postgresql"], indirect=True),
    starting_with(drafts),
]


async def write(db: Any, what: str, steps: Any, note: Callable[[Any], Any]) -> Any:
    """Runs a change of client 2 with its audit record, as the request of a caller of its own."""

    def record_of(about: Any) -> Record:
        return Record(NOW, AuditActor.CLIENT, 2, Contract.GRAPHQL, what, DONE, as_text(about), "request")

    CALLER.state = {"budget": object()}  # until the first await that waits
    try:
        return await db.write(mapping_steps(recorded(steps, record_of), note))
    finally:
        CALLER.state = None


async def save(
    db: Any,
    assignment: int = 1,
    answer: str = "2",
    revision: int = 1,
    client: int = 2,
    note: Callable[[Any], Any] = lambda step: step,
) -> int:
    answers = Answers(assignment, (GivenAnswer(QUESTION, answer),), revision)
    steps = saving(AccessScope(NOW, client=client), answers, SaveType.DRAFT)
    return int(await write(db, "saveAnswers", steps, note))


def without_fast_path(step: Any) -> Any:
    return FastRead(NOT_FOUND, {"number": 0}) if isinstance(step, FastRead) else step


NOT_FOUND = sql("SELECT 0 AS number, CAST(NULL AS bigint)")


def kind_of(sent: str) -> str:
    return (
        "FAST PATH"
        if sent
        in [each.for_("postgresql").sql for each in chain(SUBMIT_ON_FAST_PATH, *SAVE_ON_FAST_PATH.values())]
        else sent.split()[0]
    )


Work = Callable[[Any], Awaitable[Any]]


def together(url: str, *work: Work, meanwhile: tuple[str, ...] = ()) -> tuple[list[Any], list[str]]:
    """Runs the work of several callers, whose changes wait for one turn and then form one batch. `meanwhile`
    runs between their reads and their changes. Returns results or errors, and what one connection sent."""

    async def main() -> tuple[list[Any], list[str]]:
        db: Any = await open_database(url, 1)
        try:
            async with asyncio.timeout(PATIENCE):
                sent: list[str] = []
                async with db.connection() as connection:
                    connection.add_query_logger(lambda query: sent.append(kind_of(query.query)))
                assert await db.fast_path_turn.acquire()
                running = [asyncio.ensure_future(each(db)) for each in work]
                while sum(map(len, db.fast_path_turn.waiting.items.values())) < len(work):
                    assert not any(each.done() for each in running), running
                    await asyncio.sleep(0)
                for statement in meanwhile:
                    await db.write(selecting(sql(statement)))
                await asyncio.sleep(0)  # asyncpg calls the logger in the next turn of the loop
                sent.clear()
                db.fast_path_turn.release()
                found = await asyncio.gather(*running, return_exceptions=True)
                await asyncio.sleep(0)
                return found, [each for each in sent if each != "SELECT"]
        finally:
            await db.close()

    return asyncio.run(main())


def rows(url: str) -> list[Any]:
    return [raw.run(url, statement) for statement in WRITTEN]


def code_of(error: Any) -> Any:
    return error.code if isinstance(error, CareError) else error


def test_it_writes_what_a_transaction_writes(database_url: str) -> None:
    [saved], sent = together(database_url, partial(save, assignment=1))
    assert (saved, sent) == (11, ["FAST PATH"])

    assert with_database(database_url, partial(save, assignment=2, note=without_fast_path)) == 12
    sets, events, records = rows(database_url)
    (fast_set, careful_set), (fast_event, careful_event), (fast_record, careful_record) = (
        sets[:2],
        events,
        records,
    )
    assert fast_set[4:] == careful_set[4:] and fast_set[4:7] == ("DRAFT", 1, 2)
    assert fast_set[1:3] == careful_set[1:3] == fast_event[:2] == (1, 2)
    assert (fast_event[:2], fast_event[4:]) == (careful_event[:2], careful_event[4:])
    assert (fast_event[2:4], careful_event[2:4]) == ((1, 1), (2, 2))
    assert fast_record[:7] == careful_record[:7]
    assert (fast_record[7], careful_record[7]) == ('[[1,2,{"drafts":[11]}]]', '[[1,2,{"drafts":[12]}]]')


def test_it_adds_a_first_draft_like_a_transaction(database_url: str) -> None:
    [fast], sent = together(database_url, partial(save, assignment=4, revision=0))
    careful = with_database(database_url, partial(save, assignment=5, revision=0, note=without_fast_path))

    assert sent == ["FAST PATH"]
    sets, events, records = rows(database_url)
    [fast_set, careful_set] = sets[SESSIONS:]
    assert (fast_set[0], careful_set[0]) == (fast, careful)
    assert fast_set[1:3] == careful_set[1:3] == (1, 2)
    assert fast_set[4:] == careful_set[4:] and fast_set[4:9] == ("DRAFT", 1, 1, None, None)
    assert [event[:6] for event in events] == [
        (1, 2, 4, 4, "DRAFT_SAVED", "CLIENT"),
        (1, 2, 5, 5, "DRAFT_SAVED", "CLIENT"),
    ]
    assert [record[7] for record in records] == [f'[[1,2,{{"drafts":[{each}]}}]]' for each in (fast, careful)]


def test_of_two_first_drafts_the_second_is_a_conflict(database_url: str) -> None:
    first = partial(save, assignment=4, revision=0)

    found, _ = together(database_url, first, partial(first, answer="3"))

    assert [code_of(each) for each in found] == [rows(database_url)[0][SESSIONS][0], "DRAFT_CONFLICT"]
    assert len(rows(database_url)[0]) == SESSIONS + 1


@pytest.mark.parametrize(
    ("change", "code"),
    [
        ("UPDATE answer_set SET assignment_id = 4 WHERE id = 13", "DRAFT_CONFLICT"),
        ("UPDATE session SET is_closed = true WHERE id = 4", "NOT_RUNNING"),
        ("UPDATE assignment SET status = 'COMPLETE' WHERE id = 4", "WRONG_STATE"),
    ],
    ids=["saved", "closed", "submitted"],
)
def test_a_change_before_a_first_draft_is_noticed(database_url: str, change: str, code: str) -> None:
    first = partial(save, assignment=4, revision=0)

    [error], sent = together(database_url, first, meanwhile=(change,))

    assert (code_of(error), sent) == (code, ["FAST PATH", "BEGIN;", "ROLLBACK"])
    assert rows(database_url)[1:] == [[], []]


def test_several_callers_share_one_commit(database_url: str) -> None:
    work = [partial(save, assignment=number) for number in range(1, SESSIONS + 1)]

    found, sent = together(database_url, *work)

    assert (found, sent) == ([11, 12, 13], ["FAST PATH"])
    assert [row[6] for row in rows(database_url)[0]] == [2, 2, 2]


def test_of_two_saves_of_one_draft_the_second_is_a_conflict(database_url: str) -> None:
    found, _ = together(database_url, partial(save, answer="1"), partial(save, answer="3"))

    assert [code_of(each) for each in found] == [11, "DRAFT_CONFLICT"]
    assert [row[6] for row in rows(database_url)[0]] == [2, 1, 1]


@pytest.mark.parametrize(
    ("change", "code"),
    [
        ("UPDATE answer_set SET revision = 7 WHERE id = 11", "DRAFT_CONFLICT"),
        ("DELETE FROM answer_set WHERE id = 11", "DRAFT_CONFLICT"),
        ("UPDATE session SET is_closed = true WHERE id = 1", "NOT_RUNNING"),
        ("UPDATE assignment SET withdraw_date = now() WHERE id = 1", "NOT_FOUND"),
        ("UPDATE assignment SET status = 'COMPLETE' WHERE id = 1", "WRONG_STATE"),
    ],
    ids=["saved", "dropped", "closed", "withdrawn", "submitted"],
)
def test_a_change_between_the_read_and_the_statement_is_noticed(
    database_url: str, change: str, code: str
) -> None:
    [error], sent = together(database_url, save, meanwhile=(change,))

    assert (code_of(error), sent) == (code, ["FAST PATH", "BEGIN;", "ROLLBACK"])
    assert rows(database_url)[1:] == [[], []]


def test_a_later_attempt_gets_its_own_number(database_url: str) -> None:
    [saved], sent = together(
        database_url, save, meanwhile=("UPDATE assignment SET attempt = 2 WHERE id = 1",)
    )

    assert (saved, sent) == (11, ["FAST PATH", "BEGIN;", "WITH", "COMMIT"])
    assert rows(database_url)[0][0][4:7] == ("DRAFT", 2, 2)


def test_another_transaction_that_has_locked_the_session_does_not_delay_a_batch(database_url: str) -> None:
    async def use(db: Any) -> list[Any]:
        async with asyncio.timeout(PATIENCE):
            return await asyncio.gather(save(db, 1), save(db, 2), return_exceptions=True)

    with locking(database_url, "SELECT * FROM session WHERE id = 1 FOR UPDATE"):
        [rejected, saved] = with_database(database_url, use)

    assert (type(rejected), saved) == (DatabaseUnavailable, 12)
    assert [row[6] for row in rows(database_url)[0]] == [1, 2, 1]


@pytest.mark.parametrize(
    ("given", "code"),
    [
        ({"assignment": 9}, "NOT_FOUND"),
        ({"client": 1}, "NOT_FOUND"),
        ({"revision": 0}, "DRAFT_CONFLICT"),
    ],
    ids=["unknown", "of another client", "outdated"],
)
def test_a_save_that_is_rejected_writes_nothing(database_url: str, given: dict[str, Any], code: str) -> None:
    before = rows(database_url)

    with pytest.raises(CareError) as raised:
        with_database(database_url, partial(save, **given))

    assert (raised.value.code, rows(database_url)) == (code, before)


def plans_of(url: str, *work: Callable[..., Awaitable[Any]]) -> list[tuple[Statement, str]]:
    """The statements on the fast paths of this work, which takes a `note`, with their plans."""
    ran: list[Ran] = []

    def note(step: Any) -> Any:
        if isinstance(step, FastRead | FastPath):
            ran.append(Ran("answers", step.statement, {**step.values, "is_locked": True}))
        return step

    async def use(db: Any) -> None:
        for each in work:
            await each(db, note=note)

    with_database(url, use)
    plans = asyncio.run(postgres_plans(url, ran))
    return [(each.statement, plan) for each, (_, _, plan) in zip(ran, plans, strict=True)]


def test_no_statement_scans_a_table(database_url: str) -> None:
    plans = plans_of(database_url, save, partial(save, assignment=4, revision=0))

    assert len(plans) == 4
    assert [plan for _, plan in plans if "Seq Scan" in plan] == []


def test_the_statement_names_the_client_too(database_url: str) -> None:
    """Although the read before it finds no assignment of another client."""
    steps: list[FastPath] = []

    def note(step: Any) -> Any:
        steps.extend([step] if isinstance(step, FastPath) else [])
        return step

    def again(client: int) -> Steps[list[Any]]:
        [step] = steps
        return (yield step._replace(values={**step.values, "client": client, "last": 2, "revision": 3}))

    async def use(db: Any) -> list[Any]:
        await save(db, note=note)
        return [len(await db.write(again(client))) for client in (1, 2)]

    assert with_database(database_url, use) == [0, 1]


def test_a_repeated_save_returns_the_draft_and_the_first_of_a_draft_adds_it(database_url: str) -> None:
    async def use(db: Any) -> list[int]:
        return [await save(db, 4, revision=0), await save(db), await save(db)]

    new, saved, again = with_database(database_url, use)

    assert (saved, again) == (11, 11)
    drafts, events, _ = rows(database_url)
    assert [(row[0], row[3], row[6]) for row in drafts] == [(11, 1, 2), (12, 2, 1), (13, 3, 1), (new, 4, 1)]
    assert [row[3] for row in events] == [4, 1]
