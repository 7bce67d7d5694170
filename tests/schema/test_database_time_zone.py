"""The time zone and the date formats of a PostgreSQL server change no response."""

from typing import Any

import pytest

from app.main import create_app
from app.settings import Settings
from tests.callers import Gateway, opened
from tests.db import raw
from tests.factories import NOW, starting_with
from tests.rest_compat.legacy import ASSIGNMENTS, SESSIONS
from tests.schema.worlds import a_full_world

DOCUMENT = """{
  assignments(orderBy: NEWEST) {
    nodes {
      assignDate startDate endDate submitDate feedbackSubmitDate
      reminders { remindDate }
      session { createDate startDate closeDate }
      answerSets { submitDate }
    }
  }
}"""
OTHER_FORMATS = (
    "TimeZone = 'Australia/Lord_Howe'",  # half an hour of summer time
    "DateStyle = 'SQL, DMY'",
    "IntervalStyle = 'sql_standard'",
)


def responses(settings: Settings) -> list[Any]:
    with opened(create_app(settings, clock=lambda: NOW)) as client:
        gateway = Gateway(client, settings)
        callers = {ASSIGNMENTS: gateway.as_caregiver(1), SESSIONS: gateway.as_client(1)}
        lists = [
            caller.get(f"{path}?time-state={state}")
            for path, caller in callers.items()
            for state in ("RUNNING", "COMPLETED")
        ]
        assert [each.status_code for each in lists] == [200] * 4
        return [*(caller.data(DOCUMENT) for caller in callers.values()), *(each.json() for each in lists)]


@starting_with(a_full_world)
@pytest.mark.parametrize("kind", ["postgresql"], indirect=True)
def test_responses_do_not_depend_on_the_formats_of_the_server(settings: Settings) -> None:
    usual = responses(settings)
    [(name,)] = raw.run(settings.database, "SELECT current_database()")
    raw.run(settings.database, *(f'ALTER DATABASE "{name}" SET {each}' for each in OTHER_FORMATS))

    assert raw.run(settings.database, "SHOW TimeZone") == [("Australia/Lord_Howe",)]
    assert responses(settings) == usual
