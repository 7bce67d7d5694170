"""Usage report of the legacy paths: counts and a verdict on whether each can be switched off."""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum

from app.db.statements.usage import ANONYMOUS, Counted, StoredUsage, day_of
from app.http.paths import PATHS
from app.telemetry.wording import counted

MAX_NAMED = 3  # of the applications in a verdict


class State(StrEnum):
    UNUSED = "UNUSED"
    USED = "USED"
    NOT_KNOWN = "NOT_KNOWN"  # no calls, but counted for too short a time


@dataclass(frozen=True)
class Line:
    """Calls of one application on one path in one role."""

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
class PathReport:
    path: str
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
    counted_days: int  # days in the period with counts
    missed_days: int  # ended days in the period without counts
    paths: list[PathReport]

    @property
    def state(self) -> State:
        """The worst state of all paths."""
        states = {path.state for path in self.paths}
        return next(each for each in (State.USED, State.NOT_KNOWN, State.UNUSED) if each in states)


def first_day_of(now: datetime, days: int) -> str:
    """First day of the period of `days` days that ends today."""
    return day_of(now - timedelta(days=days - 1))


def report_of(known: StoredUsage, now: datetime, days: int) -> Report:
    first_day, day_before = first_day_of(now, days), first_day_of(now, 2 * days)
    since = known.days[0][1] if known.days else None
    on = [day for day, _ in known.days if day >= first_day]
    missed = days - 1 - len(set(on) - {day_of(now)})  # today has not ended
    # The day on which counting began was counted only in part.
    has_all = since is not None and day_of(since) < first_day and missed == 0
    has_before = since is not None and day_of(since) < day_before
    report = Report(now, days, first_day, since, len(on), missed, paths=[])

    def of_path(path: str) -> PathReport:
        mine = [one for one in known.usage if one.path == path]
        recent = [one for one in mine if one.day >= first_day]
        earlier = [one for one in mine if one.day < first_day]
        lines = sorted(lines_of(recent, earlier, has_before), key=lambda line: -line.requests)
        uses = [
            moment for (used, role), moment in known.last_uses.items() if used == path and role != ANONYMOUS
        ]
        last_use = max(uses, default=None)
        rejected = sum(one.requests for one in recent if one.role == ANONYMOUS)
        state = State.USED if lines else State.UNUSED if has_all else State.NOT_KNOWN
        verdict = verdict_of(state, lines, last_use, report)
        if rejected:
            verdict += f" ({rejected:,} refused, without a valid token or an account)"
        return PathReport(path, state, verdict, last_use, lines, rejected)

    report.paths.extend(map(of_path, PATHS))
    return report


def lines_of(recent: list[Counted], earlier: list[Counted], has_before: bool) -> Iterator[Line]:
    for role, application in sorted({(one.role, one.application) for one in recent if one.role != ANONYMOUS}):
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
    if state is State.NOT_KNOWN:
        return f"not known: no calls, but on {report.missed_days} of these days the service did not run"
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
