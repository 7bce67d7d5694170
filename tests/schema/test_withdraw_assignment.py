"""`withdrawAssignment`: a withdrawn assignment disappears from both contracts.

Contract: pending homework of running and future sessions can be withdrawn, with its drafts, earlier
submissions and feedback. The session no longer counts it; the event log keeps it.
"""

from typing import Any

import pytest
from click.testing import CliRunner

from app.cli import main
from tests.answers import give, reopen, save, submit
from tests.callers import Caller, Gateway
from tests.database_rows import Stored, added_events, changed, stored, wrong_counters
from tests.db import raw
from tests.factories import NOW, starting_with
from tests.rest_compat.legacy import ASSIGNMENTS, SESSIONS, homework, rejection_of
from tests.schema.changing import a_world_to_change, change, document
from tests.schema.test_assign_homework import ASSIGN
from tests.schema.worlds import global_id, not_found

pytestmark = starting_with(a_world_to_change)

COUNTS = """assignmentCount completedAssignmentCount pendingAssignmentCount lastAssignmentScore
    latestAssignment { legacyId }"""
PROGRESS = """progress { assignmentCount completedAssignmentCount pendingAssignmentCount
    overdueAssignmentCount lateAssignmentCount completion { week assigned completed } }
    scoreHistory(bookId: 1) { score assignment { legacyId } }"""
LISTS = f"""
    assignments {{ totalCount nodes {{ legacyId answerSets {{ legacyId }} reminders {{ id }} }} }}
    pending: assignments(status: PENDING) {{ totalCount nodes {{ legacyId }} }}
    running: assignments(timeState: RUNNING) {{ totalCount edges {{ node {{ legacyId }} }} }}
    of_session: assignments(sessionId: 1) {{ totalCount nodes {{ legacyId }} }}
    overdue: assignments(isOverdue: true) {{ totalCount nodes {{ legacyId }} }}
    submitted: assignments(submittedSince: "1900-01-01T00:00:00Z") {{ totalCount nodes {{ legacyId }} }}
    submissions {{ totalCount nodes {{ legacyId assignment {{ legacyId }} }} }}
    sessions {{ nodes {{ legacyId {COUNTS} {PROGRESS}
        all: assignments {{ totalCount nodes {{ legacyId }} }}
        pending: assignments(status: PENDING) {{ totalCount nodes {{ legacyId }} }} }} }}
    session(id: 1) {{ {COUNTS} {PROGRESS} assignments {{ totalCount nodes {{ legacyId }} }} }}"""
CLIENTS = f"clients {{ nodes {{ legacyId {PROGRESS} }} }}"
SECRET = "Das war zu früh"


def all_responses(world: Gateway) -> list[Any]:
    """Responses of all paths of both contracts, for both roles."""
    caregiver, client = world.as_caregiver(1), world.as_client(1)
    states = ("RUNNING", "FUTURE", "COMPLETED")
    return [
        caregiver.data(f"{{ {LISTS} {CLIENTS} }}"),
        client.data(f"{{ {LISTS} }}"),
        *(client.get(f"{SESSIONS}?time-state={state}").json() for state in states),
        *(caregiver.get(f"{ASSIGNMENTS}?time-state={state}").json() for state in states),
    ]


def assigned(world: Gateway, **input_fields: Any) -> int:
    window = {"startDate": "2026-11-20T08:00:00Z", "endDate": "2026-11-21T08:00:00Z"}
    input_fields = {
        "sessionId": "1",
        "bookIds": ["1"],
        **window,
        "remindDates": ["2026-11-20T08:00:00Z"],
    } | input_fields
    (new,) = world.as_caregiver(1).data(ASSIGN, input=input_fields)["assignHomework"]["assignments"]
    return int(new["legacyId"])


def withdraw(world: Gateway, number: int, selected: str | None = None) -> dict[str, Any]:
    return change(world.as_caregiver(1), "withdrawAssignment", selected, assignmentId=str(number))


def attempt(world: Gateway, number: int) -> None:
    """Submits, gives feedback, reopens, and saves a draft."""
    caregiver, client = world.as_caregiver(1), world.as_client(1)
    done = submit(client, number, {1: SECRET}, revision=0)
    give(caregiver, done["answerSet"]["legacyId"], SECRET, score=99)
    reopen(caregiver, number)
    save(client, number, {1: SECRET}, revision=0)


