"""The data set of the yardstick: the same people, sessions, homework and answers on every machine.

    python bench/dataset.py FOLDER [--scale N]

writes it in two forms: FOLDER/dataset.db (SQLite, for the peers and for expected.py) and FOLDER/dataset.jsonl
(JSON Lines, for `care-gateway import`).

Scale 1: 200 caregivers, 2,000 clients, 300 books in 20 modules, 5,000 sessions, 50,000 assignments, about
30,000 of them complete with ten answers each. Scale N has N times the sessions and assignments, and all
of the growth belongs to ordinary people. The three people who send the requests keep theirs, so that runs of
different scales can be compared: client 1 (30 running sessions), caregiver 1 (45 running sessions with 450
assignments) and caregiver 2, who assigns homework (25 running sessions).
"""

import argparse
import json
import sqlite3
from collections.abc import Iterator
from datetime import datetime, timedelta
from pathlib import Path
from random import Random
from typing import Any, NamedTuple

HOT_CLIENT, HOT_CAREGIVER, WRITER = 1, 1, 2
CAREGIVERS, CLIENTS, MODULES, BOOKS = 200, 2_000, 20, 300
SESSIONS, ASSIGNMENTS = 5_000, 50_000  # times the scale
QUESTIONS = 10  # in one answer set
STATES = ["RUNNING", "FUTURE", "COMPLETED"]

# Running status depends on the real clock: what has started must have started, and what is to come must
# stay to come, on whatever day the data is used.
NOW = datetime(2026, 1, 1, 9, 0)
FUTURE = datetime(2100, 1, 1, 9, 0)

# fmt: off
FIRST = [
    "Zoë", "José", "Mina", "Arman", "Lena", "Omid", "Sara", "Noah", "Iris", "Kian",
    "Maya", "Ravi", "Elif", "Hugo", "Anaïs", "Jonas", "Leila", "Tomás", "Yuna", "Petra",
]
LAST = [
    "Karimi", "Okafor", "Lindqvist", "Moreau", "Silva", "Novak", "Haddad", "Tanaka",
    "Weber", "Costa", "Ibrahim", "Larsen", "Rossi", "Patel", "Duarte",
]
POSITION = [
    "Clinical psychologist", "Family therapist", "Occupational therapist", "Speech therapist", "Counsellor",
]
TOPIC = [
    "sleep", "anxiety", "daily routine", "relationships", "work stress",
    "self care", "grief", "focus", "anger", "mood",
]
QUESTION = [
    "How often did you notice", "What helped you with", "Describe one moment about",
    "Rate your week regarding", "Did you practise the exercise on", "What would you change about",
]
WORD = [
    "today", "I", "tried", "the", "breathing", "exercise", "and", "felt", "calmer", "than", "before",
    "although", "the", "evening", "was", "still", "difficult", "because", "of", "noise", "at", "home", "but",
    "talking", "with", "my", "sister", "helped", "me", "to", "rest", "and", "plan", "the", "next", "day",
]
# fmt: on


# --- what there is ---------------------------------------------------------------------------------------


class Caregiver(NamedTuple):
    id: int
    name: str
    position: str


class Client(NamedTuple):
    id: int
    name: str
    oppt_id: str


class Module(NamedTuple):
    id: int
    name: str


class Book(NamedTuple):
    id: int
    module_id: int
    name: str
    is_test: bool


class Session(NamedTuple):
    id: int
    title: str
    description: str
    caregiver_id: int
    client_id: int
    create_date: datetime
    start_date: datetime
    chat_id: str
    is_closed: bool
    running_status: str


class Assignment(NamedTuple):
    id: int
    session_id: int
    book_id: int
    caregiver_id: int
    client_id: int
    name: str
    time_state: str
    assign_date: datetime
    submit_date: datetime | None
    start_date: datetime
    end_date: datetime
    status: str
    feedback_status: str
    feedback_submit_date: datetime | None
    score: int


class AnswerSet(NamedTuple):
    id: int
    assignment_id: int
    submit_date: datetime
    answers: list[tuple[str, str]]  # question, answer


Record = Caregiver | Client | Module | Book | Session | Assignment | AnswerSet


