"""Accepted homework: the stored rows, the accepted forms of members, and ignored input."""

import json
from datetime import UTC, datetime
from typing import Any

import pytest

from tests.callers import Gateway
from tests.database_rows import added, stored, wrong_counters
from tests.factories import DAY, HOUR, NOW, a_world, starting_with
from tests.rest_compat.legacy import ABSENT, ASSIGNMENTS, SESSIONS, homework

pytestmark = starting_with(a_world)

ASSIGNED = {"message": "The assignments were added to the session."}


def assign(gateway: Gateway, **changed: Any) -> None:
    response = gateway.as_caregiver(1).put(ASSIGNMENTS, json=homework(**changed))
    assert (response.status_code, response.json()) == (200, ASSIGNED)


def new_assignment(book: int, **changed: Any) -> dict[str, Any]:
    """The stored row for one of the books of `homework()`."""
    return {
        "caregiver_id": 1,
        "client_id": 1,
        "session_id": 1,
        "book_id": book,
        "assign_date": NOW,
        "start_date": datetime(2026, 11, 22, 8, 0, tzinfo=UTC),
        "end_date": datetime(2026, 11, 29, 18, 30, tzinfo=UTC),
        "submit_date": None,
        "status": "PENDING",
        "attempt": 1,
        "score": 0,
        "feedback_status": "WAITING",
        "feedback_submit_date": None,
        "withdraw_date": None,
    } | changed


def test_every_book_becomes_an_assignment_with_reminders_and_an_event(world: Gateway) -> None:
    before = stored(world)

    assign(world, bookIds=[3, 1])

    after = stored(world)
    first, second = 6, 7
    remind_date = datetime(2026, 11, 23, 9, 0, tzinfo=UTC)
    of_both = {"caregiver_id": 1, "client_id": 1}
    assert added(before, after, "assignment") == [new_assignment(3), new_assignment(1)]
    assert [row["id"] for row in after["assignment"]] == [1, 2, 3, 4, 5, first, second]
    assert added(before, after, "reminder") == [
        {**of_both, "assignment_id": number, "remind_date": remind_date, "state": "SCHEDULED"}
        for number in (first, second)
    ]
    assert added(before, after, "event") == [
        {
            **of_both,
            "kind": "ASSIGNED",
            "actor": "CAREGIVER",
            "session_id": 1,
            "assignment_id": number,
            "reminder_id": None,
            "moment": NOW,
            "hand_over_date": None,
        }
        for number in (first, second)
    ]


def test_the_session_counts_the_new_assignments_and_nothing_else_changes(world: Gateway) -> None:
    before = stored(world)

    assign(world, bookIds=[3, 1])

    after = stored(world)
    counted = {"assignment_count": 4, "latest_assignment_id": 7}
    assert after["session"] == [before["session"][0] | counted, *before["session"][1:]]
    assert after["assignment"][:5] == before["assignment"]
    assert after["answer_set"] == before["answer_set"]
    assert wrong_counters(world) == []


def test_both_people_see_new_assignments_at_once(world: Gateway) -> None:
    assign(world, bookIds=[3, 1])

    [session] = world.as_client(1).get(f"{SESSIONS}?time-state=RUNNING").json()["content"]
    newest = world.as_caregiver(1).get(f"{ASSIGNMENTS}?time-state=RUNNING&size=2").json()
    keys = ("assignmentId", "assignmentName", "bookId", "assignmentCount", "pendingAssignmentCount")
    assert [session[key] for key in keys] == [7, "Sleep diary", 1, 4, 3]
    assert session["lastAssignmentScore"] == 70
    assert newest["totalElements"] == 5
    assert [(item["id"], item["bookId"], item["isTest"]) for item in newest["content"]] == [
        (7, 1, False),
        (6, 3, True),
    ]
    assert [item["startDate"] for item in newest["content"]] == ["2026/11/22 08:00"] * 2


# --- forms -----------------------------------------------------------------------------------------

FORMS: dict[str, dict[str, Any]] = {
    "dates with slashes": {},
    "dates with dashes": {
        "startDate": "2026-11-22",
        "endDate": "2026-11-29",
        "remindDates": [{"date": "2026-11-23", "time": "09:00"}],
    },
    "both in one request": {"startDate": "2026-11-22"},
    "unknown members": {
        "title": "x",
        "endDateTime": 7,
        "remindDate": {},
        "caregiverId": 2,
        "status": "COMPLETE",
    },
    "unknown members of a reminder": {"remindDates": [{"date": "2026/11/23", "time": "09:00", "zone": None}]},
    "a book named twice": {"bookIds": [1, 2, 1, 1]},
    "50 times the same two books": {"bookIds": [1, 2] * 25},
    "a reminder named twice": {"remindDates": [{"date": "2026/11/23", "time": "09:00"}] * 2},
    "a reminder in both forms": {
        "remindDates": [
            {"date": "2026/11/23", "time": "09:00"},
            {"date": "2026-11-23", "time": "09:00"},
        ]
    },
    "50 times the same reminder": {"remindDates": [{"date": "2026/11/23", "time": "09:00"}] * 50},
}


