"""Progress of homework: counts, weeks and scores, computed from loaded assignments.

Moments are compared in the form that the database stores, since parsing thousands of them takes long.
"""

from bisect import bisect_left
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from functools import lru_cache
from typing import Any
from zoneinfo import ZoneInfo

from app.care.assignments import is_overdue, is_past
from app.care.sessions import time_state
from app.db.moments import moment_as_text
from app.db.reader.plans import Row
from app.db.tables import AssignmentStatus

MAX_WEEKS = 520  # ten years: one row with an old date must not make a huge response
WEEK = timedelta(weeks=1)

Stored = Any  # a datetime, or the text that SQLite stores; the same type in all rows of a read


@dataclass(frozen=True)
class Progress:
    """Progress of the assignments at `now`. Weeks are computed only when a query selects them."""

    assignments: Sequence[Row]
    now: Stored
    zone: ZoneInfo
    assignment_count: int
    completed_assignment_count: int
    pending_assignment_count: int
    overdue_assignment_count: int
    late_assignment_count: int


@dataclass(frozen=True, slots=True)
class CompletionPoint:
    week: date
    assigned: int
    completed: int


@dataclass(frozen=True, slots=True)
class ScorePoint:
    submit_date: Stored
    score: int
    attempt: int
    assignment: Row


def progress(assignments: Sequence[Row], now: Stored, time_zone: str) -> Progress:
    completed = sum(each.status == AssignmentStatus.COMPLETE for each in assignments)
    return Progress(
        assignments,
        now,
        ZoneInfo(time_zone),
        assignment_count=len(assignments),
        completed_assignment_count=completed,
        pending_assignment_count=len(assignments) - completed,
        overdue_assignment_count=sum(is_overdue_at(now, each) for each in assignments),
        late_assignment_count=sum(is_late(each) for each in assignments),
    )


def is_overdue_at(now: Stored, assignment: Row) -> bool:
    session = assignment.session
    state = time_state(session.is_closed, session.start_date, now)
    return is_overdue(assignment.status, assignment.end_date, now, state)


def is_late(assignment: Row) -> bool:
    return assignment.submit_date is not None and is_past(assignment.end_date, assignment.submit_date)


# --- weeks ----------------------------------------------------------------------------------------


def completion(of: Progress) -> list[CompletionPoint]:
    """Counts the assigned and completed assignments by the end of each week since the first assignment."""
    assigned = sorted(each.assign_date for each in of.assignments)
    completed = sorted(each.submit_date for each in of.assignments if each.submit_date is not None)
    if not assigned:
        return []
    first = week_of(assigned[0], of.zone)
    weeks = (week_of(of.now, of.zone) - first) // WEEK + 1
    newest = [first + n * WEEK for n in range(max(0, weeks - MAX_WEEKS), weeks)]
    ends = [end_of(week, of.zone, isinstance(of.now, str)) for week in newest]
    return [
        CompletionPoint(week, bisect_left(assigned, end), bisect_left(completed, end))
        for week, end in zip(newest, ends, strict=True)
    ]


def week_of(stored: Stored, zone: ZoneInfo) -> date:
    """The Monday of the week in this time zone."""
    moment = datetime.fromisoformat(stored) if isinstance(stored, str) else stored
    day: date = moment.astimezone(zone).date()
    return day - timedelta(days=day.weekday())


@lru_cache(maxsize=4 * MAX_WEEKS)
def end_of(week: date, zone: ZoneInfo, as_text: bool) -> Stored:
    """The local midnight at the end of the week. A clock change makes a week an hour longer or shorter."""
    moment = datetime.combine(week + WEEK, time(), zone).astimezone(UTC)
    return moment_as_text(moment) if as_text else moment


# --- scores ---------------------------------------------------------------------------------------


def score_history(assignments: Iterable[Row]) -> list[ScorePoint]:
    """Every scored attempt, oldest first."""
    scored = [
        (submission.submit_date, submission.id, assignment, submission)
        for assignment in assignments
        for submission in assignment.answer_sets
        if submission.score is not None
    ]
    return [
        ScorePoint(submit_date, submission.score, submission.attempt, assignment)
        for submit_date, _, assignment, submission in sorted(scored, key=lambda each: each[:2])
    ]
