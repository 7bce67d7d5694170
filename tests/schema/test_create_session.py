"""`createSession`: the payload, the stored rows, and what both roles see on both contracts.

Contract: a session with a client of the caregiver or with the client of an identifier; FUTURE until it
starts, then RUNNING; books may be assigned at once, also while it is FUTURE.
"""

import re
from typing import Any

import pytest

from tests.callers import Gateway
from tests.database_rows import added, added_events, changed, stored, wrong_counters
from tests.factories import NOW, starting_with
from tests.rest_compat.legacy import ASSIGNMENTS, SESSIONS
from tests.schema.changing import a_world_to_change, change
from tests.schema.worlds import global_id

pytestmark = starting_with(a_world_to_change)

NEW = """sessions {
    id legacyId title description caregiver { name } client { name opptId } createDate startDate closeDate
    chatId isClosed runningStatus assignmentCount completedAssignmentCount pendingAssignmentCount
    lastAssignmentScore latestAssignment { legacyId }
    assignments { nodes {
        legacyId name status assignDate startDate endDate reminders { remindDate state } } } }"""
CHAT = re.compile("chat-[0-9a-f]{32}")
TOMORROW = "2026-11-22T08:00:00Z"
EVENT = ("CAREGIVER", 1, 3)


def opened(world: Gateway, selected: str = NEW, **input_fields: Any) -> list[dict[str, Any]]:
    input_fields = {"title": "First steps", "startDate": TOMORROW} | input_fields
    sessions: list[dict[str, Any]] = change(world.as_caregiver(1), "createSession", selected, **input_fields)[
        "sessions"
    ]
    return sessions


def a_new_session(**others: Any) -> dict[str, Any]:
    return {
        "id": global_id("Session", 6),
        "legacyId": "6",
        "title": "First steps",
        "description": "",
        "caregiver": {"name": "Caregiver 1"},
        "client": {"name": "Zoë Client 3", "opptId": "OPPT-3"},
        "createDate": "2026-11-21T09:00:00Z",
        "startDate": TOMORROW,
        "closeDate": None,
        "isClosed": False,
        "runningStatus": "FUTURE",
        "assignmentCount": 0,
        "completedAssignmentCount": 0,
        "pendingAssignmentCount": 0,
        "lastAssignmentScore": None,
        "latestAssignment": None,
        "assignments": {"nodes": []},
    } | others


def test_a_session_is_created_for_a_new_client(world: Gateway) -> None:
    before = stored(world)

    (session,) = opened(world, clientOpptId="OPPT-3", description="Über die Nächte")

    assert CHAT.fullmatch(chat := session.pop("chatId"))
    assert session == a_new_session(description="Über die Nächte")
    after = stored(world)
    assert added(before, after, "session") == [
        {
            "caregiver_id": 1,
            "client_id": 3,
            "title": "First steps",
            "description": "Über die Nächte",
            "chat_id": chat,
            "create_date": NOW,
            "start_date": NOW.replace(day=22, hour=8),
            "is_closed": False,
            "close_date": None,
            "assignment_count": 0,
            "completed_assignment_count": 0,
            "latest_assignment_id": None,
            "last_assignment_score": None,
        }
    ]
    assert [row for row in after["relationship"] if row not in before["relationship"]] == [
        {"client_id": 3, "caregiver_id": 1}
    ]
    assert added_events(before, after) == [("SESSION_CREATED", *EVENT, 6, None, NOW)]
    assert changed(before, after) == {}


@pytest.mark.once_on_postgresql
@pytest.mark.parametrize("client", ["102", global_id("Client", 102)], ids=["its number", "its global id"])
def test_a_session_is_created_for_a_client_of_the_caregiver(world: Gateway, client: str) -> None:
    before = stored(world)

    (session,) = opened(world, "sessions { legacyId client { opptId } }", clientId=client)

    assert session == {"legacyId": "6", "client": {"opptId": "OPPT-2"}}
    after = stored(world)
    assert after["relationship"] == before["relationship"]
    assert added_events(before, after) == [("SESSION_CREATED", "CAREGIVER", 1, 102, 6, None, NOW)]


@pytest.mark.once_on_postgresql
@pytest.mark.parametrize(
    ("start", "status"),
    {
        "2026-11-21T09:00:00.000001Z": "FUTURE",
        "2026-11-21T09:00:00Z": "RUNNING",
        "2026-11-21T10:00:00+01:00": "RUNNING",
        "1900-01-01T00:00:00Z": "RUNNING",
        "2999-12-31T23:59:59.999999Z": "FUTURE",
    }.items(),
)
def test_a_new_session_is_running_from_its_start(world: Gateway, start: str, status: str) -> None:
    (session,) = opened(world, "sessions { runningStatus }", clientOpptId="OPPT-3", startDate=start)

    assert session == {"runningStatus": status}


def test_texts_may_have_their_maximum_length(world: Gateway) -> None:
    title, description = " " + "ü" * 199, " " + "🌙" * 9_998 + "\n"

    (session,) = opened(
        world, "sessions { title description }", clientOpptId="OPPT-3", title=title, description=description
    )

    assert session == {"title": title, "description": description}


