"""Admission control: how much work a process accepts at once, and whether it is shutting down."""

import asyncio
from collections import deque
from time import perf_counter
from typing import Any

from app.settings import Settings

LONGEST_WAIT = 0.25  # seconds that an accepted request may wait for the event loop
WEIGHT = 0.05  # of the newest request in the average


class AdmissionControl:
    """One per process. A stream frees its slot once accepted; otherwise it would hold the slot for ever."""

    def __init__(self, settings: Settings) -> None:
        self.most = settings.most_requests
        self.legacy_body = settings.legacy_body_limit
        self.graphql_body = settings.graphql_body_limit
        self.running: set[asyncio.Task[None]] = set()  # requests that are complete and not answered
        self.queued = 0  # of these, requests that the event loop has not started
        self.seconds_each = 0.0  # average time between the starts of two queued requests
        self.started = 0.0  # when the last one started
        self.another_was_queued = False  # behind it, so that the next start shows its duration
        self.held = 0  # bytes of incomplete bodies
        self.pending_sockets: dict[Any, Any] = {}  # websockets that have not signed in, the oldest first
        self.sockets_in_line: deque[Any] = deque()  # websockets whose next message may be read
        self.is_leaving = False

    def leave(self) -> None:
        self.is_leaving = True

    def is_full(self) -> bool:
        return len(self.running) >= self.most or self.queued * self.seconds_each > LONGEST_WAIT

    def enqueue(self, task: asyncio.Task[None]) -> None:
        self.running.add(task)
        self.queued += 1

    def dequeue(self) -> None:
        """Called by a request when the event loop gets to it."""
        now = perf_counter()
        if self.another_was_queued:
            each = min(now - self.started, LONGEST_WAIT)  # a pause of the process is no request
            self.seconds_each += (WEIGHT if self.seconds_each else 1) * (each - self.seconds_each)
        self.queued -= 1
        self.another_was_queued = self.queued > 0
        self.started = now

    def admit_operation(self) -> bool:
        """Counts the current task, an operation at a websocket, as a request. False if there are too many."""
        task = asyncio.current_task()
        assert task is not None
        if self.is_full():
            return False
        self.running.add(task)
        task.add_done_callback(self.running.discard)
        return True

    def lasts(self) -> None:
        """Called by a request that is answered with a stream."""
        task = asyncio.current_task()
        assert task is not None
        self.running.discard(task)
