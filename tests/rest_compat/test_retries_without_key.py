"""A PUT without a key that repeats the same homework within CARE_LEGACY_RETRY_WINDOW is a retry: it gets the
first response and writes nothing. With any difference, or after a change of the first, it is new homework."""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

import pytest

from app.main import create_app
from app.settings import Settings
from tests.callers import Gateway, opened
from tests.concurrency import ApiCall, send_together
from tests.database_rows import stored, wrong_counters
from tests.db import raw
from tests.factories import NOW, a_world_with_other_clients, starting_with
from tests.rest_compat.legacy import ASSIGNMENTS, SESSIONS, homework, rejection_of
from tests.rest_compat.test_assign_homework import FORMS
from tests.schema.changing import change
from tests.schema.test_assign_homework import ASSIGN
from tests.schema.test_headers import SECURITY_HEADERS

pytestmark = starting_with(a_world_with_other_clients)

ASSIGNED = b'{"message":"The assignments were added to the session."}'
SECOND = timedelta(seconds=1)
INSTANT = timedelta(microseconds=1)


@dataclass
class Clock:
    now: datetime = NOW

    def __call__(self) -> datetime:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def world(settings: Settings, clock: Clock) -> Iterator[Gateway]:
    with opened(create_app(settings, clock)) as client:
        gateway = Gateway(client, settings)
        yield gateway


def put(gateway: Gateway, headers: dict[str, str] | None = None, **changed: Any) -> None:
    response = gateway.as_caregiver(1).put(ASSIGNMENTS, json=homework(**changed), headers=headers or {})
    assert (response.status_code, response.content) == (200, ASSIGNED)
    assert set(response.headers) == {"content-length", "content-type", "x-request-id", *SECURITY_HEADERS}


def books(gateway: Gateway) -> list[int]:
    """The books of the new assignments."""
    assert wrong_counters(gateway) == []
    return [row["book_id"] for row in stored(gateway)["assignment"][5:]]


# --- when ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("later", [timedelta(), INSTANT, 59 * SECOND, 60 * SECOND], ids=str)
def test_a_retry_within_the_window_writes_nothing(world: Gateway, clock: Clock, later: timedelta) -> None:
    put(world)
    once = stored(world)

    clock.now += later
    put(world)

    assert stored(world) == once


@pytest.mark.once_on_postgresql
@pytest.mark.parametrize("later", [60 * SECOND + INSTANT, timedelta(days=1)], ids=str)
def test_after_the_window_the_homework_is_assigned_again(
    world: Gateway, clock: Clock, later: timedelta
) -> None:
    put(world)

    clock.now += later
    put(world)

    assert books(world) == [1, 2, 1, 2]


def test_the_window_begins_with_the_first_request(world: Gateway, clock: Clock) -> None:
    put(world)
    clock.now += 40 * SECOND
    put(world)
    assert books(world) == [1, 2]

    clock.now += 40 * SECOND
    put(world)
    assert books(world) == [1, 2, 1, 2]


@pytest.mark.sqlite_only
def test_a_process_whose_clock_is_behind_recognizes_a_retry(world: Gateway, clock: Clock) -> None:
    put(world)

    clock.now -= SECOND
    put(world)

    assert books(world) == [1, 2]


@pytest.mark.once_on_postgresql
@pytest.mark.parametrize(("seconds", "later"), [(0, 0), (1, 2), (600, 601)])
def test_the_window_is_a_setting(settings: Settings, clock: Clock, seconds: int, later: int) -> None:
    """0 disables it, even at the same moment."""
    settings = settings.model_copy(update={"legacy_retry_window": seconds})
    with opened(create_app(settings, clock)) as client:
        gateway = Gateway(client, settings)
        put(gateway)
        clock.now += later * SECOND
        put(gateway)

        assert books(gateway) == [1, 2, 1, 2]


def test_sixteen_concurrent_requests_have_one_effect(world: Gateway) -> None:
    request = ApiCall(world.as_caregiver(1), "PUT", ASSIGNMENTS, homework())

    answers = send_together([request] * 16)

    assert [(each.status, each.body) for each in answers] == [(200, ASSIGNED)] * 16
    assert books(world) == [1, 2]


# --- what is the same ------------------------------------------------------------------------------


