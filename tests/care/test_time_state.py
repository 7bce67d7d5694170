"""The rule of the time state exists in Python and in SQL; both give the same result in every case."""

from collections.abc import Iterator
from datetime import datetime, timedelta

import pytest

from app.care.sessions import IN_TIME_STATE, time_state
from app.db.reader.reads import list_rows
from app.db.reader.selection import AccessScope, PageRequest, Selection, Where
from app.db.tables import Session, TimeState
from tests.callers import load, run_read
from tests.conftest import fresh_database
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


@pytest.fixture(scope="module")
def sessions(
    kind: str, migrated: str, request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[str]:
    """A database with a session of each case, numbered from 1."""
    rows = [
        a_session(number, startDate=start.isoformat(timespec="microseconds"), isClosed=is_closed)
        for number, (is_closed, start, _) in enumerate(CASES.values(), 1)
    ]
    path = tmp_path_factory.mktemp("sessions") / "care.db"
    with fresh_database(kind, migrated, request, path) as url:
        load(url, [a_caregiver(1), a_client(1), *rows])
        yield url


@pytest.mark.parametrize("wanted", TimeState)
@pytest.mark.parametrize("access", [AccessScope(NOW, caregiver=1), AccessScope(NOW, client=1)])
def test_the_time_state_in_sql_is_the_same(sessions: str, wanted: TimeState, access: AccessScope) -> None:
    page = PageRequest(where=(Where(IN_TIME_STATE[wanted]),))

    found = run_read(sessions, list_rows(Session, access, page, IDS)).rows

    assert {row.id for row in found} == {
        number for number, (_, _, state) in enumerate(CASES.values(), 1) if state is wanted
    }
