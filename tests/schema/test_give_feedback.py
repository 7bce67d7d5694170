"""`giveFeedback`: the feedback, the effective score, and both contracts.

Contract: one feedback per answer set, which can be edited; the status changes from WAITING to SUBMITTED;
its score, if any, overrides the computed score until it is removed.
"""

from typing import Any

import pytest

from app.care.feedback import FeedbackInput, giving_feedback
from app.db.reader.selection import AccessScope
from tests.answers import (
    FITTING,
    LATE,
    REMARK,
    SUBMITTED,
    TEST,
    THEIR_SCORE,
    a_world_to_answer_in,
    events_since,
    give,
    refused,
    reopen,
    submit,
)
from tests.callers import Gateway
from tests.database_rows import added, stored
from tests.factories import HOUR, NOW, starting_with
from tests.rest_compat.legacy import ASSIGNMENTS, SESSIONS
from tests.schema.worlds import global_id

pytestmark = starting_with(a_world_to_answer_in)

MOMENT = "2026-11-21T09:00:00Z"


def given(
    text: str, own_score: int | None, score: int, of_session: int = 70, number: int = 1
) -> dict[str, Any]:
    return {
        "feedback": {
            "id": global_id("Feedback", number),
            "text": text,
            "score": own_score,
            "submitDate": MOMENT,
            "author": {"name": "Caregiver 1"},
            "answerSet": {"legacyId": "12", "score": score},
        },
        "assignment": {
            "legacyId": str(TEST),
            "status": "COMPLETE",
            "score": score,
            "feedbackStatus": "SUBMITTED",
            "feedbackSubmitDate": MOMENT,
            "session": {"lastAssignmentScore": of_session},
        },
        "userErrors": [],
    }


def test_feedback_is_given_edited_and_its_score_removed(world: Gateway) -> None:
    caregiver = world.as_caregiver(1)
    submit(world.as_client(1), TEST, FITTING)
    before = stored(world)
    longest = " " + "x" * 9_998 + "\n"

    results = [
        give(caregiver, 12, "Gut gemacht – 🌙"),
        give(caregiver, global_id("AnswerSet", 12), "Gut gemacht", score=0),
        give(caregiver, 12, "Gut gemacht", score=1_000_000),
        give(caregiver, 12, "Gut gemacht", score=None),
        give(caregiver, 12, longest),
    ]

    assert results == [
        given("Gut gemacht – 🌙", None, THEIR_SCORE),
        given("Gut gemacht", 0, 0),
        given("Gut gemacht", 1_000_000, 1_000_000),
        given("Gut gemacht", None, THEIR_SCORE),
        given(longest, None, THEIR_SCORE),
    ]
    after = stored(world)
    (row,) = added(before, after, "feedback")
    assert row == {
        "caregiver_id": 1,
        "client_id": 101,
        "assignment_id": TEST,
        "answer_set_id": 12,
        "text": longest,
        "score": None,
        "submit_date": NOW,
    }
    assert events_since(world, before) == [("FEEDBACK_GIVEN", "CAREGIVER", 1, 101, 1, TEST)] * 5
    untouched = ("reminder", "session")
    assert {name: after[name] for name in untouched} == {name: before[name] for name in untouched}


def test_edited_feedback_has_the_moment_of_the_edit(world: Gateway) -> None:
    submit(world.as_client(1), TEST, FITTING)
    give(world.as_caregiver(1), 12, "Well done")
    later = AccessScope(NOW + HOUR, caregiver=1)

    assert world.client.portal is not None
    world.client.portal.call(world.database.write, giving_feedback(later, FeedbackInput(12, "Better")))

    query = """{ node(id: "%s") { ... on AnswerSet { feedback { text submitDate }
        assignment { feedbackSubmitDate } } } }"""
    moment = "2026-11-21T10:00:00Z"
    assert world.as_client(1).data(query % global_id("AnswerSet", 12))["node"] == {
        "feedback": {"text": "Better", "submitDate": moment},
        "assignment": {"feedbackSubmitDate": moment},
    }


@pytest.mark.sqlite_only
@pytest.mark.parametrize(("score", "of_set"), [(5, 5), (0, 0), (None, THEIR_SCORE)])
def test_repeated_feedback_writes_nothing(world: Gateway, score: int | None, of_set: int) -> None:
    """The number of the feedback is another one than that of the assignment."""
    submit(world.as_client(1), TEST, FITTING)
    give(world.as_caregiver(1), 8, "Welcome")
    first = give(world.as_caregiver(1), 12, "Well done", score=score)
    before = stored(world)

    assert give(world.as_caregiver(1), 12, "Well done", score=score) == first
    assert first == given("Well done", score, of_set, number=2)
    assert stored(world) == before


