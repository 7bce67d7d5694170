"""Random callers of one or more processes."""

import time
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from math import inf
from random import Random
from typing import Any

from tests.crash.writers import PUT_PATH, signed_in
from tests.history.checker import ANYTHING, Act, Call
from tests.history.life import (
    DONE,
    FAR,
    LATER,
    OPTIONS,
    PARTIES,
    Change,
    Name,
    minutes_in,
    moment,
    number_of,
)
from tests.history.looks import (
    CLIENT_FIELDS,
    COUNTED,
    FIELDS,
    LegacyAssignments,
    LegacySessions,
    Look,
    read_assignment,
    read_legacy_assignment,
)
from tests.history.recording import Deadline, History
from tests.history.requests import MUTATIONS, is_unavailable, is_unknown, legacy_body, mutation
from tests.history.sender import Sender

OFTEN = 0.2
NEWEST = 3  # assignments that callers prefer, so that they meet; of new sessions one less
HOW_OFTEN = {
    False: {
        "assign": 18,
        "extend": 10,
        "remind": 12,
        "withdraw": 4,
        "give": 20,
        "reopen": 18,
        "close": 3,
        "open": 4,
        "update": 12,
        "look": 10,
        "legacy": 10,
    },
    True: {"save": 30, "submit": 45, "look": 20, "legacy": 10},  # of clients
}
STATES = ("RUNNING", "RUNNING", "FUTURE", "COMPLETED")
LEGACY_SESSIONS = "/gateway/profile/client/session"
LEGACY_PAGE = 100
IN_FUTURE, AT_ONCE = FAR + 10_000, -1  # starts of sessions; the latter is that of those from the beginning
A_DAY = 1440


