"""`createSession` with `repeat`: sessions at the same local time of the service, and their homework.

Contract: sessions keep their local time across clock changes; a local time that a clock change skips is
rejected, and an ambiguous one means the first.
"""

from collections.abc import Iterator
from typing import Any

import pytest

from app.main import create_app
from app.settings import Settings
from tests.callers import Gateway, opened
from tests.database_rows import added, added_events, stored, wrong_counters
from tests.factories import NOW, a_book
from tests.schema.changing import Refusal, a_world_to_change, change, check_refusals
from tests.schema.worlds import global_id

STARTS = "sessions { startDate }"
WINDOWS = """sessions { legacyId startDate assignmentCount latestAssignment { legacyId } assignments { nodes {
    legacyId startDate endDate reminders { remindDate state } } } }"""


@pytest.fixture
def berlin(settings: Settings) -> Iterator[Gateway]:
    """The service in a zone with clock changes on 28 March and 31 October 2027."""
    there = settings.model_copy(update={"time_zone": "Europe/Berlin"})
    with opened(create_app(there, clock=lambda: NOW)) as client:
        gateway = Gateway(client, there)
        gateway.import_records([*a_world_to_change(), *(a_book(n) for n in range(100, 150))])
        yield gateway


def repeated(
    gateway: Gateway, selected: str, count: int, days: int, **input_fields: Any
) -> list[dict[str, Any]]:
    repeat = {"count": count, "everyDays": days}
    input_fields = {"clientOpptId": "OPPT-3", "title": "Weekly", "repeat": repeat} | input_fields
    sessions: list[dict[str, Any]] = change(
        gateway.as_caregiver(1), "createSession", selected, **input_fields
    )["sessions"]
    return sessions


def starts(gateway: Gateway, count: int, days: int, start: str) -> list[str]:
    return [one["startDate"] for one in repeated(gateway, STARTS, count, days, startDate=start)]


# --- local time ------------------------------------------------------------------------------------


@pytest.mark.sqlite_only
def test_repeated_sessions_keep_their_local_time_when_summer_time_starts(berlin: Gateway) -> None:
    assert starts(berlin, 4, 7, "2027-03-14T09:00:00.5+01:00") == [
        "2027-03-14T08:00:00.500000Z",
        "2027-03-21T08:00:00.500000Z",
        "2027-03-28T07:00:00.500000Z",
        "2027-04-04T07:00:00.500000Z",
    ]


@pytest.mark.sqlite_only
def test_repeated_sessions_keep_their_local_time_when_summer_time_ends(berlin: Gateway) -> None:
    assert starts(berlin, 3, 14, "2027-10-10T09:00:00Z") == [
        "2027-10-10T09:00:00Z",
        "2027-10-24T09:00:00Z",
        "2027-11-07T10:00:00Z",
    ]


@pytest.mark.sqlite_only
def test_without_clock_changes_the_utc_time_stays_the_same(gateway: Gateway) -> None:
    gateway.import_records(a_world_to_change())

    assert starts(gateway, 3, 1, "2027-03-27T02:30:00Z") == [
        f"2027-03-{day}T02:30:00Z" for day in (27, 28, 29)
    ]


@pytest.mark.sqlite_only
def test_an_ambiguous_local_time_means_the_first_one(berlin: Gateway) -> None:
    """02:30 occurs twice on 31 October. The first session may name the second one."""
    assert starts(berlin, 3, 7, "2027-10-24T02:30:00+02:00") == [
        "2027-10-24T00:30:00Z",
        "2027-10-31T00:30:00Z",
        "2027-11-07T01:30:00Z",
    ]
    assert starts(berlin, 2, 7, "2027-10-31T02:30:00+01:00") == [
        "2027-10-31T01:30:00Z",
        "2027-11-07T01:30:00Z",
    ]
    assert starts(berlin, 2, 364, "2027-10-31T02:30:00+01:00") == [
        "2027-10-31T01:30:00Z",
        "2028-10-29T00:30:00Z",  # where it occurs twice again
    ]


@pytest.mark.sqlite_only
def test_homework_and_reminders_keep_their_offset_from_the_session(berlin: Gateway) -> None:
    before = stored(berlin)

    sessions = repeated(
        berlin,
        WINDOWS,
        3,
        7,
        startDate="2027-03-14T09:00:00+01:00",
        homework={
            "bookIds": ["2", "1"],
            "startDate": "2027-03-14T10:00:00+01:00",
            "endDate": "2027-03-21T03:00:00+01:00",
            "remindDates": ["2027-03-14T18:30:00+01:00", "2027-03-21T01:30:00+01:00"],
        },
    )

    moments = [  # of the session, and of its homework: start, end and both reminders
        ["14T08:00", "14T09:00", "21T02:00", "14T17:30", "21T00:30"],
        ["21T08:00", "21T09:00", "28T01:00", "21T17:30", "28T00:30"],
        ["28T07:00", "28T08:00", "04T01:00", "28T16:30", "03T23:30"],
    ]
    assert sessions == [
        a_planned_session(number, [in_spring(moment) for moment in of_session])
        for number, of_session in enumerate(moments)
    ]
    after = stored(berlin)
    assert added_events(before, after) == [
        *(("SESSION_CREATED", "CAREGIVER", 1, 3, number, None, NOW) for number in (6, 7, 8)),
        *(
            ("ASSIGNED", "CAREGIVER", 1, 3, session, number, NOW)
            for session, numbers in ((6, (10, 11)), (7, (12, 13)), (8, (14, 15)))
            for number in numbers
        ),
    ]
    assert len({row["chat_id"] for row in added(before, after, "session")}) == 3
    assert wrong_counters(berlin) == []