@pytest.mark.sqlite_only
@pytest.mark.parametrize("changed", FORMS.values(), ids=FORMS)
def test_dates_ids_and_members_have_several_accepted_forms(world: Gateway, changed: dict[str, Any]) -> None:
    before = stored(world)

    assign(world, **changed)

    after = stored(world)
    reminders = added(before, after, "reminder")
    assert added(before, after, "assignment") == [new_assignment(1), new_assignment(2)]
    assert [(row["assignment_id"], row["remind_date"]) for row in reminders] == [
        (number, datetime(2026, 11, 23, 9, 0, tzinfo=UTC)) for number in (6, 7)
    ]
    assert len(added(before, after, "event")) == 2
    assert wrong_counters(world) == []


CONTENT_TYPES = [
    "application/json",
    "application/json; charset=utf-8",
    "application/json;charset=UTF-8",
    "Application/JSON",
    " application/json ; x=y",
    None,
]


@pytest.mark.sqlite_only
@pytest.mark.parametrize("content_type", CONTENT_TYPES)
def test_the_content_type_is_optional(world: Gateway, content_type: str | None) -> None:
    headers = {} if content_type is None else {"content-type": content_type}

    response = world.as_caregiver(1).put(
        ASSIGNMENTS, content=json.dumps(homework()).encode(), headers=headers
    )

    assert ("content-type" in response.request.headers) == (content_type is not None)
    assert (response.status_code, response.json()) == (200, ASSIGNED)


@pytest.mark.sqlite_only
@pytest.mark.parametrize(
    "headers", [{"offset": "1", "accept": "*/*"}, {"offset": "x", "accept": "text/html"}]
)
def test_other_headers_are_ignored(world: Gateway, headers: dict[str, str]) -> None:
    response = world.as_caregiver(1).put(f"{ASSIGNMENTS}?x=1", json=homework(), headers=headers)

    assert (response.status_code, response.json()) == (200, ASSIGNED)


# --- windows and reminders -------------------------------------------------------------------------


@pytest.mark.once_on_postgresql
@pytest.mark.parametrize("remind_dates", [ABSENT, None, []], ids=["absent", "null", "empty"])
def test_reminders_are_optional(world: Gateway, remind_dates: object) -> None:
    before = stored(world)

    assign(world, remindDates=remind_dates)

    after = stored(world)
    assert added(before, after, "assignment") == [new_assignment(1), new_assignment(2)]
    assert after["reminder"] == before["reminder"]


@pytest.mark.sqlite_only
def test_homework_may_end_in_the_minute_it_begins(world: Gateway) -> None:
    before = stored(world)

    assign(
        world, endDate="2026/11/22", endTime="08:00", remindDates=[{"date": "2026/11/22", "time": "08:00"}]
    )

    after = stored(world)
    moment = datetime(2026, 11, 22, 8, 0, tzinfo=UTC)
    assert added(before, after, "assignment") == [new_assignment(book, end_date=moment) for book in (1, 2)]
    assert [row["remind_date"] for row in added(before, after, "reminder")] == [moment, moment]


@pytest.mark.sqlite_only
def test_homework_in_the_past_has_no_scheduled_reminders(world: Gateway) -> None:
    """Homework is sometimes entered late. A reminder at the current moment is not past yet."""
    before = stored(world)
    moments = (NOW - DAY, NOW - HOUR / 60, NOW, NOW + HOUR / 60)

    assign(
        world,
        bookIds=[1],
        startDate=f"{NOW - DAY:%Y/%m/%d}",
        startTime=f"{NOW:%H:%M}",
        remindDates=[{"date": f"{moment:%Y/%m/%d}", "time": f"{moment:%H:%M}"} for moment in moments],
    )
    assign(
        world, bookIds=[1], startDate="1901/01/01", startTime="00:00", endDate="1999-12-31", remindDates=[]
    )

    after = stored(world)
    reminders = [(row["remind_date"], row["state"]) for row in added(before, after, "reminder")]
    assert reminders == list(zip(moments, ("SKIPPED", "SKIPPED", "SCHEDULED", "SCHEDULED"), strict=True))
    assert added(before, after, "assignment")[1] == new_assignment(
        1,
        start_date=datetime(1901, 1, 1, tzinfo=UTC),
        end_date=datetime(1999, 12, 31, 18, 30, tzinfo=UTC),
    )


@pytest.mark.once_on_postgresql
@pytest.mark.parametrize(("start", "end"), [("00:00", "23:59"), ("23:59", "23:59")])
def test_a_day_has_1440_minutes(world: Gateway, start: str, end: str) -> None:
    assign(world, startTime=start, endTime=end)

    newest = world.as_caregiver(1).get(f"{ASSIGNMENTS}/7").json()
    assert newest["startDate"] == f"2026/11/22 {start}"


@pytest.mark.sqlite_only
def test_a_book_may_be_assigned_again_later(world: Gateway) -> None:
    before = stored(world)

    assign(world, bookIds=[1])
    assign(world, bookIds=[1], startTime="08:01")

    assert [row["book_id"] for row in added(before, stored(world), "assignment")] == [1, 1]
    assert wrong_counters(world) == []