def test_the_client_sees_feedback_at_once_in_every_field(world: Gateway) -> None:
    query = """query($id: ID!) {
        assignment(id: 1) { score feedbackStatus feedbackSubmitDate feedbacks { text score author { name } } }
        node(id: $id) { ... on AnswerSet { score feedback { text } } }
        submissions(first: 1) { nodes { feedback { text } } } }"""
    submit(world.as_client(1), TEST, FITTING)
    give(world.as_caregiver(1), 12, "Well done", score=5)

    for caller in (world.as_client(1), world.as_caregiver(1)):
        assert caller.data(query, id=global_id("AnswerSet", 12)) == {
            "assignment": {
                "score": 5,
                "feedbackStatus": "SUBMITTED",
                "feedbackSubmitDate": MOMENT,
                "feedbacks": [{"text": "Well done", "score": 5, "author": {"name": "Caregiver 1"}}],
            },
            "node": {"score": 5, "feedback": {"text": "Well done"}},
            "submissions": {"nodes": [{"feedback": {"text": "Well done"}}]},
        }


@pytest.mark.sqlite_only
def test_the_legacy_paths_show_the_status_and_time_of_feedback(world: Gateway) -> None:
    caregiver, client = world.as_caregiver(1), world.as_client(1)
    submit(client, TEST, FITTING)
    before = caregiver.get(f"{ASSIGNMENTS}/{TEST}").json()

    give(caregiver, 12, "Well done", score=5)

    assert caregiver.get(f"{ASSIGNMENTS}/{TEST}").json() == {
        **before,
        "score": 5,
        "feedbackStatus": "SUBMITTED",
        "feedbackSubmitDate": "2026/11/21 09:00",
    }
    (session,) = client.get(f"{SESSIONS}?time-state=RUNNING").json()["content"]
    assert (session["lastAssignmentScore"], session["feedbacks"]) == (70, [])


def test_the_session_shows_the_score_of_the_newest_submission(world: Gateway) -> None:
    reopen(world.as_caregiver(1), 10)
    reopen(world.as_caregiver(1), SUBMITTED)
    submit(world.as_client(1), TEST, FITTING)

    first = give(world.as_caregiver(1), 12, "Well done", score=5)
    mended = give(world.as_caregiver(1), 12, "Well done")

    assert first == given("Well done", 5, 5, of_session=5)
    assert mended == given("Well done", None, THEIR_SCORE, of_session=THEIR_SCORE)


def test_an_imported_submission_keeps_its_score_until_feedback_overrides_it(world: Gateway) -> None:
    def scores(answer: dict[str, Any]) -> tuple[int, int]:
        return answer["assignment"]["score"], answer["feedback"]["answerSet"]["score"]

    caregiver = world.as_caregiver(1)

    assert scores(give(caregiver, 8, "Well done")) == (70, 70)
    assert scores(give(caregiver, 8, "Well done", score=5)) == (5, 5)
    assert scores(give(caregiver, 8, "Well done")) == (70, 70)


def test_every_attempt_has_its_own_feedback(world: Gateway) -> None:
    caregiver, client = world.as_caregiver(1), world.as_client(1)
    for number, text in ((12, "first"), (13, "second")):
        submit(client, LATE, {REMARK: text})
        assert give(caregiver, number, f"the {text}", score=number)["userErrors"] == []
        reopen(caregiver, LATE)
    submit(client, LATE, {REMARK: "third"})
    query = """{ assignment(id: 2) { score feedbackStatus feedbackSubmitDate feedbacks { text }
        answerSets { score feedback { text } } } }"""

    earlier = give(caregiver, 13, "too late")

    assert earlier["userErrors"] == refused(
        "WRONG_STATE", "the answers are those of an earlier attempt", "answerSetId"
    )
    assert client.data(query) == {
        "assignment": {
            "score": 0,
            "feedbackStatus": "WAITING",
            "feedbackSubmitDate": None,
            "feedbacks": [{"text": "the first"}, {"text": "the second"}],
            "answerSets": [
                {"score": None, "feedback": None},
                {"score": 13, "feedback": {"text": "the second"}},
                {"score": 12, "feedback": {"text": "the first"}},
            ],
        }
    }


@pytest.mark.sqlite_only
def test_the_change_does_not_depend_on_the_selection(world: Gateway) -> None:
    before = stored(world)
    query = """mutation($input: GiveFeedbackInput!) { giveFeedback(input: $input) { __typename } }"""

    world.as_caregiver(1).data(query, input={"answerSetId": "8", "text": "x"})

    assert events_since(world, before) == [("FEEDBACK_GIVEN", "CAREGIVER", 1, 101, 1, SUBMITTED)]
