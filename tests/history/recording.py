"""Records each call with its response, and the reminders that became due between the calls."""

import time
from collections import defaultdict
from dataclasses import dataclass, field
from datetime import UTC, datetime
from itertools import count
from math import inf
from typing import Any

from tests.history.checker import ANYTHING, Act, Call
from tests.history.life import PARTIES, Due, Name
from tests.history.requests import Ids

CLOCKS = datetime.now(UTC).timestamp() - time.monotonic()  # the difference
SLACK = 0.05  # seconds between the clocks, at most


@dataclass(frozen=True)
class Deadline:
    """A reminder that becomes due while the callers run, and the call that set it."""

    number: int
    moment: datetime
    call: Call

    def lines(self) -> list[list[Call]]:
        """What the dispatcher may do at any later moment."""
        due = self.moment.timestamp() - CLOCKS - SLACK
        acts = [(due, Due(self.number, self.moment, False))]
        if self.call.end > due:  # it may have arrived after the moment
            acts.append((self.call.begin, Due(self.number, self.moment, True)))
        text = f"reminder of {self.number} at {self.moment}"
        return [[Call(text, begin, inf, (Act(act, ANYTHING),))] for begin, act in acts]


@dataclass
class History:
    """Shared by all callers: what was called, and which ids the responses have named."""

    seed: int
    ports: list[int]
    lines: dict[Name, list[list[Call]]] = field(default_factory=lambda: defaultdict(list))
    starts: Any = field(default_factory=lambda: count(1))
    keys: Any = field(default_factory=lambda: count(1))
    names: Any = field(default_factory=lambda: count(1))  # of new sessions
    ids: Ids = field(default_factory=lambda: Ids({str(number): str(number) for number in PARTIES}))
    unexpected: list[str] = field(default_factory=list)  # responses that no model explains
    deadlines: dict[Name, list[Deadline]] = field(default_factory=lambda: defaultdict(list))

    def calls(self) -> int:
        return sum(len(line) for lines in list(self.lines.values()) for line in list(lines))

    def lost(self) -> int:
        return sum(call.end == inf for lines in self.lines.values() for line in lines for call in line)

    def lines_of(self, session: Name) -> list[list[Call]]:
        due = [line for each in self.deadlines[session] for line in each.lines()]
        return [line for line in [*self.lines[session], *due] if line]