def test_a_withdrawn_assignment_disappears_from_both_contracts(world: Gateway) -> None:
    earlier = all_responses(world)
    number = assigned(world)
    attempt(world, number)
    assert all(now != before for now, before in zip(all_responses(world)[:3], earlier, strict=False))

    response = withdraw(world, number, f"session {{ legacyId {COUNTS} }}")

    assert response == {
        "session": {
            "legacyId": "1",
            "assignmentCount": 3,
            "completedAssignmentCount": 1,
            "pendingAssignmentCount": 2,
            "lastAssignmentScore": 70,
            "latestAssignment": {"legacyId": "8"},
        }
    }
    assert all_responses(world) == earlier
    assert wrong_counters(world) == []


@pytest.mark.sqlite_only
def test_a_withdrawn_assignment_cannot_be_looked_up(world: Gateway) -> None:
    number = assigned(world)
    attempt(world, number)
    sets = [row["id"] for row in stored(world)["answer_set"] if row["assignment_id"] == number]
    assert len(sets) == 2

    withdraw(world, number)

    ids = [global_id("Assignment", number), *(global_id("AnswerSet", each) for each in sets)]
    for caller in (world.as_caregiver(1), world.as_client(1)):
        for form in (str(number), ids[0]):
            query = f'{{ assignment(id: "{form}") {{ legacyId answerSets {{ answers {{ answer }} }} }} }}'
            assert caller.graphql(query) == not_found("assignment", column=3)
        assert [node(caller, each) for each in ids] == [None] * 3
        query = "query($ids: [ID!]!) { nodes(ids: $ids) { id } }"
        assert caller.data(query, ids=ids) == {"nodes": [None] * 3}
    assert rejection_of(world.as_caregiver(1).get(f"{ASSIGNMENTS}/{number}")) == (404, "assignment not found")


def node(caller: Caller, number: str) -> Any:
    query = """query($id: ID!) { node(id: $id) {
        ... on Assignment { name answerSets { legacyId } } ... on AnswerSet { answers { answer } } } }"""
    return caller.data(query, id=number)["node"]


@pytest.mark.sqlite_only
def test_a_withdrawn_assignment_cannot_be_answered(world: Gateway) -> None:
    number = assigned(world)
    withdraw(world, number)
    before = stored(world)
    gone = [{"code": "NOT_FOUND", "field": ["assignmentId"], "message": "assignment not found"}]

    for result in (
        save(world.as_client(1), number, {1: SECRET}, revision=0),
        submit(world.as_client(1), number, {1: SECRET}, revision=0),
    ):
        assert (result["draft"], result["userErrors"]) == (None, gone)
    assert stored(world) == before


# --- stored rows -----------------------------------------------------------------------------------


def test_a_withdrawn_assignment_is_kept_and_its_event_stored(world: Gateway) -> None:
    number = assigned(world, remindDates=["2026-11-20T09:00:00Z"], endDate="2026-12-20T08:00:00Z")
    moments = ["2026-11-22T09:00:00Z", "2026-11-23T09:00:00Z"]
    change(world.as_caregiver(1), "setReminders", assignmentId=str(number), remindDates=moments)
    before = stored(world)

    withdraw(world, number)

    after = stored(world)
    assert changed(before, after) == {
        "assignment": {number: {"withdraw_date": NOW}},
        "session": {1: {"assignment_count": 3, "latest_assignment_id": 8}},
        "reminder": {each: {"state": "SKIPPED"} for each in scheduled(before, number)},
    }
    assert len(scheduled(before, number)) == 2
    assert added_events(before, after) == [("WITHDRAWN", "CAREGIVER", 1, 101, 1, number, NOW)]
    trail = [row["kind"] for row in after["event"] if row["assignment_id"] == number]
    assert trail == ["ASSIGNED", "REMINDERS_SET", "WITHDRAWN"]


def scheduled(stored: Stored, number: int) -> list[int]:
    of_it = [row for row in stored["reminder"] if row["assignment_id"] == number]
    return [row["id"] for row in of_it if row["state"] == "SCHEDULED"]


@pytest.mark.once_on_postgresql
@pytest.mark.parametrize(
    ("number", "session"),
    [
        (2, {"assignmentCount": 2, "pendingAssignmentCount": 1, "latestAssignment": {"legacyId": "8"}}),
        (8, {"assignmentCount": 2, "pendingAssignmentCount": 1, "latestAssignment": {"legacyId": "2"}}),
        (7, {"assignmentCount": 0, "pendingAssignmentCount": 0, "latestAssignment": None}),
        (4, {"assignmentCount": 0, "pendingAssignmentCount": 0, "latestAssignment": None}),
    ],
    ids=["one in the middle", "the newest", "the only one, to come", "the only one"],
)
def test_the_session_counts_the_remaining_assignments(
    world: Gateway, number: int, session: dict[str, Any]
) -> None:
    selected = "session { assignmentCount pendingAssignmentCount latestAssignment { legacyId } }"

    assert withdraw(world, number, selected) == {"session": session}
    assert wrong_counters(world) == []


