"""Subscribers who resume after each lost connection, and what they received."""

import time
from base64 import b64decode
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field
from threading import Event
from typing import Any

import httpx2

from tests.live.people import Person, Unavailable, subscribe_by_event_stream

SUBSCRIPTION = """subscription($after: ID) {
    assignmentChanged(after: $after) { id session { legacyId } } }"""


@dataclass
class Subscriber:
    role: str
    number: int
    ports: list[int]
    markers: set[int]  # the sessions in which something is assigned last
    received: list[str] = field(default_factory=list)  # the global ids of events
    is_open: Event = field(default_factory=Event)
    connections: int = 0

    def run(self) -> None:
        while self.markers:
            try:
                self.receive()
            except (httpx2.TransportError, StopIteration, Unavailable):
                self.connections += 1
                time.sleep(0.05)  # before the next attempt

    def receive(self) -> None:
        port = self.ports[self.connections % len(self.ports)]
        person = Person(f"http://127.0.0.1:{port}", self.role, f"{self.role.lower()}-{self.number}")
        after = self.received[-1] if self.received else None
        with subscribe_by_event_stream(person, SUBSCRIPTION, after=after) as stream:
            self.is_open.set()
            while self.markers:
                event = stream.receive()
                self.received.append(event["id"])
                self.markers.discard(int(event["session"]["legacyId"]))


def wrong(subscriber: Subscriber, rows: Iterable[tuple[int, str, int]]) -> list[Any]:
    """What the subscriber has not received, or received in another order than that of its assignment. `rows`
    are the id, the kind and the assignment of each event that this person may see."""
    received = dict.fromkeys(int(b64decode(each).partition(b":")[2]) for each in subscriber.received)
    expected = {number: (kind, assignment) for number, kind, assignment in rows}
    missing = [("missing", number, kind) for number, (kind, _) in expected.items() if number not in received]
    foreign = [("unexpected", each) for each in received if each not in expected]
    last: dict[int, int] = defaultdict(int)
    late = []
    for number in received:  # each where it came first
        if number in expected:
            assignment = expected[number][1]
            late += [("after a later one", number)] if number < last[assignment] else []
            last[assignment] = max(last[assignment], number)
    return [*missing, *foreign, *late]
