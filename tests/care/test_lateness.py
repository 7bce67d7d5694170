"""Lateness of an assignment: on time, late or overdue, in whole seconds."""

from datetime import datetime, timedelta

import pytest

from app.care.assignments import Lateness, LatenessState, lateness
from tests.factories import DAY, HOUR, NOW

ON_TIME = Lateness(LatenessState.ON_TIME, 0)


@pytest.mark.parametrize(
    ("end", "submitted", "expected"),
    [
        pytest.param(None, None, ON_TIME, id="no end, pending"),
        pytest.param(None, NOW, ON_TIME, id="no end, submitted"),
        pytest.param(NOW + DAY, None, ON_TIME, id="pending before its end"),
        pytest.param(NOW, None, ON_TIME, id="pending at its end"),
        pytest.param(NOW - HOUR, None, Lateness(LatenessState.OVERDUE, 3600), id="pending after its end"),
        pytest.param(NOW, NOW - HOUR, ON_TIME, id="submitted before its end"),
        pytest.param(NOW - HOUR, NOW - HOUR, ON_TIME, id="submitted at its end"),
        pytest.param(NOW - 2 * DAY, NOW - DAY, Lateness(LatenessState.LATE, 86_400), id="submitted late"),
        pytest.param(NOW - DAY, NOW - 2 * DAY, ON_TIME, id="submitted on time, its end long past"),
        pytest.param(
            NOW - timedelta(milliseconds=1900),
            None,
            Lateness(LatenessState.OVERDUE, 1),
            id="parts of seconds",
        ),
        pytest.param(
            NOW - timedelta(seconds=2**31 - 2),
            None,
            Lateness(LatenessState.OVERDUE, 2**31 - 2),
            id="68 years",
        ),
        pytest.param(
            NOW - timedelta(seconds=2**31),
            NOW,
            Lateness(LatenessState.LATE, 2**31 - 1),
            id="longer than an Int of GraphQL",
        ),
    ],
)
def test_lateness(end: datetime | None, submitted: datetime | None, expected: Lateness) -> None:
    assert lateness(end, submitted, NOW) == expected
