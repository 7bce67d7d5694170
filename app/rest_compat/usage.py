"""Counts calls of the legacy paths per application: in memory, and written to the database every few seconds.

The application is named by the token, or else by the first word of the User-Agent. Text from unauthenticated
requests is not stored.
"""

import asyncio
import logging
import re
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from datetime import datetime, timedelta

from starlette.types import Scope

from app.care.context import Context
from app.db.drivers.interface import Database, DatabaseUnavailable, reason_of
from app.db.statements.usage import ANONYMOUS, Counted, adding_usage, beginning_day, day_of
from app.http.messages import header
from app.server.background import keep_running, wait_for

logger = logging.getLogger("care.legacy")

PAUSE_SECONDS = 5.0  # maximum loss when a process is killed
END_SECONDS = 2.0  # for the last write at shutdown
MAX_APPLICATIONS = 100  # per process and day; more are counted as OTHER
KEPT_DAYS = timedelta(days=400)
OTHER, UNKNOWN = "other", "unknown"
AGENT = re.compile(r"[A-Za-z0-9._-]{1,64}(?![^/ (;])")  # the first word, without its version


@dataclass(slots=True)
class Calls:
    """Unwritten calls of one application, in one role, on one path."""

    requests: int
    last: datetime


class Usage:
    """The counts of this process that are not yet written."""

    def __init__(self) -> None:
        self.calls: dict[tuple[str, str, str], Calls] = {}
        self.applications: set[str] = set()

    def note(self, path: str, ctx: Context, scope: Scope) -> None:
        if ctx.viewer is None:
            self.note_anonymous(path, ctx.now)
        else:
            self.add(path, ctx.viewer.role, ctx.application or name_of(header(scope, b"user-agent")), ctx.now)

    def note_anonymous(self, path: str, now: datetime) -> None:
        """Counts a request without a valid token, without its User-Agent."""
        self.add(path, ANONYMOUS, UNKNOWN, now)

    def add(self, path: str, role: str, application: str, now: datetime) -> None:
        calls = self.calls.get((path, role, application))
        if calls is None:
            calls = self.begin(path, role, application, now)
        calls.requests += 1
        calls.last = now

    def begin(self, path: str, role: str, application: str, now: datetime) -> Calls:
        if application not in self.applications:
            if len(self.applications) < MAX_APPLICATIONS:
                self.applications.add(application)
            else:
                application = OTHER
        return self.calls.setdefault((path, role, application), Calls(0, now))

    def take(self) -> list[Counted]:
        taken, self.calls = self.calls, {}
        return [
            Counted(day_of(calls.last), path, role, application, calls.requests, calls.last)
            for (path, role, application), calls in taken.items()
        ]

    def take_back(self, counted: list[Counted]) -> None:
        for each in counted:
            key = (each.path, each.role, each.application)
            calls = self.calls.setdefault(key, Calls(0, each.last_date))
            calls.requests += each.requests


def name_of(agent: str | None) -> str:
    word = AGENT.match(agent or "")
    return word[0] if word else UNKNOWN


class UsageWriter:
    """Writes the counts, and a record for every day on which calls were counted."""

    def __init__(self, db: Database, usage: Usage, clock: Callable[[], datetime]) -> None:
        self.db = db
        self.usage = usage
        self.clock = clock
        self.began = clock()
        self.day = ""
        self.is_failing = False

    async def write(self) -> None:
        counted = self.usage.take()
        try:
            if counted:
                await self.db.write(adding_usage(counted))
                counted = []
            await self.begin_day()
            self.is_failing = False
        except Exception as fault:
            if not self.is_failing:  # only the first of consecutive failures is logged
                self.log(fault)
            self.is_failing = True
        finally:
            self.usage.take_back(counted)  # retried with the next write

    def log(self, fault: Exception) -> None:
        if isinstance(fault, DatabaseUnavailable):
            logger.warning("calls of the legacy paths cannot be written now: %s", reason_of(fault))
        else:
            logger.error("calls of the legacy paths cannot be written", exc_info=fault)

    async def begin_day(self) -> None:
        now = self.clock()
        if self.day == day_of(now):
            return
        since = now if self.day else self.began
        await self.db.write(beginning_day(day_of(now), since, day_of(now - KEPT_DAYS)))
        self.day = day_of(now)
        self.usage.applications.clear()  # the limit counts per day


@asynccontextmanager
async def write_usage(
    db: Database, usage: Usage, clock: Callable[[], datetime], pause: float = PAUSE_SECONDS
) -> AsyncIterator[None]:
    """Writes periodically while the block runs, and a last time at its end."""
    stop = asyncio.Event()
    writer = UsageWriter(db, usage, clock)
    work = asyncio.create_task(write_until(writer, stop, pause))
    try:
        yield
    finally:
        stop.set()
        await work


async def write_until(writer: UsageWriter, stop: asyncio.Event, pause: float) -> None:
    async def write_repeatedly() -> None:
        while not stop.is_set():
            await wait_for(stop, pause)
            if not stop.is_set():
                await writer.write()

    try:
        await keep_running("the count of legacy calls", write_repeatedly, pause, stop)
    finally:
        if writer.usage.calls:
            with suppress(TimeoutError):
                async with asyncio.timeout(END_SECONDS):
                    await writer.write()
