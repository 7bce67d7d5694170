"""`updateSession` and `closeSession`: the payload, the stored rows, and what both roles see.

Contract: title and description can be changed until the session is closed, the start until it has started.
Closing is final: reminders are skipped, drafts are kept, and every further change is rejected.
"""

from typing import Any

import pytest

from tests.callers import Gateway
from tests.database_rows import added_events, changed, stored
from tests.factories import DAY, HOUR, NOW, a_complete_assignment, an_assignment
from tests.rest_compat.legacy import ASSIGNMENTS, SESSIONS, homework, rejection_of
from tests.schema.changing import a_world_to_change, change, check_refusals, document
from tests.schema.worlds import a_draft, global_id

SESSION = """session { legacyId title description startDate } session { closeDate isClosed runningStatus
    assignmentCount completedAssignmentCount pendingAssignmentCount }"""
COUNTS = {"assignmentCount": 4, "completedAssignmentCount": 1, "pendingAssignmentCount": 3}


@pytest.fixture
def world(gateway: Gateway) -> Gateway:
    """`a_world_to_change`; assignment 10 of session 1 has reminders in every state, number 2 is drafted."""
    reminders = [
        {"remindDate": NOW - 3 * DAY, "state": "SENT"},
        {"remindDate": NOW - 2 * DAY, "state": "SKIPPED"},
        {"remindDate": NOW - HOUR, "state": "SCHEDULED"},
        {"remindDate": NOW + HOUR, "state": "SCHEDULED"},
    ]
    elsewhere = [{"remindDate": NOW + HOUR, "state": "SCHEDULED"}]
    gateway.import_records(
        [
            *a_world_to_change(),
            an_assignment(10, reminders=reminders),
            an_assignment(11, session=4, reminders=elsewhere),
            a_draft(5, assignment=2),
        ]
    )
    return gateway


# --- changing --------------------------------------------------------------------------------------

TO_COME = {
    "legacyId": "2",
    "title": "Session 2",
    "description": "Description 2",
    "startDate": "2026-11-24T09:00:00Z",
    "closeDate": None,
    "isClosed": False,
    "runningStatus": "FUTURE",
    "assignmentCount": 1,
    "completedAssignmentCount": 0,
    "pendingAssignmentCount": 1,
}
UPDATES: dict[str, tuple[dict[str, Any], dict[str, Any], dict[str, Any]]] = {  # input, payload, stored row
    "its title": ({"title": "Über " + 195 * "x"},) * 3,
    "its description": ({"description": "y" * 10_000},) * 3,
    "its description to nothing": ({"description": ""},) * 3,
    "its start": (
        {"startDate": "2026-11-30T10:00:00.25+01:00"},
        {"startDate": "2026-11-30T09:00:00.250000Z"},
        {"start_date": NOW + 9 * DAY + HOUR / 14400},
    ),
    "its start to now": (
        {"startDate": "2026-11-21T09:00:00Z"},
        {"startDate": "2026-11-21T09:00:00Z", "runningStatus": "RUNNING"},
        {"start_date": NOW},
    ),
    "everything, some as it was": (
        {"title": "Another", "description": "Description 2", "startDate": "2026-11-22T09:00:00Z"},
        {"title": "Another", "startDate": "2026-11-22T09:00:00Z"},
        {"title": "Another", "start_date": NOW + DAY},
    ),
}


@pytest.mark.once_on_postgresql
@pytest.mark.parametrize(("input_fields", "answered", "written"), UPDATES.values(), ids=UPDATES)
def test_a_future_session_is_updated(
    world: Gateway, input_fields: dict[str, Any], answered: dict[str, Any], written: dict[str, Any]
) -> None:
    before = stored(world)

    response = change(world.as_caregiver(1), "updateSession", SESSION, sessionId="2", **input_fields)

    assert response == {"session": TO_COME | answered}
    after = stored(world)
    moved = {}
    if "start_date" in written:  # homework 7 keeps its distance from the start, which was in three days
        by = written["start_date"] - (NOW + 3 * DAY)
        moved = {"assignment": {7: {"start_date": NOW + 4 * DAY + by, "end_date": NOW + 9 * DAY + by}}}
    assert changed(before, after) == {"session": {2: written}} | moved
    assert added_events(before, after) == [("SESSION_UPDATED", "CAREGIVER", 1, 101, 2, None, NOW)]


WITH_HOMEWORK = {
    "clientOpptId": "OPPT-1",
    "title": "In spring",
    "startDate": "2026-12-01T09:00:00Z",
    "homework": {
        "bookIds": ["1", "2"],
        "startDate": "2026-12-01T09:00:00Z",
        "endDate": "2026-12-08T18:00:00Z",
        "remindDates": ["2026-12-01T09:00:00Z", "2026-12-07T18:00:00Z"],
    },
}
HOMEWORK = "session { assignments { nodes { legacyId startDate endDate reminders { remindDate state } } } }"


