"""Usage report of the legacy paths or of deprecated parts: counts and a verdict on whether each can go."""

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from enum import StrEnum

from app.db.statements.usage import ANONYMOUS, SERVED, Counted, StoredUsage, day_of, hour_of
from app.telemetry.wording import counted

MAX_NAMED = 3  # of the applications in a verdict
MAX_GAPS = 5  # the newest
MISSED_MINUTES = 60  # that a day may have and still counts: updates and restarts take minutes
DELAY = timedelta(minutes=2)  # after which a minute is recorded
MINUTE, DAY = timedelta(minutes=1), timedelta(days=1)


class State(StrEnum):
    UNUSED = "UNUSED"
    USED = "USED"
    NOT_KNOWN = "NOT_KNOWN"  # no calls, but counted for too short a time


@dataclass(frozen=True)
class Line:
    """Calls of one application in one role, on one path or with one deprecated part."""

    application: str
    role: str
    requests: int
    before: int | None  # in the preceding period; None if not fully counted
    last_use: datetime

    @property
    def trend(self) -> str:
        if self.before is None:
            return "-"
        return "new" if self.before == 0 else f"{self.requests / self.before - 1:+.0%}"


@dataclass(frozen=True)
class PartReport:
    """Of a path or a deprecated part."""

    name: str
    state: State
    verdict: str
    last_use: datetime | None  # by an authenticated caller, at any time
    lines: list[Line]  # the busiest first
    rejected: int  # requests without a valid token or an account


@dataclass(frozen=True)
class Report:
    moment: datetime
    days: int
    first_day: str
    since: datetime | None  # start of counting
    counted_days: int  # days in the period that were counted, except MISSED_MINUTES
    minutes: int  # in the period until now
    counted_minutes: int
    gaps: list[tuple[datetime, datetime]]
    parts: list[PartReport]

    @property
    def is_complete(self) -> bool:
        """The day on which counting began was counted only in part."""
        began_before = self.since is not None and day_of(self.since) < self.first_day
        return began_before and self.counted_days == self.days and self.counted_minutes > 0

    @property
    def state(self) -> State:
        """The worst state of all parts."""
        states = {part.state for part in self.parts}
        return next((each for each in (State.USED, State.NOT_KNOWN) if each in states), State.UNUSED)


def first_day_of(now: datetime, days: int) -> str:
    """First day of the period of `days` days that ends today."""
    return day_of(now - timedelta(days=days - 1))


def report_of(
    known: StoredUsage, now: datetime, days: int, names: Iterable[str], are_deprecated: bool = False
) -> Report:
    """`names` are legacy paths, or parts, which are counted only while they `are_deprecated`."""
    first_day, day_before = first_day_of(now, days), first_day_of(now, 2 * days)
    since, minutes = known.since, minutes_of(known, first_day, now)
    earlier_days = counted_days(minutes_of(known, day_before, start_of(first_day) + DELAY), days)
    has_before = since is not None and day_of(since) < day_before and earlier_days == days
    report = Report(
        now,
        days,
        first_day,
        since,
        counted_days(minutes, days),
        len(minutes),
        minutes.count("1"),
        gaps_in(minutes, first_day, since or now),
        parts=[],
    )

    def of_part(name: str) -> PartReport:
        mine = [one for one in known.usage if one.path == name]
        uses = [one for one in mine if one.role not in (ANONYMOUS, SERVED)]
        served = {one.day: one.last_date for one in mine if one.role == SERVED}
        own, compares = report, has_before
        if are_deprecated:
            own = report_while(served, report)
            compares = has_before and sum(day_before <= day < first_day for day in served) == days
        recent = [one for one in uses if one.day >= first_day]
        earlier = [one for one in uses if day_before <= one.day < first_day]
        lines = sorted(lines_of(recent, earlier, compares), key=lambda line: -line.requests)
        last_use = max((one.last_date for one in uses), default=None)
        rejected = sum(one.requests for one in mine if one.role == ANONYMOUS and one.day >= first_day)
        state = State.USED if lines else State.UNUSED if own.is_complete else State.NOT_KNOWN
        verdict = verdict_of(state, lines, last_use, own)
        if rejected:
            verdict += f" ({rejected:,} refused, without a valid token or an account)"
        return PartReport(name, state, verdict, last_use, lines, rejected)

    return replace(report, parts=[of_part(name) for name in names])


