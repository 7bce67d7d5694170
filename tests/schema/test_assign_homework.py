"""`assignHomework`: the payload, the stored rows, and what both roles see at once.

Contract: one assignment per book in the order of the books, PENDING, WAITING, score 0; every reminder for
every assignment, past ones SKIPPED; the session's counters and the event are written in the same
transaction.
"""

from itertools import product
from typing import Any

import pytest

from app.db.session_counters import differences
from app.db.tables import Assignment, Event, Reminder
from app.main import create_app
from app.settings import Settings
from tests.callers import Gateway, opened, run_read
from tests.db import raw
from tests.factories import NOW, a_world_with_other_clients, starting_with
from tests.schema.worlds import count, global_id, refusal, stored

pytestmark = starting_with(a_world_with_other_clients)

ASSIGN = """mutation($input: AssignHomeworkInput!) { assignHomework(input: $input) {
    message
    assignments {
        id legacyId name isTest status score feedbackStatus assignDate startDate endDate submitDate
        feedbackSubmitDate lateness { state seconds } answerSets { id } feedbacks { id } draft { id }
        book { legacyId } client { name } caregiver { name } reminders { remindDate state }
        session { legacyId assignmentCount pendingAssignmentCount latestAssignment { legacyId } } }
    userErrors { code field message } } }"""
ASSIGNED = "The assignments were added to the session."


def homework(**changed: Any) -> dict[str, Any]:
    return {
        "sessionId": "1",
        "bookIds": ["3"],
        "startDate": "2026-11-20T08:00:00Z",
        "endDate": "2026-11-28T20:00:00Z",
    } | changed


def an_answered_assignment(number: int, book: str, name: str, is_test: bool = False) -> dict[str, Any]:
    return {
        "id": global_id("Assignment", number),
        "legacyId": str(number),
        "name": name,
        "isTest": is_test,
        "status": "PENDING",
        "score": 0,
        "feedbackStatus": "WAITING",
        "assignDate": "2026-11-21T09:00:00Z",
        "startDate": "2026-11-20T08:00:00Z",
        "endDate": "2026-11-28T20:00:00Z",
        "submitDate": None,
        "feedbackSubmitDate": None,
        "lateness": {"state": "ON_TIME", "seconds": 0},
        "answerSets": [],
        "feedbacks": [],
        "draft": None,
        "book": {"legacyId": book},
        "client": {"name": "Zoë Client 1"},
        "caregiver": {"name": "Caregiver 1"},
        "reminders": [
            {"remindDate": "2026-11-21T08:59:59Z", "state": "SKIPPED"},
            {"remindDate": "2026-11-21T09:00:00Z", "state": "SCHEDULED"},
            {"remindDate": "2026-11-25T18:30:00Z", "state": "SCHEDULED"},
        ],
        "session": {
            "legacyId": "1",
            "assignmentCount": 4,
            "pendingAssignmentCount": 3,
            "latestAssignment": {"legacyId": "7"},
        },
    }


def test_assigned_homework_is_returned_and_stored_completely(world: Gateway) -> None:
    input_fields = homework(
        bookIds=["3", global_id("Book", 1), "3", global_id("Book", 3)],
        sessionId=global_id("Session", 1),
        remindDates=[
            "2026-11-25T19:30:00+01:00",
            "2026-11-21T09:00:00Z",
            "2026-11-21T08:59:59Z",
            "2026-11-25T18:30:00Z",
        ],
    )

    response = world.as_caregiver(1).data(ASSIGN, input=input_fields)

    assert response == {
        "assignHomework": {
            "message": ASSIGNED,
            "assignments": [
                an_answered_assignment(6, "3", "Mood check", is_test=True),
                an_answered_assignment(7, "1", "Sleep diary"),
            ],
            "userErrors": [],
        }
    }
    assert stored(world, Event, "kind", "caregiver_id", "client_id", "session_id", "assignment_id") == [
        ("ASSIGNED", 1, 101, 1, 6),
        ("ASSIGNED", 1, 101, 1, 7),
    ]
    assert stored(world, Assignment, "id", "caregiver_id", "client_id", "session_id", "book_id")[5:] == [
        (6, 1, 101, 1, 3),
        (7, 1, 101, 1, 1),
    ]
    assert stored(world, Assignment, "attempt")[5:] == [(1,), (1,)]
    assert stored(world, Reminder, "caregiver_id", "client_id", "assignment_id")[1:] == [
        (1, 101, number) for number in (6, 6, 6, 7, 7, 7)
    ]
    assert run_read(world.settings.database, differences()) == []