def moved_homework(number: str, start: str, end: str, *reminders: tuple[str, str]) -> dict[str, Any]:
    moments = [{"remindDate": moment, "state": state} for moment, state in reminders]
    return {"legacyId": number, "startDate": start, "endDate": end, "reminders": moments}


@pytest.mark.once_on_postgresql
@pytest.mark.parametrize(
    ("start", "homework"),
    [
        (
            "2026-12-11T10:30:00Z",
            (
                "2026-12-11T10:30:00Z",
                "2026-12-18T19:30:00Z",
                ("2026-12-11T10:30:00Z", "SCHEDULED"),
                ("2026-12-17T19:30:00Z", "SCHEDULED"),
            ),
        ),
        (
            "2026-11-21T08:00:00Z",
            (
                "2026-11-21T08:00:00Z",
                "2026-11-28T17:00:00Z",
                ("2026-11-21T08:00:00Z", "SKIPPED"),
                ("2026-11-27T17:00:00Z", "SCHEDULED"),
            ),
        ),
        (
            "2026-11-21T09:00:00Z",
            (
                "2026-11-21T09:00:00Z",
                "2026-11-28T18:00:00Z",
                ("2026-11-21T09:00:00Z", "SCHEDULED"),
                ("2026-11-27T18:00:00Z", "SCHEDULED"),
            ),
        ),
    ],
    ids=["later", "earlier than now", "now"],
)
def test_homework_and_reminders_move_with_the_start_of_the_session(
    world: Gateway, start: str, homework: tuple[Any, ...]
) -> None:
    caregiver = world.as_caregiver(1)
    opened = change(caregiver, "createSession", "sessions { legacyId }", **WITH_HOMEWORK)
    (number,) = (session["legacyId"] for session in opened["sessions"])

    response = change(caregiver, "updateSession", HOMEWORK, sessionId=number, startDate=start)

    nodes = [moved_homework("13", *homework), moved_homework("12", *homework)]
    assert response == {"session": {"assignments": {"nodes": nodes}}}
    back = change(caregiver, "updateSession", HOMEWORK, sessionId=number, title="In winter")
    assert back == response


def test_only_pending_homework_and_scheduled_reminders_move(world: Gateway) -> None:
    reminders = [
        {"remindDate": NOW + 5 * DAY, "state": "SENT"},
        {"remindDate": NOW + 6 * DAY, "state": "SKIPPED"},
        {"remindDate": NOW + 7 * DAY},
    ]
    world.import_records(
        [
            a_complete_assignment(12, session=2, reminders=reminders),
            an_assignment(13, session=2, endDate=None, reminders=reminders),
            an_assignment(14, session=2, reminders=reminders),
        ]
    )
    change(world.as_caregiver(1), "withdrawAssignment", assignmentId="14")
    before = stored(world)

    change(world.as_caregiver(1), "updateSession", sessionId="2", startDate="2026-11-25T09:00:00Z")

    after = changed(before, stored(world))
    (reminder,) = (
        row["id"]
        for row in before["reminder"]
        if (row["assignment_id"], row["remind_date"]) == (13, NOW + 7 * DAY)
    )
    assert after == {
        "session": {2: {"start_date": NOW + 4 * DAY}},
        "assignment": {
            7: {"start_date": NOW + 5 * DAY, "end_date": NOW + 10 * DAY},
            13: {"start_date": NOW - 8 * DAY},
        },
        "reminder": {reminder: {"remind_date": NOW + 8 * DAY}},
    }


@pytest.mark.sqlite_only
def test_a_start_that_moves_homework_out_of_range_is_rejected(world: Gateway) -> None:
    bounds = "startDate must lie between the years 1900 and 2999"
    last = ({"startDate": "2999-12-31T00:00:00Z"}, "UNREADABLE", "startDate", bounds)

    check_refusals(world, "updateSession", {"sessionId": "2"}, {"the last day": last})


@pytest.mark.sqlite_only
def test_the_title_of_a_running_session_can_be_changed(world: Gateway) -> None:
    """Also if the input repeats the stored start."""
    before = stored(world)

    response = change(
        world.as_caregiver(1),
        "updateSession",
        "session { title runningStatus }",
        sessionId=global_id("Session", 1),
        title="Another",
        startDate="2026-10-22T11:00:00+02:00",
    )

    assert response == {"session": {"title": "Another", "runningStatus": "RUNNING"}}
    after = stored(world)
    assert changed(before, after) == {"session": {1: {"title": "Another"}}}
    assert added_events(before, after) == [("SESSION_UPDATED", "CAREGIVER", 1, 101, 1, None, NOW)]
    (listed_session,) = world.as_client(1).get(f"{SESSIONS}?time-state=RUNNING").json()["content"]
    assert listed_session["title"] == "Another"


@pytest.mark.once_on_postgresql
@pytest.mark.parametrize(
    "input_fields",
    [
        {},
        {"title": None, "description": None, "startDate": None},
        {"title": "Session 2", "description": "Description 2", "startDate": "2026-11-24T09:00:00Z"},
    ],
    ids=["no fields", "nulls", "stored values"],
)
def test_an_update_with_equal_values_writes_nothing(world: Gateway, input_fields: dict[str, Any]) -> None:
    before = stored(world)

    response = change(world.as_caregiver(1), "updateSession", SESSION, sessionId="2", **input_fields)

    assert response == {"session": TO_COME}
    assert stored(world) == before


