"""M, a clinic's evening: 70 % reads, 20 % drafts, 8 % submissions, 2 % homework, in the same order for all.

Each person sends requests about their own sessions: 32 caregivers, 32 clients who read, and the clients of
pending assignments, who answer them. A draft is saved again and again, and each submission is another one.
"""

import sqlite3
from collections.abc import Iterator
from itertools import count, cycle, islice
from random import Random
from typing import Any

from comparison import DRAFTS, SUBMISSIONS
from dataset import QUESTIONS, questions_of
from servers import Request, Target, new_request

CALLERS = 64  # at once
READERS = 32  # of each role
DRAFTED = 200  # assignments whose drafts are saved in turn
SHARES = {
    "R1": 12,
    "R2": 10,
    "R3": 12,
    "G1": 12,
    "G2": 12,
    "G3": 12,
    "R4": 1,
    "G4": 1,
    DRAFTS: 20,
    SUBMISSIONS: 8,
}
PENDING = """
    SELECT a.id, a.client_id, a.book_id FROM assignment a JOIN session s ON s.id = a.session_id
    WHERE a.status = 'PENDING' AND s.running_status = 'RUNNING' AND a.caregiver_id > 2 AND a.client_id > 1
    ORDER BY a.id * 7919 % 10007, a.id"""

Values = dict[str, Any]


class Evening:
    """The requests to one server, which needs more of them for each load: a submission cannot be repeated."""

    def __init__(self, target: Target, truth: sqlite3.Connection) -> None:
        self.target = target
        pending = truth.execute(PENDING).fetchall()
        self.answering = (answering(*row) for row in pending)
        self.reading = {op: cycle(reads(truth, op)) for op in SHARES if op[1:] in ("1", "2", "3")}
        self.assigning = cycle(homework(truth))
        self.slots = cycle(Random("evening").sample(list(SHARES), 100, counts=SHARES.values()))

    def requests(self, number: int) -> Iterator[tuple[str, Request]]:
        """The next requests with their operations."""
        drafts = list(islice(self.answering, DRAFTED))
        saved = count()
        for operation in islice(self.slots, number):
            if operation == DRAFTS:
                revision, place = divmod(next(saved), DRAFTED)
                values = {**drafts[place], "revision": revision}
            elif operation == SUBMISSIONS:
                values = {**next(self.answering), "revision": 0}
            else:
                values = next(self.reading.get(operation, self.assigning))
            yield operation, new_request(self.target, operation, values, values["person"])


def answering(assignment: int, client: int, book: int) -> Values:
    texts = questions_of(book)
    given = [
        f"Answer {place} of assignment {assignment}, as long as answers usually are"
        for place in range(QUESTIONS)
    ]
    first = (book - 1) * QUESTIONS + 1
    return {
        "person": ("client", client),
        "assignment": assignment,
        "answers": [{"questionId": str(first + place), "answer": text} for place, text in enumerate(given)],
        "answers_with_texts": [{"questionText": q, "answer": a} for q, a in zip(texts, given, strict=True)],
    }


def reads(truth: sqlite3.Connection, operation: str) -> list[Values]:
    role = "client" if operation.endswith("1") else "caregiver"
    complete = f"SELECT max(id) FROM assignment WHERE {role}_id = ? AND status = 'COMPLETE'"
    people = range(3, 3 + READERS)
    return [
        {"person": (role, person), "assignment": truth.execute(complete, (person,)).fetchone()[0]}
        for person in people
    ]


def homework(truth: sqlite3.Connection) -> list[Values]:
    running = "SELECT max(id) FROM session WHERE caregiver_id = ? AND running_status = 'RUNNING'"
    return [
        {
            "person": ("caregiver", person),
            "session": truth.execute(running, (person,)).fetchone()[0],
            "book": person,
            "second_book": person + READERS,
        }
        for person in range(3, 3 + READERS)
    ]