def report_while(served: Mapping[str, datetime], report: Report) -> Report:
    """The report about the time in which the schema had a deprecated part."""
    first = min(served.values(), default=None)
    since = max(first, report.since) if first and report.since else None
    served_days = sum(day >= report.first_day for day in served)
    return replace(report, since=since, counted_days=min(report.counted_days, served_days))


def start_of(day: str) -> datetime:
    return datetime.fromisoformat(day).replace(tzinfo=UTC)


def minutes_of(known: StoredUsage, first_day: str, now: datetime) -> str:
    """A character for each minute that can be recorded by now; 1 if calls were counted in it."""
    start, end = start_of(first_day), now - DELAY
    hours = (start + number * timedelta(hours=1) for number in range((end - start) // timedelta(hours=1) + 1))
    bits = "".join(f"{known.hours.get(hour_of(hour), 0):060b}"[::-1] for hour in hours)
    return bits[: max(0, (end - start) // MINUTE)]


def counted_days(minutes: str, days: int) -> int:
    length = DAY // MINUTE
    each = (minutes[number * length : (number + 1) * length] for number in range(days))
    return sum(day.count("0") <= MISSED_MINUTES for day in each)


def gaps_in(minutes: str, first_day: str, since: datetime) -> list[tuple[datetime, datetime]]:
    """The newest times without counting since it began."""
    start = start_of(first_day)
    found = (tuple(start + at * MINUTE for at in each.span()) for each in re.finditer("0+", minutes))
    return [(begin, end) for begin, end in found if end > since][-MAX_GAPS:]


def lines_of(recent: list[Counted], earlier: list[Counted], has_before: bool) -> Iterator[Line]:
    for role, application in sorted({(one.role, one.application) for one in recent}):
        mine = [one for one in recent if (one.role, one.application) == (role, application)]
        before = [one for one in earlier if (one.role, one.application) == (role, application)]
        yield Line(
            application,
            role,
            sum(one.requests for one in mine),
            sum(one.requests for one in before) if has_before else None,
            max(one.last_date for one in mine),
        )


def verdict_of(state: State, lines: list[Line], last_use: datetime | None, report: Report) -> str:
    if state is State.USED:
        applications = list(dict.fromkeys(line.application for line in lines))
        return f"still {counted(len(applications), 'application')}: {named(lines, applications)}"
    since, now = report.since, report.moment
    if since is None:
        return "not known: calls have not been counted yet"
    if state is State.NOT_KNOWN and day_of(since) >= report.first_day:
        so_far, again = counted(days_between(since, now), "day"), since + timedelta(days=report.days)
        return f"not known: no calls, but counted only for {so_far}; check again on {day_of(again)}"
    if state is State.NOT_KNOWN and not report.counted_minutes:  # the period is today, which has just begun
        return "not known: no calls were counted on these days yet"
    if state is State.NOT_KNOWN:
        missed = report.days - report.counted_days
        return f"not known: no calls, but on {missed} of these days calls were counted for less than 23 hours"
    if last_use is None:
        return f"no calls since counting began, {counted(days_between(since, now), 'day')} ago"
    return f"no calls for {counted(days_between(last_use, now), 'day')}"


def named(lines: list[Line], applications: list[str]) -> str:
    parts = [part_of(name, [line for line in lines if line.application == name]) for name in applications]
    more = len(parts) - MAX_NAMED
    return ", ".join(parts[:MAX_NAMED]) + (f" and {more} more" if more > 0 else "")


def part_of(application: str, lines: list[Line]) -> str:
    requests = sum(line.requests for line in lines)
    last = max(line.last_use for line in lines)
    return f"{application} ({counted(requests, 'request')}, last on {day_of(last)})"


def days_between(earlier: datetime, later: datetime) -> int:
    return (later.date() - earlier.date()).days
