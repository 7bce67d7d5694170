"""Erasing removes a client's names, texts and answers; numbers, dates and the audit log stay."""

import asyncio
import re
from datetime import timedelta
from typing import Any

import pytest

from app.care.errors import NotFound, NotRunning
from app.care.homework import Homework, assigning
from app.care.new_sessions import NewSession, opening
from app.db.admin.accounts import AccountRejected
from app.db.admin.erasing import Erased, Named, clean, erasing, finding_client
from app.db.admin.tombstones import TOMBSTONES_LOCK
from app.db.drivers.factory import open_database
from app.db.drivers.interface import Database, DatabaseError
from app.db.moments import moment_as_text
from app.db.reader.selection import AccessScope
from app.db.session_counters import differences
from tests.callers import load, run_read, run_write
from tests.database_rows import Row, Stored, all_rows
from tests.db import raw
from tests.db.overlapping import uncommitted, until_blocked
from tests.db.small_steps import running, with_database
from tests.factories import (
    DAY,
    NOW,
    a_caregiver,
    a_client,
    a_complete_assignment,
    a_session,
    a_world,
    an_answer_set,
    an_assignment,
    starting_with,
)
from tests.lifecycle import PRIVATE, load_one_client, one_client

LATER = NOW + timedelta(seconds=90)


def all_of(url: str) -> Stored:
    return run_read(url, all_rows())


@pytest.mark.once_on_postgresql
@pytest.mark.parametrize("change", ["id = id", "close_date = NULL"], ids=["", "closed without a date"])
def test_erasing_removes_personal_data_and_keeps_all_other_data(database_url: str, change: str) -> None:
    load_one_client(database_url)
    load_homework_of_caregiver_2(database_url)
    raw.run(database_url, f"UPDATE session SET {change} WHERE id = 2")
    before = all_of(database_url)

    erased = run_write(database_url, erasing(1, NOW))

    after = all_of(database_url)
    assert erased == Erased(caregivers=[1, 2], sessions=3, drafts=2, answers=6, feedbacks=2)
    assert after == expected_after(before)
    assert run_read(database_url, differences()) == []
    assert [word for word in PRIVATE if word in str(after)] == []


def load_homework_of_caregiver_2(url: str) -> None:
    """In session 3 of client 1: submitted homework with feedback, and drafted homework with a reminder."""
    load(
        url,
        [
            a_complete_assignment(5, session=3),
            an_assignment(6, session=3, reminders=[{"remindDate": NOW + 2 * DAY}]),
            an_answer_set(5, 5),
            an_answer_set(6, 6, saveType="DRAFT"),
        ],
    )
    raw.run(
        url,
        "INSERT INTO feedback (id, caregiver_id, client_id, assignment_id, answer_set_id, text, submit_date)"
        f" VALUES (3, 2, 1, 5, 5, 'Blue-bicycle', '{moment_as_text(NOW)}')",
        "INSERT INTO delivery (event_id, caregiver_id, client_id, state, attempts, next_date, last_answer)"
        f" VALUES (4, 2, 1, 'DEAD', 9, '{moment_as_text(NOW)}', '500 Blue-bicycle unknown')",
    )


