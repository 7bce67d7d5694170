"""How much a viewer may ask for in a minute, in points of cost, as one process counts them.

The allowance grows steadily and is never more than that of a minute. An operation that costs more than a
whole minute's has to wait until the allowance is full, and leaves a debt.
"""

import time
from collections import OrderedDict
from collections.abc import Callable, Hashable
from math import ceil

from app.care.errors import RateLimited
from app.telemetry import counters

MINUTE = 60
MOST_VIEWERS = 10_000
Ticks = Callable[[], float]  # seconds of the monotonic clock: setting the wall clock changes no allowance


class Allowance:
    """Of one viewer."""

    __slots__ = ("left", "moment", "points", "ticks", "wait")

    def __init__(self, points: int, ticks: Ticks) -> None:
        self.points = points
        self.ticks = ticks
        self.left = float(points)
        self.moment = ticks()
        self.wait = 0  # seconds until what was refused last would be granted

    def grow(self) -> None:
        now = self.ticks()
        self.left = min(self.points, self.left + (now - self.moment) * self.points / MINUTE)
        self.moment = now

    def spend(self, cost: int) -> None:
        self.grow()
        needed = min(cost, self.points)
        if self.left < needed:
            self.wait = self.seconds_for(needed - self.left)
            counters.limits["points a minute"] += 1
            raise RateLimited(self.wait)
        self.left -= cost

    def seconds_for(self, points: float) -> int:
        return max(1, ceil(points * MINUTE / self.points))

    def seconds_until_full(self) -> int:
        return ceil((self.points - self.left) * MINUTE / self.points)


class Allowances:
    """Of the viewers that were here last: who was not for long has a full one again."""

    def __init__(self, points: int, ticks: Ticks = time.monotonic) -> None:
        self.points = points
        self.ticks = ticks
        self.known: OrderedDict[Hashable, Allowance] = OrderedDict()

    def of(self, viewer: Hashable) -> Allowance:
        found = self.known.get(viewer)
        if found is None:
            found = self.known[viewer] = Allowance(self.points, self.ticks)
            if len(self.known) > MOST_VIEWERS:
                self.known.popitem(last=False)
        else:
            self.known.move_to_end(viewer)
        return found
