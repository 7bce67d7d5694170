"""Demo data for the quickstart, the examples of the landing page and the documentation."""

from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import Any

import orjson

CAREGIVER = "mara.lind@example.test"
CLIENT = "jonas.berg@example.test"

Record = dict[str, Any]


def demo_lines(now: datetime) -> Iterator[bytes]:
    """The demo data as lines that `import` reads, with dates around `now`."""
    for record in (*people(), *catalogue(), *care(now.replace(minute=0, second=0, microsecond=0))):
        yield orjson.dumps(record)


def people() -> Iterator[Record]:
    yield caregiver(1, "Mara Lind", "Clinical psychologist", CAREGIVER)
    yield caregiver(2, "Tomás Ferreira", "Family therapist", "tomas.ferreira@example.test")
    yield client(1, "Jonas Berg", "OPPT-1001", CLIENT)
    yield client(2, "Zoë Marchetti", "OPPT-1002", "zoe.marchetti@example.test")
    yield client(3, "Ravi Anand", "OPPT-1003", "ravi.anand@example.test")


def catalogue() -> Iterator[Record]:
    yield {"kind": "module", "id": 1, "name": "Rest and sleep"}
    yield {"kind": "module", "id": 2, "name": "Mood"}
    yield book(
        1,
        1,
        "Sleep diary",
        question("How many hours did you sleep?", "NUMBER", minimum=0, maximum=24),
        question("How rested did you feel?", "SCALE", "1", "2", "3", "4", "5"),
        question("What kept you awake?", "TEXT"),
    )
    yield book(
        2,
        1,
        "Evening routine",
        question("Did you put screens away an hour before bed?", "YES_NO"),
        question("What helped you to wind down?", "MULTIPLE_CHOICE", "reading", "a bath", "music", "talking"),
    )
    yield book(
        3,
        2,
        "Mood check",
        question("How was your mood today?", "SCALE", "1", "2", "3", "4", "5", weights=[0, 20, 40, 60, 80]),
        question("Did you enjoy something you usually enjoy?", "YES_NO", weights=[20, 0]),
        is_test=True,
    )
    yield book(4, 2, "Three good things", question("Name three things that went well.", "TEXT"))


def care(now: datetime) -> Iterator[Record]:
    day = timedelta(days=1)
    yield session(1, 1, 1, "Sleeping through the night", "Weekly work on sleep.", now - 30 * day)
    yield session(2, 1, 2, "After the move", "Settling in a new city.", now - 12 * day)
    yield session(3, 1, 1, "Staying well", "Follow-up in spring.", now + 60 * day)
    yield session(4, 1, 3, "First steps", "A short series, closed.", now - 200 * day, closed=now - 90 * day)
    yield session(5, 2, 1, "Family evenings", "With the whole family.", now - 20 * day)

    yield assignment(1, 1, 1, now - 28 * day, submitted=now - 23 * day)
    yield answers(
        1,
        1,
        now - 23 * day,
        ("How many hours did you sleep?", "6"),
        ("How rested did you feel?", "3"),
        ("What kept you awake?", "Thinking about the next day – and the neighbours."),
    )
    yield assignment(2, 1, 3, now - 21 * day, submitted=now - 15 * day, score=60)
    yield answers(
        2,
        2,
        now - 15 * day,
        ("How was your mood today?", "3"),
        ("Did you enjoy something you usually enjoy?", "true"),
    )
    yield assignment(3, 1, 2, now - 2 * day, remind=now + 2 * day)
    yield assignment(4, 2, 4, now - 10 * day)
    yield assignment(5, 4, 3, now - 190 * day, submitted=now - 185 * day, score=80)
    yield answers(
        3,
        5,
        now - 185 * day,
        ("How was your mood today?", "4"),
        ("Did you enjoy something you usually enjoy?", "true"),
    )
    yield assignment(6, 5, 4, now - 6 * day)


def caregiver(number: int, name: str, position: str, user: str) -> Record:
    return {"kind": "caregiver", "id": number, "name": name, "position": position, "userName": user}


def client(number: int, name: str, oppt_id: str, user: str) -> Record:
    return {"kind": "client", "id": number, "name": name, "opptId": oppt_id, "userName": user}


def book(number: int, module: int, name: str, *questions: Record, is_test: bool = False) -> Record:
    return {
        "kind": "book",
        "id": number,
        "moduleId": module,
        "name": name,
        "isTest": is_test,
        "questions": list(questions),
    }


def question(text: str, kind: str, *options: str, **more: Any) -> Record:
    return {"text": text, "kind": kind, "options": list(options), "required": kind != "TEXT", **more}


def session(
    number: int,
    caregiver: int,
    client: int,
    title: str,
    description: str,
    start: datetime,
    closed: datetime | None = None,
) -> Record:
    return {
        "kind": "session",
        "id": number,
        "caregiverId": caregiver,
        "clientId": client,
        "title": title,
        "description": description,
        "chatId": f"chat-{number:04d}",
        "createDate": start - timedelta(days=5),
        "startDate": start,
        "isClosed": closed is not None,
        "closeDate": closed,
    }


def assignment(
    number: int,
    session: int,
    book: int,
    start: datetime,
    submitted: datetime | None = None,
    score: int = 0,
    remind: datetime | None = None,
) -> Record:
    return {
        "kind": "assignment",
        "id": number,
        "sessionId": session,
        "bookId": book,
        "assignDate": start - timedelta(hours=20),
        "startDate": start,
        "endDate": start + timedelta(days=7),
        "submitDate": submitted,
        "status": "PENDING" if submitted is None else "COMPLETE",
        "score": score,
        "reminders": [] if remind is None else [{"remindDate": remind}],
    }


def answers(number: int, assignment: int, submitted: datetime, *given: tuple[str, str]) -> Record:
    return {
        "kind": "answer_set",
        "id": number,
        "assignmentId": assignment,
        "saveType": "FINAL",
        "submitDate": submitted,
        "answers": [{"questionText": question, "answer": answer} for question, answer in given],
    }