def test_a_retried_change_returns_null_for_a_withdrawn_assignment(world: Gateway) -> None:
    """The first response was lost before it was stored."""
    input_fields = {
        "query": document("extendAssignment"),
        "variables": {"input": {"assignmentId": "2", "endDate": "2026-12-24T17:00:00Z"}},
    }
    headers = {"idempotency-key": "one"}
    caregiver = world.as_caregiver(1)
    first = caregiver.request("POST", "/graphql", json=input_fields, headers=headers).json()
    withdraw(world, 2)
    raw.run(world.settings.database, "UPDATE idempotency_key SET status = NULL, body = NULL")
    before = stored(world)

    again = caregiver.request("POST", "/graphql", json=input_fields, headers=headers).json()

    assert first["data"]["extendAssignment"] == {"assignment": {"legacyId": "2"}, "userErrors": []}
    assert again["data"]["extendAssignment"] == {"assignment": None, "userErrors": []}
    assert changed(before, stored(world)) == {}
    assert added_events(before, stored(world)) == []


@pytest.mark.sqlite_only
def test_retried_feedback_returns_null_for_a_withdrawn_assignment(world: Gateway) -> None:
    selected = "feedback { text answerSet { assignment { legacyId } } } assignment { legacyId }"
    input_fields = {
        "query": document("giveFeedback", selected),
        "variables": {"input": {"answerSetId": "1", "text": "Well done"}},
    }
    headers = {"idempotency-key": "one"}
    caregiver = world.as_caregiver(1)
    first = caregiver.request("POST", "/graphql", json=input_fields, headers=headers).json()
    change(caregiver, "reopenAssignment", "assignment { legacyId }", assignmentId="1")
    withdraw(world, 1)
    raw.run(world.settings.database, "UPDATE idempotency_key SET status = NULL, body = NULL")

    again = caregiver.request("POST", "/graphql", json=input_fields, headers=headers).json()

    assert first["data"]["giveFeedback"] == {
        "feedback": {"text": "Well done", "answerSet": {"assignment": {"legacyId": "1"}}},
        "assignment": {"legacyId": "1"},
        "userErrors": [],
    }
    assert again == {"data": {"giveFeedback": {"feedback": None, "assignment": None, "userErrors": []}}}


@pytest.mark.sqlite_only
def test_a_retried_draft_returns_null_for_a_withdrawn_assignment(world: Gateway) -> None:
    selected = "draft { revision assignment { legacyId } }"
    input_fields = {
        "query": document("saveAnswers", selected),
        "variables": {"input": {"assignmentId": "2", "answers": []}},
    }
    headers = {"idempotency-key": "one"}
    client = world.as_client(1)
    first = client.request("POST", "/graphql", json=input_fields, headers=headers).json()
    withdraw(world, 2)
    raw.run(world.settings.database, "UPDATE idempotency_key SET status = NULL, body = NULL")

    again = client.request("POST", "/graphql", json=input_fields, headers=headers).json()

    draft = {"revision": 1, "assignment": {"legacyId": "2"}}
    assert first == {"data": {"saveAnswers": {"draft": draft, "userErrors": []}}}
    assert again == {"data": {"saveAnswers": {"draft": None, "userErrors": []}}}


def test_verify_finds_no_difference(world: Gateway) -> None:
    for number in (8, 4, 7, assigned(world)):
        withdraw(world, number)

    environment = {"CARE_ENV": "development", "CARE_DATABASE_URL": world.settings.database}
    assert CliRunner().invoke(main, ["verify"], env=environment).output == "0 differences\n"


@pytest.mark.sqlite_only
def test_the_same_book_may_be_assigned_again(world: Gateway) -> None:
    """On the legacy path too: a withdrawn assignment is not a duplicate."""
    caregiver = world.as_caregiver(1)
    for _ in range(2):
        assert caregiver.put(ASSIGNMENTS, json=homework(bookIds=[3])).status_code == 200
        number = max(row["id"] for row in stored(world)["assignment"])
        withdraw(world, number)

    assert number == 11
    assert assigned(world, bookIds=["3"]) == 12
