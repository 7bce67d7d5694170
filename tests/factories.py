"""Builds records in the format of `import`, with defaults."""

from collections.abc import Callable, Iterable, Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import orjson
import pytest

NOW = datetime(2026, 11, 21, 9, 0, tzinfo=UTC)
DAY = timedelta(days=1)
HOUR = timedelta(hours=1)

Record = dict[str, Any]
Records = Callable[[], list[Record]]
Prepare = Callable[[str], None]  # changes the database of the URL


def starting_with(records: Records) -> pytest.MarkDecorator:
    """Marks tests whose database holds the records from the start: a copy is faster than an import."""
    return pytest.mark.starting_with.with_args(records)


def prepared_by(prepare: Prepare) -> pytest.MarkDecorator:
    """Marks tests whose database is a copy of an empty one that the function has changed."""
    return pytest.mark.prepared_by.with_args(prepare)


def lines(records: Iterable[Record]) -> Iterator[bytes]:
    return (orjson.dumps(record) for record in records)


def a_caregiver(number: int = 1, **changed: Any) -> Record:
    return {
        "kind": "caregiver",
        "id": number,
        "name": f"Caregiver {number}",
        "position": "Clinical psychologist",
        "userName": f"caregiver-{number}",
    } | changed


def a_client(number: int = 1, **changed: Any) -> Record:
    return {
        "kind": "client",
        "id": number,
        "name": f"Zoë Client {number}",
        "opptId": f"OPPT-{number}",
        "userName": f"client-{number}",
    } | changed


def a_module(number: int = 1, **changed: Any) -> Record:
    return {"kind": "module", "id": number, "name": f"Module {number}"} | changed


def a_book(number: int = 1, **changed: Any) -> Record:
    return {
        "kind": "book",
        "id": number,
        "moduleId": 1,
        "name": f"Book {number}",
        "isTest": False,
        "questions": [{"text": "How was it?", "kind": "TEXT", "options": [], "required": True}],
    } | changed


def a_session(number: int = 1, caregiver: int = 1, client: int = 1, **changed: Any) -> Record:
    """RUNNING by default."""
    return {
        "kind": "session",
        "id": number,
        "caregiverId": caregiver,
        "clientId": client,
        "title": f"Session {number}",
        "description": f"Description {number}",
        "chatId": f"chat-{number}",
        "createDate": NOW - 40 * DAY,
        "startDate": NOW - 30 * DAY,
        "isClosed": False,
    } | changed


def an_assignment(number: int = 1, session: int = 1, book: int = 1, **changed: Any) -> Record:
    return {
        "kind": "assignment",
        "id": number,
        "sessionId": session,
        "bookId": book,
        "assignDate": NOW - 10 * DAY,
        "startDate": NOW - 9 * DAY,
        "endDate": NOW + 5 * DAY,
        "submitDate": None,
        "status": "PENDING",
        "score": 0,
        "feedbackStatus": "WAITING",
        "feedbackSubmitDate": None,
        "reminders": [],
    } | changed


def a_complete_assignment(number: int = 1, session: int = 1, book: int = 1, **changed: Any) -> Record:
    return (
        an_assignment(number, session, book, status="COMPLETE", submitDate=NOW - 2 * DAY, score=70) | changed
    )


def an_answer_set(number: int = 1, assignment: int = 1, **changed: Any) -> Record:
    """A submission, or with another `saveType` a draft, which has no date of submission."""
    submitted = NOW - 2 * DAY if changed.get("saveType", "FINAL") == "FINAL" else None
    return {
        "kind": "answer_set",
        "id": number,
        "assignmentId": assignment,
        "saveType": "FINAL",
        "submitDate": submitted,
        "attempt": 1,
        "answers": [
            {"questionText": "How was it?", "answer": "Better – über Nacht"},
            {"questionText": "Did you practise?", "answer": "true"},
        ],
    } | changed


def people() -> list[Record]:
    """Two caregivers and two clients."""
    return [a_caregiver(1), a_caregiver(2), a_client(1), a_client(2)]


def catalogue() -> list[Record]:
    return [
        a_module(1),
        a_module(2),
        a_book(1, name="Sleep diary"),
        a_book(2, name="Evening routine"),
        a_book(3, name="Mood check", moduleId=2, isTest=True),
    ]


def a_world() -> list[Record]:
    """Caregiver 1 with client 1: sessions 1 (RUNNING), 2 (FUTURE), 3 (COMPLETED); with client 2: 4 (RUNNING).
    Caregiver 2 with client 2: session 5 (RUNNING).

    Assignments 1 (answered) and 2 (pending) in session 1, 3 (a test, answered) in session 3, 4 (pending) in
    session 4, 5 (answered) in session 5; answer sets 1, 2 and 3 of assignments 1, 3 and 5.
    """
    return [
        *people(),
        *catalogue(),
        a_session(1),
        a_session(2, startDate=NOW + 3 * DAY),
        a_session(3, isClosed=True, closeDate=NOW - DAY),
        a_session(4, client=2),
        a_session(5, caregiver=2, client=2),
        a_complete_assignment(1),
        an_assignment(2, book=2, reminders=[{"remindDate": NOW + DAY}]),
        a_complete_assignment(3, session=3, book=3, score=55),
        an_assignment(4, session=4),
        a_complete_assignment(5, session=5),
        an_answer_set(1, assignment=1),
        an_answer_set(2, assignment=3),
        an_answer_set(3, assignment=5),
    ]


def with_other_clients(records: Iterable[Record]) -> list[Record]:
    """The records with ids for their clients that no caregiver has: 101 in place of 1. The clients keep their
    user names."""
    id_of = {"client": "id", "session": "clientId"}
    return [
        record | {id_of[record["kind"]]: record[id_of[record["kind"]]] + 100}
        if record["kind"] in id_of
        else record
        for record in records
    ]


def a_world_with_other_clients() -> list[Record]:
    """`a_world`, with the clients 101 and 102."""
    return with_other_clients(a_world())
