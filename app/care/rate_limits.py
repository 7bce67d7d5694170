"""Rate limits, counted by each process: a viewer's points in a minute, a caregiver's identifiers in an hour.

All of them use the monotonic clock, so setting the wall clock changes no limit.
"""

import time
from collections import OrderedDict, deque
from collections.abc import Callable, Hashable
from math import ceil

from app.care.errors import RateLimited
from app.telemetry import counters

MINUTE = 60
HOUR = 3600
KIB = 1024
POINTS_PER_STORED_KIB = 32  # 9 MiB a minute with the default limit
MAX_VIEWERS = 10_000
MAX_CAREGIVERS = 10_000
Ticks = Callable[[], float]  # seconds of the monotonic clock


class Allowance:
    """The points that one viewer may still spend. It grows steadily up to the points of a minute. An
    operation that costs more than that waits until the allowance is full, and leaves a debt."""

    __slots__ = ("left", "moment", "points", "ticks", "wait")

    def __init__(self, points: int, ticks: Ticks) -> None:
        self.points = points
        self.ticks = ticks
        self.left = float(points)
        self.moment = ticks()
        self.wait = 0  # seconds until the last rejected operation would be accepted

    def grow(self) -> None:
        now = self.ticks()
        self.left = min(self.points, self.left + (now - self.moment) * self.points / MINUTE)
        self.moment = now

    def charge(self, cost: int) -> None:
        self.grow()
        needed = min(cost, self.points)
        if self.left < needed:
            self.wait = max(1, ceil((needed - self.left) * MINUTE / self.points))
            counters.limits["points a minute"] += 1
            raise RateLimited(self.wait)
        self.left -= cost

    def charge_bytes(self, length: int, points_per_kib: int = 1) -> None:
        """Charges full KiB of what is already done, which may leave a debt."""
        self.left -= length // KIB * points_per_kib

    def charge_stored(self, length: int) -> None:
        """Charges full KiB before they are stored. The request has paid for its operation, so half the
        points are enough; the rest may leave a debt."""
        cost = length // KIB * POINTS_PER_STORED_KIB
        needed = min(cost, self.points // 2)
        self.charge(needed)
        self.left -= cost - needed

    def seconds_until_full(self) -> int:
        return ceil((self.points - self.left) * MINUTE / self.points)


class Allowances:
    """The allowances of the latest viewers. A viewer that was dropped from memory starts with a full one."""

    def __init__(self, points: int, ticks: Ticks = time.monotonic) -> None:
        self.points = points
        self.ticks = ticks
        self.known: OrderedDict[Hashable, Allowance] = OrderedDict()

    def of(self, viewer: Hashable) -> Allowance:
        found = self.known.get(viewer)
        if found is None:
            found = self.known[viewer] = Allowance(self.points, self.ticks)
            if len(self.known) > MAX_VIEWERS:
                self.known.popitem(last=False)
        else:
            self.known.move_to_end(viewer)
        return found


class IdentifierLimiter:
    """Limits the client identifiers that a caregiver may try in an hour.

    `createSession` accepts the identifier of a client who is new to the caregiver, and its payload shows the
    client's name. Without a limit a caregiver could try thousands a minute and learn names. It counts unknown
    identifiers, and those of clients who are new to the caregiver.
    """

    def __init__(self, most: int, ticks: Ticks = time.monotonic) -> None:
        self.most = most
        self.ticks = ticks
        self.moments: OrderedDict[int, deque[float]] = OrderedDict()  # of the counted tries

    def count(self, caregiver: int) -> None:
        """Counts one try. Raises RateLimited over the limit, whether or not the identifier exists."""
        moments = self.moments.setdefault(caregiver, deque())
        self.moments.move_to_end(caregiver)
        if len(self.moments) > MAX_CAREGIVERS:
            self.moments.popitem(last=False)
        now = self.ticks()
        while moments and moments[0] <= now - HOUR:
            moments.popleft()
        if len(moments) >= self.most:
            counters.limits["client identifiers an hour"] += 1
            seconds = ceil(moments[0] + HOUR - now)
            raise RateLimited(seconds, "too many client identifiers were tried within an hour")
        moments.append(now)