def records(scale: int = 1) -> Iterator[Record]:
    """Everything, in an order in which each record follows those it names."""
    people, catalogue = Random("people"), Random("books")
    for i in range(1, CAREGIVERS + 1):
        yield Caregiver(i, full_name(people), people.choice(POSITION))
    for i in range(1, CLIENTS + 1):
        yield Client(i, full_name(people), f"OPPT-{100_000 + i * 7}")
    for i in range(1, MODULES + 1):
        yield Module(i, f"Module {i}: {TOPIC[i % len(TOPIC)]}")
    books = [
        Book(i, (i - 1) % MODULES + 1, f"Book {i} on {catalogue.choice(TOPIC)}", catalogue.random() < 0.2)
        for i in range(1, BOOKS + 1)
    ]
    yield from books

    # The timed people draw from generators of their own, so their part is the same at every scale.
    ours, crowd = Random("sessions of the timed people"), Random("sessions of everybody else")
    sessions = [
        new_session(ours, i, people_of) if people_of else new_session(crowd, i, anybody(crowd))
        for i, people_of in spread(timed_sessions(ours), SESSIONS * scale)
    ]
    yield from sessions

    ours, crowd = Random("homework of the timed people"), Random("homework of everybody else")
    others = [s for s in sessions if not is_timed(s)]
    ordinary = {state: [s for s in others if s.running_status == state] for state in STATES}
    submitted: list[tuple[int, datetime, bool]] = []
    for i, timed in spread(timed_homework(ours, sessions), ASSIGNMENTS * scale):
        rng = ours if timed else crowd
        session = timed or rng.choice(ordinary[rng.choices(STATES, [65, 5, 30])[0]])
        assignment = new_assignment(rng, i, session, rng.choice(books))
        yield assignment
        if assignment.submit_date:
            submitted.append((i, assignment.submit_date, timed is not None))

    ours, crowd = Random("answers of the timed people"), Random("answers of everybody else")
    for i, (assignment_id, moment, timed_person) in enumerate(submitted, 1):
        yield AnswerSet(i, assignment_id, moment, new_answers(ours if timed_person else crowd))


