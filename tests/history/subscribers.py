"""Subscribers who resume after each lost connection, and what they received."""

import time
from base64 import b64decode
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

import httpx2

from tests.live.people import Person, Unavailable, subscribe_by_event_stream

SUBSCRIPTION = """subscription($after: ID) {
    assignmentChanged(after: $after) { id session { legacyId } } }"""
NEAR = 20  # ids that callers take while a change is committed, at most
Visible = tuple[int, str, int, int]  # an event: id, kind, assignment and session


@dataclass
class Subscriber:
    role: str
    number: int
    ports: list[int]
    lasts: set[int]  # the sessions in which something is assigned last
    received: list[str]  # the global ids of events; it begins with one that is there
    connections: int = 0
    resumed: list[int] = field(default_factory=list)  # the ids after which it has resumed

    def run(self) -> None:
        while self.lasts:
            try:
                self.receive()
            except (httpx2.TransportError, StopIteration, Unavailable):
                self.connections += 1
                self.resumed.append(number_of(self.received[-1]))
                time.sleep(0.05)  # before the next attempt

    def receive(self) -> None:
        port = self.ports[self.connections % len(self.ports)]
        person = Person(f"http://127.0.0.1:{port}", self.role, f"{self.role.lower()}-{self.number}")
        with subscribe_by_event_stream(person, SUBSCRIPTION, after=self.received[-1]) as stream:
            while self.lasts:
                event = stream.receive()
                self.received.append(event["id"])
                self.lasts.discard(int(event["session"]["legacyId"]))


def number_of(event: str) -> int:
    return int(b64decode(event).partition(b":")[2])


def wrong(subscriber: Subscriber, rows: Iterable[Visible], commits_in_order: bool) -> list[Any]:
    """What the subscriber has not received, or received in another order than that of its assignment."""
    received = dict.fromkeys(map(number_of, subscriber.received))
    begin = next(iter(received))
    expected = {number: (kind, assignment) for number, kind, assignment, _ in rows if number >= begin}
    sessions = {number: session for number, _, _, session in rows}
    missing = [
        ("missing", number, kind)
        for number, (kind, _) in expected.items()
        if number not in received
        and (commits_in_order or not is_overtaken(number, subscriber.resumed, sessions))
    ]
    foreign = [("unexpected", each) for each in received if each not in expected]
    last: dict[int, int] = defaultdict(int)
    late = []
    for number in received:  # each where it came first
        if number in expected:
            assignment = expected[number][1]
            late += [("after a later one", number)] if number < last[assignment] else []
            last[assignment] = max(last[assignment], number)
    return [*missing, *foreign, *late]


def is_overtaken(number: int, resumed: Iterable[int], sessions: dict[int, int]) -> bool:
    """Whether the subscriber resumed after an event of another session that has hardly a higher id: this one
    may have been committed later (docs/decisions/0017-subscriptions.md)."""
    return any(0 < after - number <= NEAR and sessions[after] != sessions[number] for after in resumed)
