"""`extendAssignment`, `withdrawAssignment` and `setReminders`, rejected: nothing is written.

Contract: the tables "Who may do what when" and "Refusals". For every mutation of a caregiver, the
permission is checked first.
"""

from typing import Any

import pytest

from tests.callers import Gateway
from tests.database_rows import stored
from tests.factories import starting_with
from tests.schema.changing import PAYLOADS, Refusal, a_world_to_change, check_refusals, document
from tests.schema.worlds import global_id, refusal

pytestmark = starting_with(a_world_to_change)

END = "2026-11-28T09:00:00Z"  # assignment 2 may be answered from 2026-11-12T09:00:00Z to 2026-11-26T09:00:00Z
NO_ASSIGNMENT = "assignment not found"
CLOSED = ("NOT_RUNNING", "assignmentId", "the session is closed")
SUBMITTED = ("WRONG_STATE", "assignmentId", "the assignment is submitted")
NOT_THERE = {
    "another's assignment": "9",
    "an unknown assignment": "99",
    "the assignment of nothing": "0",
    "the id of a session": global_id("Session", 1),
    "no id at all": "!",
    "an id behind the largest": str(2**63),
}
OF_ALL: dict[str, Refusal] = {
    **{
        what: ({"assignmentId": number}, "NOT_FOUND", "assignmentId", NO_ASSIGNMENT)
        for what, number in NOT_THERE.items()
    },
    **{
        f"an id of {len(blank)} blanks": (
            {"assignmentId": blank},
            "INCOMPLETE",
            "assignmentId",
            "required and missing: assignmentId",
        )
        for blank in ("", " ")
    },
    "a submitted assignment": ({"assignmentId": "1"}, *SUBMITTED),
    "one in a closed session": ({"assignmentId": "6"}, *CLOSED),
    "a submitted one in a closed session": ({"assignmentId": "3"}, *CLOSED),
}
OUT_OF_TIME = "must lie between the years 1900 and 2999"
TOO_EARLY, TOO_LATE = "1899-12-31T23:59:59.999999Z", "3000-01-01T00:00:00Z"


def of_end(end: str, reason: str) -> Refusal:
    return {"endDate": end}, "UNREADABLE", "endDate", f"endDate {reason}"


OF_EXTENDING: dict[str, Refusal] = {
    **OF_ALL,
    "an earlier end": of_end("2026-11-26T08:59:59.999999Z", "is before the current end"),
    "an end before the start": of_end("2026-11-01T09:00:00Z", "is before the current end"),
    "an end before 1900": of_end(TOO_EARLY, OUT_OF_TIME),
    "an end after 2999": of_end(TOO_LATE, OUT_OF_TIME),
    "an earlier end in a session to come": (
        {"assignmentId": "7", "endDate": "2026-11-30T08:59:59Z"},
        "UNREADABLE",
        "endDate",
        "endDate is before the current end",
    ),
}


def test_correctable_errors_of_an_extension_are_user_errors(world: Gateway) -> None:
    check_refusals(world, "extendAssignment", {"assignmentId": "2", "endDate": END}, OF_EXTENDING)


def of_reminders(moments: list[str], reason: str, place: str = "remindDates") -> Refusal:
    return {"remindDates": moments}, "UNREADABLE", place, f"remindDates {reason}"


OUTSIDE = "must lie between startDate and endDate"
OF_REMINDING: dict[str, Refusal] = {
    **OF_ALL,
    "a reminder before the start": of_reminders(["2026-11-12T08:59:59.999999Z"], OUTSIDE, "remindDates.0"),
    "a reminder behind the end": of_reminders(["2026-11-26T09:00:00.000001Z"], OUTSIDE, "remindDates.0"),
    "one of two outside": of_reminders(["2026-11-22T09:00:00Z", END], OUTSIDE, "remindDates.1"),
    "51 reminders": of_reminders(
        [f"2026-11-22T09:{n:02}:00Z" for n in range(51)], "may hold at most 50 moments"
    ),
    "a reminder 51 times": of_reminders(["2026-11-22T09:00:00Z"] * 51, "may hold at most 50 moments"),
    "a reminder before 1900": of_reminders([TOO_EARLY], OUT_OF_TIME, "remindDates.0"),
    "a reminder after 2999": of_reminders([TOO_LATE], OUT_OF_TIME, "remindDates.0"),
}


