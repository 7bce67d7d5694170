"""Promise: two changes in one session, whatever the order in which PostgreSQL runs their statements, end as
if one had been made after the other.

All pairs of changes run on a pending and a complete assignment of a session, and the dispatcher fires a
reminder of the pending one beside each. The outcomes and the stored rows must be those of the model after one
of the two serial orders. `make soak` runs every order, `make test` some.
"""

import json
from collections.abc import Awaitable, Sequence
from contextlib import nullcontext
from dataclasses import replace
from functools import partial
from itertools import combinations_with_replacement, count, product
from random import Random, SystemRandom
from typing import Any

import pytest
from sqlalchemy import false, true

from app.care import homework
from app.care.answers import save_answers, submit_answers
from app.care.assignment_changes import (
    extend_assignment,
    reopen_assignment,
    set_reminders,
    withdraw_assignment,
)
from app.care.feedback import FeedbackInput, give_feedback
from app.care.homework import Homework, assign_homework
from app.care.sessions import close_session
from app.db.drivers.interface import Database
from app.db.statements import fast_paths as statements
from app.events.outbox import reminding
from tests.care.actions import answers_of, as_caregiver, as_client, outcome_of
from tests.factories import Record, a_session, an_answer_set, an_assignment
from tests.history.interleaving import Interleaver, play_on
from tests.history.life import (
    BEGIN,
    BOOK,
    DONE,
    LATER,
    MINUTE,
    Change,
    Due,
    Life,
    a_catalogue,
    minutes,
    moment,
)
from tests.history.looks import Look

SOME = 4  # orders of each pair
PENDING, COMPLETE, DRAFTED, NEW, NEWER, NEWEST = 1, 2, 3, 4, 5, 6  # the starts of the assignments
STORED = (PENDING, COMPLETE, DRAFTED)
DUE = moment(6)  # a reminder of the pending assignment
CHANGES = {
    "assign": ("assign", NEW, 40),
    "assign another": ("assign", NEWER, 40),
    "assign or repeat": ("repeat", NEWEST, 40),
    "close": ("close",),
    "extend": ("extend", PENDING, 40),
    "remind": ("remind", PENDING, (moment(5), moment(7))),
    "withdraw": ("withdraw", PENDING),
    "save": ("save", PENDING, "Draft", 0),
    "save another": ("save", PENDING, "Another", 0),
    "submit": ("submit", PENDING, "1", 0),
    "submit another": ("submit", PENDING, "3", 0),
    "give": ("give", COMPLETE, 1, "Text", 7),
    "give another": ("give", COMPLETE, 1, "Another", None),
    "reopen": ("reopen", COMPLETE),
    "submit after reopening": ("submit", COMPLETE, "3", 0),
    "withdraw after reopening": ("withdraw", COMPLETE),
    "fire": ("fire", PENDING),
}
OF_DRAFTS = {
    "save again": ("save", DRAFTED, "Again", 1),
    "save again with another text": ("save", DRAFTED, "Another", 1),
    "submit the draft": ("submit", DRAFTED, "1", 1),
    "withdraw the draft": ("withdraw", DRAFTED),
}
PAIRS = [
    (one, other)
    for one, other in combinations_with_replacement(CHANGES, 2)
    if one != other or CHANGES[one][0] != "assign"  # the start of an assignment is its name here
]
PAIRS += [*combinations_with_replacement(OF_DRAFTS, 2), *((one, "close") for one in OF_DRAFTS)]
CHANGES |= OF_DRAFTS
ASSIGNMENTS = """SELECT id, start_date, end_date, status, feedback_status, attempt, score, withdraw_date
    FROM assignment WHERE session_id = $1 ORDER BY id"""
ANSWER_SETS = """SELECT one.assignment_id, save_type, attempt, revision, answers, one.score, text
    FROM answer_set one LEFT JOIN feedback ON answer_set_id = one.id WHERE one.assignment_id = ANY($1)
    ORDER BY attempt"""
REMINDERS = "SELECT assignment_id, remind_date, state FROM reminder WHERE assignment_id = ANY($1)"
SESSION = """SELECT title, is_closed, assignment_count, completed_assignment_count, last_assignment_score,
    start_date, latest_assignment_id FROM session WHERE id = $1"""
EVENTS = "SELECT kind, assignment_id FROM event WHERE session_id = $1 ORDER BY id"