@pytest.mark.sqlite_only
def test_a_null_description_is_empty(world: Gateway) -> None:
    (session,) = opened(world, "sessions { description }", clientOpptId="OPPT-3", description=None)

    assert session == {"description": ""}


# --- with homework at once -------------------------------------------------------------------------

END = "2026-11-29T20:00:00Z"
HOMEWORK = {
    "bookIds": ["3", "1", "3"],
    "startDate": TOMORROW,
    "endDate": END,
    "remindDates": ["2026-11-25T18:30:00Z", TOMORROW, "2026-11-25T18:30:00Z"],
}


def an_assigned(number: str, name: str) -> dict[str, Any]:
    return {
        "legacyId": number,
        "name": name,
        "status": "PENDING",
        "assignDate": "2026-11-21T09:00:00Z",
        "startDate": TOMORROW,
        "endDate": END,
        "reminders": [
            {"remindDate": TOMORROW, "state": "SCHEDULED"},
            {"remindDate": "2026-11-25T18:30:00Z", "state": "SCHEDULED"},
        ],
    }


@pytest.mark.sqlite_only
def test_books_are_assigned_in_a_future_session(world: Gateway) -> None:
    before = stored(world)

    (session,) = opened(world, clientOpptId="OPPT-3", homework=HOMEWORK)

    assert CHAT.fullmatch(session.pop("chatId"))
    assert session == a_new_session(
        assignmentCount=2,
        pendingAssignmentCount=2,
        latestAssignment={"legacyId": "11"},
        assignments={"nodes": [an_assigned("11", "Sleep diary"), an_assigned("10", "Mood check")]},
    )
    after = stored(world)
    assert added_events(
        before, after
    ) == [  # in this order, so that a subscriber knows the session of the homework
        ("SESSION_CREATED", *EVENT, 6, None, NOW),
        ("ASSIGNED", *EVENT, 6, 10, NOW),
        ("ASSIGNED", *EVENT, 6, 11, NOW),
    ]
    assert changed(before, after) == {}
    assert len(added(before, after, "reminder")) == 4
    assert wrong_counters(world) == []


@pytest.mark.sqlite_only
def test_reminders_in_the_past_are_skipped(world: Gateway) -> None:
    past = {"bookIds": ["1"], "startDate": "2026-11-20T09:00:00Z", "endDate": "2026-11-20T10:00:00Z"}

    (session,) = opened(
        world,
        "sessions { assignments { nodes { reminders { state } lateness { state seconds } } } }",
        clientOpptId="OPPT-3",
        startDate="2026-11-20T09:00:00Z",
        homework={**past, "remindDates": [past["startDate"], past["endDate"]]},
    )

    (assignment,) = session["assignments"]["nodes"]
    assert assignment == {
        "reminders": [{"state": "SKIPPED"}] * 2,
        "lateness": {"state": "OVERDUE", "seconds": 23 * 3600},
    }


def test_caregiver_and_client_see_the_new_session_on_both_contracts(world: Gateway) -> None:
    (session,) = opened(world, "sessions { chatId }", clientOpptId="OPPT-3", homework=HOMEWORK)

    query = "{ sessions { nodes { legacyId } } assignments { nodes { legacyId session { runningStatus } } } }"
    future = {"runningStatus": "FUTURE"}
    assert world.as_client(3).data(query) == {
        "sessions": {"nodes": [{"legacyId": "6"}]},
        "assignments": {"nodes": [{"legacyId": number, "session": future} for number in ("11", "10")]},
    }
    (listed,) = world.as_client(3).get(f"{SESSIONS}?time-state=FUTURE").json()["content"]
    assert listed == {
        "id": 6,
        "title": "First steps",
        "description": "",
        "caregiverId": 1,
        "caregiverName": "Caregiver 1",
        "caregiverPosition": "Clinical psychologist",
        "clientId": 3,
        "clientOpptId": "OPPT-3",
        "clientName": "Zoë Client 3",
        "createDate": "2026/11/21 09:00",
        "startDate": "2026/11/22 08:00",
        "chatId": session["chatId"],
        "assignmentId": 11,
        "assignmentName": "Sleep diary",
        "bookId": 1,
        "assignmentCount": 2,
        "completedAssignmentCount": 0,
        "pendingAssignmentCount": 2,
        "lastAssignmentScore": None,
        "isClosed": False,
        "runningStatus": "FUTURE",
        "documents": [],
        "assignments": [],
        "feedbacks": [],
    }
    assert world.as_client(3).get(f"{SESSIONS}?time-state=RUNNING").json()["content"] == []
    page = world.as_caregiver(1).get(f"{ASSIGNMENTS}?time-state=FUTURE").json()["content"]
    assert [(row["id"], row["sessionId"], row["clientId"]) for row in page] == [
        (11, 6, 3),
        (10, 6, 3),
        (7, 2, 101),
    ]
    assert world.as_caregiver(2).data(query)["sessions"] == {"nodes": [{"legacyId": "5"}]}