def test_the_client_sees_the_homework_at_once(world: Gateway) -> None:
    world.as_caregiver(1).data(ASSIGN, input=homework(bookIds=["2", "1"]))

    visible = world.as_client(1).data("""{
        session(id: 1) { assignmentCount pendingAssignmentCount latestAssignment { legacyId name }
            lastAssignmentScore assignments { totalCount } }
        assignments(first: 2) { totalCount nodes { legacyId name } } }""")

    assert visible == {
        "session": {
            "assignmentCount": 4,
            "pendingAssignmentCount": 3,
            "latestAssignment": {"legacyId": "7", "name": "Sleep diary"},
            "lastAssignmentScore": 70,
            "assignments": {"totalCount": 4},
        },
        "assignments": {
            "totalCount": 5,  # two of session 1 and one of session 3 before
            "nodes": [
                {"legacyId": "7", "name": "Sleep diary"},
                {"legacyId": "6", "name": "Evening routine"},
            ],
        },
    }


def test_the_second_mutation_of_a_request_sees_the_first(world: Gateway) -> None:
    query = """mutation($a: AssignHomeworkInput!, $b: AssignHomeworkInput!) {
        one: assignHomework(input: $a) { ...counts } two: assignHomework(input: $b) { ...counts } }
        fragment counts on AssignHomeworkPayload {
            assignments { legacyId session { assignmentCount latestAssignment { legacyId } } } }"""

    response = world.as_caregiver(1).data(query, a=homework(), b=homework(bookIds=["1", "2"]))

    after_two = {"assignmentCount": 5, "latestAssignment": {"legacyId": "8"}}
    assert response == {
        "one": {
            "assignments": [
                {"legacyId": "6", "session": {"assignmentCount": 3, "latestAssignment": {"legacyId": "6"}}}
            ]
        },
        "two": {
            "assignments": [{"legacyId": "7", "session": after_two}, {"legacyId": "8", "session": after_two}]
        },
    }


def test_a_rejected_mutation_does_not_affect_the_others(world: Gateway) -> None:
    query = """mutation($good: AssignHomeworkInput!, $bad: AssignHomeworkInput!) {
        one: assignHomework(input: $bad) { message userErrors { code } }
        two: assignHomework(input: $good) { message assignments { status } userErrors { code } }
        three: assignHomework(input: $bad) { message userErrors { code } } }"""

    response = world.as_caregiver(1).data(query, good=homework(), bad=homework(bookIds=["1", "99"]))

    refused = {"message": None, "userErrors": [{"code": "NOT_FOUND"}]}
    assert response == {
        "one": refused,
        "two": {"message": ASSIGNED, "assignments": [{"status": "PENDING"}], "userErrors": []},
        "three": refused,
    }
    assert count(world, Assignment) == 5 + 1
    assert count(world, Event) == 1


@pytest.mark.once_on_postgresql
@pytest.mark.parametrize(
    "selected", ["message", "userErrors { code }", "__typename", "assignments { __typename }"]
)
def test_the_change_does_not_depend_on_the_selection(world: Gateway, selected: str) -> None:
    query = f"mutation($input: AssignHomeworkInput!) {{ assignHomework(input: $input) {{ {selected} }} }}"

    world.as_caregiver(1).data(query, input=homework(bookIds=["1", "2", "3"]))

    assert count(world, Assignment) == 5 + 3
    assert count(world, Event) == 3