@pytest.mark.sqlite_only
@pytest.mark.parametrize("changed", FORMS.values(), ids=FORMS)
def test_the_same_homework_in_another_form_is_a_retry(world: Gateway, changed: dict[str, Any]) -> None:
    put(world)
    once = stored(world)

    put(world, **changed)

    assert stored(world) == once


def test_the_order_of_books_and_reminders_does_not_matter(world: Gateway) -> None:
    moments = [{"date": f"2026/11/{day}", "time": "09:00"} for day in (23, 24, 25)]
    put(world, remindDates=moments)
    once = stored(world)

    put(world, bookIds=[2, 1], remindDates=moments[::-1])

    assert stored(world) == once


def test_homework_in_the_past_is_a_retry_too(world: Gateway) -> None:
    past = {"startDate": "2026/11/01", "remindDates": [{"date": "2026/11/02", "time": "09:00"}]}
    put(world, **past)
    once = stored(world)

    put(world, **past)

    assert stored(world) == once


SEVERAL: dict[str, list[Any]] = {
    "startTime": ["08:00", "08:01", "08:02"],
    "remindDates": [[{"date": "2026/11/23", "time": time}] for time in ("09:00", "09:01", "09:02")],
    "bookIds": [[1], [2], [3]],
}


@pytest.mark.once_on_postgresql
@pytest.mark.parametrize("member", SEVERAL)
@pytest.mark.parametrize("repeated", range(3))
def test_the_first_request_need_not_be_the_newest(
    world: Gateway, clock: Clock, member: str, repeated: int
) -> None:
    for value in SEVERAL[member]:
        put(world, **{member: value})
        clock.now += SECOND
    once = books(world)

    put(world, **{member: SEVERAL[member][repeated]})

    assert books(world) == once == ([1, 2, 3] if member == "bookIds" else [1, 2] * 3)


DIFFERENT: dict[str, dict[str, Any]] = {
    "one book less": {"bookIds": [1]},
    "one book more": {"bookIds": [1, 2, 3]},
    "another book": {"bookIds": [1, 3]},
    "another start": {"startTime": "08:01"},
    "another end": {"endTime": "18:31"},
    "no reminder": {"remindDates": []},
    "another reminder": {"remindDates": [{"date": "2026/11/23", "time": "09:01"}]},
    "one reminder more": {
        "remindDates": [{"date": "2026/11/23", "time": "09:00"}, {"date": "2026/11/24", "time": "09:00"}]
    },
    "another session": {"sessionId": 4},
}


@pytest.mark.parametrize("changed", DIFFERENT.values(), ids=DIFFERENT)
def test_any_difference_makes_it_new_homework(world: Gateway, changed: dict[str, Any]) -> None:
    put(world)

    put(world, **changed)

    assert books(world) == [1, 2, *changed.get("bookIds", [1, 2])]


def test_a_retry_is_rejected_like_a_first_request(world: Gateway) -> None:
    put(world)
    once = stored(world)

    unknown = world.as_caregiver(1).put(ASSIGNMENTS, json=homework(bookIds=[1, 2, 99]))
    stranger = world.as_caregiver(2).put(ASSIGNMENTS, json=homework())

    assert rejection_of(unknown) == (404, "book not found: bookIds[2]")
    assert rejection_of(stranger) == (404, "session not found")
    assert stored(world) == once


# --- what was done to the first --------------------------------------------------------------------

DRAFT = (
    "INSERT INTO answer_set (id, caregiver_id, client_id, assignment_id, save_type, attempt, revision)"
    " VALUES (99, 1, 101, 7, '{}', 1, 1)"
)
TOUCHED = {
    "withdrawn": "UPDATE assignment SET withdraw_date = assign_date WHERE id = 7",
    "extended": "UPDATE assignment SET end_date = '2026-11-30T18:30:00.000000Z' WHERE id = 7",
    "submitted": "UPDATE assignment SET status = 'COMPLETE', submit_date = assign_date WHERE id = 7",
    "reopened": "UPDATE assignment SET attempt = 2 WHERE id = 7",
    "drafted": DRAFT.format("DRAFT"),
    "saved by itself": DRAFT.format("AUTO_SAVE"),
    "another reminder": (
        "UPDATE reminder SET remind_date = '2026-11-24T09:00:00.000000Z' WHERE assignment_id = 7"
    ),
    "no reminder": "DELETE FROM reminder WHERE assignment_id = 7",
    "one reminder more": (
        "INSERT INTO reminder (caregiver_id, client_id, assignment_id, remind_date, state)"
        " VALUES (1, 101, 7, '2026-11-24T09:00:00.000000Z', 'SCHEDULED')"
    ),
}


