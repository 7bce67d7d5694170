"""Admission control: which requests a process accepts, and whether it is shutting down."""

import asyncio
from collections import deque
from collections.abc import Callable, Mapping
from typing import Any, Protocol

from app.auth.authenticator import AcceptedToken
from app.care.budgets import Budget, Budgets
from app.server.turns import State, Turns
from app.settings import Settings

USUAL = (b"Bearer ", b"bearer ")
MAX_HEADS, MAX_BODIES = 8 * 1024 * 1024, 32 * 1024 * 1024  # bytes of incomplete requests
MAX_DEFERRED = 8 * 1024 * 1024  # bytes of deferred requests
REJECTING_UNSENT = 8 * 1024 * 1024  # unsent bytes of a viewer from which on requests are rejected
MAX_WAIT = 0.25  # seconds that an accepted request may wait for the event loop
MAX_STANDING_WAIT = 0.025  # the same while requests have been waiting for longer than MAX_WAIT
MAX_POLITE_WAIT = 1.0  # the same for a viewer with few waiting requests, and for an address
SMOOTHING = 0.05  # weight of the newest request in the moving average
# Counted for one request in the average. If it took longer, the process was probably paused.
MAX_SECONDS_EACH = 0.05


class Receiver(Protocol):
    def make_room(self) -> None:
        """Removes the connection here: rejects its incomplete request, or decides about its deferred one."""


class IncompleteRequests:
    """The bytes of incomplete heads, of incomplete bodies or of deferred requests of all connections.

    Beyond the limit the oldest are rejected. Rejecting the newest would let a stranger lock out everyone
    whose request needs two reads.
    """

    def __init__(self, most_bytes: int) -> None:
        self.most_bytes = most_bytes
        self.sizes: dict[Receiver, int] = {}  # the oldest first
        self.bytes = 0

    def set_size(self, connection: Receiver, size: int) -> None:
        self.bytes += size - self.sizes.get(connection, 0)
        self.sizes[connection] = size
        while self.bytes > self.most_bytes:
            next(iter(self.sizes)).make_room()

    def remove(self, connection: Receiver) -> None:
        self.bytes -= self.sizes.pop(connection, 0)


class AdmissionControl:
    """One per process. A stream is counted only until it is accepted, because it may never end."""

    def __init__(
        self,
        settings: Settings,
        budgets: Budgets | None = None,
        signed_in: Mapping[str, AcceptedToken] | None = None,
        describe: Callable[[State], str] | None = None,
    ) -> None:
        self.most_requests = settings.most_requests
        self.legacy_body_limit = settings.legacy_body_limit
        self.graphql_body_limit = settings.graphql_body_limit
        self.budgets = budgets or Budgets()
        self.signed_in = {} if signed_in is None else signed_in  # by token; it is filled later
        self.turns = Turns(describe) if describe else Turns()
        self.running: dict[Any, Budget] = {}  # tasks of received requests whose response is not complete
        self.queued = 0  # requests that the event loop has not started yet
        self.viewers_waiting = 0  # viewers, or addresses, of these requests
        self.seconds_each = 0.0  # average time between the starts of two queued requests
        self.last_start = self.turns.clock()
        self.last_idle = self.last_start  # the last start after which no request was queued
        # Whether a request waited at the last start. The time to the next start is then that of one request.
        self.another_was_queued = False
        self.heads = IncompleteRequests(MAX_HEADS)
        self.bodies = IncompleteRequests(MAX_BODIES)
        self.deferred = IncompleteRequests(MAX_DEFERRED)
        self.pending_sockets: dict[Any, Any] = {}  # websockets that have not signed in, the oldest first
        self.read_queue: deque[Any] = deque()  # websockets whose next message may be read
        self.is_draining = False  # the process finishes its requests and then ends

    def start_draining(self) -> None:
        self.is_draining = True

    def account_of(self, authorization: bytes | None) -> AcceptedToken | None:
        """Of a token that the process has verified."""
        if authorization is not None and authorization.startswith(USUAL):
            return self.signed_in.get(authorization[7:].decode("latin-1"))
        return None

    def may_reject(self) -> bool:
        """Whether requests of some viewers may have to be rejected."""
        return len(self.running) >= self.most_requests // 2 or self.waits_too_long()

    def waits_too_long(self) -> bool:
        seconds = self.queued * self.seconds_each
        if seconds <= MAX_STANDING_WAIT:
            return False
        return seconds > MAX_WAIT or self.last_start - self.last_idle > MAX_WAIT

    def rejects(self, budget: Budget) -> bool:
        """Whether to reject the next request of this viewer. A viewer has as many slots at most as are left
        free, so one viewer has half of them, and there is a slot for the next viewer. If requests wait too
        long, the process rejects viewers who have many waiting requests, and at least an equal share."""
        if budget.running >= self.most_requests - len(self.running):
            return True
        if budget.unsent > REJECTING_UNSENT and budget.slow_connections > 1:
            return True
        if not self.waits_too_long() or budget.waiting * self.viewers_waiting < self.queued:
            return False
        is_polite = self.queued * self.seconds_each <= MAX_POLITE_WAIT
        return budget.waiting >= (budget.most_polite if is_polite else 1)

    def enqueue(self, task: "asyncio.Task[None]", budget: Budget) -> None:
        self.running[task] = budget
        budget.running += 1
        self.queued += 1
        if not budget.waiting:
            self.viewers_waiting += 1
        budget.waiting += 1

    def dequeue(self, budget: Budget) -> None:
        """Called when the event loop starts a request."""
        now = self.turns.slice_start
        if self.another_was_queued:
            each = min(now - self.last_start, MAX_SECONDS_EACH)
            # From 0 on, so that one long pause rejects no request.
            self.seconds_each += SMOOTHING * (each - self.seconds_each)
        self.queued -= 1
        budget.waiting -= 1
        if not budget.waiting:
            self.viewers_waiting -= 1
        self.another_was_queued = self.queued > 0
        self.last_start = now
        if not self.queued:
            self.last_idle = now

    def admit_operation(self, budget: Budget) -> bool:
        """Counts the current task, an operation at a websocket, as a request. False if there are too many."""
        task = asyncio.current_task()
        assert task is not None
        if self.rejects(budget):
            return False
        self.running[task] = budget
        budget.running += 1
        task.add_done_callback(self.leave)
        return True

    def free_slot(self) -> None:
        """Called for the current request when its response becomes a stream."""
        task = asyncio.current_task()
        assert task is not None
        self.leave(task)

    def leave(self, task: "asyncio.Task[None]") -> None:
        """Called when the response is complete."""
        budget = self.running.pop(task, None)
        if budget is not None:
            budget.running -= 1