# --- closing ---------------------------------------------------------------------------------------


def test_closing_a_session_completes_it_and_skips_its_reminders(world: Gateway) -> None:
    before = stored(world)

    response = change(world.as_caregiver(1), "closeSession", SESSION, sessionId="1")

    assert response == {
        "session": {
            "legacyId": "1",
            "title": "Session 1",
            "description": "Description 1",
            "startDate": "2026-10-22T09:00:00Z",
            "closeDate": "2026-11-21T09:00:00Z",
            "isClosed": True,
            "runningStatus": "COMPLETED",
            **COUNTS,
        }
    }
    after = stored(world)
    assert changed(before, after) == {
        "session": {1: {"is_closed": True, "close_date": NOW}},
        "reminder": {
            row["id"]: {"state": "SKIPPED"}
            for row in before["reminder"]
            if row["assignment_id"] in (2, 10) and row["state"] == "SCHEDULED"
        },
    }
    assert len(changed(before, after)["reminder"]) == 3
    assert added_events(before, after) == [("SESSION_CLOSED", "CAREGIVER", 1, 101, 1, None, NOW)]
    assert after["answer_set"] == before["answer_set"]


@pytest.mark.sqlite_only
def test_a_session_may_be_closed_before_it_starts(world: Gateway) -> None:
    before = stored(world)

    response = change(world.as_caregiver(1), "closeSession", SESSION, sessionId=global_id("Session", 2))

    closed = {"closeDate": "2026-11-21T09:00:00Z", "isClosed": True, "runningStatus": "COMPLETED"}
    assert response == {"session": TO_COME | closed}
    assert added_events(before, stored(world)) == [("SESSION_CLOSED", "CAREGIVER", 1, 101, 2, None, NOW)]


@pytest.mark.sqlite_only
def test_the_legacy_paths_list_a_closed_session_as_completed(world: Gateway) -> None:
    caregiver, client = world.as_caregiver(1), world.as_client(1)
    listed = client.get(f"{SESSIONS}?time-state=RUNNING").json()["content"]

    change(caregiver, "closeSession", sessionId="1")

    assert client.get(f"{SESSIONS}?time-state=RUNNING").json()["content"] == []
    (_, listed_session) = client.get(f"{SESSIONS}?time-state=COMPLETED").json()["content"]
    assert [listed_session] == [row | {"isClosed": True, "runningStatus": "COMPLETED"} for row in listed]
    page = caregiver.get(f"{ASSIGNMENTS}?time-state=COMPLETED").json()["content"]
    assert [row["id"] for row in page] == [10, 8, 6, 3, 2, 1]
    assert rejection_of(caregiver.put(ASSIGNMENTS, json=homework())) == (409, "the session is not running")


@pytest.mark.sqlite_only
def test_closing_a_session_keeps_drafts(world: Gateway) -> None:
    draft = "{ assignment(id: 2) { draft { legacyId revision saveType answers { answer } } } }"
    save = """mutation($input: SaveAnswersInput!) { saveAnswers(input: $input) {
        draft { legacyId } userErrors { code field message } } }"""
    client = world.as_client(1)
    drafted = client.data(draft)
    change(world.as_caregiver(1), "closeSession", sessionId="1")
    before = stored(world)

    response = client.data(save, input={"assignmentId": "2", "answers": [], "revision": 3, "autoSave": True})

    assert response["saveAnswers"] == {
        "draft": None,
        "userErrors": [
            {"code": "NOT_RUNNING", "field": ["assignmentId"], "message": "the session is closed"}
        ],
    }
    assert client.data(draft) == drafted
    assert drafted["assignment"]["draft"]["revision"] == 3
    assert stored(world) == before


@pytest.mark.sqlite_only
def test_a_closed_session_rejects_changes_of_the_caregiver(world: Gateway) -> None:
    caregiver = world.as_caregiver(1)
    caregiver.data(document("closeSession"), input={"sessionId": "1"})
    of_session = ({}, "NOT_RUNNING", "sessionId", "the session is closed")
    of_assignment = ({}, "NOT_RUNNING", "assignmentId", "the session is closed")

    check_refusals(world, "closeSession", {"sessionId": "1"}, {"it": of_session})
    check_refusals(world, "updateSession", {"sessionId": "1", "title": "Another"}, {"it": of_session})
    check_refusals(world, "withdrawAssignment", {"assignmentId": "2"}, {"it": of_assignment})
    moments = {"remindDates": ["2026-11-22T09:00:00Z"]}
    check_refusals(world, "setReminders", {"assignmentId": "2", **moments}, {"it": of_assignment})
    end = {"endDate": "2026-12-22T09:00:00Z"}
    check_refusals(world, "extendAssignment", {"assignmentId": "2", **end}, {"it": of_assignment})
