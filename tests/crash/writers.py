"""People who write as fast as they are answered, until the service is gone; what they asked is remembered."""

import json
from collections.abc import Generator, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from http.client import HTTPConnection, HTTPException
from itertools import count
from random import Random
from threading import Semaphore
from typing import Any

from tests import keys
from tests.crash.asked import Asked, Draft, FeedbackInput, Homework, Submission
from tests.factories import Record, a_book, a_caregiver, a_client, a_module, a_session
from tests.live.processes import PATIENCE

GONE = (OSError, HTTPException)
PUT_PATH = "/gateway/profile/caregiver/session/assignment"
SESSIONS_PATH = "/gateway/profile/client/session?time-state=RUNNING"
BOOKS = [1, 2, 3]  # whose first questions are 1, 2 and 3
BY_PUT, BY_GRAPHQL = datetime(1990, 1, 1, tzinfo=UTC), datetime(2010, 1, 1, tzinfo=UTC)
MINUTE = timedelta(minutes=1)

ASSIGN = """mutation($input: AssignHomeworkInput!) { assignHomework(input: $input) {
    assignments { legacyId } userErrors { code field } } }"""
SAVE = """mutation($input: SaveAnswersInput!) { saveAnswers(input: $input) {
    draft { revision } userErrors { code field } } }"""
SUBMIT = """mutation($input: SubmitAnswersInput!) { submitAnswers(input: $input) {
    answerSet { legacyId } userErrors { code field } } }"""
GIVE = """mutation($input: GiveFeedbackInput!) { giveFeedback(input: $input) {
    feedback { text } userErrors { code field } } }"""


def a_world(sessions: int) -> list[Record]:
    """Each session is of a caregiver and a client of its own."""
    people = [make(number) for number in range(1, sessions + 1) for make in (a_caregiver, a_client)]
    begun = [
        a_session(number, number, number, startDate=BY_PUT, createDate=BY_PUT)
        for number in range(1, sessions + 1)
    ]
    return [*people, a_module(1), *map(a_book, BOOKS), *begun]


class Unavailable(Exception):
    """The service is there, and its database is not."""


