"""The changes that writers request and the changes that a database contains, in one form that can be
compared."""

import json
import sqlite3
from collections import defaultdict
from collections.abc import Iterable
from contextlib import closing
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

from tests.db import raw


class Homework(NamedTuple):
    """The homework of one request, identified by its session and its unique start."""

    session: int
    start: datetime
    books: tuple[tuple[int, int, int], ...]  # of each assignment the book, its reminders, its events


class Draft(NamedTuple):
    assignment: int
    saved: tuple[tuple[int, str], ...]  # revision and text: one row, as it was saved last
    events: int


class Submission(NamedTuple):
    assignment: int
    status: str
    texts: tuple[str, ...]
    events: int


class FeedbackInput(NamedTuple):
    answer_set: int
    status: str
    text: str
    events: int


Effect = Homework | Draft | Submission | FeedbackInput


@dataclass
class Request:
    """A request, its effect, and its response, which is missing if the service died before."""

    effect: Effect
    role: str
    user: str
    method: str
    path: str
    body: bytes
    key: str | None = None
    answer: bytes | None = None

    @property
    def may_be_repeated(self) -> bool:
        """The legacy PUT recognizes retries without a key."""
        return self.key is not None or self.method == "PUT"


def compare(requests: Iterable[Request], found: list[Effect]) -> list[str]:
    """Lists errors: acknowledged changes that are missing, repeated or incomplete, and changes without a
    request."""
    requests = list(requests)
    known = {one.effect for one in requests}
    there = set(found)
    wrong = [f"without a request: {one}" for one in there - known]
    wrong += [f"twice: {one}" for one in there if found.count(one) > 1] if len(there) < len(found) else []
    drafts = {one.assignment: one for one in there if isinstance(one, Draft)}
    for one in requests:
        if one.answer is None:
            continue
        effect = one.effect
        if isinstance(effect, Draft) and effect.assignment in drafts:
            is_there = drafts[effect.assignment].saved >= effect.saved  # a later one may have replaced it
        else:
            is_there = effect in there
        if not is_there:
            wrong.append(f"acknowledged and lost: {effect}")
    return wrong


def effects(url: str) -> list[Effect]:
    """Reads the rows with SQL only, without code of the service."""
    events = {(kind, number): count for kind, number, count in raw.run(url, EVENTS)}
    reminders = dict(raw.run(url, REMINDERS))
    homework: dict[tuple[int, datetime], list[tuple[int, int, int]]] = defaultdict(list)
    status: dict[int, tuple[str, str]] = {}
    for number, session, book, start, *state in raw.run(url, ASSIGNMENTS):
        emitted = events.pop(("ASSIGNED", number), 0)
        homework[session, moment(start)].append((book, reminders.get(number, 0), emitted))
        status[number] = (state[0], state[1])
    found: list[Effect] = [Homework(*of, tuple(sorted(books))) for of, books in homework.items()]

    sets: dict[tuple[str, int], list[tuple[int, str]]] = defaultdict(list)
    for number, kind, revision, answers in raw.run(url, ANSWERS):
        sets[kind, number] += [(revision, text) for _, _, text in json.loads(answers) or [(None, None, None)]]
    for (kind, number), saved in sets.items():
        if kind == "FINAL":
            texts = tuple(text for _, text in saved)
            emitted = events.pop(("SUBMITTED", number), 0)
            found.append(Submission(number, status[number][0], texts, emitted))
        else:
            found.append(Draft(number, tuple(saved), events.pop(("DRAFT_SAVED", number), 0)))

    for answer_set, number, text in raw.run(url, FEEDBACKS):
        emitted = events.pop(("FEEDBACK_GIVEN", number), 0)
        found.append(FeedbackInput(answer_set, status[number][1], text, emitted))
    assert events == {}, "events of missing objects"
    return found


EVENTS = "SELECT kind, assignment_id, count(*) FROM event GROUP BY kind, assignment_id"
REMINDERS = "SELECT assignment_id, count(*) FROM reminder GROUP BY assignment_id"
ASSIGNMENTS = "SELECT id, session_id, book_id, start_date, status, feedback_status FROM assignment"
ANSWERS = "SELECT assignment_id, save_type, revision, answers FROM answer_set ORDER BY id"
FEEDBACKS = "SELECT answer_set_id, assignment_id, text FROM feedback"


def moment(stored: Any) -> datetime:
    return datetime.fromisoformat(stored) if isinstance(stored, str) else stored.astimezone(UTC)


def is_sound(path: Path) -> bool:
    with closing(sqlite3.connect(path)) as connection:
        found = [
            connection.execute(f"PRAGMA {check}").fetchall()
            for check in ("integrity_check", "foreign_key_check")
        ]
    return found == [[("ok",)], []]
