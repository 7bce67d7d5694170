"""Sends the same calls to two services concurrently and compares their responses."""

import threading
from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from enum import StrEnum

from app.legacy_migration.body_diff import NOTHING, Difference, Likeness, compare_bodies
from app.legacy_migration.http_client import Address, Answer, Line, NoAnswer
from app.legacy_migration.masks import Masks
from app.legacy_migration.recorded_calls import Call
from app.legacy_migration.tokens import Person, TokensRefused, choose

HEADERS = (
    "content-type",
    "content-encoding",
    "www-authenticate",
    "allow",
    "location",
)  # that matter to clients
WAITING = 4  # calls that lie ready per thread, so that a long file is not read ahead


class Outcome(StrEnum):
    SAME = "SAME"
    DIFFERENT = "DIFFERENT"
    FAILED = "FAILED"  # one of the two did not answer
    LEFT_OUT = "LEFT_OUT"  # a change, and changes were not asked for


@dataclass(frozen=True)
class Side:
    """One of the two services: where it is, and whose tokens it takes."""

    name: str
    address: Address
    people: list[Person]


@dataclass(frozen=True)
class Compared:
    call: Call
    outcome: Outcome
    reason: str = ""  # of a failure
    statuses: tuple[int, int] = (0, 0)
    headers: list[Difference] = field(default_factory=list)
    body: Likeness = Likeness.SAME
    members: list[Difference] = field(default_factory=list)


@dataclass(frozen=True)
class Comparison:
    old: Side | None  # without one, the answers of the file are the old ones
    new: Side
    masks: Masks
    headers: tuple[str, ...] = HEADERS
    with_changes: bool = False
    is_loose: bool = False  # whether writing and order may differ
    seconds: float = 30
    at_once: int = 4

    def run(self, calls: Iterable[Call]) -> Iterator[Compared]:
        """In the order of the calls. What changes something depends on that order, so it goes one by one."""
        lines = Lines(self.seconds)
        at_once = 1 if self.with_changes else self.at_once
        pool = ThreadPoolExecutor(at_once)
        waiting: deque[Future[Compared]] = deque()
        try:
            for call in calls:
                waiting.append(pool.submit(self.compare, call, lines))
                if len(waiting) > at_once * WAITING:
                    yield waiting.popleft().result()
            while waiting:
                yield waiting.popleft().result()
        finally:
            pool.shutdown(cancel_futures=True)
            lines.close()

    def compare(self, call: Call, lines: "Lines") -> Compared:
        if not call.is_harmless and not self.with_changes:
            return Compared(call, Outcome.LEFT_OUT)
        try:
            old = recorded(call) if self.old is None else lines.ask(self.old, call)
            new = lines.ask(self.new, call)
            if new.status == 401 and old.status < 400:
                raise NoAnswer("the new service does not let this caller in (401)")
        except NoAnswer as fault:
            return Compared(call, Outcome.FAILED, str(fault))
        headers = [] if self.old is None else self.compare_headers(old.headers, new.headers)
        body, members = compare_bodies(old.body, new.body, self.masks)
        is_like = body is Likeness.SAME or (self.is_loose and body in (Likeness.WRITING, Likeness.ORDER))
        is_same = old.status == new.status and not headers and is_like
        outcome = Outcome.SAME if is_same else Outcome.DIFFERENT
        return Compared(call, outcome, "", (old.status, new.status), headers, body, members)

    def compare_headers(self, old: Mapping[str, str], new: Mapping[str, str]) -> list[Difference]:
        return [
            Difference(name, old.get(name, NOTHING), new.get(name, NOTHING))
            for name in self.headers
            if (name in old or name in new)
            and not self.masks.hides_header(name)
            and old.get(name) != new.get(name)
        ]


def recorded(call: Call) -> Answer:
    answer = call.answered()
    if answer is None:
        raise NoAnswer("the file does not say what was answered")
    return Answer(call.status, {}, answer)


class Lines:
    """The connections: each thread has one to each service."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self.mine = threading.local()
        self.all: list[Line] = []

    def ask(self, side: Side, call: Call) -> Answer:
        try:
            token = token_for(side, call)
            line = self.line(side)
            ask = line.ask_patiently if call.is_harmless else line.ask
            return ask(call.method, call.path, token, call.headers, call.body)
        except NoAnswer as fault:
            raise NoAnswer(f"the {side.name} service: {fault}") from None

    def line(self, side: Side) -> Line:
        kept: dict[str, Line] = self.mine.__dict__
        if side.name not in kept:
            kept[side.name] = Line(side.address, self.seconds)
            self.all.append(kept[side.name])
        return kept[side.name]

    def close(self) -> None:
        for line in self.all:
            line.close()


def token_for(side: Side, call: Call) -> str | None:
    if call.role is None:
        return None
    person = choose(side.people, call.role, call.user)
    if person is None:
        role = call.role.lower()
        raise TokensRefused(
            f"line {call.line}: there is no token of this {role} for the {side.name} service; "
            f"name a file that has it with --{role}s"
        )
    return person.token
