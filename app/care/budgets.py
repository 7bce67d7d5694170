"""What each viewer may take of a process: points in a minute, tries of client identifiers in an hour, and its
work and memory at this moment.

All of it is counted by each process, and by the monotonic clock, so setting the wall clock changes no limit.
"""

import time
from asyncio import Semaphore
from collections import deque
from collections.abc import Callable, Hashable
from ipaddress import IPv6Address
from math import ceil, inf

from app.caches import BoundedCache
from app.care.errors import RateLimited
from app.telemetry import counters

MINUTE = 60
HOUR = 3600
KIB = 1024
POINTS_PER_STORED_KIB = 32  # 9 MiB a minute with the default limit
MAX_VIEWERS = 10_000
MAX_CAREGIVERS = 10_000
MAX_ADDRESSES = 1_000
MAX_DELIVERIES = 2
MAX_UNSENT = 12 * 1024 * 1024  # bytes of responses that the connections of a viewer have not accepted yet
# The server accepts requests of a viewer, or of an address, with at most this many waiting requests until a
# new one would wait for MAX_POLITE_WAIT. A program may have 16 connections. Many people sign in from one
# address, that of a proxy or a clinic.
MOST_POLITE, MOST_OF_ADDRESS = 16, 64

Ticks = Callable[[], float]  # seconds of the monotonic clock


class Budget:
    """What one viewer takes. Requests without a valid token share one by address.

    The points grow steadily up to those of a minute; without points there is no rate limit. An operation that
    costs more than that waits until the budget is full, and leaves a debt. `server/admission.py` says what
    happens to a viewer who takes too much of the rest.
    """

    __slots__ = (
        "deliveries",
        "is_shared",
        "left",
        "moment",
        "most_polite",
        "points",
        "running",
        "seconds_owed",
        "slow_connections",
        "ticks",
        "turn",
        "unsent",
        "wait",
        "waiting",
    )

    def __init__(self, points: int = 0, ticks: Ticks = time.monotonic, is_shared: bool = False) -> None:
        self.points = points
        self.ticks = ticks
        self.left = float(points)
        self.moment = ticks()
        self.wait = 0  # seconds until the last rejected operation would be accepted
        self.is_shared = is_shared  # by the people of an address
        # The waiting requests with which a new one is accepted for longer.
        self.most_polite = MOST_OF_ADDRESS if is_shared else MOST_POLITE
        self.running = 0  # received requests whose response is not complete
        self.waiting = 0  # of these, requests that have not started
        self.seconds_owed = 0.0  # time on the event loop beyond the viewer's share, as of `turn`
        self.turn = 0
        self.deliveries = Semaphore(MAX_DELIVERIES)  # events of subscriptions that are loaded and sent
        self.slow_connections = 0
        self.unsent = 0  # bytes of responses that they have not accepted

    def charge(self, cost: int, needed: float = inf) -> None:
        """Charges points. Raises RateLimited if fewer than `needed` of them are left. What is already done
        needs none, and may leave a debt."""
        if not self.points:
            return
        now = self.ticks()
        self.left = min(self.points, self.left + (now - self.moment) * self.points / MINUTE)
        self.moment = now
        if needed and self.left < (needed := min(cost, needed, self.points)):
            self.wait = max(1, ceil((needed - self.left) * MINUTE / self.points))
            counters.limits["points a minute"] += 1
            raise RateLimited(self.wait)
        self.left -= cost

    def seconds_until_full(self) -> int:
        return ceil((self.points - self.left) * MINUTE / self.points)


class Unsent:
    """The bytes of responses that one connection has not accepted, which count for its viewer."""

    __slots__ = ("budget", "size")

    def __init__(self) -> None:
        self.budget: Budget | None = None
        self.size = 0

    def hold(self, budget: Budget, size: int, is_one: bool = True) -> bool:
        """False if the viewer's connections together have too many of them. The only response of a viewer may
        be longer: some that the service allows are."""
        self.release()
        self.budget, self.size = budget, size
        budget.unsent += size
        budget.slow_connections += 1
        if budget.unsent <= MAX_UNSENT or (is_one and budget.slow_connections == 1):
            return True
        counters.limits["unsent bytes of a viewer"] += 1
        return False

    def release(self) -> None:
        if self.budget is not None:
            self.budget.unsent -= self.size
            self.budget.slow_connections -= 1
            self.budget = None


class Budgets:
    """The budgets of the latest viewers and addresses. One that was dropped from memory starts anew."""

    def __init__(self, points: int = 0, ticks: Ticks = time.monotonic) -> None:
        self.points = points
        self.ticks = ticks
        self.viewers: BoundedCache[Budget] = BoundedCache(MAX_VIEWERS)
        self.addresses: BoundedCache[Budget] = BoundedCache(MAX_ADDRESSES)

    def of(self, viewer: Hashable) -> Budget:
        return self.viewers.get(viewer) or self.viewers.add(viewer, Budget(self.points, self.ticks))

    def of_address(self, address: str) -> Budget:
        """The budget of requests without a valid token. They cost no points."""
        network = network_of(address)
        return self.addresses.get(network) or self.addresses.add(network, Budget(is_shared=True))


def network_of(address: str) -> str:
    """The address, or the network of IPv6, in which one caller can have any number of addresses."""
    if ":" not in address:
        return address
    parsed = IPv6Address(address)
    return str(parsed.ipv4_mapped or parsed.packed[:8].hex())


# --- client identifiers ------------------------------------------------------------------------------


class IdentifierLimiter:
    """Limits the client identifiers that a caregiver may try in an hour.

    `createSession` accepts the identifier of a client who is new to the caregiver, and its payload shows the
    client's name. Without a limit a caregiver could try thousands a minute and learn names. It counts unknown
    identifiers, and those of clients who are new to the caregiver.
    """

    def __init__(self, most: int, ticks: Ticks = time.monotonic) -> None:
        self.most = most
        self.ticks = ticks
        self.moments: BoundedCache[deque[float]] = BoundedCache(MAX_CAREGIVERS)  # of the counted tries

    def count(self, caregiver: int) -> None:
        """Counts one try. Raises RateLimited over the limit, whether or not the identifier exists."""
        moments = self.moments.get(caregiver)
        if moments is None:
            moments = self.moments.add(caregiver, deque())
        now = self.ticks()
        while moments and moments[0] <= now - HOUR:
            moments.popleft()
        if len(moments) >= self.most:
            counters.limits["client identifiers an hour"] += 1
            seconds = ceil(moments[0] + HOUR - now)
            raise RateLimited(seconds, "too many client identifiers were tried within an hour")
        moments.append(now)
