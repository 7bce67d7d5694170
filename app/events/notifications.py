"""Wakes those of a process who wait for events.

It only says when to look: everybody looks for themselves, from a place of their own. So nothing piles up for
those who are slow, and a word that is lost loses no event.
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

PAUSE_SECONDS = 5  # until what could not be followed is tried again
MOST_LISTENING = 100  # subscriptions of one viewer, in one process


class Feed:
    """Nothing is done while nobody waits."""

    def __init__(self, follow: EventFeed) -> None:
        self.follow = follow
        self.bells: dict[Viewer, set[asyncio.Event]] = {}
        self.following: asyncio.Task[None] | None = None
        self.is_stopping = False

    @contextmanager
    def bell(self, viewer: Viewer) -> Iterator[asyncio.Event]:
        """Rings when there may be something new for the viewer, and when the process is told to stop."""
        if len(self.bells.get(viewer, ())) >= MOST_LISTENING:
            counters.limits["subscriptions of a viewer"] += 1
            raise TooManyListening(MOST_LISTENING)
        bell = asyncio.Event()
        self.bells.setdefault(viewer, set()).add(bell)
        if self.following is None:
            own = contextvars.Context()  # it follows for all, not in the course of this request
            self.following = asyncio.create_task(self.keep_following(), context=own)
        try:
            yield bell
        finally:
            self.bells[viewer].discard(bell)
            if not self.bells[viewer]:
                del self.bells[viewer]
            if not self.bells and self.following is not None:
                self.following.cancel()
                self.following = None

    async def keep_following(self) -> None:
        while True:
            await keep_running("the event feed", partial(self.follow, self.ring), PAUSE_SECONDS)
            await asyncio.sleep(PAUSE_SECONDS)

    def ring(self, parties: Parties) -> None:
        if parties is None:
            concerned = set(self.bells)
        else:
            concerned = set()
            for caregiver_id, client_id in parties:
                concerned |= {Viewer(Role.CAREGIVER, caregiver_id), Viewer(Role.CLIENT, client_id)}
        for viewer in concerned:
            for bell in self.bells.get(viewer, ()):
                bell.set()

    def stop(self) -> None:
        """Everybody who waits is woken, and finds that there is nothing to wait for any more."""
        self.is_stopping = True
        self.ring(None)

    async def close(self) -> None:
        following, self.following = self.following, None
        if following is not None:
            following.cancel()
            with suppress(asyncio.CancelledError):
                await following
