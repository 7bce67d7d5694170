"""Subscribers who resume after each lost connection, and what they received."""

import time
from base64 import b64decode
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
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
    lasts: set[int]  # the sessions in which something is assigned last
    received: list[str]  # the global ids of events; it begins with one that is there
    connections: int = 0

    def run(self) -> None:
        while self.lasts:
            try:
                self.receive()
            except (httpx2.TransportError, StopIteration, Unavailable):
                self.connections += 1
                time.sleep(0.05)  # before the next attempt

    def receive(self) -> None:
        port = self.ports[self.connections % len(self.ports)]
        person = Person(f"http://127.0.0.1:{port}", self.role, f"{self.role.lower()}-{self.number}")
        with subscribe_by_event_stream(person, SUBSCRIPTION, after=self.received[-1]) as stream:
            while self.lasts:
                event = stream.receive()
                self.received.append(event["id"])
                self.lasts.discard(int(event["session"]["legacyId"]))


def wrong(subscriber: Subscriber, rows: Iterable[tuple[int, str, int]]) -> list[Any]:
    """What the subscriber has not received, or received in another order than that of its assignment. `rows`
    are the id, the kind and the assignment of each event that this person may see."""
    received = dict.fromkeys(int(b64decode(each).partition(b":")[2]) for each in subscriber.received)
    begin = next(iter(received))
    expected = {number: (kind, assignment) for number, kind, assignment in rows if number >= begin}
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