def sessions(number: int) -> list[Record]:
    """Of caregiver 1 with client 1. Of session 5 assignment 13 is pending, 14 complete; 15 has a draft."""
    made: list[Record] = a_catalogue()
    began = {"startDate": BEGIN - MINUTE, "createDate": BEGIN - MINUTE}
    for session in range(1, number + 1):
        made.append(a_session(session, **began))
        for start in STORED:
            dates = {"assignDate": BEGIN, "startDate": moment(start), "endDate": moment(30)}
            submitted = {"status": "COMPLETE", "submitDate": LATER, "score": 2} if start == COMPLETE else {}
            due = [{"remindDate": DUE}] if start == PENDING else []
            made.append(an_assignment(id_of(session, start), session, reminders=due, **dates, **submitted))
        answers = [{"questionText": "How strongly?", "answer": "2"}]
        made.append(an_answer_set(2 * session, id_of(session, COMPLETE), submitDate=LATER, answers=answers))
        draft = {"saveType": "DRAFT", "revision": 1, "answers": [{**answers[0], "answer": "Draft"}]}
        made.append(an_answer_set(2 * session - 1, id_of(session, DRAFTED), **draft))
    return made


def id_of(session: int, start: int) -> int:
    return 3 * session - 3 + start


def life_of(session: int) -> Life:
    life = Life()
    life.open(session, (1, 1), BEGIN - MINUTE)
    life.title = f"Session {session}"
    for change in (
        *(("assign", start, 30) for start in STORED),
        ("submit", COMPLETE, "2", 0),
        ("save", DRAFTED, "Draft", 0),
    ):
        assert made(change, session)(life) == "DONE"
    life.homework[COMPLETE].last_revision = 0  # imported submissions have none
    life.homework[PENDING].reminders = [(DUE, "SCHEDULED")]
    life.kinds.clear()
    return life


def made(change: Sequence[Any], session: int) -> Change | Due:
    verb, *arguments = change
    return Due(*arguments, DUE, False) if verb == "fire" else Change(verb, session, None, tuple(arguments))


async def perform(change: Sequence[Any], session: int, db: Database, client: int = 1) -> str:
    """By the functions of `care`."""
    caregiver, viewer = as_caregiver(db, now=LATER), as_client(db, client, LATER)
    verb, *arguments = change
    done: Awaitable[Any]
    if verb == "fire":
        await db.write(reminding(LATER, 1, [session]))  # each session has one reminder
        return DONE
    if verb == "repeat":
        caregiver = replace(caregiver, repeats_within=MINUTE)
    if verb in ("assign", "repeat"):
        done = assign_homework(caregiver, Homework(session, (BOOK,), *map(moment, arguments)), None)
    elif verb == "close":
        done = close_session(caregiver, session, None)
    elif verb == "give":
        done = give_feedback(caregiver, FeedbackInput(2 * session, *arguments[2:]))
    else:
        number, others = id_of(session, arguments[0]), arguments[1:]
        if verb == "extend":
            done = extend_assignment(caregiver, number, moment(others[0]), None)
        elif verb == "remind":
            done = set_reminders(caregiver, number, others[0], None)
        elif verb == "withdraw":
            done = withdraw_assignment(caregiver, number, None)
        elif verb == "reopen":
            done = reopen_assignment(caregiver, number, None)
        elif verb == "save":
            done = save_answers(viewer, answers_of(number, *others), False, None)
        else:
            done = submit_answers(viewer, answers_of(number, *others))
    return await outcome_of(done)


async def stored(connection: Any, session: int) -> Any:
    """What the model shows a client of the session, and the events, from the rows."""
    assignments = await connection.fetch(ASSIGNMENTS, session)
    starts = {row["id"]: minutes(row["start_date"]) for row in assignments}
    answer_sets = await connection.fetch(ANSWER_SETS, list(starts))
    reminders = await connection.fetch(REMINDERS, list(starts))
    shown = {}
    for row in assignments:
        own = [each for each in answer_sets if each["assignment_id"] == row["id"]]
        drafts = [(each["revision"], text_of(each)) for each in own if each["save_type"] == "DRAFT"]
        of = [each for each in reminders if each["assignment_id"] == row["id"]]
        if row["withdraw_date"] is None:
            shown[starts[row["id"]]] = {
                "startDate": minutes(row["start_date"]),
                "endDate": minutes(row["end_date"]),
                "status": row["status"],
                "feedbackStatus": row["feedback_status"],
                "attempt": row["attempt"],
                "score": row["score"],
                "reminders": sorted((each["remind_date"], each["state"]) for each in of),
                "answerSets": [
                    (each["attempt"], text_of(each), each["score"], each["text"])
                    for each in own
                    if each["save_type"] == "FINAL"
                ],
                "draft": drafts[0] if drafts else None,
            }
    title, is_closed, number, completed, score, start, latest = await connection.fetchrow(SESSION, session)
    assert starts.get(latest) == next(reversed(shown), None)
    counted = {
        "title": title,
        "isClosed": is_closed,
        "runningStatus": "COMPLETED" if is_closed else "RUNNING",
        "assignmentCount": number,
        "pendingAssignmentCount": number - completed,
        "lastAssignmentScore": score,
        "startDate": minutes(start),
        "newestFirst": list(shown)[::-1],
    }
    kinds: dict[int | None, list[str]] = {}
    for kind, number in await connection.fetch(EVENTS, session):
        kinds.setdefault(starts.get(number), []).append(kind)
    return {**counted, "assignments": shown}, kinds