@dataclass
class Writer:
    session: int
    minutes: Iterator[int]  # one for all writers: no two requests have the same
    acknowledged: Semaphore
    chance: Random
    asked: list[Asked] = field(default_factory=list)
    life: Generator[Asked, Any, None] | None = None
    cut: Asked | None = None  # whose answer did not come

    def write(self, port: int) -> None:
        """Goes on where the last service left it, until this one is gone."""
        connection = HTTPConnection("127.0.0.1", port, timeout=PATIENCE)
        try:
            self.repeat_the_last(connection)
            next_one = self.resumed()
            while True:
                next_one = self.after(next_one, self.send(connection, next_one))
                self.acknowledged.release()
        except GONE:
            pass
        finally:
            connection.close()

    def resumed(self) -> Asked:
        if self.cut is not None and self.cut.may_be_repeated:
            return self.cut
        self.life = self.living()
        return self.begun(next(self.life))

    def after(self, asked: Asked, answer: Any) -> Asked:
        assert self.life is not None
        try:
            return self.begun(self.life.send(answer))
        except StopIteration:
            self.life = self.living()
            return self.begun(next(self.life))

    def begun(self, asked: Asked) -> Asked:
        self.asked.append(asked)
        return asked

    def send(self, connection: HTTPConnection, asked: Asked) -> Any:
        self.cut = asked
        answer, _ = send(connection, asked)
        self.cut = None
        asked.answer = answer
        return said(answer)

    def repeat_the_last(self, connection: HTTPConnection) -> None:
        """The newest answer under a key, which may have come a moment before the end, is given again."""
        for one in reversed(self.asked):
            if one.key is not None and one.answer is not None:
                again = send(connection, one)
                assert again == (one.answer, True), (one, again)
                return

    # --- what they ask ---

    def living(self) -> Generator[Asked, Any, None]:
        yield self.assign_by_put()
        first, second = yield self.assign()
        yield self.save(first, 1)
        yield self.save(first, 2)
        answer_set = yield self.submit(second)
        yield self.give(answer_set, second)

    def assign_by_put(self) -> Asked:
        start = BY_PUT + MINUTE * next(self.minutes)
        date, time = start.strftime("%Y/%m/%d %H:%M").split()
        body = {
            "bookIds": BOOKS,
            "startDate": date,
            "startTime": time,
            "endDate": "2036/11/29",
            "endTime": "18:30",
            "remindDates": [{"date": date, "time": time}],
            "sessionId": self.session,
        }
        effect = Homework(self.session, start, tuple((book, 1, 1) for book in BOOKS))
        return self.request(effect, "CAREGIVER", "PUT", PUT_PATH, body)

    def assign(self) -> Asked:
        start = BY_GRAPHQL + MINUTE * next(self.minutes)
        given = {
            "sessionId": str(self.session),
            "bookIds": ["1", "2"],
            "startDate": start.isoformat(),
            "endDate": "2036-11-29T18:30:00Z",
        }
        effect = Homework(self.session, start, ((1, 0, 1), (2, 0, 1)))
        return self.mutation(effect, "CAREGIVER", ASSIGN, given)

    def save(self, assignment: int, revision: int) -> Asked:
        text = f"Draft {revision} of {assignment}"
        given = {
            "assignmentId": str(assignment),
            "answers": [{"questionId": "1", "answer": text}],
            "revision": revision - 1,
        }
        return self.mutation(Draft(assignment, ((revision, text),), revision), "CLIENT", SAVE, given)

    def submit(self, assignment: int) -> Asked:
        text = f"Answer to {assignment}"
        given = {"assignmentId": str(assignment), "answers": [{"questionId": "2", "answer": text}]}
        return self.mutation(Submission(assignment, "COMPLETE", (text,), 1), "CLIENT", SUBMIT, given)

    def give(self, answer_set: int, assignment: int) -> Asked:
        text = f"Of {answer_set}: go on"
        effect = FeedbackInput(answer_set, "SUBMITTED", text, 1)
        return self.mutation(effect, "CAREGIVER", GIVE, {"answerSetId": str(answer_set), "text": text})

    def mutation(self, effect: Any, role: str, query: str, given: dict[str, Any]) -> Asked:
        return self.request(effect, role, "POST", "/graphql", {"query": query, "variables": {"input": given}})

    def request(self, effect: Any, role: str, method: str, path: str, body: dict[str, Any]) -> Asked:
        user = f"{role.lower()}-{self.session}"
        key = f"key-{next(self.minutes)}" if self.chance.random() < 0.5 else None
        return Asked(effect, role, user, method, path, json.dumps(body).encode(), key)


def writers(sessions: int, chance: Random, acknowledged: Semaphore) -> list[Writer]:
    """Two for each session, so that they meet at its counters."""
    minutes = count(1)
    return [
        Writer(1 + at % sessions, minutes, acknowledged, Random(chance.random()))
        for at in range(2 * sessions)
    ]


def send(connection: HTTPConnection, asked: Asked) -> tuple[bytes, bool]:
    """The answer, which says that it was done, and whether it is that of an earlier request."""
    status, answer, is_again = tried(connection, asked)
    if status == 503:
        raise Unavailable(answer)
    assert status == 200, (status, answer)
    return answer, is_again


def tried(connection: HTTPConnection, asked: Asked) -> tuple[int, bytes, bool]:
    headers = {"content-type": "application/json", **signed_in(asked.role, asked.user)}
    if asked.key is not None:
        headers["idempotency-key"] = asked.key
    connection.request(asked.method, asked.path, asked.body, headers)
    response = connection.getresponse()
    answer = response.read()
    return response.status, answer, response.getheader("idempotency-replayed") == "true"


TOKENS: dict[tuple[str, str], str] = {}


def signed_in(role: str, user: str) -> dict[str, str]:
    """With one token for the whole run: making one takes longer than a request."""
    if (role, user) not in TOKENS:
        until = datetime.now(UTC) + timedelta(days=1)
        TOKENS[role, user] = keys.token(role, user, exp=until)
    return {"authorization": f"bearer {TOKENS[role, user]}"}


def said(answer: bytes) -> Any:
    """The numbers that the next request needs."""
    body = json.loads(answer)
    if "data" not in body:
        assert list(body) == ["message"], body
        return None
    [payload] = body["data"].values()
    assert "errors" not in body and payload["userErrors"] == [], body
    if "assignments" in payload:
        return [int(one["legacyId"]) for one in payload["assignments"]]
    return int(payload["answerSet"]["legacyId"]) if "answerSet" in payload else None
