"""How many client identifiers a caregiver may try in an hour, as one process counts them.

`createSession` takes the identifier of a client who is new to the caregiver, and its payload shows the
client's name. Without a limit a caregiver could try thousands a minute and learn names. Counted are
identifiers that name no client, and those of clients who are new to the caregiver.
"""

import time
from collections import OrderedDict, deque
from collections.abc import Callable
from math import ceil

from app.care.errors import RateLimited
from app.telemetry import counters

HOUR = 3600
MOST_CAREGIVERS = 10_000


class IdentifierTries:
    """By the monotonic clock: setting the wall clock allows no further tries."""

    def __init__(self, most: int, ticks: Callable[[], float] = time.monotonic) -> None:
        self.most = most
        self.ticks = ticks
        self.moments: OrderedDict[int, deque[float]] = OrderedDict()  # of the tries that were counted

    def count(self, caregiver: int) -> None:
        """Counts one try. Raises RateLimited over the limit, whether or not the identifier exists."""
        moments = self.moments.setdefault(caregiver, deque())
        self.moments.move_to_end(caregiver)
        if len(self.moments) > MOST_CAREGIVERS:
            self.moments.popitem(last=False)
        now = self.ticks()
        while moments and moments[0] <= now - HOUR:
            moments.popleft()
        if len(moments) >= self.most:
            counters.limits["client identifiers an hour"] += 1
            seconds = ceil(moments[0] + HOUR - now)
            raise RateLimited(seconds, "too many client identifiers were tried within an hour")
        moments.append(now)
