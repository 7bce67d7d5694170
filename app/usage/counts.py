"""Counts calls of the legacy paths, and uses of deprecated parts of the GraphQL schema, per application: in
memory, and written to the database every few seconds.

The application is named by the token, or else by the product that the User-Agent begins with. Text from
unauthenticated requests is not stored. A minute of counting is recorded after its end, so that the one in
which a process is killed is missing.
"""

import asyncio
import logging
import re
from collections.abc import Callable, Collection
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import partial

from starlette.types import Scope

from app.care.context import Context
from app.db.drivers.interface import Database, DatabaseUnavailable, reason_of
from app.db.sql import Steps
from app.db.statements.usage import (
    ANONYMOUS,
    SERVED,
    TURNED_AWAY,
    Counted,
    adding_minutes,
    adding_usage,
    day_of,
    minutes_between,
    removing_old_usage,
)
from app.http.messages import header
from app.server.background import keep_running, repeat
from app.telemetry import counters

logger = logging.getLogger("care.legacy")

PAUSE_SECONDS = 4.0  # with the write, a killed process loses the calls of 5 s at most
MAX_GAP = timedelta(minutes=1)  # between two writes; a process that was suspended for longer did not count
END_SECONDS = 2.0  # for the last write at shutdown
MAX_APPLICATIONS = 100  # per process and day; more are counted as OTHER
KEPT_DAYS = timedelta(days=400)
OTHER, UNKNOWN = "other", "unknown"
# A product with a version (RFC 9110, section 10.1.5). Other words, and names of devices, often name a person.
AGENT = re.compile(r"([A-Za-z][A-Za-z0-9_-]{0,63})/[0-9]")
DEVICE = re.compile(r"iphone|ipad|ipod|mac(?:book|-?mini|-?pro)|galaxy|pixel|desktop|laptop", re.IGNORECASE)
OWN_TOOL = re.compile(r"care-gateway-(record)/")  # counts as itself, not as the application of its token


@dataclass(slots=True)
class Calls:
    """Unwritten calls of one application, in one role, on one path or with one deprecated part."""

    requests: int
    last: datetime


class Usage:
    """The counts of this process that are not yet written.

    They are written with the complete minutes in which calls were counted, and with the days on which the
    schema had each deprecated part: before it was deprecated, its use was not counted.
    """

    def __init__(self, db: Database, clock: Callable[[], datetime], deprecated: Collection[str] = ()) -> None:
        self.db = db
        self.clock = clock
        self.deprecated = deprecated
        self.calls: dict[tuple[str, str, str], Calls] = {}
        self.applications: set[str] = set()
        self.since = self.last = clock()  # of the unwritten minutes
        self.day = ""
        self.is_failing = False

    def note(self, path: str, ctx: Context, scope: Scope) -> None:
        if ctx.viewer is None:
            self.note_anonymous(path)
        else:
            agent = header(scope, b"user-agent") or ""
            tool = OWN_TOOL.match(agent)
            application = tool[1] if tool else product(ctx.application) or name_of(agent)
            self.add(path, ctx.viewer.role, application, ctx.now)

    def note_anonymous(self, path: str) -> None:
        """Counts a request without a valid token, without its User-Agent."""
        self.add(path, ANONYMOUS, UNKNOWN, self.clock())

    def note_turned_away(self, now: datetime) -> None:
        """Counts requests that were rejected before their tokens were verified."""
        for path, requests in list(counters.turned_away.items()):
            del counters.turned_away[path]
            self.add(path, TURNED_AWAY, UNKNOWN, now, requests)

    def add(self, path: str, role: str, application: str, now: datetime, requests: int = 1) -> None:
        calls = self.calls.get((path, role, application)) or self.begin(path, role, application, now)
        calls.requests += requests
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

    async def write(self) -> None:
        now = self.clock()
        self.since = self.since if timedelta(0) <= now - self.last <= MAX_GAP else now
        self.last = now
        self.note_turned_away(now)
        counted, minutes = self.take(), minutes_between(self.since, now)
        try:
            if counted or minutes:
                await self.db.write(self.writing(counted, minutes, now))
                counted = []
                if self.day != day_of(now):
                    self.day = day_of(now)
                    self.applications.clear()  # the limit counts per day
                self.since = now.replace(second=0, microsecond=0) if minutes else self.since
            self.is_failing = False
        except Exception as fault:
            if not self.is_failing:  # only the first of consecutive failures is logged
                self.log(fault)
            self.is_failing = True
        finally:
            self.take_back(counted)  # retried with the next write

    def log(self, fault: Exception) -> None:
        if isinstance(fault, DatabaseUnavailable):
            logger.warning("calls of the legacy paths cannot be written now: %s", reason_of(fault))
        else:
            logger.error("calls of the legacy paths cannot be written", exc_info=fault)

    def writing(self, counted: list[Counted], minutes: dict[str, int], now: datetime) -> Steps[None]:
        yield from adding_usage(counted)
        yield from adding_minutes(minutes)
        if self.day != day_of(now):
            day = day_of(now)
            yield from adding_usage(Counted(day, part, SERVED, "", 0, now) for part in self.deprecated)
            yield from removing_old_usage(day_of(now - KEPT_DAYS))


def name_of(agent: str | None) -> str:
    found = AGENT.match(agent or "")
    return (product(found[1]) if found else "") or UNKNOWN


def product(name: str) -> str:
    """Empty if the name is that of a device."""
    return "" if DEVICE.search(name) else name


def note_deprecated(ctx: Context, scope: Scope) -> None:
    for coordinate in ctx.deprecated:
        scope["state"]["usage"].note(coordinate, ctx, scope)


async def write_usage(usage: Usage, stop: asyncio.Event, pause: float = PAUSE_SECONDS) -> None:
    """Writes periodically until `stop`, and then a last time."""
    try:
        write_repeatedly = partial(repeat, usage.write, stop, pause)
        await keep_running("the count of legacy calls", write_repeatedly, pause, stop)
    finally:
        with suppress(TimeoutError):
            async with asyncio.timeout(END_SECONDS):
                await usage.write()
