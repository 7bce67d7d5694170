"""Counts who calls the legacy paths: in memory while they are asked, in the database every few seconds.

An application is the software that asks: its token names it, or else the first word of its User-Agent. What
people do with it is not counted, and text that strangers send is not kept.
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
from app.db.statements.usage import NOBODY, Counted, adding_usage, beginning_day, day_of
from app.http.messages import header
from app.server.background import keep_running, wait_for

logger = logging.getLogger("care.legacy")

PAUSE_SECONDS = 5.0  # what a process that is killed forgets at most
END_SECONDS = 2.0  # for what is left when the process is told to stop
MOST_APPLICATIONS = 100  # that a process tells apart on one day
KEPT_DAYS = timedelta(days=400)
OTHER, UNKNOWN = "other", "unknown"
AGENT = re.compile(r"[A-Za-z0-9._-]{1,64}(?![^/ (;])")  # the first word, without its version


@dataclass(slots=True)
class Calls:
    """Of one application, in one role, on one path, since they were last written."""

    requests: int
    last: datetime


class Usage:
    """What a process has counted and not yet written."""

    def __init__(self) -> None:
        self.calls: dict[tuple[str, str, str], Calls] = {}
        self.applications: set[str] = set()

    def note(self, path: str, ctx: Context, scope: Scope) -> None:
        if ctx.viewer is None:
            self.note_stranger(path, ctx.now)
        else:
            self.add(path, ctx.viewer.role, ctx.application or name_of(header(scope, b"user-agent")), ctx.now)

    def note_stranger(self, path: str, now: datetime) -> None:
        """Of whoever is not let in only that they asked: their words are a stranger's."""
        self.add(path, NOBODY, UNKNOWN, now)

    def add(self, path: str, role: str, application: str, now: datetime) -> None:
        calls = self.calls.get((path, role, application))
        if calls is None:
            calls = self.begin(path, role, application, now)
        calls.requests += 1
        calls.last = now

    def begin(self, path: str, role: str, application: str, now: datetime) -> Calls:
        if application not in self.applications:
            if len(self.applications) < MOST_APPLICATIONS:
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
        for one in counted:
            key = (one.path, one.role, one.application)
            calls = self.calls.setdefault(key, Calls(0, one.last_date))
            calls.requests += one.requests


def name_of(agent: str | None) -> str:
    word = AGENT.match(agent or "")
    return word[0] if word else UNKNOWN


class Keeper:
    """Writes what was counted, and that somebody looked on this day."""

    def __init__(self, db: Database, usage: Usage, clock: Callable[[], datetime]) -> None:
        self.db = db
        self.usage = usage
        self.clock = clock
        self.began = clock()
        self.day = ""
        self.is_failing = False

    async def keep(self) -> None:
        counted = self.usage.take()
        try:
            if counted:
                await self.db.write(adding_usage(counted))
                counted = []
            await self.begin_day()
            self.is_failing = False
        except Exception as fault:
            self.tell(fault)
        finally:
            self.usage.take_back(counted)  # for the next time, which may be luckier

    def tell(self, fault: Exception) -> None:
        """Once, however often it fails."""
        if self.is_failing:
            return
        self.is_failing = True
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
        self.usage.applications.clear()  # what was a crowd yesterday may be few today


@asynccontextmanager
async def keeping(
    db: Database, usage: Usage, clock: Callable[[], datetime], pause: float = PAUSE_SECONDS
) -> AsyncIterator[None]:
    """Writes beside what the block does, and what is left at its end."""
    stop = asyncio.Event()
    keeper = Keeper(db, usage, clock)
    work = asyncio.create_task(keep_on(keeper, stop, pause))
    try:
        yield
    finally:
        stop.set()
        await work


async def keep_on(keeper: Keeper, stop: asyncio.Event, pause: float) -> None:
    async def keep_repeatedly() -> None:
        while not stop.is_set():
            await wait_for(stop, pause)
            if not stop.is_set():
                await keeper.keep()

    try:
        await keep_running("the count of legacy calls", keep_repeatedly, pause, stop)
    finally:
        if keeper.usage.calls:
            with suppress(TimeoutError):
                async with asyncio.timeout(END_SECONDS):
                    await keeper.keep()
