"""What a process carries: how many requests at once, with how long bodies, and whether it is leaving."""

import asyncio

from app.settings import Settings


class Load:
    """One for each process. Who listens for long counts no more once it is let in: it would for ever."""

    def __init__(self, settings: Settings) -> None:
        self.most = settings.most_requests
        self.legacy_body = settings.legacy_body_limit
        self.graphql_body = settings.graphql_body_limit
        self.running: set[asyncio.Task[None]] = set()  # requests that have come in whole and are not answered
        self.held = 0  # bytes of bodies that are still coming in
        self.is_leaving = False

    def leave(self) -> None:
        self.is_leaving = True

    def lasts(self) -> None:
        """Said by a request that turns out to be answered by a stream."""
        task = asyncio.current_task()
        assert task is not None
        self.running.discard(task)
