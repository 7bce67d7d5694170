"""A seeded world with rows of every table, some of them inconsistent, and the same rows in Python."""

from collections import defaultdict
from collections.abc import Iterator
from datetime import timedelta
from random import Random
from typing import Any

import orjson
from sqlalchemy import Boolean, DateTime

from app.db.moments import as_moment
from app.db.reader.entities import ENTITIES
from app.db.tables import Table
from tests.callers import load
from tests.db import raw
from tests.factories import (
    DAY,
    HOUR,
    NOW,
    Record,
    a_book,
    a_caregiver,
    a_client,
    a_module,
    a_session,
    an_answer_set,
    an_assignment,
)

CAREGIVERS, CLIENTS, BOOKS, SESSIONS, ASSIGNMENTS, ANSWER_SETS = 4, 5, 8, 24, 90, 90  # a draft for each
PlainRow = dict[str, Any]
PlainWorld = dict[str, list[PlainRow]]  # by the table's name


def put_random_world(url: str, seed: int = 20261121, is_damaged: bool = True, is_moved: bool = True) -> None:
    """A distributed database rejects the damages, and cannot move a row to another caregiver."""
    load(url, records(Random(seed)))
    if is_moved:
        raw.run(
            url,
            *submissions(Random(seed + 3)),
            *feedbacks(Random(seed + 1)),
            *withdrawals(Random(seed + 4)),
            *ORDERS,
        )
    if is_damaged:
        raw.run(url, *damages(Random(seed + 2)))


def records(rng: Random) -> Iterator[Record]:
    yield from (a_caregiver(number) for number in range(1, CAREGIVERS + 1))
    yield from (a_client(number) for number in range(1, CLIENTS + 1))
    yield from (a_module(number) for number in (1, 2, 3))
    for number in range(1, BOOKS + 1):
        questions = [
            {"text": f"Question {n}?", "kind": "SCALE", "options": ["1", "ü"][: n + 1]}
            for n in range(number % 4)
        ]
        yield a_book(number, moduleId=number % 3 + 1, isTest=number % 3 == 0, questions=questions)
    for number in range(1, SESSIONS + 1):
        start = NOW + rng.choice((-30 * DAY, timedelta(0), 5 * DAY))
        caregiver, client = rng.randint(1, CAREGIVERS), rng.randint(1, CLIENTS - 1)
        yield a_session(number, caregiver, client, startDate=start, isClosed=rng.random() < 0.3)
    for number in range(1, ASSIGNMENTS + 1):
        reminders = [{"remindDate": NOW + n * HOUR} for n in rng.sample(range(9), rng.choice((0, 0, 2, 3)))]
        done = rng.choice(({}, {"status": "COMPLETE", "submitDate": NOW - DAY, "score": number}))
        end = rng.choice((None, NOW + DAY, NOW - HOUR))
        session, book = rng.randint(1, SESSIONS - 3), rng.randint(1, BOOKS)
        yield an_assignment(number, session, book, reminders=reminders, endDate=end, **done)
    for number in range(1, ANSWER_SETS + 1):
        yield an_answer_set(number, number, saveType=rng.choice(("DRAFT", "AUTO_SAVE")))


def submissions(rng: Random) -> Iterator[str]:
    """Turns half of the drafts into submissions, also in combinations that an import would reject."""
    attempts: dict[int, int] = defaultdict(int)
    for number in rng.sample(range(1, ANSWER_SETS + 1), ANSWER_SETS // 2):
        assignment = rng.randint(1, ASSIGNMENTS // 2)
        attempts[assignment] += 1
        of_assignment = f"FROM assignment WHERE id = {assignment}"
        parties = ", ".join(
            f"{column} = (SELECT {column} {of_assignment})" for column in ("caregiver_id", "client_id")
        )
        yield (
            f"UPDATE answer_set SET save_type = 'FINAL', attempt = {attempts[assignment]}, {parties},"
            f" assignment_id = {assignment}, submit_date = (SELECT assign_date {of_assignment})"
            f" WHERE id = {number}"
        )


def feedbacks(rng: Random) -> Iterator[str]:
    for number in rng.sample(range(1, ANSWER_SETS + 1), 30):
        yield (
            "INSERT INTO feedback (caregiver_id, client_id, assignment_id, answer_set_id, text, submit_date)"
            f" SELECT caregiver_id, client_id, assignment_id, id, 'Good {number}',"
            " (SELECT assign_date FROM assignment WHERE assignment.id = answer_set.assignment_id)"
            f" FROM answer_set WHERE id = {number}"
        )


def withdrawals(rng: Random) -> Iterator[str]:
    for number in rng.sample(range(1, ASSIGNMENTS + 1), 8):
        yield f"UPDATE assignment SET withdraw_date = assign_date WHERE id = {number}"


# Orders that differ from that of the ids. Reminders at the same moment are stored from the last to the first.
ORDERS = (
    "UPDATE question SET position = 9 - position WHERE book_id % 2 = 1",
    "UPDATE answer_set SET attempt = 999 - id WHERE save_type = 'FINAL' AND assignment_id % 2 = 1",
    *(
        f"UPDATE reminder SET remind_date = (SELECT max(remind_date) FROM reminder) WHERE id = {number}"
        for number in range(60, 0, -2)
    ),
)


def scatter(url: str) -> None:
    """Makes PostgreSQL store the rows in an order that is neither that of their ids nor the reverse."""
    moved = [
        f"WITH moved AS (DELETE FROM {table} RETURNING *)"
        f" INSERT INTO {table} SELECT * FROM moved ORDER BY md5(CAST(id AS text))"
        for table in map(name_of, ENTITIES)
    ]
    raw.run(url, "SET session_replication_role = replica", *moved, "ANALYZE")


def damages(rng: Random) -> Iterator[str]:
    """Rows of one relationship below a row of another: no read may return them."""
    most = {"assignment": ASSIGNMENTS, "answer_set": ANSWER_SETS, "reminder": 60, "feedback": 30}
    for table, number in most.items():
        for row_id in rng.sample(range(1, number + 1), number // 6):
            parties = f"caregiver_id = {rng.randint(1, CAREGIVERS)}, client_id = {rng.randint(1, CLIENTS)}"
            yield f"UPDATE {table} SET {parties} WHERE id = {row_id}"
    for row_id in rng.sample(range(1, SESSIONS + 1), 6):
        latest = rng.randint(1, ASSIGNMENTS + 5)
        yield f"UPDATE session SET latest_assignment_id = {latest} WHERE id = {row_id}"


def plain_world(url: str) -> PlainWorld:
    world = {"relationship": plain_relationships(url)}
    for table, entity in ENTITIES.items():
        rows = raw.run(url, f"SELECT {', '.join(entity.columns)} FROM {name_of(table)}")
        world[name_of(table)] = [plain_row(table, row) for row in rows]
    return world


def plain_relationships(url: str) -> list[PlainRow]:
    rows = raw.run(url, "SELECT client_id, caregiver_id FROM relationship")
    return [{"client_id": client, "caregiver_id": caregiver} for client, caregiver in rows]


def plain_row(table: Table, values: tuple[Any, ...]) -> PlainRow:
    row = {}
    for (name, column), value in zip(ENTITIES[table].columns.items(), values, strict=True):
        if isinstance(column.type, DateTime):
            row[name] = as_moment(value)
        elif isinstance(column.type, Boolean):
            row[name] = bool(value)
        else:
            row[name] = orjson.loads(value) if name in ("options", "answers") else value
    return row


def name_of(table: Table) -> str:
    return str(table.__tablename__)
