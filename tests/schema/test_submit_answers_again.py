"""`submitAnswers` of a submitted assignment: the same answers get the same response, others are rejected.

Contract: neither writes anything. Answers are the same if every question has the same text.
"""

from typing import Any

import pytest

from tests.answers import (
    FITTING,
    REMARK,
    SUBMITTED,
    TEST,
    a_world_to_answer_in,
    refused,
    submit,
)
from tests.callers import Gateway
from tests.database_rows import stored
from tests.factories import starting_with

pytestmark = starting_with(a_world_to_answer_in)

SUBMITTED_ALREADY = refused("WRONG_STATE", "the assignment is submitted", "assignmentId")


@pytest.fixture
def sent(world: Gateway) -> dict[str, Any]:
    """The response to the first submission."""
    answer = submit(world.as_client(1), TEST, FITTING)
    assert (answer["answerSet"]["legacyId"], answer["userErrors"]) == ("12", [])
    return answer


def test_a_repeated_submission_gets_the_same_response(world: Gateway, sent: dict[str, Any]) -> None:
    """With any revision, as the draft is deleted."""
    client = world.as_client(1)
    before = stored(world)

    again = [submit(client, TEST, dict(reversed(FITTING.items())), revision=n) for n in (0, 1, 7)]
    without_the_empty = submit(client, TEST, {n: text for n, text in FITTING.items() if text})

    assert [*again, without_the_empty] == [sent] * 4
    assert stored(world) == before


def test_a_repeated_submission_gets_the_same_response_after_the_session_was_closed(
    world: Gateway, sent: dict[str, Any]
) -> None:
    close = "mutation { closeSession(input: {sessionId: 1}) { userErrors { code } } }"
    world.as_caregiver(1).data(close)
    before = stored(world)

    assert submit(world.as_client(1), TEST, FITTING) == sent
    assert stored(world) == before


OTHERS: dict[str, dict[int, str]] = {
    "another answer": FITTING | {4: "Worse"},
    "one more space": FITTING | {4: FITTING[4] + " "},
    "something more": FITTING | {10: "This"},
    "something less": {n: text for n, text in FITTING.items() if n != 9},
    "nothing": {},
    "options in another order": FITTING | {8: "Gehen – draußen\nTea"},
    "a question of another book": FITTING | {REMARK: "x"},
    "an unknown question": FITTING | {999: "x"},
    "of the wrong kind": FITTING | {6: "many"},
    "too long": FITTING | {10: "x" * 10_001},
}


def test_a_different_second_submission_is_rejected(world: Gateway, sent: dict[str, Any]) -> None:
    before = stored(world)

    rejections = {what: submit(world.as_client(1), TEST, text) for what, text in OTHERS.items()}

    refusal = {"assignment": None, "answerSet": None, "draft": None, "userErrors": SUBMITTED_ALREADY}
    assert rejections == {what: refusal for what in OTHERS}
    assert submit(world.as_client(1), SUBMITTED, {REMARK: "imported ones too"}) == refusal
    assert stored(world) == before
