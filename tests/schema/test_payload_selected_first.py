"""An argument out of range in what a payload selects is an error before the change is made.

An error afterwards has no data, and a client that repeats the change would make it twice.
"""

from typing import Any

import pytest

from app.schema.schema import build_schema
from tests.answers import FITTING, SUBMITTED, TEST, a_world_to_answer_in, to_answer
from tests.callers import Gateway
from tests.database_rows import stored
from tests.factories import starting_with

pytestmark = starting_with(a_world_to_answer_in)

WINDOW = {"startDate": "2026-12-01T00:00:00Z", "endDate": "2026-12-08T00:00:00Z"}
SESSION = "assignments(first: 0) { nodes { id } }"
ASSIGNMENT = f"session {{ {SESSION} }}"
ANSWER_SET = f"assignment {{ {ASSIGNMENT} }}"
ASSIGNED = {"assignmentId": str(TEST)}
# The input of each mutation, and its members with what they select.
OF_CAREGIVERS: dict[str, tuple[dict[str, Any], dict[str, str]]] = {
    "assignHomework": ({"sessionId": "1", "bookIds": ["1"], **WINDOW}, {"assignments": ASSIGNMENT}),
    "closeSession": ({"sessionId": "1"}, {"session": SESSION}),
    "createSession": (
        {"clientId": "101", "title": "x", "startDate": WINDOW["startDate"]},
        {"sessions": SESSION},
    ),
    "extendAssignment": ({**ASSIGNED, "endDate": "2027-01-01T00:00:00Z"}, {"assignment": ASSIGNMENT}),
    "giveFeedback": (
        {"answerSetId": str(SUBMITTED), "text": "x"},
        {"feedback": f"answerSet {{ {ANSWER_SET} }}", "assignment": ASSIGNMENT},
    ),
    "reopenAssignment": ({"assignmentId": str(SUBMITTED)}, {"assignment": ASSIGNMENT}),
    "setReminders": ({**ASSIGNED, "remindDates": []}, {"assignment": ASSIGNMENT}),
    "updateSession": ({"sessionId": "1", "title": "x"}, {"session": SESSION}),
    "withdrawAssignment": (ASSIGNED, {"session": SESSION}),
}
OF_CLIENTS: dict[str, tuple[dict[str, Any], dict[str, str]]] = {
    "saveAnswers": (to_answer(TEST, FITTING), {"assignment": ASSIGNMENT, "draft": ANSWER_SET}),
    "submitAnswers": (
        to_answer(TEST, FITTING),
        {"assignment": ASSIGNMENT, "answerSet": ANSWER_SET, "draft": ANSWER_SET},
    ),
}
CASES = [(verb, member) for verb, (_, members) in (OF_CAREGIVERS | OF_CLIENTS).items() for member in members]


def test_every_mutation_is_tried() -> None:
    mutations = build_schema(True)._schema.mutation_type
    assert mutations is not None
    assert {*OF_CAREGIVERS, *OF_CLIENTS} == mutations.fields.keys()


@pytest.mark.parametrize(("verb", "member"), CASES)
def test_an_argument_out_of_range_in_a_payload_makes_no_change(
    world: Gateway, verb: str, member: str
) -> None:
    """The role is checked before it."""
    given, members = (OF_CAREGIVERS | OF_CLIENTS)[verb]
    caller, other = world.as_caregiver(1), world.as_client(1)
    if verb in OF_CLIENTS:
        caller, other = other, caller
    kind = f"{verb[0].upper()}{verb[1:]}Input"
    change = f"mutation ($input: {kind}!) {{ {verb}(input: $input) {{ userErrors {{ message }} %s }} }}"
    selecting = change % f"{member} {{ {members[member]} }}"
    forbidden = other.graphql(selecting, input=given)
    before = stored(world)

    rejected = caller.graphql(selecting, input=given)

    assert [error["extensions"]["code"] for error in forbidden["errors"]] == ["FORBIDDEN"]
    assert stored(world) == before
    assert [(error["message"], error["extensions"]["code"]) for error in rejected["errors"]] == [
        ("first must lie between 1 and 100", "UNREADABLE")
    ]
    assert caller.data(change % "", input=given) == {verb: {"userErrors": []}}
    assert stored(world) != before
