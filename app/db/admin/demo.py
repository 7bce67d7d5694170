"""Demo data for the quickstart, the examples of the landing page and the documentation."""

from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import Any

import orjson

CAREGIVER = "mara.lind@example.test"
CLIENT = "jonas.berg@example.test"
MEETINGS = 21  # a list of the legacy client has a second page
FIVE = ("1", "2", "3", "4", "5")

HOURS, RESTED = "How many hours did you sleep?", "How rested did you feel?"
AWAKE = "What kept you awake?"
MOOD, ENJOYED = "How was your mood today?", "Did you enjoy something you usually enjoy?"

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
    sleep = (
        question(HOURS, "NUMBER", minimum=0, maximum=24),
        question(RESTED, "SCALE", *FIVE),
        question(AWAKE, "TEXT"),
    )
    evening = (
        question("Did you put screens away an hour before bed?", "YES_NO"),
        question("What helped you to wind down?", "MULTIPLE_CHOICE", "reading", "a bath", "music", "talking"),
    )
    mood = (
        question(MOOD, "SCALE", *FIVE, weights=[0, 20, 40, 60, 80]),
        question(ENJOYED, "YES_NO", weights=[20, 0]),
    )
    yield book(1, 1, "Sleep diary", *sleep)
    yield book(2, 1, "Evening routine", *evening)
    yield book(3, 2, "Mood check", *mood, is_test=True)
    yield book(4, 2, "Three good things", question("Name three things that went well.", "TEXT"))


def care(now: datetime) -> Iterator[Record]:
    day = timedelta(days=1)
    yield session(1, 1, 1, "Sleeping through the night", "Weekly work on sleep.", now - 30 * day)
    yield session(2, 1, 2, "After the move", "Settling in a new city.", now - 12 * day)
    yield session(3, 1, 1, "Staying well", "Follow-up in spring.", now + 60 * day)
    yield session(4, 1, 3, "First steps", "A short series, closed.", now - 200 * day, closed=now - 90 * day)
    yield session(5, 2, 1, "Family evenings", "With the whole family.", now - 20 * day)
    for number in range(1, MEETINGS + 1):
        start = now - (1 + MEETINGS - number) * 14 * day
        about = (f"Family meeting {number}", "One evening.")
        yield session(5 + number, 2, 1, *about, start, closed=start + timedelta(hours=2))

    why = "Thinking about the next day – and the neighbours."
    yield assignment(1, 1, 1, now - 28 * day, submitted=now - 23 * day)
    yield answer_set(1, 1, now - 23 * day, {HOURS: "6", RESTED: "3", AWAKE: why})
    yield assignment(2, 1, 3, now - 21 * day, submitted=now - 15 * day, score=60)
    yield answer_set(2, 2, now - 15 * day, {MOOD: "3", ENJOYED: "true"})
    yield assignment(3, 1, 2, now - 2 * day, remind=now + 2 * day)
    yield assignment(4, 2, 4, now - 10 * day)
    yield assignment(5, 4, 3, now - 190 * day, submitted=now - 185 * day, score=80)
    yield answer_set(3, 5, now - 185 * day, {MOOD: "4", ENJOYED: "true"})
    yield assignment(6, 5, 4, now - 6 * day)


def caregiver(id: int, name: str, position: str, user: str) -> Record:
    return {"kind": "caregiver", "id": id, "name": name, "position": position, "userName": user}


def client(id: int, name: str, oppt_id: str, user: str) -> Record:
    return {"kind": "client", "id": id, "name": name, "opptId": oppt_id, "userName": user}


def book(id: int, module: int, name: str, *questions: Record, is_test: bool = False) -> Record:
    about = {"id": id, "moduleId": module, "name": name, "isTest": is_test}
    return {"kind": "book", **about, "questions": questions}


def question(text: str, kind: str, *options: str, **more: Any) -> Record:
    return {"text": text, "kind": kind, "options": options, "required": kind != "TEXT", **more}


def session(
    id: int,
    caregiver: int,
    client: int,
    title: str,
    description: str,
    start: datetime,
    closed: datetime | None = None,
) -> Record:
    return {
        "kind": "session",
        "id": id,
        "caregiverId": caregiver,
        "clientId": client,
        "title": title,
        "description": description,
        "chatId": f"chat-{id:04d}",
        "createDate": start - timedelta(days=5),
        "startDate": start,
        "isClosed": closed is not None,
        "closeDate": closed,
    }


def assignment(
    id: int,
    session: int,
    book: int,
    start: datetime,
    submitted: datetime | None = None,
    score: int = 0,
    remind: datetime | None = None,
) -> Record:
    return {
        "kind": "assignment",
        "id": id,
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


def answer_set(id: int, assignment: int, submitted: datetime, answers: dict[str, str]) -> Record:
    about = {"id": id, "assignmentId": assignment, "saveType": "FINAL", "submitDate": submitted}
    items = [{"questionText": question, "answer": answer} for question, answer in answers.items()]
    return {"kind": "answer_set", **about, "answers": items}
