"""Local times of the legacy paths: moments are shown in the service zone, and the PUT is read in it."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from zoneinfo import ZoneInfo

import pytest

from app.care.errors import InvalidValue
from app.main import create_app
from app.rest_compat.homework import read_homework
from app.settings import Settings
from tests.callers import Gateway, opened
from tests.database_rows import added, stored
from tests.factories import NOW, a_session, a_world, an_assignment
from tests.rest_compat.legacy import ASSIGNMENTS, SESSIONS, homework, rejection_of

BERLIN, NEW_YORK = "Europe/Berlin", "America/New_York"
LORD_HOWE = "Australia/Lord_Howe"  # whose clocks change by half an hour


@contextmanager
def service_in(zone: str, settings: Settings) -> Iterator[Gateway]:
    there = settings.model_copy(update={"time_zone": zone})
    with opened(create_app(there, clock=lambda: NOW)) as client:
        gateway = Gateway(client, there)
        gateway.import_records(a_world())
        yield gateway


def utc(*parts: int) -> datetime:
    return datetime(*parts, tzinfo=UTC)  # type: ignore[misc, arg-type]


# --- what is shown ---------------------------------------------------------------------------------

SHOWN = {
    BERLIN: {
        "2026-01-15T12:00:59.999Z": "2026/01/15 13:00",
        "2026-07-15T12:00:00Z": "2026/07/15 14:00",
        "2026-12-31T23:30:00Z": "2027/01/01 00:30",
        "2026-03-29T00:59:59Z": "2026/03/29 01:59",
        "2026-03-29T01:00:00Z": "2026/03/29 03:00",
        "2026-10-25T00:30:00Z": "2026/10/25 02:30",
        "2026-10-25T01:30:00Z": "2026/10/25 02:30",
    },
    NEW_YORK: {
        "2026-01-15T12:00:59.999Z": "2026/01/15 07:00",
        "2026-07-15T12:00:00Z": "2026/07/15 08:00",
        "2027-01-01T04:59:00Z": "2026/12/31 23:59",
        "2026-03-08T07:00:00Z": "2026/03/08 03:00",
        "2026-11-01T05:30:00Z": "2026/11/01 01:30",
        "2026-11-01T06:30:00Z": "2026/11/01 01:30",
    },
}


@pytest.mark.once_on_postgresql
@pytest.mark.parametrize("zone", SHOWN)
def test_moments_are_shown_as_local_times_of_the_zone(settings: Settings, zone: str) -> None:
    moments = SHOWN[zone]
    with service_in(zone, settings) as gateway:
        gateway.import_records(
            a_session(100 + at, createDate=moment, startDate=moment, isClosed=True)
            for at, moment in enumerate(moments)
        )
        gateway.import_records(
            an_assignment(100 + at, session=100 + at, startDate=moment, assignDate=moment)
            for at, moment in enumerate(moments)
        )

        sessions = gateway.as_client(1).get(f"{SESSIONS}?time-state=COMPLETED").json()["content"]
        assignments = gateway.as_caregiver(1).get(f"{ASSIGNMENTS}?time-state=COMPLETED").json()["content"]

    newest_first = list(reversed(moments.values()))
    assert [item["createDate"] for item in sessions[:-1]] == newest_first  # the last one is of the world
    assert [item["startDate"] for item in sessions[:-1]] == newest_first
    assert [item["assignDate"] for item in assignments[:-1]] == newest_first
    assert [item["startDate"] for item in assignments[:-1]] == newest_first


# --- years -----------------------------------------------------------------------------------------

YEARS = "must lie between the years 1900 and 2999"
LIMITS = {
    BERLIN: {
        ("startDate", "1900/01/01", "00:00"): (400, f"startDate {YEARS}"),
        ("startDate", "1900/01/01", "01:00"): (200, None),
        ("endDate", "3000/01/01", "00:59"): (200, None),
        ("endDate", "3000/01/01", "01:00"): (400, f"endDate {YEARS}"),
    },
    NEW_YORK: {
        ("startDate", "1899/12/31", "18:59"): (400, f"startDate {YEARS}"),
        ("startDate", "1899/12/31", "19:00"): (200, None),
        ("endDate", "2999/12/31", "18:59"): (200, None),
        ("endDate", "2999/12/31", "19:00"): (400, f"endDate {YEARS}"),
    },
}


@pytest.mark.once_on_postgresql
@pytest.mark.parametrize("zone", LIMITS)
def test_the_years_of_homework_are_counted_in_utc(settings: Settings, zone: str) -> None:
    with service_in(zone, settings) as gateway:
        results = {}
        for member, date, time in LIMITS[zone]:
            changed = {member: date, member.replace("Date", "Time"): time}
            response = gateway.as_caregiver(1).put(ASSIGNMENTS, json=homework(bookIds=[1], **changed))
            message = None if response.status_code == 200 else response.json()["message"]
            results[member, date, time] = (response.status_code, message)

    assert results == LIMITS[zone]


# --- what is read ----------------------------------------------------------------------------------

READ = {
    BERLIN: {
        ("2026/01/15", "13:00"): utc(2026, 1, 15, 12, 0),
        ("2026-07-15", "14:00"): utc(2026, 7, 15, 12, 0),
        ("2027/01/01", "00:30"): utc(2026, 12, 31, 23, 30),
        ("2026/03/29", "01:59"): utc(2026, 3, 29, 0, 59),
        ("2026/03/29", "03:00"): utc(2026, 3, 29, 1, 0),
        # 02:00 to 02:59 come twice: the first one counts
        ("2026/10/25", "01:59"): utc(2026, 10, 24, 23, 59),
        ("2026/10/25", "02:00"): utc(2026, 10, 25, 0, 0),
        ("2026/10/25", "02:30"): utc(2026, 10, 25, 0, 30),
        ("2026/10/25", "02:59"): utc(2026, 10, 25, 0, 59),
        ("2026/10/25", "03:00"): utc(2026, 10, 25, 2, 0),
    },
    NEW_YORK: {
        ("2026/01/15", "07:00"): utc(2026, 1, 15, 12, 0),
        ("2026/07/15", "08:00"): utc(2026, 7, 15, 12, 0),
        ("2026/12/31", "23:59"): utc(2027, 1, 1, 4, 59),
        ("2026/03/08", "03:00"): utc(2026, 3, 8, 7, 0),
        ("2026/11/01", "01:30"): utc(2026, 11, 1, 5, 30),
        ("2026/11/01", "02:00"): utc(2026, 11, 1, 7, 0),
    },
    LORD_HOWE: {
        ("2026/10/04", "01:59"): utc(2026, 10, 3, 15, 29),
        ("2026/10/04", "02:30"): utc(2026, 10, 3, 15, 30),
        ("2026/04/05", "01:30"): utc(2026, 4, 4, 14, 30),  # 01:30 to 01:59 come twice
        ("2026/04/05", "02:00"): utc(2026, 4, 4, 15, 30),
    },
}


@pytest.mark.once_on_postgresql
@pytest.mark.parametrize("zone", READ)
def test_local_times_of_homework_are_read_in_the_zone(settings: Settings, zone: str) -> None:
    """Start, end and reminder, which are shown again as they were sent."""
    with service_in(zone, settings) as gateway:
        before, caregiver = stored(gateway), gateway.as_caregiver(1)

        for date, time in READ[zone]:
            body = homework(
                bookIds=[1],
                startDate=date,
                startTime=time,
                endDate=date,
                endTime=time,
                remindDates=[{"date": date, "time": time}],
            )
            assert caregiver.put(ASSIGNMENTS, json=body).status_code == 200

        after = stored(gateway)
        shown = caregiver.get(f"{ASSIGNMENTS}?time-state=RUNNING&size={len(READ[zone])}").json()["content"]
    moments = list(READ[zone].values())
    assert [row["start_date"] for row in added(before, after, "assignment")] == moments
    assert [row["end_date"] for row in added(before, after, "assignment")] == moments
    assert [row["remind_date"] for row in added(before, after, "reminder")] == moments
    assert [item["startDate"] for item in reversed(shown)] == [
        f"{date.replace('-', '/')} {time}" for date, time in READ[zone]
    ]


SKIPPED = {
    BERLIN: [("2026/03/29", "02:00"), ("2026-03-29", "02:30"), ("2026/03/29", "02:59")],
    NEW_YORK: [("2026/03/08", "02:00"), ("2026/03/08", "02:59")],
    LORD_HOWE: [("2026/10/04", "02:00"), ("2026/10/04", "02:15"), ("2026/10/04", "02:29")],
}


@pytest.mark.parametrize("zone", SKIPPED)
def test_a_local_time_that_a_clock_change_skips_is_unreadable(zone: str) -> None:
    wide = {"startDate": "2026/01/01", "endDate": "2026/12/31"}
    for date, time in SKIPPED[zone]:
        changes = {
            "startTime": {"startDate": date, "startTime": time},
            "endTime": {"endDate": date, "endTime": time},
            "remindDates[0].time": {"remindDates": [{"date": date, "time": time}]},
        }
        for member, changed in changes.items():
            message = f"{member} is skipped by a clock change on that day"
            assert reading_error(zone, **wide | changed) == message


def reading_error(zone: str, **changed: object) -> str:
    with pytest.raises(InvalidValue) as refused:
        read_homework(json.dumps(homework(**changed)).encode(), ZoneInfo(zone))
    return refused.value.message


@pytest.mark.sqlite_only
def test_without_a_clock_change_every_local_time_is_readable(standing: Gateway) -> None:
    """The same minute exists in UTC, so the request fails only at the unknown session."""
    body = homework(startDate="2026/03/29", startTime="02:30", sessionId=999999)

    response = standing.as_caregiver(1).put(ASSIGNMENTS, json=body)

    assert rejection_of(response) == (404, "session not found")


@pytest.mark.parametrize(
    ("zone", "changed", "member"),
    [
        (BERLIN, {"startDate": "0001/01/01", "startTime": "00:00"}, "startTime"),
        (NEW_YORK, {"endDate": "9999/12/31", "endTime": "23:59"}, "endTime"),
    ],
    ids=["before the first", "after the last"],
)
def test_a_local_time_outside_the_utc_calendar_is_unreadable(
    zone: str, changed: dict[str, str], member: str
) -> None:
    assert reading_error(zone, **changed) == f"{member} is no time of the day"