def text_of(row: Any) -> str:
    [[_, _, text]] = json.loads(row["answers"])
    return str(text)


def serial_ends(pair: tuple[str, str], session: int) -> list[Any]:
    """The outcomes and the end of the one after the other, and of the other after the one. The dispatcher may
    leave out the reminder of an assignment that the other one changes: the next one finds it."""
    ends = []
    orders = [(0, 1), (1, 0), *((1 - at,) for at in (0, 1) if pair[at] == "fire")]
    for order in orders:
        life, outcomes = life_of(session), [DONE, DONE]
        for at in order:
            outcomes[at] = made(CHANGES[pair[at]], session)(life)
        ends.append((outcomes, Look(session, True)(life), life.kinds))
    return ends


async def play_pair(player: Interleaver, pair: tuple[str, str], session: int, order: list[int]) -> Any:
    changes = [partial(perform, CHANGES[each], session) for each in pair]
    played = await player.play(changes, order)
    end = (played.outcomes, *await stored(player.observer, session))
    assert end in serial_ends(pair, session), (pair, played.order, end)
    return played


def run(url: str, number: int, play: Any) -> None:
    async def with_fast_paths(player: Interleaver) -> None:
        await play(player)
        assert player.one.fast_paths and player.other.fast_paths

    play_on(url, sessions(number), with_fast_paths)


@pytest.mark.parametrize("kind", ["postgresql"], indirect=True)
def test_some_orders_of_each_pair_end_like_a_serial_one(database_url: str) -> None:
    seed = SystemRandom().randrange(2**32)
    chance, numbers = Random(seed), count(1)

    async def play(player: Interleaver) -> None:
        for pair in PAIRS:
            for _ in range(SOME):
                order = [chance.randint(0, 1) for _ in range(20)]
                await play_pair(player, pair, next(numbers), order)

    run(database_url, len(PAIRS) * SOME, play)


@pytest.mark.soak
@pytest.mark.parametrize("kind", ["postgresql"], indirect=True)
def test_every_order_of_each_pair_ends_like_a_serial_one(database_url: str) -> None:
    run_every_order(database_url, PAIRS, 12_000)


def run_every_order(url: str, pairs: Sequence[tuple[str, str]], most: int) -> None:
    numbers = iter(range(1, most + 1))

    async def play(player: Interleaver) -> None:
        for pair in pairs:
            order: list[int] | None = []
            first = next(numbers)
            at = first
            while order is not None:
                played = await play_pair(player, pair, at, order)
                order = played.next_order()
                at = next(numbers) if order is not None else at
            print(f"{pair[0]} and {pair[1]}: {at - first + 1} orders")

    run(url, most, play)


CONDITIONS = {
    "the latest assignment is unchanged": ("latest_assignment_is_unchanged", true),
    "the homework was not assigned": ("WAS_ASSIGNED", false()),
}


@pytest.mark.parametrize("kind", ["postgresql"], indirect=True)
@pytest.mark.parametrize("name", [None, *CONDITIONS])
def test_each_condition_of_the_fast_path_is_needed_in_some_order(
    database_url: str, name: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    if name is not None:
        monkeypatch.setattr(statements, *CONDITIONS[name])
    fast_paths = {flags: statements.assign_on_fast_path(*flags) for flags in product((False, True), repeat=2)}
    monkeypatch.setattr(homework, "ASSIGN_ON_FAST_PATH", fast_paths)
    pairs = [("assign", "assign another"), ("assign or repeat", "assign or repeat")]

    with pytest.raises(AssertionError, match="assign or repeat") if name else nullcontext():
        run_every_order(database_url, pairs, 200)
