"""Random callers of one or more processes, and the history of what they were told."""

import json
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from http.client import HTTPConnection, HTTPException
from itertools import count
from math import inf
from random import Random
from typing import Any

from app.care.context import CHANGED
from app.care.errors import KeyInUse
from app.db.drivers.postgres import UNCONFIRMED, UNKNOWN
from tests.crash.writers import PUT_PATH, signed_in
from tests.history.checker import ANYTHING, Act, Call
from tests.history.life import (
    CLIENT_FIELDS,
    DONE,
    FIELDS,
    OPTIONS,
    PARTIES,
    Change,
    Look,
    minutes_in,
    moment,
    read_assignment,
)
from tests.live.processes import PATIENCE

GONE = (OSError, HTTPException)
OUTCOME_UNKNOWN = (UNKNOWN, UNCONFIRMED, CHANGED)  # messages of the legacy paths
OFTEN = 0.2
NEWEST = 3  # assignments that callers prefer, so that they meet
BY_CAREGIVER = ("assign", "extend", "remind", "withdraw", "give", "reopen", "close", "look")
BY_CLIENT = ("save", "submit", "look")
HOW_OFTEN = {True: (30, 45, 25), False: (18, 10, 8, 4, 20, 18, 0.3, 12)}

MUTATIONS = {
    "assign": ("assignHomework", "AssignHomeworkInput", "assignments"),
    "extend": ("extendAssignment", "ExtendAssignmentInput", "assignment"),
    "remind": ("setReminders", "SetRemindersInput", "assignment"),
    "withdraw": ("withdrawAssignment", "WithdrawAssignmentInput", None),
    "give": ("giveFeedback", "GiveFeedbackInput", "assignment"),
    "reopen": ("reopenAssignment", "ReopenAssignmentInput", "assignment"),
    "close": ("closeSession", "CloseSessionInput", None),
    "save": ("saveAnswers", "SaveAnswersInput", "assignment"),
    "submit": ("submitAnswers", "SubmitAnswersInput", "assignment"),
}


@dataclass
class History:
    """Shared by all callers: what was called, and which ids the responses have named."""

    seed: int
    ports: list[int]
    lines: dict[int, list[list[Call]]] = field(default_factory=lambda: {each: [] for each in PARTIES})
    starts: Any = field(default_factory=lambda: count(1))
    keys: Any = field(default_factory=lambda: count(1))
    ids: dict[int, str] = field(default_factory=dict)  # of assignments, by their start
    unexpected: list[str] = field(default_factory=list)  # responses that no model explains
    answer_sets: dict[tuple[int, int], str] = field(default_factory=dict)  # by start and attempt

    def callers(self, each: int) -> "list[Caller]":
        chance = Random(self.seed)
        return [
            Caller(self, session, is_client, Random(chance.random()))
            for session in PARTIES
            for is_client in (False, True)
            for _ in range(each)
        ]

    def calls(self) -> int:
        return sum(len(line) for lines in self.lines.values() for line in lines)

    def lost(self) -> int:
        return sum(call.end == inf for lines in self.lines.values() for line in lines for call in line)


