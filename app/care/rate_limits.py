"""The limit of the client identifiers that a caregiver tries in an hour, counted by each process.

It uses the monotonic clock, so setting the wall clock changes no limit.
"""

import time
from collections import OrderedDict, deque
from math import ceil

from app.care.budgets import Ticks
from app.care.errors import RateLimited
from app.telemetry import counters

HOUR = 3600
MAX_CAREGIVERS = 10_000


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