@pytest.mark.sqlite_only
def test_correctable_errors_of_reminders_are_user_errors(world: Gateway) -> None:
    check_refusals(world, "setReminders", {"assignmentId": "2", "remindDates": []}, OF_REMINDING)


@pytest.mark.sqlite_only
def test_correctable_errors_of_a_withdrawal_are_user_errors(world: Gateway) -> None:
    check_refusals(world, "withdrawAssignment", {}, OF_ALL)


def test_a_withdrawn_assignment_is_missing(world: Gateway) -> None:
    """For every mutation of a caregiver, including another withdrawal."""
    caregiver = world.as_caregiver(1)
    caregiver.data(document("withdrawAssignment"), input={"assignmentId": "2"})
    gone: dict[str, Refusal] = {"it": ({}, "NOT_FOUND", "assignmentId", NO_ASSIGNMENT)}

    check_refusals(world, "withdrawAssignment", {"assignmentId": "2"}, gone)
    check_refusals(world, "extendAssignment", {"assignmentId": "2", "endDate": END}, gone)
    check_refusals(world, "setReminders", {"assignmentId": "2", "remindDates": []}, gone)


# --- permissions -----------------------------------------------------------------------------------

START = "2026-12-01T09:00:00Z"
ASKED: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {  # valid input, and invalid input
    "createSession": (
        {"clientOpptId": "OPPT-1", "title": "A", "startDate": START},
        {"title": "", "startDate": TOO_LATE},
    ),
    "updateSession": ({"sessionId": "1", "title": "A"}, {"sessionId": "99", "title": ""}),
    "closeSession": ({"sessionId": "1"}, {"sessionId": "3"}),
    "extendAssignment": (
        {"assignmentId": "2", "endDate": END},
        {"assignmentId": "1", "endDate": TOO_LATE},
    ),
    "withdrawAssignment": ({"assignmentId": "2"}, {"assignmentId": "!"}),
    "setReminders": (
        {"assignmentId": "2", "remindDates": []},
        {"assignmentId": "1", "remindDates": [TOO_EARLY]},
    ),
}


@pytest.mark.sqlite_only
def test_a_viewer_without_permission_gets_a_top_level_error(world: Gateway) -> None:
    """Invalid input is not reported to a client, even for their own session."""
    before = stored(world)

    for name, inputs in ASKED.items():
        column = document(name).index(f" {name}(") + 2
        for input_fields in inputs:
            assert world.as_client(1).graphql(document(name), input=input_fields) == {
                "data": None,
                "errors": [refusal("FORBIDDEN", "only a caregiver may do this", name, column=column)],
            }
            assert world.as_anonymous().graphql(document(name), input=input_fields) == {
                "data": None,
                "errors": [
                    refusal("UNAUTHENTICATED", "sign in with a valid bearer token", name, column=column)
                ],
            }
            denied = world.as_anonymous().post_graphql(document(name), input=input_fields)
            assert (denied.status_code, denied.headers.get("www-authenticate")) == (401, "Bearer")
    assert ASKED.keys() == PAYLOADS.keys()
    assert stored(world) == before


def test_the_clients_other_caregiver_cannot_change_the_assignment(world: Gateway) -> None:
    """Client 2 has two caregivers."""
    refused = ({}, "NOT_FOUND", "assignmentId", NO_ASSIGNMENT)
    before = stored(world)

    response = world.as_caregiver(2).graphql(document("closeSession"), input={"sessionId": "4"})

    assert response["data"]["closeSession"]["userErrors"] == [
        {"code": "NOT_FOUND", "field": ["sessionId"], "message": "session not found"}
    ]
    for name in ("extendAssignment", "withdrawAssignment", "setReminders"):
        input_fields = ASKED[name][0] | {"assignmentId": "5"}
        check_refusals(world, name, input_fields, {"it": refused})
    assert stored(world) == before
