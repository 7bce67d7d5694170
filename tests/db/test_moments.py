"""A moment is stored in UTC, whatever zone it has."""

from datetime import datetime, timedelta, timezone

import pytest

from app.db.moments import known_moment, moment_as_text, text_of_json

NEW_YORK = timezone(timedelta(hours=-5))


def test_the_text_of_a_moment_is_in_utc() -> None:
    moment = datetime(2026, 11, 20, 23, 30, 0, 7, NEW_YORK)

    assert moment_as_text(moment) == "2026-11-21T04:30:00.000007Z"
    assert known_moment(moment_as_text(moment)) == moment


@pytest.mark.parametrize("written", ["+00:00", "+11:00", "-03:30"])
@pytest.mark.parametrize("fraction", ["", ".5", ".050607", ".000001"])
def test_a_moment_that_postgresql_wrote_as_json_is_the_text_that_sqlite_stores(
    written: str, fraction: str
) -> None:
    value = f"2026-11-21T04:30:00{fraction}{written}"

    assert text_of_json(value) == moment_as_text(datetime.fromisoformat(value))
    assert text_of_json(None) is None
