"""Lists contain the viewer's objects in the requested time state, newest first, and nobody else's."""

from collections.abc import Callable

import pytest

from tests.callers import Gateway
from tests.database_rows import stored
from tests.factories import (
    HOUR,
    NOW,
    Record,
    a_complete_assignment,
    a_session,
    a_world,
    an_answer_set,
    an_assignment,
    catalogue,
    people,
)
from tests.rest_compat.legacy import ASSIGNMENTS, SESSIONS, homework, rejection_of

SEEN_BY_CLIENT = {
    (1, "RUNNING"): [1],
    (1, "FUTURE"): [2],
    (1, "COMPLETED"): [3],
    (2, "RUNNING"): [5, 4],
    (2, "FUTURE"): [],
    (2, "COMPLETED"): [],
}
SEEN_BY_CAREGIVER = {
    (1, "RUNNING"): [4, 2, 1],
    (1, "FUTURE"): [],
    (1, "COMPLETED"): [3],
    (2, "RUNNING"): [5],
    (2, "FUTURE"): [],
    (2, "COMPLETED"): [],
}


@pytest.mark.parametrize(("number", "state"), SEEN_BY_CLIENT)
def test_a_client_lists_only_their_own_sessions(standing: Gateway, number: int, state: str) -> None:
    page = standing.as_client(number).get(SESSIONS, params={"time-state": state}).json()

    own = SEEN_BY_CLIENT[number, state]
    assert [item["id"] for item in page["content"]] == own
    assert page["totalElements"] == len(own)
    assert {item["clientId"] for item in page["content"]} <= {number}
    assert {item["runningStatus"] for item in page["content"]} <= {state}


@pytest.mark.parametrize(("number", "state"), SEEN_BY_CAREGIVER)
def test_a_caregiver_lists_their_own_assignments_by_time_state(
    standing: Gateway, number: int, state: str
) -> None:
    page = standing.as_caregiver(number).get(ASSIGNMENTS, params={"time-state": state}).json()

    own = SEEN_BY_CAREGIVER[number, state]
    assert [item["id"] for item in page["content"]] == own
    assert page["totalElements"] == len(own)
    assert {item["caregiverId"] for item in page["content"]} <= {number}


def test_lists_are_ordered_by_id(gateway: Gateway) -> None:
    """The newest is the one with the highest id, though it began and was assigned first."""
    gateway.import_records([*people(), *catalogue()])
    gateway.import_records(a_session(number, startDate=NOW - number * HOUR) for number in (30, 9, 100))
    gateway.import_records(
        an_assignment(number, session=9, assignDate=NOW - number * HOUR) for number in (30, 9, 100)
    )

    sessions = gateway.as_client(1).get(f"{SESSIONS}?time-state=RUNNING").json()["content"]
    assignments = gateway.as_caregiver(1).get(f"{ASSIGNMENTS}?time-state=RUNNING").json()["content"]

    assert [session["id"] for session in sessions] == [100, 30, 9]
    assert [assignment["id"] for assignment in assignments] == [100, 30, 9]
    assert [session["assignmentId"] for session in sessions] == [None, None, 100]


def test_another_caregivers_assignment_is_not_found(standing: Gateway) -> None:
    others = standing.as_caregiver(1).get(f"{ASSIGNMENTS}/5")
    unknown = standing.as_caregiver(1).get(f"{ASSIGNMENTS}/999999")

    assert standing.as_caregiver(2).get(f"{ASSIGNMENTS}/5").status_code == 200
    assert rejection_of(others) == (404, "assignment not found")
    assert without_place_and_time(others.content) == without_place_and_time(unknown.content)
    assert set(others.headers) == set(unknown.headers)


def without_place_and_time(body: bytes) -> bytes:
    """An error body from `status` to `message`."""
    return body[body.index(b'"status"') : body.index(b',"path"')]


def test_homework_in_another_caregivers_session_is_not_found(standing: Gateway) -> None:
    before = stored(standing)

    others = standing.as_caregiver(1).put(ASSIGNMENTS, json=homework(sessionId=5))
    unknown = standing.as_caregiver(1).put(ASSIGNMENTS, json=homework(sessionId=999999))

    assert rejection_of(others) == (404, "session not found")
    assert without_place_and_time(others.content) == without_place_and_time(unknown.content)
    assert stored(standing) == before


WRONG_ROLE = {
    "a caregiver lists a client's sessions": ("CAREGIVER", "GET", f"{SESSIONS}?time-state=RUNNING"),
    "a client lists assignments": ("CLIENT", "GET", f"{ASSIGNMENTS}?time-state=RUNNING"),
    "a client reads their own assignment": ("CLIENT", "GET", f"{ASSIGNMENTS}/1"),
    "a client assigns homework": ("CLIENT", "PUT", ASSIGNMENTS),
}


@pytest.mark.parametrize(("role", "method", "path"), WRONG_ROLE.values(), ids=WRONG_ROLE)
def test_a_path_rejects_the_other_role(standing: Gateway, role: str, method: str, path: str) -> None:
    caller = standing.as_client(1) if role == "CLIENT" else standing.as_caregiver(1)
    needed = "caregiver" if role == "CLIENT" else "client"
    before = stored(standing)

    response = caller.request(method, path, json=homework() if method == "PUT" else None)

    assert rejection_of(response) == (403, f"only a {needed} may do this")
    assert stored(standing) == before


# --- attempts --------------------------------------------------------------------------------------


def answers_shown(gateway: Gateway) -> list[int]:
    """The answer sets of assignment 9, which are the same in its detail and in the list."""
    detail = gateway.as_caregiver(1).get(f"{ASSIGNMENTS}/9").json()
    page = gateway.as_caregiver(1).get(f"{ASSIGNMENTS}?time-state=RUNNING").json()
    assert [item for item in page["content"] if item["id"] == 9] == [detail]
    return [answer_set["id"] for answer_set in detail["answers"]]


@pytest.mark.parametrize("record", [an_assignment, a_complete_assignment])
def test_an_assignment_shows_no_answers_of_an_earlier_attempt(
    gateway: Gateway, record: Callable[..., Record]
) -> None:
    """The record of a complete assignment may come without its answers."""
    gateway.import_records([*a_world(), record(9, attempt=2), an_answer_set(90, assignment=9, attempt=1)])

    assert answers_shown(gateway) == []


def test_an_assignment_completed_again_shows_only_the_newest_attempt(gateway: Gateway) -> None:
    gateway.import_records([*a_world(), a_complete_assignment(9, attempt=2)])
    gateway.import_records(
        [
            an_answer_set(91, assignment=9, attempt=2),
            an_answer_set(95, assignment=9, attempt=1),  # recorded later, and yet the earlier attempt
            an_answer_set(92, assignment=9, attempt=2, saveType="AUTO_SAVE", submitDate=None),
        ]
    )

    assert answers_shown(gateway) == [91]