def spread(few: list[Any], total: int) -> Iterator[tuple[int, Any]]:
    """Ids 1..total, the few evenly among them and in their order, None beside every other id."""
    places = {(2 * k + 1) * total // (2 * len(few)) + 1: item for k, item in enumerate(few)}
    for i in range(1, total + 1):
        yield i, places.get(i)


def full_name(rng: Random) -> str:
    return f"{rng.choice(FIRST)} {rng.choice(LAST)}"


def timed_sessions(rng: Random) -> list[tuple[int, int, str]]:
    """Caregiver, client and state of the sessions the operations read and write."""
    plan = [(rng.randint(3, CAREGIVERS), HOT_CLIENT, "RUNNING") for _ in range(30)]
    plan += [(HOT_CAREGIVER, rng.randint(2, CLIENTS), "RUNNING") for _ in range(45)]
    plan += [(WRITER, rng.randint(2, CLIENTS), "RUNNING") for _ in range(25)]
    rng.shuffle(plan)
    return plan


def anybody(rng: Random) -> tuple[int, int, str]:
    return rng.randint(3, CAREGIVERS), rng.randint(2, CLIENTS), rng.choices(STATES, [60, 15, 25])[0]


def is_timed(session: Session) -> bool:
    return session.client_id == HOT_CLIENT or session.caregiver_id in (HOT_CAREGIVER, WRITER)


def timed_homework(rng: Random, sessions: list[Session]) -> list[Session]:
    """The session of each assignment of the timed people."""
    plan: list[Session] = []
    for session in filter(is_timed, sessions):
        plan += [session] * (rng.randint(15, 27) if session.client_id == HOT_CLIENT else 10)
    rng.shuffle(plan)
    return plan


def new_session(rng: Random, i: int, people_and_state: tuple[int, int, str]) -> Session:
    caregiver, client, state = people_and_state
    topic = rng.choice(TOPIC)
    moved = timedelta(days=rng.randint(0, 89), minutes=rng.randint(0, 1439))
    start = {
        "RUNNING": NOW - timedelta(days=1) - moved,
        "COMPLETED": NOW - timedelta(days=100) - moved * 4,
        "FUTURE": FUTURE + moved,
    }[state]
    return Session(
        id=i,
        title=f"Session {i} on {topic}",
        description=f"Weekly work on {topic} with homework and review.",
        caregiver_id=caregiver,
        client_id=client,
        create_date=min(start, NOW) - timedelta(days=rng.randint(1, 14), minutes=rng.randint(0, 1439)),
        start_date=start,
        chat_id=f"chat-{rng.getrandbits(64):016x}",
        is_closed=state == "COMPLETED",
        running_status=state,
    )


def new_assignment(rng: Random, i: int, session: Session, book: Book) -> Assignment:
    done = rng.random() < {"RUNNING": 0.55, "FUTURE": 0.0, "COMPLETED": 0.8}[session.running_status]
    start = session.start_date + timedelta(days=rng.randint(0, 20), minutes=rng.randint(0, 600))
    submit = start + timedelta(days=rng.randint(0, 6), minutes=rng.randint(0, 600))
    score = rng.randint(0, 100)
    return Assignment(
        id=i,
        session_id=session.id,
        book_id=book.id,
        caregiver_id=session.caregiver_id,
        client_id=session.client_id,
        name=book.name,
        time_state=session.running_status,
        assign_date=min(start - timedelta(days=1), NOW),
        submit_date=submit if done else None,
        start_date=start,
        end_date=start + timedelta(days=7),
        status="COMPLETE" if done else "PENDING",
        feedback_status="WAITING",
        feedback_submit_date=None,
        score=score if done else 0,
    )


def questions_of(book_id: int) -> list[str]:
    """In the order of their ids, which begin with 1 in the first book."""
    return [
        f"{QUESTION[(book_id + place) % len(QUESTION)]} {TOPIC[(book_id * 3 + place) % len(TOPIC)]}?"
        for place in range(QUESTIONS)
    ]


def new_answers(rng: Random) -> list[tuple[str, str]]:
    return [(f"{rng.choice(QUESTION)} {rng.choice(TOPIC)}?", new_answer(rng)) for _ in range(QUESTIONS)]


def new_answer(rng: Random) -> str:
    kind = rng.random()
    if kind < 0.3:
        return rng.choice(["true", "false"])
    if kind < 0.6:
        return str(rng.randint(0, 10))
    return " ".join(rng.choices(WORD, k=rng.randint(4, 18)))


# --- as SQLite -------------------------------------------------------------------------------------------

# An assignment carries its caregiver, its client and its session's state, and each list has its index: what
# a peer would do to make a list one index range. Moments are text, 'YYYY-MM-DD HH:MM:SS.000000', in UTC.
TABLES = """
CREATE TABLE caregiver (id INTEGER PRIMARY KEY, name TEXT NOT NULL, position TEXT NOT NULL);
CREATE TABLE client (id INTEGER PRIMARY KEY, name TEXT NOT NULL, oppt_id TEXT NOT NULL);
CREATE TABLE module (id INTEGER PRIMARY KEY, name TEXT NOT NULL);
CREATE TABLE book (
    id INTEGER PRIMARY KEY, module_id INTEGER NOT NULL REFERENCES module(id),
    name TEXT NOT NULL, is_test BOOLEAN NOT NULL
);
CREATE TABLE session (
    id INTEGER PRIMARY KEY, title TEXT NOT NULL, description TEXT NOT NULL,
    caregiver_id INTEGER NOT NULL REFERENCES caregiver(id), client_id INTEGER NOT NULL REFERENCES client(id),
    create_date DATETIME NOT NULL, start_date DATETIME NOT NULL, chat_id TEXT NOT NULL,
    is_closed BOOLEAN NOT NULL, running_status TEXT NOT NULL
);
CREATE TABLE assignment (
    id INTEGER PRIMARY KEY, session_id INTEGER NOT NULL REFERENCES session(id),
    book_id INTEGER NOT NULL REFERENCES book(id), caregiver_id INTEGER NOT NULL REFERENCES caregiver(id),
    client_id INTEGER NOT NULL REFERENCES client(id), name TEXT NOT NULL, time_state TEXT NOT NULL,
    assign_date DATETIME NOT NULL, submit_date DATETIME,
    start_date DATETIME NOT NULL, end_date DATETIME NOT NULL,
    status TEXT NOT NULL, feedback_status TEXT NOT NULL, feedback_submit_date DATETIME, score INTEGER NOT NULL
);
CREATE TABLE answer_set (
    id INTEGER PRIMARY KEY, assignment_id INTEGER NOT NULL REFERENCES assignment(id),
    save_type TEXT NOT NULL, submit_date DATETIME NOT NULL
);
CREATE TABLE answer (
    id INTEGER PRIMARY KEY, answer_set_id INTEGER NOT NULL REFERENCES answer_set(id),
    position INTEGER NOT NULL, question_text TEXT NOT NULL, answer TEXT NOT NULL
);
CREATE TABLE draft (
    id INTEGER PRIMARY KEY, assignment_id INTEGER NOT NULL UNIQUE REFERENCES assignment(id),
    revision INTEGER NOT NULL, answers TEXT NOT NULL
);
CREATE TABLE reminder (
    id INTEGER PRIMARY KEY, assignment_id INTEGER NOT NULL REFERENCES assignment(id),
    remind_at DATETIME NOT NULL
);
"""
INDEXES = """
CREATE INDEX ix_book_module ON book(module_id);
CREATE INDEX ix_session_client ON session(client_id, running_status, id);
CREATE INDEX ix_session_caregiver ON session(caregiver_id, running_status, id);
CREATE INDEX ix_assignment_session ON assignment(session_id, id);
CREATE INDEX ix_assignment_caregiver ON assignment(caregiver_id, time_state, id);
CREATE INDEX ix_assignment_client ON assignment(client_id);
CREATE INDEX ix_assignment_book ON assignment(book_id);
CREATE INDEX ix_answer_set_assignment ON answer_set(assignment_id, id);
CREATE INDEX ix_answer_answer_set ON answer(answer_set_id, position);
CREATE INDEX ix_reminder_assignment ON reminder(assignment_id);
ANALYZE;
"""
TABLE = {
    Caregiver: "caregiver",
    Client: "client",
    Module: "module",
    Book: "book",
    Session: "session",
    Assignment: "assignment",
}


def insert(db: sqlite3.Connection, record: Record) -> None:
    if isinstance(record, AnswerSet):
        moment = in_sqlite(record.submit_date)
        db.execute(
            "INSERT INTO answer_set VALUES (?, ?, 'FINAL', ?)", (record.id, record.assignment_id, moment)
        )
        db.executemany(
            "INSERT INTO answer VALUES (NULL, ?, ?, ?, ?)",
            [
                (record.id, place, question, answer)
                for place, (question, answer) in enumerate(record.answers, 1)
            ],
        )
    else:
        marks = ", ".join("?" * len(record))
        db.execute(
            f"INSERT INTO {TABLE[type(record)]} VALUES ({marks})", [in_sqlite(value) for value in record]
        )


def in_sqlite(value: Any) -> Any:
    return f"{value:%Y-%m-%d %H:%M:%S}.000000" if isinstance(value, datetime) else value


# --- as JSON Lines ---------------------------------------------------------------------------------------


def line(record: Record) -> dict[str, Any]:
    """The record as `care-gateway import` reads it."""
    match record:
        case Caregiver(id=i):
            person = {"name": record.name, "position": record.position, "userName": f"caregiver-{i}"}
            return {"kind": "caregiver", "id": i, **person}
        case Client(id=i):
            person = {"name": record.name, "opptId": record.oppt_id, "userName": f"client-{i}"}
            return {"kind": "client", "id": i, **person}
        case Module():
            return {"kind": "module", "id": record.id, "name": record.name}
        case Book():
            return {
                "kind": "book",
                "id": record.id,
                "moduleId": record.module_id,
                "name": record.name,
                "isTest": record.is_test,
                "questions": [{"text": text} for text in questions_of(record.id)],
            }
        case Session():
            return {
                "kind": "session",
                "id": record.id,
                "title": record.title,
                "description": record.description,
                "caregiverId": record.caregiver_id,
                "clientId": record.client_id,
                "createDate": in_json(record.create_date),
                "startDate": in_json(record.start_date),
                "isClosed": record.is_closed,
                "chatId": record.chat_id,
            }
        case Assignment():
            return {
                "kind": "assignment",
                "id": record.id,
                "sessionId": record.session_id,
                "bookId": record.book_id,
                "assignDate": in_json(record.assign_date),
                "startDate": in_json(record.start_date),
                "endDate": in_json(record.end_date),
                "submitDate": in_json(record.submit_date),
                "status": record.status,
                "score": record.score,
                "feedbackStatus": record.feedback_status,
                "feedbackSubmitDate": in_json(record.feedback_submit_date),
                "reminders": [],
            }
        case AnswerSet():
            return {
                "kind": "answer_set",
                "id": record.id,
                "assignmentId": record.assignment_id,
                "saveType": "FINAL",
                "submitDate": in_json(record.submit_date),
                "attempt": 1,
                "answers": [
                    {"questionText": question, "answer": answer} for question, answer in record.answers
                ],
            }


def in_json(moment: datetime | None) -> str | None:
    return f"{moment:%Y-%m-%dT%H:%M:%SZ}" if moment else None


# --- both ------------------------------------------------------------------------------------------------


def write(folder: Path, scale: int = 1) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    database = folder / "dataset.db"
    for suffix in ("", "-wal", "-shm"):
        Path(f"{database}{suffix}").unlink(missing_ok=True)
    db = sqlite3.connect(database)
    db.execute("PRAGMA journal_mode = WAL")
    db.executescript(TABLES)
    with (folder / "dataset.jsonl").open("w", encoding="utf-8") as lines:
        for record in records(scale):
            insert(db, record)
            lines.write(json.dumps(line(record), ensure_ascii=False, separators=(",", ":")) + "\n")
    db.commit()
    db.executescript(INDEXES)
    db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    db.close()


def main() -> None:
    parser = argparse.ArgumentParser(description="Write the data set of the yardstick.")
    parser.add_argument("folder", type=Path)
    parser.add_argument("--scale", type=int, default=1)
    args = parser.parse_args()
    write(args.folder, args.scale)


if __name__ == "__main__":
    main()
