"""Admission control: how many requests a process accepts at once, and whether it is shutting down."""

import asyncio
from collections import deque
from time import perf_counter
from typing import Any

from app.server.incomplete import IncompleteRequests
from app.settings import Settings

MAX_HEADS, MAX_BODIES = 8 * 1024 * 1024, 32 * 1024 * 1024  # bytes of incomplete requests
MAX_WAIT = 0.25  # seconds that an accepted request may wait for the event loop
SMOOTHING = 0.05  # weight of the newest request in the moving average


class AdmissionControl:
    """One per process. A stream is counted only until it is accepted, because it may never end."""

    def __init__(self, settings: Settings) -> None:
        self.most_requests = settings.most_requests
        self.legacy_body_limit = settings.legacy_body_limit
        self.graphql_body_limit = settings.graphql_body_limit
        self.running: set[asyncio.Task[None]] = set()  # received requests whose response is not complete
        self.queued = 0  # requests that the event loop has not started yet
        self.seconds_each = 0.0  # average time between the starts of two queued requests
        self.last_start = 0.0
        # Whether a request waited at the last start. The time to the next start is then that of one request.
        self.another_was_queued = False
        self.heads = IncompleteRequests(MAX_HEADS)
        self.bodies = IncompleteRequests(MAX_BODIES)
        self.pending_sockets: dict[Any, Any] = {}  # websockets that have not signed in, the oldest first
        self.read_queue: deque[Any] = deque()  # websockets whose next message may be read
        self.is_draining = False  # the process finishes its requests and then ends

    def start_draining(self) -> None:
        self.is_draining = True

    def is_full(self) -> bool:
        return len(self.running) >= self.most_requests or self.queued * self.seconds_each > MAX_WAIT

    def enqueue(self, task: asyncio.Task[None]) -> None:
        self.running.add(task)
        self.queued += 1

    def dequeue(self) -> None:
        """Called when the event loop starts a request."""
        now = perf_counter()
        if self.another_was_queued:
            each = min(now - self.last_start, MAX_WAIT)  # the process may have been paused
            self.seconds_each += (SMOOTHING if self.seconds_each else 1) * (each - self.seconds_each)
        self.queued -= 1
        self.another_was_queued = self.queued > 0
        self.last_start = now

    def admit_operation(self) -> bool:
        """Counts the current task, an operation at a websocket, as a request. False if there are too many."""
        task = asyncio.current_task()
        assert task is not None
        if self.is_full():
            return False
        self.running.add(task)
        task.add_done_callback(self.running.discard)
        return True

    def free_slot(self) -> None:
        """Called for the current request when its response becomes a stream."""
        task = asyncio.current_task()
        assert task is not None
        self.running.discard(task)