def expected_after(before: Stored) -> Stored:
    """The expected rows of each table; rows of other clients are unchanged."""
    client = {
        "name": "erased", "oppt_id": "erased-1", "user_name": None, "is_disabled": True, "erase_date": NOW,
    }  # fmt: skip
    blank = {"title": "", "description": ""}
    sessions: dict[int, Row] = {
        1: {**blank, "chat_id": "erased-1", "is_closed": True, "close_date": NOW},
        2: {**blank, "chat_id": "erased-2"},
        3: {**blank, "chat_id": "erased-3", "is_closed": True, "close_date": NOW},
    }
    added_events = [
        an_erasure_event(5, caregiver=1, session=1),
        an_erasure_event(6, caregiver=1, session=2),
        an_erasure_event(7, caregiver=2, session=3),
    ]
    return before | {
        "tombstone": [{"role": "CLIENT", "id": 1, "state": "ERASED", "moment": NOW}],
        "client": [row | client if row["id"] == 1 else row for row in before["client"]],
        "session": [row | sessions.get(row["id"], {}) for row in before["session"]],
        "reminder": [
            row | {"state": "SKIPPED"} if row["id"] in (2, 3) else row for row in before["reminder"]
        ],
        "answer_set": [
            row | {"answers": [[*question, ""] for *question, _ in row["answers"]]}
            if row["client_id"] == 1
            else row
            for row in before["answer_set"]
            if row["id"] not in (3, 6)
        ],
        "feedback": [row | {"text": ""} if row["id"] in (1, 3) else row for row in before["feedback"]],
        "event": [*before["event"], *added_events],
        "delivery": [
            row | {"last_answer": None} if row["client_id"] == 1 else row for row in before["delivery"]
        ],
        "idempotency_key": [
            row if (row["role"], row["viewer_id"]) in OTHERS else row | {"status": 0, "body": None}
            for row in before["idempotency_key"]
        ],
    }


OTHERS = (("CLIENT", 2), ("CAREGIVER", 3))


def an_erasure_event(number: int, caregiver: int, session: int) -> Row:
    return {
        "id": number,
        "caregiver_id": caregiver,
        "client_id": 1,
        "kind": "CLIENT_ERASED",
        "actor": "SERVICE",
        "session_id": session,
        "assignment_id": None,
        "reminder_id": None,
        "moment": NOW,
        "hand_over_date": None,
    }


def test_erasing_again_changes_nothing(database_url: str) -> None:
    load_one_client(database_url)
    run_write(database_url, erasing(1, NOW))
    before = all_of(database_url)

    erased = run_write(database_url, erasing(1, LATER))

    assert erased == Erased(caregivers=[1, 2], sessions=3, drafts=0, answers=0, feedbacks=0)
    assert all_of(database_url) == before


def test_erasing_again_erases_later_data_and_adds_events_for_new_sessions_only(database_url: str) -> None:
    """For example after a restore."""
    load_one_client(database_url)
    load(database_url, [a_session(9, client=2, title="Moving-out")])
    run_write(database_url, erasing(1, NOW))
    answers = '[[null,"How was it?","Blue-bicycle"],[null,"How many hours?",""]]'
    raw.run(database_url, f"UPDATE answer_set SET answers = '{answers}' WHERE id = 2")
    raw.run(database_url, "UPDATE session SET client_id = 1 WHERE id = 9")

    erased = run_write(database_url, erasing(1, LATER))

    assert erased == Erased(caregivers=[1, 2], sessions=4, drafts=0, answers=1, feedbacks=0)
    assert "Blue-bicycle" not in str(all_of(database_url)["answer_set"])
    events = "SELECT session_id, count(*) FROM event WHERE kind = 'CLIENT_ERASED' GROUP BY 1 ORDER BY 1"
    assert raw.run(database_url, events) == [(1, 1), (2, 1), (3, 1), (9, 1)]
    [client] = [row for row in all_of(database_url)["client"] if row["id"] == 1]
    assert client["erase_date"] == NOW


def test_two_clients_can_be_erased(database_url: str) -> None:
    load_one_client(database_url)

    for number in (1, 2):
        run_write(database_url, erasing(number, NOW))

    names = "SELECT id, name, oppt_id, user_name FROM client ORDER BY id"
    assert raw.run(database_url, names) == [(1, "erased", "erased-1", None), (2, "erased", "erased-2", None)]


def test_a_client_without_sessions_can_be_erased(database_url: str) -> None:
    load(database_url, [a_client(1)])

    assert run_write(database_url, erasing(1, NOW)) == Erased([], 0, 0, 0, 0)

    assert raw.run(database_url, "SELECT name, oppt_id FROM client") == [("erased", "erased-1")]
    assert raw.run(database_url, "SELECT count(*) FROM event") == [(0,)]


