"""A moment is stored in UTC, whatever zone it has."""

from datetime import datetime, timedelta, timezone

from app.db.moments import known_moment, moment_as_text

NEW_YORK = timezone(timedelta(hours=-5))


def test_the_text_of_a_moment_is_in_utc() -> None:
    moment = datetime(2026, 11, 20, 23, 30, 0, 7, NEW_YORK)

    assert moment_as_text(moment) == "2026-11-21T04:30:00.000007Z"
    assert known_moment(moment_as_text(moment)) == moment