@dataclass
class Caller:
    history: History
    session: int
    is_client: bool
    chance: Random
    line: list[Call] = field(default_factory=list)
    known: dict[int, Any] = field(default_factory=dict)  # the assignments, as last seen
    connection: HTTPConnection | None = None

    def __post_init__(self) -> None:
        self.history.lines[self.session].append(self.line)
        role = "CLIENT" if self.is_client else "CAREGIVER"
        self.headers = {
            "content-type": "application/json",
            **signed_in(role, f"{role.lower()}-{PARTIES[self.session][self.is_client]}"),
        }

    def run(self, is_over: Callable[[], bool]) -> None:
        try:
            self.call(is_over)
        except AssertionError as unexpected:
            self.history.unexpected.append(str(unexpected))
        finally:
            self.close()

    def close(self) -> None:
        if self.connection is not None:
            self.connection.close()

    def call(self, is_over: Callable[[], bool]) -> None:
        verbs = BY_CLIENT if self.is_client else BY_CAREGIVER
        while not is_over():
            [verb] = self.chance.choices(verbs, HOW_OFTEN[self.is_client])
            if verb == "look":
                self.look()
            elif (arguments := self.arguments_of(verb)) is not None:
                key = f"key-{next(self.history.keys)}" if self.chance.random() < 0.5 else None
                self.change(Change(verb, self.session, key, arguments))

    def arguments_of(self, verb: str) -> tuple[Any, ...] | None:
        if verb == "close":
            return ()
        if verb == "assign":
            start = next(self.history.starts)
            return start, start + self.chance.randint(10, 30)
        numbers = sorted(self.known)[-NEWEST:]
        if not numbers:
            return None
        number = self.chance.choice(numbers)
        if verb == "extend":
            return number, self.known[number]["endDate"] + self.chance.choice((-1, 0, 1, 1))
        if verb == "remind":
            return number, tuple(sorted({number + self.chance.randint(0, 9) for _ in range(2)}))
        if verb == "save":
            return number, f"Draft {self.chance.randint(1, 3)}", self.revision_of(number)
        if verb == "submit":
            return number, self.chance.choice(OPTIONS), self.revision_of(number)
        if verb == "give":
            attempts = [attempt for of, attempt in list(self.history.answer_sets) if of == number]
            if not attempts:
                return None
            score = self.chance.choice((None, 7))
            return number, self.chance.choice(attempts), f"Text {self.chance.randint(1, 2)}", score
        return (number,)

    def revision_of(self, number: int) -> int:
        draft = self.known[number].get("draft")
        return draft[0] if draft else 0

    # --- calls ---

    def look(self) -> None:
        fields = CLIENT_FIELDS if self.is_client else FIELDS
        query = f"""{{ session(id: "{self.session}") {{ isClosed assignmentCount pendingAssignmentCount
            assignments(first: 100) {{ nodes {{ {fields} }} }} }} }}"""
        look = Look(self.session, self.is_client)
        begin = time.monotonic()
        body = self.send("POST", "/graphql", {"query": query})
        if body is None or "errors" in body:
            assert body is None or is_unavailable(body), body
            return
        session = body["data"]["session"]
        self.known = {self.note(each): read_assignment(each) for each in session["assignments"]["nodes"]}
        received = {**session, "assignments": dict(self.known)}
        self.record("look", begin, Act(look, received))

    def note(self, node: dict[str, Any]) -> int:
        """Keeps the ids of an assignment. Returns its start."""
        start = minutes_in(node["startDate"])
        self.history.ids[start] = node["legacyId"]
        for each in node["answerSets"]:
            self.history.answer_sets[start, each["attempt"]] = each["legacyId"]
        return start

    def change(self, change: Change) -> None:
        """With a key a change without a response is requested again, until it has one."""
        text = f"{change.verb}{change.arguments}" + (f" with {change.key}" if change.key else "")
        is_legacy = change.verb == "assign" and self.chance.random() < 0.4
        is_known = False
        while not is_known:
            begin = time.monotonic()
            body = self.request(change, is_legacy)
            if body is None or is_unknown(body):
                self.lose(text, begin, change)
            elif not is_unavailable(body):
                self.keep(text, begin, change, body)
                if change.key is not None and self.chance.random() < OFTEN:
                    self.repeat(text, change, is_legacy)
            is_known = change.key is None or not (body is None or is_unknown(body) or is_unavailable(body))

    def repeat(self, text: str, change: Change, is_legacy: bool) -> None:
        """As if the response had been lost."""
        begin = time.monotonic()
        body = self.request(change, is_legacy)
        if body is not None and not is_unknown(body) and not is_unavailable(body):
            self.keep(f"{text} again", begin, change, body)
        elif body is None or is_unknown(body):
            self.lose(f"{text} again", begin, change)

    def request(self, change: Change, is_legacy: bool) -> Any:
        if is_legacy:
            return self.send("PUT", PUT_PATH, legacy_body(change), change.key)
        name, type_name, member = MUTATIONS[change.verb]
        fields = f"{member} {{ {CLIENT_FIELDS if self.is_client else FIELDS} }}" if member else ""
        query = (
            f"mutation($input: {type_name}!) {{ {name}(input: $input) {{ {fields} userErrors {{ code }} }} }}"
        )
        given = {"query": query, "variables": {"input": self.input_of(change)}}
        return self.send("POST", "/graphql", given, change.key)

    def input_of(self, change: Change) -> dict[str, Any]:
        if change.verb == "close":
            return {"sessionId": str(self.session)}
        number, *others = change.arguments
        if change.verb == "assign":
            start, end = moment(number).isoformat(), moment(others[0]).isoformat()
            return {"sessionId": str(self.session), "bookIds": ["1"], "startDate": start, "endDate": end}
        if change.verb == "give":
            attempt, text, score = others
            return {"answerSetId": self.history.answer_sets[number, attempt], "text": text, "score": score}
        given: dict[str, Any] = {"assignmentId": self.history.ids[number]}
        if change.verb == "extend":
            given["endDate"] = moment(others[0]).isoformat()
        elif change.verb == "remind":
            given["remindDates"] = [moment(each).isoformat() for each in others[0]]
        elif change.verb in ("save", "submit"):
            given |= {"answers": [{"questionId": "1", "answer": others[0]}], "revision": others[1]}
        return given

    def keep(self, text: str, begin: float, change: Change, body: Any) -> None:
        """The response tells the outcome of the change, and mostly what a read after it returned."""
        if "data" not in body:  # of the legacy path
            status = body.pop("httpStatus")
            assert status in (200, 409), body
            return self.record(text, begin, Act(change, DONE if status == 200 else "NOT_RUNNING"))
        assert "errors" not in body, body
        [payload] = body["data"].values()
        if payload["userErrors"]:
            return self.record(text, begin, Act(change, payload["userErrors"][0]["code"]))
        acts = [Act(change, DONE)]
        member = MUTATIONS[change.verb][2]
        if member is not None and not body.get("isReplayed"):
            node = next(iter(payload[member]), None) if member == "assignments" else payload[member]
            look = Look(self.session, self.is_client, change.arguments[0])
            if node is not None:
                self.known[self.note(node)] = read_assignment(node)
            acts.append(Act(look, node and read_assignment(node)))
        self.record(text, begin, *acts)

    def record(self, text: str, begin: float, *acts: Act) -> None:
        self.line.append(Call(text, begin, time.monotonic(), acts))

    def lose(self, text: str, begin: float, change: Change) -> None:
        self.history.lines[self.session].append([Call(text, begin, inf, (Act(change, ANYTHING),))])

    # --- HTTP ---

    def send(self, method: str, path: str, body: Any, key: str | None = None) -> Any:
        """Returns the body of the response; None if it got lost. Waits for a process that accepts it."""
        headers = self.headers | ({"idempotency-key": key} if key else {})
        connection = self.connected()
        try:
            connection.request(method, path, json.dumps(body), headers)
            response = connection.getresponse()
            answer = json.loads(response.read())
        except GONE:
            connection.close()
            self.connection = None
            return None
        if path == PUT_PATH:
            answer["httpStatus"] = response.status
        if response.getheader("idempotency-replayed") == "true":
            answer["isReplayed"] = True
        return answer

    def connected(self) -> HTTPConnection:
        until = time.monotonic() + PATIENCE
        while self.connection is None:
            connection = HTTPConnection("127.0.0.1", self.chance.choice(self.history.ports), timeout=PATIENCE)
            try:
                connection.connect()
                self.connection = connection
            except GONE:
                assert time.monotonic() < until, "no process accepts connections"
                time.sleep(0.01)  # until a process is back
        return self.connection


def legacy_body(change: Change) -> dict[str, Any]:
    start, end = map(moment, change.arguments)
    times = {"startDate": start, "endDate": end}
    return {
        "sessionId": change.session,
        "bookIds": [1],
        "remindDates": [],
        **{name: each.strftime("%Y/%m/%d") for name, each in times.items()},
        **{name.replace("Date", "Time"): each.strftime("%H:%M") for name, each in times.items()},
    }


def codes_in(body: Any) -> set[str]:
    if "httpStatus" not in body:
        return {each["extensions"]["code"] for each in body.get("errors", ())}
    if body["httpStatus"] == 503:
        return {"OUTCOME_UNKNOWN" if body["message"] in OUTCOME_UNKNOWN else "OVERLOADED"}
    return {KeyInUse.code} if body["message"] == str(KeyInUse()) else set()


def is_unknown(body: Any) -> bool:
    return "OUTCOME_UNKNOWN" in codes_in(body)


def is_unavailable(body: Any) -> bool:
    """Nothing was changed."""
    return bool(codes_in(body) & {"OVERLOADED", KeyInUse.code})