@pytest.mark.parametrize("sql", TOUCHED.values(), ids=TOUCHED)
def test_after_a_change_of_an_assignment_the_homework_is_assigned_again(world: Gateway, sql: str) -> None:
    put(world)
    raw.run(world.settings.database, sql)

    put(world)

    assert [row["book_id"] for row in stored(world)["assignment"][5:]] == [1, 2, 1, 2]


@pytest.mark.parametrize(
    ("first", "name", "changed"),
    [
        ({"endDate": "2026/11/28"}, "extendAssignment", {"endDate": "2026-11-29T18:30:00Z"}),
        ({"remindDates": []}, "setReminders", {"remindDates": ["2026-11-23T09:00:00Z"]}),
    ],
    ids=["the end", "the reminders"],
)
def test_homework_that_was_changed_to_that_of_the_request_is_the_same(
    world: Gateway, first: dict[str, Any], name: str, changed: dict[str, Any]
) -> None:
    put(world, **first)
    for number in ("6", "7"):
        change(world.as_caregiver(1), name, assignmentId=number, **changed)
    once = stored(world)

    put(world)

    assert stored(world) == once


def test_a_retry_succeeds_after_a_reminder_was_sent(world: Gateway) -> None:
    """The service sends reminders by itself, so the homework is unchanged."""
    put(world)
    raw.run(world.settings.database, "UPDATE reminder SET state = 'SENT' WHERE assignment_id = 7")

    put(world)

    assert books(world) == [1, 2]


def test_partly_withdrawn_homework_is_assigned_again(world: Gateway) -> None:
    put(world)
    raw.run(world.settings.database, TOUCHED["withdrawn"])

    put(world, bookIds=[1])

    assert [row["book_id"] for row in stored(world)["assignment"][5:]] == [1, 2, 1]


def test_a_retry_succeeds_after_the_session_was_closed(world: Gateway) -> None:
    """The homework was assigned, so the retry succeeds. Other homework is rejected."""
    put(world)
    raw.run(
        world.settings.database,
        "UPDATE session SET is_closed = true, close_date = create_date WHERE id = 1",
        "UPDATE reminder SET state = 'SKIPPED' WHERE assignment_id IN (6, 7)",
    )
    once = stored(world)

    put(world)

    other = world.as_caregiver(1).put(ASSIGNMENTS, json=homework(bookIds=[3]))
    assert rejection_of(other) == (409, "the session is not running")
    assert stored(world) == once


def test_a_retry_succeeds_after_a_book_was_retired(world: Gateway) -> None:
    put(world)
    retired = "UPDATE book SET retire_date = '2026-11-20T09:00:00.000000Z' WHERE id = 2"
    raw.run(world.settings.database, retired)
    once = stored(world)

    put(world)

    other = world.as_caregiver(1).put(ASSIGNMENTS, json=homework(bookIds=[2]))
    assert rejection_of(other) == (404, "book not found: bookIds[0]")
    assert stored(world) == once


# --- who else assigns ------------------------------------------------------------------------------


@pytest.mark.sqlite_only
def test_with_a_new_key_the_homework_is_assigned_again(world: Gateway) -> None:
    put(world)

    put(world, {"idempotency-key": "a"})
    put(world, {"idempotency-key": "b"})

    assert books(world) == [1, 2] * 3


def test_graphql_without_a_key_assigns_every_time(world: Gateway) -> None:
    same = {
        "sessionId": "1",
        "bookIds": ["1", "2"],
        "startDate": "2026-11-22T08:00:00Z",
        "endDate": "2026-11-29T18:30:00Z",
        "remindDates": ["2026-11-23T09:00:00Z"],
    }
    put(world)

    for _ in range(2):
        world.as_caregiver(1).data(ASSIGN, input=same)

    assert books(world) == [1, 2] * 3


def test_the_client_sees_the_homework_once(world: Gateway) -> None:
    put(world)
    put(world)

    [session] = world.as_client(1).get(f"{SESSIONS}?time-state=RUNNING").json()["content"]

    assert (session["assignmentCount"], session["pendingAssignmentCount"]) == (4, 3)
