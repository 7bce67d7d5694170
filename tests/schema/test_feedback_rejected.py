"""Feedback and reopening, rejected: the error has code, field and message, and nothing is written.

Contract: only the caregiver's own COMPLETE assignment of a RUNNING session, in its current attempt.
"""

from typing import Any

import pytest

from tests.answers import (
    GIVE,
    IN_CLOSED,
    IN_FUTURE,
    LATE,
    OF_CAREGIVER_2,
    REMARK,
    REOPEN,
    SUBMITTED_IN_CLOSED,
    TEST,
    a_world_to_answer_in,
    refused,
    reopen,
    save,
)
from tests.callers import Gateway
from tests.database_rows import stored
from tests.factories import a_complete_assignment, an_answer_set
from tests.schema.worlds import global_id, refusal

OF_ANOTHER, WITHDRAWN, REOPENED = 20, 21, 22  # assignments, each with an answer set of the same number
DRAFT = 23
NOT_THERE = refused("NOT_FOUND", "answer set not found", "answerSetId")
NO_ASSIGNMENT = refused("NOT_FOUND", "assignment not found", "assignmentId")


def opinion(answer_set: int | str = 8, text: str = "Well done", **changed: Any) -> dict[str, Any]:
    return {"answerSetId": str(answer_set), "text": text, **changed}


FEEDBACK_REFUSED: dict[str, tuple[dict[str, Any], list[dict[str, Any]]]] = {
    "an unknown answer set": (opinion(99), NOT_THERE),
    "another caregiver's": (opinion(OF_ANOTHER), NOT_THERE),
    "of a withdrawn assignment": (opinion(WITHDRAWN), NOT_THERE),
    "a draft": (opinion(DRAFT), NOT_THERE),
    "a draft by its global id": (opinion(global_id("AnswerSet", DRAFT)), NOT_THERE),
    "the id of an assignment": (opinion(global_id("Assignment", 8)), NOT_THERE),
    "an id behind the largest": (opinion(2**63), NOT_THERE),
    "no id": (opinion(""), refused("INCOMPLETE", "required and missing: answerSetId", "answerSetId")),
    "neither id nor text": (
        opinion(" ", ""),
        [
            {"code": "INCOMPLETE", "field": [member], "message": "required and missing: answerSetId, text"}
            for member in ("answerSetId", "text")
        ],
    ),
    "of a closed session": (
        opinion(9),
        refused("NOT_RUNNING", "the session is closed", "answerSetId"),
    ),
    "of an assignment that is pending again": (
        opinion(REOPENED),
        refused("WRONG_STATE", "the assignment is not submitted", "answerSetId"),
    ),
    "of an earlier attempt": (
        opinion(10),
        refused("WRONG_STATE", "the answers are those of an earlier attempt", "answerSetId"),
    ),
    "no text": (opinion(text=""), refused("INCOMPLETE", "required and missing: text", "text")),
    "a blank text": (opinion(text=" \n\t "), refused("INCOMPLETE", "required and missing: text", "text")),
    "a text too long": (
        opinion(text="ü" * 10_001),
        refused("UNREADABLE", "text may have at most 10000 characters", "text"),
    ),
    "a text that cannot be stored": (
        opinion(text="a\0"),
        refused("UNREADABLE", "text holds a character that cannot be stored", "text"),
    ),
    "a negative score": (
        opinion(score=-1),
        refused("UNREADABLE", "score must lie between 0 and 1000000", "score"),
    ),
    "a score too large": (
        opinion(score=1_000_001),
        refused("UNREADABLE", "score must lie between 0 and 1000000", "score"),
    ),
}
REOPENING_REFUSED = {
    "an unknown assignment": ("99", NO_ASSIGNMENT),
    "another caregiver's": (str(OF_CAREGIVER_2), NO_ASSIGNMENT),
    "another caregiver's, submitted": (str(OF_ANOTHER), NO_ASSIGNMENT),
    "a withdrawn one": (str(WITHDRAWN), NO_ASSIGNMENT),
    "the id of an answer set": (global_id("AnswerSet", 8), NO_ASSIGNMENT),
    "an id behind the largest": (str(2**63), NO_ASSIGNMENT),
    "no id": ("", refused("INCOMPLETE", "required and missing: assignmentId", "assignmentId")),
    "submitted, of a closed session": (
        str(SUBMITTED_IN_CLOSED),
        refused("NOT_RUNNING", "the session is closed", "assignmentId"),
    ),
    "pending, of a closed session": (
        str(IN_CLOSED),
        refused("NOT_RUNNING", "the session is closed", "assignmentId"),
    ),
    "of a future session": (
        str(IN_FUTURE),
        refused("NOT_RUNNING", "the session is not running", "assignmentId"),
    ),
    "pending": (
        str(TEST),
        refused("WRONG_STATE", "the assignment is not submitted", "assignmentId"),
    ),
    "pending again": (
        str(REOPENED),
        refused("WRONG_STATE", "the assignment is not submitted", "assignmentId"),
    ),
}