@dataclass
class Caller:
    """Of the parties of one session, who open others."""

    history: History
    session: int
    is_client: bool
    chance: Random
    lines: dict[Name, list[Call]] = field(default_factory=dict)
    known: dict[Name, dict[int, Any]] = field(default_factory=lambda: defaultdict(dict))  # as last seen

    def __post_init__(self) -> None:
        role = "CLIENT" if self.is_client else "CAREGIVER"
        user = f"{role.lower()}-{PARTIES[self.session][self.is_client]}"
        self.sender = Sender(signed_in(role, user), self.history.ports, self.chance)
        self.send = self.sender.send

    def run(self, is_over: Callable[[], bool]) -> None:
        try:
            self.call(is_over)
        except AssertionError as unexpected:
            self.history.unexpected.append(str(unexpected))
        finally:
            self.sender.close()

    def call(self, is_over: Callable[[], bool]) -> None:
        often = HOW_OFTEN[self.is_client]
        while not is_over():
            [verb] = self.chance.choices(list(often), list(often.values()))
            first, *opened = self.sessions()
            name = self.chance.choice([*[first] * NEWEST, *opened[-NEWEST + 1 :]])
            if verb == "look":
                self.look(name)
            elif verb == "legacy":
                self.look_by_legacy_path(name)
            elif (arguments := self.arguments_of(verb, name)) is not None:
                key = f"key-{next(self.history.keys)}" if self.chance.random() < 0.5 else None
                name = f"{self.session} new {next(self.history.names)}" if verb == "open" else name
                self.change(Change(verb, name, key, arguments))
                if verb == "close":  # while reminders that it has to skip are not due yet
                    self.look(name)

    def sessions(self) -> list[Name]:
        """The first session of its caregiver and client, and all that the caregiver has opened since."""
        first = str(self.session)
        return [name for name in list(self.history.ids.sessions) if name.split()[0] == first]

    def arguments_of(self, verb: str, name: Name) -> tuple[Any, ...] | None:
        if verb == "close":
            return () if name != str(self.session) or self.chance.random() < OFTEN else None
        if verb == "open":
            return self.arguments_to_open()
        if verb == "update":
            start = self.a_start(at_once=0.1) if self.chance.random() < 0.7 else None
            return f"{name} title {self.chance.randint(1, 3)}", start
        if verb == "assign":
            start = next(self.history.starts)
            end = self.chance.choice((start + self.chance.randint(10, 30), FAR))
            return start, end, self.reminders(start, end) if self.chance.random() < 0.4 else ()
        numbers = sorted(self.known[name])[-NEWEST:]
        return self.arguments_for(verb, name, self.chance.choice(numbers)) if numbers else None

    def arguments_to_open(self) -> tuple[Any, ...]:
        start = self.a_start(at_once=0.4)
        reminders = tuple(moment(start + each) for each in self.chance.sample(range(60), 2))
        return start, PARTIES[self.session], self.chance.choice((None, (), reminders, reminders))

    def a_start(self, at_once: float) -> int:
        """Mostly in the future, where reminders move with their session."""
        return AT_ONCE if self.chance.random() < at_once else IN_FUTURE + self.chance.randint(0, 9) * A_DAY

    def arguments_for(self, verb: str, name: Name, number: int) -> tuple[Any, ...] | None:
        one = self.known[name][number]
        revision = one["draft"][0] if one.get("draft") else 0
        if verb == "extend":
            return number, one["endDate"] + self.chance.choice((-1, 0, 1, 1))
        if verb == "remind":
            return number, self.reminders(one["startDate"], one["endDate"])
        if verb == "save":
            return number, f"Draft {self.chance.randint(1, 3)}", revision
        if verb == "submit":
            return number, self.chance.choice(OPTIONS), revision
        if verb == "give":
            attempts = self.history.ids.attempts(name, number)
            text, score = f"Text {self.chance.randint(1, 2)}", self.chance.choice((None, 7))
            return (number, self.chance.choice(attempts), text, score) if attempts else None
        return (number,)

    def reminders(self, start: int, end: int) -> tuple[datetime, ...]:
        """In the past, or if there is time soon or never; those of soon have moments of their own."""
        if end == FAR and self.chance.random() < 0.3:
            return (moment(FAR),)
        if end < FAR or self.chance.random() < OFTEN:
            return tuple(sorted({moment(start + self.chance.randint(0, 9)) for _ in range(2)}))
        return (datetime.now(UTC) + timedelta(seconds=self.chance.uniform(0.2, 2)),)

    # --- calls ---

    def look(self, name: Name) -> None:
        fields = CLIENT_FIELDS if self.is_client else FIELDS
        query = f"""{{ session(id: "{self.history.ids.sessions[name]}") {{ {COUNTED} startDate
            assignments(first: 100) {{ nodes {{ {fields} }} }} }} }}"""
        begin = time.monotonic()
        body = self.send("POST", "/graphql", {"query": query})
        if body is None or "errors" in body:
            assert body is None or is_unavailable(body), body
            return
        received = dict(body["data"]["session"])
        nodes = received.pop("assignments")["nodes"]
        self.known[name] = {self.note(name, each): read_assignment(each) for each in nodes}
        received |= {
            "startDate": minutes_in(received["startDate"]),
            "assignments": dict(self.known[name]),
            "newestFirst": list(self.known[name]),
        }
        self.record(name, "look", begin, Act(Look(name, self.is_client), received))

    def note(self, name: Name, node: dict[str, Any]) -> int:
        """Keeps the ids of an assignment. Returns its number."""
        start = datetime.fromisoformat(node["startDate"])
        number = number_of(int(node["book"]["legacyId"]), start)
        self.history.ids.note(name, number, node)
        return number

    def look_by_legacy_path(self, name: Name) -> None:
        """A list shows the caller's other sessions too, which are looked at by other calls."""
        state = self.chance.choice(STATES)
        known = self.history.ids.assignments
        numbers = [number for of, number in list(known) if of == name]
        path, number = PUT_PATH, None
        if self.is_client:
            path = LEGACY_SESSIONS
        elif numbers and self.chance.random() < 0.5:
            number = self.chance.choice(numbers)
            path = f"{PUT_PATH}/{known[name, number]}"
        begin = time.monotonic()
        body = self.send("GET", f"{path}?time-state={state}&size={LEGACY_PAGE}")
        if body is None or is_unavailable(body):
            return
        session, code = int(self.history.ids.sessions[name]), body.pop("httpStatus")
        look: Any
        if number is not None:
            assert code in (200, 404), body
            look = LegacyAssignments(name, None, number)
            received = read_legacy_assignment(body) if code == 200 else None
        elif body["totalPages"] > 1:
            return
        elif self.is_client:
            look = LegacySessions(name, state)
            found = [each for each in body["content"] if each["id"] == session]
            received = self.read_session(found[0]) if found else None
        else:
            look = LegacyAssignments(name, state)
            received = self.read_list([each for each in body["content"] if each["sessionId"] == session])
        if received is not ANYTHING:
            self.record(name, f"legacy look at {number or state}", begin, Act(look, received))

    def read_session(self, body: dict[str, Any]) -> Any:
        """ANYTHING if its newest assignment is not known yet."""
        newest = body["assignmentId"]
        number = None if newest is None else self.history.ids.numbers.get(str(newest), ANYTHING)
        if number is ANYTHING:
            return ANYTHING
        return {each: body[each] for each in COUNTED.split()} | {"newest": number}

    def read_list(self, bodies: list[dict[str, Any]]) -> Any:
        numbers = [self.history.ids.numbers.get(str(each["id"])) for each in bodies]
        if None in numbers:
            return ANYTHING
        return list(zip(numbers, map(read_legacy_assignment, bodies), strict=True))

    def change(self, change: Change) -> None:
        """With a key a change without a response is requested again, until it has one. All these requests
        count as one, which began with the first: the change is made once."""
        text = f"{change.verb}{change.arguments}" + (f" with {change.key}" if change.key else "")
        is_legacy = change.verb == "assign" and self.chance.random() < 0.4
        if is_legacy and any(each > LATER for each in change.arguments[2]):
            is_legacy = False  # its moments are minutes
        lost: list[float] = []  # when these requests began
        while True:
            begin = time.monotonic()
            body = self.request(change, is_legacy)
            if is_unknown(body):
                lost.append(begin)
            elif not is_unavailable(body):
                is_done = self.keep(text, [*lost, begin], change, body)
                lost = [] if is_done else lost
                if is_done and change.key is not None and self.chance.random() < OFTEN:
                    self.repeat(text, change, is_legacy)
                break
            if change.key is None:
                break
        for each in lost:
            self.lose(text, each, change)

    def repeat(self, text: str, change: Change, is_legacy: bool) -> None:
        """As if the response had been lost. Whatever happens to this request changes nothing."""
        begin = time.monotonic()
        body = self.request(change, is_legacy)
        if not is_unknown(body) and not is_unavailable(body):
            self.keep(f"{text} again", [begin], change, body)

    def request(self, change: Change, is_legacy: bool) -> Any:
        ids = self.history.ids
        if is_legacy:
            return self.send("PUT", PUT_PATH, legacy_body(change, ids), change.key)
        return self.send("POST", "/graphql", mutation(change, self.is_client, ids), change.key)

    def keep(self, text: str, begins: list[float], change: Change, body: Any) -> bool:
        """The response tells the outcome of the change, and mostly what a read after it returned. Returns
        whether the change was made."""
        acts = self.read(change, body)
        is_done = bool(acts[0].received == DONE)
        call = self.record(change.session, text, begins[0 if is_done else -1], *acts)
        if is_done:
            self.note_deadlines(change, call)
        return is_done

    def read(self, change: Change, body: Any) -> list[Act]:
        name = change.session
        if "data" not in body:  # of the legacy path
            code = body.pop("httpStatus", None)
            assert code in (200, 409), body
            return [Act(change, DONE if code == 200 else "NOT_RUNNING")]
        assert "errors" not in body, body
        [payload] = body["data"].values()
        if payload["userErrors"]:
            return [Act(change, payload["userErrors"][0]["code"])]
        acts = [Act(change, DONE)]
        member = MUTATIONS[change.verb][2]
        if change.verb == "open":
            assert len(payload["sessions"]) == 1, body
            self.history.ids.sessions[name] = payload["sessions"][0]["legacyId"]
        elif member is not None and not body.get("isReplayed"):
            node = next(iter(payload[member]), None) if member == "assignments" else payload[member]
            look = Look(name, self.is_client, change.arguments[0])
            if node is not None:
                self.known[name][self.note(name, node)] = read_assignment(node)
            acts.append(Act(look, node and read_assignment(node)))
        return acts

    def record(self, name: Name, text: str, begin: float, *acts: Act) -> Call:
        call = Call(text, begin, time.monotonic(), acts)
        if name not in self.lines:
            self.lines[name] = []
            self.history.lines[name].append(self.lines[name])
        self.lines[name].append(call)
        return call

    def lose(self, text: str, begin: float, change: Change) -> None:
        call = Call(text, begin, inf, (Act(change, ANYTHING),))
        self.history.lines[change.session].append([call])
        self.note_deadlines(change, call)

    def note_deadlines(self, change: Change, call: Call) -> None:
        moments = change.arguments[-1] if change.verb in ("assign", "remind") else ()
        self.history.deadlines[change.session] += [
            Deadline(change.arguments[0], each, call) for each in moments if LATER < each < moment(FAR)
        ]


def callers_of(history: History, each: int) -> list[Caller]:
    """`each` of both roles for each session that is there from the beginning."""
    chance = Random(history.seed)
    return [
        Caller(history, session, is_client, Random(chance.random()))
        for session in PARTIES
        for is_client in (False, True)
        for _ in range(each)
    ]
