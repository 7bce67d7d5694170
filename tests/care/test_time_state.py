"""The rule of the time state exists in Python and in SQL; both give the same result in every case."""

from datetime import datetime, timedelta

import pytest

from app.care.sessions import IN_TIME_STATE, time_state
from app.db.reader.reads import list_rows
from app.db.reader.selection import AccessScope, PageRequest, Selection, Where
from app.db.tables import Session, TimeState
from tests.callers import load, run_read
from tests.factories import DAY, NOW, a_caregiver, a_client, a_session

INSTANT = timedelta(microseconds=1)
IDS = Selection(frozenset({"id"}))

CASES = {
    "closed, started": (True, NOW - DAY, TimeState.COMPLETED),
    "closed, starts now": (True, NOW, TimeState.COMPLETED),
    "closed before its start": (True, NOW + DAY, TimeState.COMPLETED),
    "open, long started": (False, NOW - 400 * DAY, TimeState.RUNNING),
    "open, just started": (False, NOW - INSTANT, TimeState.RUNNING),
    "open, starts now": (False, NOW, TimeState.RUNNING),
    "open, starts at once": (False, NOW + INSTANT, TimeState.FUTURE),
    "open, starts some day": (False, NOW + 400 * DAY, TimeState.FUTURE),
}
cases = pytest.mark.parametrize(("is_closed", "start", "state"), CASES.values(), ids=CASES)


@cases
def test_the_time_state_in_python(is_closed: bool, start: datetime, state: TimeState) -> None:
    assert time_state(is_closed, start, NOW) is state


@cases
@pytest.mark.parametrize("access", [AccessScope(NOW, caregiver=1), AccessScope(NOW, client=1)])
def test_the_time_state_in_sql_is_the_same(
    database_url: str, is_closed: bool, start: datetime, state: TimeState, access: AccessScope
) -> None:
    session = a_session(1, startDate=start.isoformat(timespec="microseconds"), isClosed=is_closed)
    load(database_url, [a_caregiver(1), a_client(1), session])

    found = {
        wanted: [
            row.id
            for row in run_read(
                database_url,
                list_rows(Session, access, PageRequest(where=(Where(IN_TIME_STATE[wanted]),)), IDS),
            ).rows
        ]
        for wanted in TimeState
    }

    assert found == {wanted: [1] if wanted is state else [] for wanted in TimeState}