def test_the_stored_responses_of_a_caregiver_without_a_session_are_erased(database_url: str) -> None:
    """The caregiver has a relationship with the client, and so may have read the name."""
    load(database_url, [a_caregiver(3)])
    load_one_client(database_url)
    raw.run(database_url, "INSERT INTO relationship (client_id, caregiver_id) VALUES (1, 3)")

    erased = run_write(database_url, erasing(1, NOW))

    assert erased.caregivers == [1, 2, 3]
    left = "SELECT role, viewer_id FROM idempotency_key WHERE body IS NOT NULL"
    assert raw.run(database_url, left) == [("CLIENT", 2)]


@starting_with(a_world)
@pytest.mark.parametrize(("user", "number"), [("client-1", None), (None, 1)])
def test_a_client_is_found_by_user_name_or_id(
    database_url: str, user: str | None, number: int | None
) -> None:
    assert run_read(database_url, finding_client(user, number)) == Named(1, "Zoë Client 1")


@pytest.mark.once_on_postgresql
@pytest.mark.parametrize(("user", "number"), [("caregiver-1", None), (None, 9), ("", None)])
def test_a_missing_client_is_an_error(database_url: str, user: str | None, number: int | None) -> None:
    load(database_url, [*a_world(), a_client(8, userName=None)])

    with pytest.raises(AccountRejected, match=r"^there is no client with this "):
        run_read(database_url, finding_client(user, number))


# --- concurrency ---


async def assigned_meanwhile(url: str) -> tuple[list[Any], list[Any]]:
    """The outcomes of twenty assignments, and of two erasures between them."""
    db = await open_database(url, readers=8)
    homework = Homework(1, (1, 2), NOW, NOW + DAY, (NOW + DAY,))
    try:
        assign = [db.write(assigning(AccessScope(NOW, caregiver=1), homework)) for _ in range(20)]
        erase = [db.write(erasing(1, NOW)) for _ in range(2)]
        outcomes = await asyncio.gather(*assign[:10], *erase, *assign[10:], return_exceptions=True)
    finally:
        await db.close()
    return [*outcomes[:10], *outcomes[12:]], outcomes[10:12]


def test_a_concurrent_assignment_is_made_before_the_erasure_or_rejected(database_url: str) -> None:
    load(database_url, one_client())

    assigned, erased = asyncio.run(assigned_meanwhile(database_url))

    done = [one for one in assigned if isinstance(one, list)]
    assert [one.code for one in assigned if not isinstance(one, list)] == [NotRunning.code] * (20 - len(done))
    assert {one.sessions for one in erased} == {3}
    assert run_read(database_url, differences()) == []
    assert raw.run(database_url, "SELECT assignment_count FROM session WHERE id = 1") == [
        (3 + 2 * len(done),)
    ]
    assert raw.run(database_url, "SELECT count(*) FROM reminder WHERE state = 'SCHEDULED'") == [(0,)]
    events = "SELECT session_id, count(*) FROM event WHERE kind = 'CLIENT_ERASED' GROUP BY 1 ORDER BY 1"
    assert raw.run(database_url, events) == [(1, 1), (2, 1), (3, 1)]


RENAME = "UPDATE session SET title = title || '.' WHERE id = 1"


@pytest.mark.parametrize("kind", ["postgresql"], indirect=True)
def test_an_erasure_waits_for_two_changes_of_a_session_in_one_transaction(database_url: str) -> None:
    """The second one locks the client, because PostgreSQL checks the reference to it again."""
    load(database_url, one_client())

    async def use(db: Any) -> Erased:
        async with db.connection() as connection, connection.transaction():
            await connection.execute(RENAME)
            erased = asyncio.create_task(db.write(erasing(1, NOW)))
            assert await until_blocked(database_url, erased)
            await connection.execute(RENAME)
        found: Erased = await erased
        return found

    assert with_database(database_url, use).sessions == 3


CLAIM = (
    "INSERT INTO idempotency_key (role, viewer_id, contract, key, fingerprint, result, moment)"
    " VALUES ('CAREGIVER', 1, 'GRAPHQL', 'key 1', 'f', '[1]', now()) RETURNING 1"
)


