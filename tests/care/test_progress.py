"""Progress computed from assignments: weeks in the service zone, and scores.

Counts are cumulative, from the week of the first assignment to the current week. Scores are oldest first.
Moments may be datetimes or texts.
"""

from datetime import UTC, date, datetime, timedelta
from types import SimpleNamespace
from typing import Any

import pytest

from app.care.progress import MAX_WEEKS, CompletionPoint, ScorePoint, completion, progress, score_history
from app.db.moments import moment_as_text
from tests.factories import DAY, NOW

BERLIN, AUCKLAND = "Europe/Berlin", "Pacific/Auckland"
RUNNING = {"is_closed": False, "start_date": NOW - 400 * DAY}


def an_assignment(assigned: datetime, submitted: datetime | None = None, **changed: Any) -> Any:
    status = "PENDING" if submitted is None else "COMPLETE"
    session = SimpleNamespace(**RUNNING)
    found = {"status": status, "assign_date": assigned, "submit_date": submitted, "end_date": None}
    return SimpleNamespace(**found | {"session": session, "answer_sets": []} | changed)


def utc(*parts: int) -> datetime:
    return datetime(*parts, tzinfo=UTC)  # type: ignore[misc, arg-type]


def weeks(assignments: list[Any], now: datetime, zone: str) -> list[tuple[str, int, int]]:
    found = completion(progress(assignments, now, zone))
    return [(point.week.isoformat(), point.assigned, point.completed) for point in found]


def test_without_assignments_there_are_no_weeks() -> None:
    found = progress([], NOW, "UTC")

    assert completion(found) == []
    assert (found.assignment_count, found.completed_assignment_count, found.pending_assignment_count) == (
        0,
        0,
        0,
    )
    assert (found.overdue_assignment_count, found.late_assignment_count) == (0, 0)


def test_weeks_without_changes_repeat_the_counts() -> None:
    assignments = [
        an_assignment(utc(2026, 10, 28, 9), utc(2026, 11, 2, 9)),
        an_assignment(utc(2026, 11, 11, 9), utc(2026, 11, 20, 9)),
        an_assignment(utc(2026, 11, 12, 9)),
    ]

    in_any_order = [assignments, assignments[::-1], [*assignments[1:], assignments[0]]]

    assert [weeks(each, NOW, "UTC") for each in in_any_order] == [
        [
            ("2026-10-26", 1, 0),
            ("2026-11-02", 1, 1),
            ("2026-11-09", 3, 1),
            ("2026-11-16", 3, 2),
        ]
    ] * 3


@pytest.mark.parametrize(
    ("zone", "moment", "monday"),
    [
        pytest.param("UTC", utc(2026, 11, 15, 23, 59, 59), "2026-11-09", id="the last second of a week"),
        pytest.param("UTC", utc(2026, 11, 16), "2026-11-16", id="the first second of a week"),
        pytest.param(BERLIN, utc(2026, 11, 15, 23), "2026-11-16", id="Monday in Berlin, Sunday in UTC"),
        pytest.param(AUCKLAND, utc(2026, 11, 15, 11), "2026-11-16", id="Monday in Auckland"),
        pytest.param(
            "America/New_York", utc(2026, 11, 16, 4, 59), "2026-11-09", id="still Sunday in New York"
        ),
        # In Berlin clocks go forward on Sunday 29 March and back on Sunday 25 October 2026.
        pytest.param(BERLIN, utc(2026, 3, 22, 23), "2026-03-23", id="midnight in winter time"),
        pytest.param(BERLIN, utc(2026, 3, 29, 21, 59), "2026-03-23", id="the week that is an hour shorter"),
        pytest.param(BERLIN, utc(2026, 3, 29, 22), "2026-03-30", id="midnight in summer time"),
        pytest.param(
            BERLIN, utc(2026, 10, 18, 22), "2026-10-19", id="the week that is an hour longer begins"
        ),
        pytest.param(BERLIN, utc(2026, 10, 25, 22, 59), "2026-10-19", id="and ends"),
        pytest.param(BERLIN, utc(2026, 10, 25, 23), "2026-10-26", id="behind it"),
        pytest.param("UTC", utc(2026, 1, 1), "2025-12-29", id="a week begins in the year before"),
    ],
)
def test_weeks_begin_on_monday_in_the_time_zone(zone: str, moment: datetime, monday: str) -> None:
    assert weeks([an_assignment(moment, moment)], moment, zone) == [(monday, 1, 1)]


def test_weeks_continue_across_a_clock_change_and_a_new_year() -> None:
    """Every Monday occurs once, although one day has 25 hours and one has 23."""
    found = weeks([an_assignment(utc(2025, 10, 15, 9))], utc(2026, 4, 2), BERLIN)

    days = [date.fromisoformat(week) for week, _, _ in found]
    assert days == [date(2025, 10, 13) + n * timedelta(weeks=1) for n in range(25)]
    assert days[11:13] == [date(2025, 12, 29), date(2026, 1, 5)]