def in_spring(moment: str) -> str:
    return f"2027-{'04' if moment < '14' else '03'}-{moment}:00Z"


def a_planned_session(number: int, moments: list[str]) -> dict[str, Any]:
    opens, start, end, *reminders = moments
    first = 10 + 2 * number
    window = {
        "startDate": start,
        "endDate": end,
        "reminders": [{"remindDate": moment, "state": "SCHEDULED"} for moment in reminders],
    }
    return {
        "legacyId": str(6 + number),
        "startDate": opens,
        "assignmentCount": 2,
        "latestAssignment": {"legacyId": str(first + 1)},
        "assignments": {"nodes": [{"legacyId": str(each), **window} for each in (first + 1, first)]},
    }


# --- limits ----------------------------------------------------------------------------------------


def test_a_year_of_weeks_is_planned_at_once(berlin: Gateway) -> None:
    sessions = repeated(berlin, "sessions { legacyId startDate }", 52, 7, startDate="2027-01-01T08:00:00Z")

    assert [one["legacyId"] for one in sessions] == [str(number) for number in range(6, 58)]
    assert sessions[-1]["startDate"] == "2027-12-24T08:00:00Z"


def test_two_hundred_assignments_are_planned_at_once(berlin: Gateway) -> None:
    window = {"startDate": "2027-01-01T08:00:00Z", "endDate": "2027-01-08T08:00:00Z"}
    homework = {"bookIds": [str(number) for number in range(100, 150)], **window}

    sessions = repeated(
        berlin, "sessions { assignmentCount }", 4, 366, startDate=window["startDate"], homework=homework
    )

    assert sessions == [{"assignmentCount": 50}] * 4


def test_a_book_that_is_named_again_counts_once(berlin: Gateway) -> None:
    """Each session gets one assignment, so 52 are planned."""
    window = {"startDate": "2027-01-01T08:00:00Z", "endDate": "2027-01-08T08:00:00Z"}
    homework = {"bookIds": ["1", global_id("Book", 1), "1", "1"], **window}

    sessions = repeated(
        berlin, "sessions { assignmentCount }", 52, 7, startDate=window["startDate"], homework=homework
    )

    assert sessions == [{"assignmentCount": 1}] * 52


@pytest.mark.sqlite_only
def test_a_count_of_one_creates_one_session(berlin: Gateway) -> None:
    assert starts(berlin, 1, 366, "2999-12-31T08:00:00Z") == ["2999-12-31T08:00:00Z"]


# --- rejected repetitions --------------------------------------------------------------------------

AN_HOUR_AHEAD = ("UNREADABLE", "repeat", "repeat includes a local time that a clock change skips")
BEFORE = {"bookIds": ["1"], "startDate": "2027-03-21T02:30:00+01:00", "endDate": "2027-03-22T09:00:00+01:00"}
TWICE = {"startDate": "2027-10-31T00:30:00Z"}  # 02:30, for the first time
SKIPPED: dict[str, Refusal] = {
    "the session itself": ({"startDate": "2027-03-21T02:30:00+01:00"}, *AN_HOUR_AHEAD),
    "the first moment that is skipped": ({"startDate": "2027-03-21T02:00:00+01:00"}, *AN_HOUR_AHEAD),
    "the last moment that is skipped": ({"startDate": "2027-03-21T01:59:59.999999Z"}, *AN_HOUR_AHEAD),
    "a start of homework": ({"homework": BEFORE}, *AN_HOUR_AHEAD),
    "an end of homework": (
        {"homework": BEFORE | {"startDate": "2027-03-21T01:00:00Z", "endDate": "2027-03-21T01:30:00Z"}},
        *AN_HOUR_AHEAD,
    ),
    "a reminder": (
        {
            "homework": BEFORE
            | {"startDate": "2027-03-20T23:00:00Z", "remindDates": ["2027-03-21T02:30:00+01:00"]}
        },
        *AN_HOUR_AHEAD,
    ),
    "an end that comes before its start on other days": (
        TWICE | {"homework": {"bookIds": ["1"], **TWICE, "endDate": "2027-10-31T01:15:00Z"}},
        "UNREADABLE",
        "homework.endDate",
        "homework.endDate is before startDate",
    ),
    "homework that comes before its session on other days": (
        TWICE
        | {
            "homework": {
                "bookIds": ["1"],
                "startDate": "2027-10-31T01:15:00Z",
                "endDate": "2027-11-01T01:15:00Z",
            }
        },
        "UNREADABLE",
        "homework.startDate",
        "homework.startDate is before the session's",
    ),
}


@pytest.mark.sqlite_only
def test_a_repetition_at_a_skipped_local_time_is_rejected(berlin: Gateway) -> None:
    input_fields = {
        "clientOpptId": "OPPT-3",
        "title": "Weekly",
        "startDate": "2027-03-14T00:00:00Z",
        "repeat": {"count": 3, "everyDays": 7},
    }

    check_refusals(berlin, "createSession", input_fields, SKIPPED)
