"""Writers that send requests as fast as possible until the service is gone, and record them."""

import json
import time
from collections.abc import Generator, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from http.client import HTTPConnection, HTTPException
from itertools import count
from random import Random
from threading import Semaphore
from typing import Any

from tests import keys
from tests.crash.changes import Draft, FeedbackInput, Homework, Request, Submission
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
    """Each session has its own caregiver and client."""
    people = [make(number) for number in range(1, sessions + 1) for make in (a_caregiver, a_client)]
    recorded = [
        a_session(number, number, number, startDate=BY_PUT, createDate=BY_PUT)
        for number in range(1, sessions + 1)
    ]
    return [*people, a_module(1), *map(a_book, BOOKS), *recorded]


class Unavailable(Exception):
    """The service is overloaded, or its database does not run."""


RETRY_SECONDS = 1  # the Retry-After of the service


@dataclass
class Writer:
    session: int
    minutes: Iterator[int]  # one for all writers: no two requests have the same
    acknowledged: Semaphore
    chance: Random
    requests: list[Request] = field(default_factory=list)
    script: Generator[Request, Any, None] | None = None
    unanswered: Request | None = None  # the request that got no response

    def write(self, port: int) -> None:
        """Continues where the last process ended, until this one is gone."""
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

    def write_patiently(self, port: int) -> None:
        """Repeats what an overloaded service has rejected, as a client does."""
        while True:
            try:
                return self.write(port)
            except Unavailable:
                time.sleep(RETRY_SECONDS)

    def resumed(self) -> Request:
        if self.unanswered is not None and self.unanswered.may_be_repeated:
            return self.unanswered
        self.script = self.run_script()
        return self.recorded(next(self.script))

    def after(self, request: Request, answer: Any) -> Request:
        assert self.script is not None
        try:
            return self.recorded(self.script.send(answer))
        except StopIteration:
            self.script = self.run_script()
            return self.recorded(next(self.script))

    def recorded(self, request: Request) -> Request:
        self.requests.append(request)
        return request

    def send(self, connection: HTTPConnection, request: Request) -> Any:
        self.unanswered = request
        answer, _ = send(connection, request)
        self.unanswered = None
        request.answer = answer
        return result_of(answer)

    def repeat_the_last(self, connection: HTTPConnection) -> None:
        """Repeats the newest request with a key, which may have been answered just before the end."""
        for one in reversed(self.requests):
            if one.key is not None and one.answer is not None:
                again = send(connection, one)
                assert again == (one.answer, True), (one, again)
                return

    # --- the requests ---

    def run_script(self) -> Generator[Request, Any, None]:
        yield self.assign_by_put()
        first, second = yield self.assign()
        yield self.save(first, 1)
        yield self.save(first, 2)
        answer_set = yield self.submit(second)
        yield self.give(answer_set, second)

    def assign_by_put(self) -> Request:
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

    def assign(self) -> Request:
        start = BY_GRAPHQL + MINUTE * next(self.minutes)
        given = {
            "sessionId": str(self.session),
            "bookIds": ["1", "2"],
            "startDate": start.isoformat(),
            "endDate": "2036-11-29T18:30:00Z",
        }
        effect = Homework(self.session, start, ((1, 0, 1), (2, 0, 1)))
        return self.mutation(effect, "CAREGIVER", ASSIGN, given)

    def save(self, assignment: int, revision: int) -> Request:
        text = f"Draft {revision} of {assignment}"
        given = {
            "assignmentId": str(assignment),
            "answers": [{"questionId": "1", "answer": text}],
            "revision": revision - 1,
        }
        return self.mutation(Draft(assignment, ((revision, text),), revision), "CLIENT", SAVE, given)

    def submit(self, assignment: int) -> Request:
        text = f"Answer to {assignment}"
        given = {"assignmentId": str(assignment), "answers": [{"questionId": "2", "answer": text}]}
        return self.mutation(Submission(assignment, "COMPLETE", (text,), 1), "CLIENT", SUBMIT, given)

    def give(self, answer_set: int, assignment: int) -> Request:
        text = f"Of {answer_set}: go on"
        effect = FeedbackInput(answer_set, "SUBMITTED", text, 1)
        return self.mutation(effect, "CAREGIVER", GIVE, {"answerSetId": str(answer_set), "text": text})

    def mutation(self, effect: Any, role: str, query: str, given: dict[str, Any]) -> Request:
        return self.request(effect, role, "POST", "/graphql", {"query": query, "variables": {"input": given}})

    def request(self, effect: Any, role: str, method: str, path: str, body: dict[str, Any]) -> Request:
        user = f"{role.lower()}-{self.session}"
        key = f"key-{next(self.minutes)}" if self.chance.random() < 0.5 else None
        return Request(effect, role, user, method, path, json.dumps(body).encode(), key)


def writers(sessions: int, chance: Random, acknowledged: Semaphore) -> list[Writer]:
    """Two for each session, so that they compete for its counters."""
    minutes = count(1)
    return [
        Writer(1 + at % sessions, minutes, acknowledged, Random(chance.random()))
        for at in range(2 * sessions)
    ]


def send(connection: HTTPConnection, request: Request) -> tuple[bytes, bool]:
    """Returns the success response, and whether it was replayed."""
    status, answer, is_again = tried(connection, request)
    if status == 503:
        raise Unavailable(answer)
    assert status == 200, (status, answer)
    return answer, is_again


def tried_patiently(connection: HTTPConnection, request: Request) -> tuple[int, bytes, bool]:
    while (found := tried(connection, request))[0] == 503:
        time.sleep(RETRY_SECONDS)
    return found


def tried(connection: HTTPConnection, request: Request) -> tuple[int, bytes, bool]:
    headers = {"content-type": "application/json", **signed_in(request.role, request.user)}
    if request.key is not None:
        headers["idempotency-key"] = request.key
    connection.request(request.method, request.path, request.body, headers)
    response = connection.getresponse()
    answer = response.read()
    if response.status == 503:
        assert response.getheader("retry-after") == str(RETRY_SECONDS)
    return response.status, answer, response.getheader("idempotency-replayed") == "true"


TOKENS: dict[tuple[str, str], str] = {}


def signed_in(role: str, user: str) -> dict[str, str]:
    """Uses one token for the whole run: making one takes longer than a request."""
    if (role, user) not in TOKENS:
        until = datetime.now(UTC) + timedelta(days=1)
        TOKENS[role, user] = keys.token(role, user, exp=until)
    return {"authorization": f"bearer {TOKENS[role, user]}"}


def result_of(answer: bytes) -> Any:
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