@pytest.mark.parametrize(
    "changed",
    [
        {"endDate": "2026-11-20T08:00:00Z"},
        {"startDate": "2026-01-01T00:00:00Z", "endDate": "2026-01-02T00:00:00Z"},
        {"remindDates": None},
        {"remindDates": []},
        {"remindDates": ["2026-11-20T08:00:00Z", "2026-11-28T20:00:00Z"]},
        {"remindDates": [f"2026-11-21T10:{n:02}:00Z" for n in range(50)]},
        {"bookIds": ["1"] * 50},
        {"bookIds": "1"},
        {"sessionId": 1, "bookIds": [1]},
    ],
    ids=[
        "end equals start",
        "a window in the past",
        "reminders are null",
        "no reminders",
        "reminders at both ends",
        "fifty reminders",
        "a book fifty times",
        "one book, not in a list",
        "ids as integers",
    ],
)
def test_values_at_the_limits_are_accepted(world: Gateway, changed: dict[str, Any]) -> None:
    query = """mutation($input: AssignHomeworkInput!) { assignHomework(input: $input) {
        message assignments { legacyId } userErrors { code field message } } }"""

    response = world.as_caregiver(1).data(query, input=homework(**changed))

    assert response == {
        "assignHomework": {"message": ASSIGNED, "assignments": [{"legacyId": "6"}], "userErrors": []}
    }


@pytest.mark.sqlite_only
def test_the_same_book_may_be_assigned_again_later(world: Gateway) -> None:
    for number in (6, 7):
        response = world.as_caregiver(1).data(ASSIGN, input=homework(bookIds=["1"]))
        assert [row["legacyId"] for row in response["assignHomework"]["assignments"]] == [str(number)]


def test_a_time_is_stored_with_microseconds(world: Gateway) -> None:
    query = """mutation($input: AssignHomeworkInput!) { assignHomework(input: $input) {
        assignments { startDate endDate } } }"""

    response = world.as_caregiver(1).data(
        query, input=homework(startDate="2026-11-20T08:00:00.123456+02:00", endDate="2026-11-20T06:00:01.5Z")
    )

    assert response == {
        "assignHomework": {
            "assignments": [
                {"startDate": "2026-11-20T06:00:00.123456Z", "endDate": "2026-11-20T06:00:01.500000Z"}
            ]
        }
    }


@pytest.mark.sqlite_only
def test_a_client_cannot_assign_homework(world: Gateway) -> None:
    response = world.as_client(1).graphql(ASSIGN, input=homework())

    assert response == {
        "data": None,
        "errors": [refusal("FORBIDDEN", "only a caregiver may do this", "assignHomework", column=42)],
    }
    assert (count(world, Assignment), count(world, Event)) == (5, 0)


def test_every_book_is_marked_as_assigned_also_beside_one_that_is(gateway: Gateway) -> None:
    """`books import` replaces only the questions of books that are not."""
    raw.run(gateway.settings.database, "UPDATE book SET is_assigned = (id = 1)")

    gateway.as_caregiver(1).data(ASSIGN, input=homework(bookIds=["1", "3"]))

    marked = raw.run(gateway.settings.database, "SELECT id FROM book WHERE is_assigned ORDER BY id")
    assert marked == [(1,), (3,)]


@pytest.mark.parametrize("kind", ["postgresql"], indirect=True)
@pytest.mark.parametrize("most_rows", [0, 20])
def test_the_order_is_that_of_the_input_in_whichever_order_postgresql_joins_its_lists(
    settings: Settings, monkeypatch: pytest.MonkeyPatch, most_rows: int
) -> None:
    """In one statement, and in a transaction. PostgreSQL sorts rows to join them."""
    monkeypatch.setattr("app.care.homework.MAX_FAST_PATH_ROWS", most_rows)
    days = [27, 22]
    dates = [f"2026-11-{day}T09:00:00Z" for day in days]
    url = f"{settings.database}?enable_nestloop=off&enable_hashjoin=off"
    joining = settings.model_copy(update={"database_url": url})

    with opened(create_app(joining, lambda: NOW)) as client:
        given = homework(bookIds=["3", "1", "2"], remindDates=dates)
        Gateway(client, joining).as_caregiver(1).data(ASSIGN, input=given)

    added = "SELECT book_id FROM assignment WHERE id > 5 ORDER BY id"
    planned = "SELECT assignment_id, extract(day FROM remind_date) FROM reminder WHERE id > 1 ORDER BY id"
    assert raw.run(settings.database, added) == [(3,), (1,), (2,)]
    assert raw.run(settings.database, planned) == list(product((6, 7, 8), days))