@pytest.mark.parametrize("kind", ["postgresql"], indirect=True)
def test_a_change_with_an_idempotency_key_waits_for_an_erasure(database_url: str) -> None:
    """Its response is stored after it is committed, and would otherwise keep data of the client."""
    load(database_url, one_client())

    async def use(db: Database) -> None:
        async with uncommitted(database_url, erasing(1, NOW)):
            claimed = asyncio.create_task(db.write(running(CLAIM)))
            assert await until_blocked(database_url, claimed)
        await claimed

    with_database(database_url, use)


LOCK_ROWS = "SELECT 1 FROM client, session WHERE client.id = 1 AND client_id = 1 FOR UPDATE"


@pytest.mark.parametrize("kind", ["postgresql"], indirect=True)
@pytest.mark.parametrize(
    ("begun", "goes_on"),
    [(CLAIM, [LOCK_ROWS]), (f"SELECT pg_advisory_xact_lock({TOMBSTONES_LOCK})", [LOCK_ROWS, CLAIM])],
    ids=["a change with an idempotency key", "an import"],
)
def test_an_erasure_that_waits_keeps_nothing_from_the_change_that_it_waits_for(
    database_url: str, begun: str, goes_on: list[str]
) -> None:
    """Otherwise both would wait for each other."""
    load(database_url, one_client())

    async def use(db: Database) -> Erased:
        async with uncommitted(database_url, running(begun)):
            erased = asyncio.create_task(db.write(erasing(1, NOW)))
            assert await until_blocked(database_url, erased)
            for change in goes_on:
                await db.write(running(change))
        return await erased

    assert with_database(database_url, use).sessions == 3


def test_a_connection_that_is_lost_while_the_files_are_cleaned_is_reported(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def lose(url: str) -> None:
        raise ConnectionResetError(104, "Connection reset by peer")

    monkeypatch.setattr("app.db.admin.erasing.connect_postgres", lose)

    message = (
        "the client is erased, but the database files still contain the old data "
        "([Errno 104] Connection reset by peer); run `care-gateway erase --id 1` again"
    )
    with pytest.raises(DatabaseError, match=f"^{re.escape(message)}$"):
        asyncio.run(clean("postgresql://care@127.0.0.1/care", 1))


# By identifier: a caregiver without a relationship; by id: a caregiver of the client.
OPENINGS = {
    "by identifier": (3, NewSession(None, "OPPT-1", "Moving-out", "", NOW)),
    "by id": (1, NewSession(1, None, "Moving-out", "", NOW)),
}
SESSIONS = "SELECT title, is_closed FROM session WHERE client_id = 1 ORDER BY id"


@pytest.mark.parametrize("kind", ["postgresql"], indirect=True)
@pytest.mark.parametrize("way", OPENINGS)
def test_opening_a_session_during_an_erasure_is_rejected(database_url: str, way: str) -> None:
    load(database_url, [*one_client(), a_caregiver(3)])
    caregiver, asked = OPENINGS[way]

    async def use(db: Database) -> None:
        async with uncommitted(database_url, erasing(1, NOW)):
            opened = asyncio.create_task(db.write(opening(AccessScope(NOW, caregiver=caregiver), [asked])))
            assert await until_blocked(database_url, opened)
        with pytest.raises(NotFound):
            await opened

    with_database(database_url, use)

    assert raw.run(database_url, SESSIONS) == [("", True)] * 3


@pytest.mark.parametrize("kind", ["postgresql"], indirect=True)
@pytest.mark.parametrize("way", OPENINGS)
def test_a_session_opened_before_the_erasure_is_erased(database_url: str, way: str) -> None:
    load(database_url, [*one_client(), a_caregiver(3)])
    caregiver, asked = OPENINGS[way]

    async def use(db: Database) -> Erased:
        async with uncommitted(database_url, opening(AccessScope(NOW, caregiver=caregiver), [asked])):
            erased = asyncio.create_task(db.write(erasing(1, NOW)))
            assert await until_blocked(database_url, erased)
        return await erased

    erased = with_database(database_url, use)

    assert (erased.caregivers, erased.sessions) == ([1, 2, 3] if caregiver == 3 else [1, 2], 4)
    assert raw.run(database_url, SESSIONS) == [("", True)] * 4
