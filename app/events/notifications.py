"""Wakes the subscriptions of this process when new events may exist.

A notification has no content: each subscription reads the event log from its own position. So slow
subscriptions need no queue, and a lost notification loses no event.
"""

import asyncio
import contextvars
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import partial

from app.care.context import Role, Viewer
from app.care.errors import TooManyListening
from app.db.drivers.event_feed import EventFeed, Parties
from app.server.background import keep_running
from app.telemetry import counters

PAUSE_SECONDS = 5  # between two attempts to follow the event log
MAX_LISTENERS = 100  # subscriptions of one viewer, in one process


class Notifier:
    """Follows the event log while at least one subscription waits."""

    def __init__(self, follow: EventFeed) -> None:
        self.follow = follow
        self.wakeups: dict[Viewer, set[asyncio.Event]] = {}
        self.follower: asyncio.Task[None] | None = None
        self.is_stopping = False

    @contextmanager
    def listener(self, viewer: Viewer) -> Iterator[asyncio.Event]:
        """Yields an event that is set when the viewer may have new events, and when the process stops."""
        if len(self.wakeups.get(viewer, ())) >= MAX_LISTENERS:
            counters.limits["subscriptions of a viewer"] += 1
            raise TooManyListening(MAX_LISTENERS)
        wakeup = asyncio.Event()
        self.wakeups.setdefault(viewer, set()).add(wakeup)
        if self.follower is None:
            following = keep_running("the event feed", partial(self.follow, self.notify), PAUSE_SECONDS)
            own = contextvars.Context()  # without the request id: the task serves all subscriptions
            self.follower = asyncio.create_task(following, context=own)
        try:
            yield wakeup
        finally:
            self.wakeups[viewer].discard(wakeup)
            if not self.wakeups[viewer]:
                del self.wakeups[viewer]
            if not self.wakeups and self.follower is not None:
                self.follower.cancel()
                self.follower = None

    def notify(self, parties: Parties) -> None:
        if parties is None:
            viewers = set(self.wakeups)
        else:
            viewers = set()
            for caregiver_id, client_id in parties:
                viewers |= {Viewer(Role.CAREGIVER, caregiver_id), Viewer(Role.CLIENT, client_id)}
        for viewer in viewers:
            for wakeup in self.wakeups.get(viewer, ()):
                wakeup.set()

    def stop(self) -> None:
        """Wakes every subscription, which then ends."""
        self.is_stopping = True
        self.notify(None)

    async def close(self) -> None:
        follower, self.follower = self.follower, None
        if follower is not None:
            follower.cancel()
            with suppress(asyncio.CancelledError):
                await follower