def test_a_submission_before_the_first_assignment_counts_from_the_first_week() -> None:
    """Homework is sometimes entered late, and old data can be inconsistent."""
    assignments = [an_assignment(utc(2026, 11, 10), utc(2026, 10, 1))]

    assert weeks(assignments, NOW, "UTC") == [("2026-11-09", 1, 1), ("2026-11-16", 1, 1)]


def test_future_assignments_have_no_week() -> None:
    assert weeks([an_assignment(NOW + 30 * DAY)], NOW, "UTC") == []


def test_a_long_history_is_limited_to_the_newest_weeks() -> None:
    assignments = [an_assignment(utc(1901, 1, 7), utc(1901, 1, 8)), an_assignment(utc(2026, 11, 17))]

    found = completion(progress(assignments, NOW, "UTC"))

    assert len(found) == MAX_WEEKS
    assert found[-2:] == [
        CompletionPoint(date(2026, 11, 9), assigned=1, completed=1),
        CompletionPoint(date(2026, 11, 16), assigned=2, completed=1),
    ]
    assert found[0] == CompletionPoint(date(2026, 11, 16) - timedelta(weeks=MAX_WEEKS - 1), 1, 1)


OVERDUE = {
    "pending behind its end": ({}, 1),
    "pending at its end": ({"end_date": NOW}, 0),
    "pending without an end": ({"end_date": None}, 0),
    "in a closed session": ({"session": SimpleNamespace(**RUNNING | {"is_closed": True})}, 0),
    "in a session to come": ({"session": SimpleNamespace(**RUNNING | {"start_date": NOW + DAY})}, 0),
    "submitted": ({"status": "COMPLETE", "submit_date": NOW - 2 * DAY}, 0),
}


@pytest.mark.parametrize(("changed", "overdue"), OVERDUE.values(), ids=OVERDUE.keys())
def test_only_pending_assignments_of_running_sessions_are_overdue(
    changed: dict[str, Any], overdue: int
) -> None:
    one = an_assignment(NOW - 9 * DAY, **{"end_date": NOW - DAY} | changed)

    assert progress([one], NOW, "UTC").overdue_assignment_count == overdue


def test_an_assignment_is_late_if_submitted_after_its_end() -> None:
    end = NOW - 5 * DAY
    submitted = [end - DAY, end, end + timedelta(seconds=1), end + DAY]
    assignments = [an_assignment(NOW - 9 * DAY, moment, end_date=end) for moment in submitted]

    assert progress(assignments, NOW, "UTC").late_assignment_count == 2


def test_moments_may_be_texts_as_sqlite_stores_them() -> None:
    end = NOW - 5 * DAY
    moments = [(NOW - 30 * DAY, None), (NOW - 20 * DAY, end + DAY), (NOW - 10 * DAY, end - DAY)]
    assignments = [an_assignment(a, s, end_date=end) for a, s in moments]
    session = SimpleNamespace(is_closed=False, start_date=moment_as_text(RUNNING["start_date"]))
    texts = [
        an_assignment(
            moment_as_text(assigned),  # type: ignore[arg-type]
            submitted and moment_as_text(submitted),  # type: ignore[arg-type]
            end_date=moment_as_text(end),
            session=session,
        )
        for assigned, submitted in moments
    ]

    as_moments, as_texts = progress(assignments, NOW, BERLIN), progress(texts, moment_as_text(NOW), BERLIN)

    assert completion(as_texts) == completion(as_moments)
    assert (as_texts.overdue_assignment_count, as_texts.late_assignment_count) == (1, 1)
    assert (as_moments.overdue_assignment_count, as_moments.late_assignment_count) == (1, 1)


def a_submission(number: int, submitted: datetime, score: int | None, attempt: int = 1) -> Any:
    return SimpleNamespace(id=number, submit_date=submitted, score=score, attempt=attempt)


def test_scores_of_all_attempts_are_listed_oldest_first() -> None:
    reopened = an_assignment(NOW, answer_sets=[a_submission(4, NOW, 9, 2), a_submission(1, NOW - 9 * DAY, 3)])
    unscored = an_assignment(NOW, answer_sets=[a_submission(2, NOW - 8 * DAY, None)])
    again = an_assignment(NOW, answer_sets=[a_submission(3, NOW - DAY, 0)])

    assert score_history([again, unscored, reopened]) == [
        ScorePoint(NOW - 9 * DAY, 3, 1, reopened),
        ScorePoint(NOW - DAY, 0, 1, again),
        ScorePoint(NOW, 9, 2, reopened),
    ]


def test_scores_of_the_same_moment_keep_the_order_of_submission() -> None:
    first, second = (an_assignment(NOW, answer_sets=[a_submission(n, NOW, n)]) for n in (1, 2))

    assert [point.score for point in score_history([second, first])] == [1, 2]