@pytest.fixture
def world(gateway: Gateway) -> Gateway:
    of_all = [
        a_complete_assignment(OF_ANOTHER, session=5, book=5),
        *(a_complete_assignment(number, book=5) for number in (WITHDRAWN, REOPENED)),
        *(an_answer_set(number, assignment=number) for number in (OF_ANOTHER, WITHDRAWN, REOPENED)),
    ]
    gateway.import_records([*a_world_to_answer_in(), *of_all])
    caregiver, withdraw = gateway.as_caregiver(1), "withdrawAssignment(input: {assignmentId: 21})"
    for number in (WITHDRAWN, REOPENED):
        assert reopen(caregiver, number)["userErrors"] == []
    caregiver.data(f"mutation {{ {withdraw} {{ userErrors {{ code }} }} }}")
    draft = save(gateway.as_client(1), LATE, {REMARK: "x"})["draft"]
    assert draft["legacyId"] == str(DRAFT)
    return gateway


def test_rejected_feedback_is_a_user_error_and_nothing_is_written(world: Gateway) -> None:
    before, found = stored(world), {}

    for what, (input_fields, _) in FEEDBACK_REFUSED.items():
        found[what] = world.as_caregiver(1).graphql(GIVE, input=input_fields)
        assert stored(world) == before, what

    assert found == {
        what: {"data": {"giveFeedback": {"feedback": None, "assignment": None, "userErrors": errors}}}
        for what, (_, errors) in FEEDBACK_REFUSED.items()
    }


@pytest.mark.sqlite_only
def test_a_rejected_reopening_is_a_user_error_and_nothing_is_written(world: Gateway) -> None:
    before, found = stored(world), {}

    for what, (number, _) in REOPENING_REFUSED.items():
        found[what] = world.as_caregiver(1).graphql(REOPEN, input={"assignmentId": number})
        assert stored(world) == before, what

    assert found == {
        what: {"data": {"reopenAssignment": {"assignment": None, "userErrors": errors}}}
        for what, (_, errors) in REOPENING_REFUSED.items()
    }


@pytest.mark.sqlite_only
@pytest.mark.parametrize(
    ("document", "verb", "input_fields"),
    [
        (GIVE, "giveFeedback", [opinion(), opinion(99), opinion(OF_ANOTHER), opinion(text="")]),
        (REOPEN, "reopenAssignment", [{"assignmentId": number} for number in ("8", "99", "9")]),
    ],
    ids=["feedback", "reopening"],
)
def test_a_viewer_without_permission_gets_a_top_level_error(
    world: Gateway, document: str, verb: str, input_fields: list[dict[str, Any]]
) -> None:
    before = stored(world)
    column = document.index(f" {verb}(input") + 2
    expected = {
        "FORBIDDEN": (world.as_client(1), 200, "only a caregiver may do this"),
        "UNAUTHENTICATED": (world.as_anonymous(), 401, "sign in with a valid bearer token"),
    }

    for each in input_fields:
        for code, (caller, status, message) in expected.items():
            assert caller.post_graphql(document, input=each).status_code == status
            assert caller.graphql(document, input=each) == {
                "data": None,
                "errors": [refusal(code, message, verb, column=column)],
            }
    assert stored(world) == before


NO_FEEDBACK: dict[str, dict[str, Any]] = {
    "no text": {"answerSetId": "8"},
    "no answer set": {"text": "x"},
    "too large": opinion(score=2**31),
    "too small": opinion(score=-(2**31) - 1),
    "a fraction": opinion(score=1.5),
    "a text": opinion(score="1"),
}


@pytest.mark.sqlite_only
def test_invalid_feedback_input_fails_validation(world: Gateway) -> None:
    before = stored(world)

    for what, input_fields in NO_FEEDBACK.items():
        (error,) = world.as_caregiver(1).graphql(GIVE, input=input_fields)["errors"]
        assert error["extensions"] == {"code": "GRAPHQL_VALIDATION_FAILED"}, what
    assert stored(world) == before
