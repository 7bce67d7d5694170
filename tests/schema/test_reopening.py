"""`reopenAssignment`: the next attempt, with its history kept.

Contract: attempt + 1; PENDING, WAITING, score 0, no dates of submission or feedback. Earlier attempts stay
readable in GraphQL; on the legacy paths `answers` is empty, and later has the new attempt only.
"""

import pytest

from tests.answers import (
    FITTING,
    LATE,
    REMARK,
    SUBMITTED,
    SUBMITTED_TWICE,
    TEST,
    THEIR_SCORE,
    a_world_to_answer_in,
    events_since,
    give,
    refused,
    reopen,
    save,
    submit,
    to_answer,
)
from tests.callers import Gateway
from tests.database_rows import stored
from tests.factories import starting_with
from tests.rest_compat.legacy import ASSIGNMENTS, SESSIONS

pytestmark = starting_with(a_world_to_answer_in)


def test_reopening_makes_an_assignment_pending_and_keeps_its_history(world: Gateway) -> None:
    caregiver = world.as_caregiver(1)
    submit(world.as_client(1), TEST, FITTING)
    give(caregiver, 12, "Well done", score=50)
    before = stored(world)

    response = reopen(caregiver, TEST)

    assert response == {
        "assignment": {
            "legacyId": str(TEST),
            "status": "PENDING",
            "attempt": 2,
            "score": 0,
            "submitDate": None,
            "feedbackStatus": "WAITING",
            "feedbackSubmitDate": None,
            "draft": None,
            "answerSets": [{"legacyId": "12", "attempt": 1, "feedback": {"text": "Well done"}}],
            "feedbacks": [{"text": "Well done"}],
            "session": {
                "completedAssignmentCount": 2,
                "pendingAssignmentCount": 3,
                "lastAssignmentScore": 70,
            },
        },
        "userErrors": [],
    }
    after = stored(world)
    kept = ("answer_set", "feedback", "reminder", "delivery")
    assert {name: after[name] for name in kept} == {name: before[name] for name in kept}
    assert events_since(world, before) == [("REOPENED", "CAREGIVER", 1, 101, 1, TEST)]


def test_a_second_attempt_is_submitted_beside_the_first(world: Gateway) -> None:
    caregiver, client = world.as_caregiver(1), world.as_client(1)
    submit(client, TEST, FITTING)
    reopen(caregiver, TEST)

    second = submit(client, TEST, FITTING | {5: "false"})
    again = submit(client, TEST, FITTING | {5: "false"})
    first_again = submit(client, TEST, FITTING)

    assert second["assignment"]["answerSets"] == [{"legacyId": "13"}, {"legacyId": "12"}]
    assert (second["assignment"]["attempt"], second["assignment"]["score"]) == (2, THEIR_SCORE - 4)
    assert (second["answerSet"]["attempt"], second["answerSet"]["score"]) == (2, THEIR_SCORE - 4)
    assert again == second
    wrong_state = refused("WRONG_STATE", "the assignment is submitted", "assignmentId")
    assert first_again["userErrors"] == wrong_state  # the current attempt is another one
    history = """{ client: assignment(id: 1) { answerSets { attempt score answers { answer } } } }"""
    for caller in (client, caregiver):
        assert [
            (each["attempt"], each["score"], each["answers"][1]["answer"])
            for each in caller.data(history)["client"]["answerSets"]
        ] == [(2, THEIR_SCORE - 4, "false"), (1, THEIR_SCORE, "true")]


def test_the_first_draft_of_a_new_attempt_has_a_revision_that_the_next_one_needs(world: Gateway) -> None:
    """A retry of a save gets the same revision."""
    client = world.as_client(1)
    document = """mutation($input: SaveAnswersInput!) { saveAnswers(input: $input) {
        draft { revision } userErrors { code } } }"""
    save(client, TEST, FITTING)
    submit(client, TEST, FITTING, revision=1)
    reopen(world.as_caregiver(1), TEST)

    revisions = [0]
    for _ in range(2):
        given = to_answer(TEST, FITTING, revision=revisions[-1])
        saved, again = (client.data(document, input=given)["saveAnswers"] for _ in range(2))
        assert saved["userErrors"] == []
        assert again == saved
        revisions.append(saved["draft"]["revision"])

    assert revisions == [0, 2, 3]


def test_an_attempt_without_a_draft_continues_the_revisions(world: Gateway) -> None:
    """As one with a draft does: a device may still show a draft of the earlier attempt."""
    client = world.as_client(1)
    for revision in range(3):
        save(client, TEST, FITTING, revision=revision)
    submit(client, TEST, FITTING, revision=3)
    for _ in range(2):
        reopen(world.as_caregiver(1), TEST)
        submit(client, TEST, FITTING)

    rows = [row for row in stored(world)["answer_set"] if row["assignment_id"] == TEST]

    assert [(row["attempt"], row["revision"]) for row in rows] == [(1, 3), (2, 4), (3, 5)]


@pytest.mark.sqlite_only
def test_equal_answers_are_a_submission_of_the_new_attempt(world: Gateway) -> None:
    submit(world.as_client(1), LATE, {REMARK: "x"})
    reopen(world.as_caregiver(1), LATE)

    response = submit(world.as_client(1), LATE, {REMARK: "x"})

    assert (response["answerSet"]["legacyId"], response["answerSet"]["attempt"]) == ("13", 2)


def test_the_legacy_paths_show_only_the_current_attempt(world: Gateway) -> None:
    caregiver, client = world.as_caregiver(1), world.as_client(1)

    def visible() -> tuple[object, ...]:
        one = caregiver.get(f"{ASSIGNMENTS}/{TEST}").json()
        (listed,) = (
            each
            for each in caregiver.get(f"{ASSIGNMENTS}?time-state=RUNNING").json()["content"]
            if each["id"] == TEST
        )
        (session,) = client.get(f"{SESSIONS}?time-state=RUNNING").json()["content"]
        assert listed == one
        members = ("status", "score", "submitDate", "feedbackStatus", "feedbackSubmitDate")
        counts = ("completedAssignmentCount", "pendingAssignmentCount")
        answer_sets = [(each["id"], each["answers"][0]["answer"]) for each in one["answers"]]
        return *(one[name] for name in members), answer_sets, *(session[name] for name in counts)

    date = "2026/11/21 09:00"
    submit(client, TEST, FITTING)
    give(caregiver, 12, "Well done", score=50)
    assert visible() == ("COMPLETE", 50, date, "SUBMITTED", date, [(12, FITTING[4])], 3, 2)

    reopen(caregiver, TEST)
    assert visible() == ("PENDING", 0, None, "WAITING", None, [], 2, 3)

    submit(client, TEST, FITTING | {4: "Anders"})
    assert visible() == ("COMPLETE", THEIR_SCORE, date, "WAITING", None, [(13, "Anders")], 3, 2)


@pytest.mark.sqlite_only
def test_an_assignment_can_be_reopened_repeatedly(world: Gateway) -> None:
    caregiver, client = world.as_caregiver(1), world.as_client(1)
    before = stored(world)

    for attempt in range(3, 6):
        assert reopen(caregiver, SUBMITTED_TWICE)["assignment"]["attempt"] == attempt
        sent = submit(client, SUBMITTED_TWICE, {REMARK: str(attempt)})
        assert sent["answerSet"]["attempt"] == attempt

    about = (1, 101, 1, SUBMITTED_TWICE)
    assert (
        events_since(world, before)
        == [
            ("REOPENED", "CAREGIVER", *about),
            ("SUBMITTED", "CLIENT", *about),
        ]
        * 3
    )


def test_the_score_of_the_session_ignores_reopened_assignments(world: Gateway) -> None:
    caregiver = world.as_caregiver(1)
    submit(world.as_client(1), TEST, FITTING)

    scores = [
        reopen(caregiver, number)["assignment"]["session"]["lastAssignmentScore"]
        for number in (SUBMITTED_TWICE, SUBMITTED, TEST)
    ]

    assert scores == [70, THEIR_SCORE, None]


def test_withdrawing_a_reopened_assignment_deletes_its_history(world: Gateway) -> None:
    caregiver = world.as_caregiver(1)
    reopen(caregiver, SUBMITTED)
    withdraw = f"""mutation {{ withdrawAssignment(input: {{assignmentId: {SUBMITTED}}}) {{
        session {{ assignmentCount }} userErrors {{ code }} }} }}"""

    assert caregiver.data(withdraw) == {
        "withdrawAssignment": {"session": {"assignmentCount": 4}, "userErrors": []}
    }
    numbers = "{ submissions { nodes { legacyId } } assignments { nodes { legacyId } } }"
    for caller in (caregiver, world.as_client(1)):
        visible = caller.data(numbers)
        assert "8" not in {each["legacyId"] for each in visible["submissions"]["nodes"]}
        assert str(SUBMITTED) not in {each["legacyId"] for each in visible["assignments"]["nodes"]}
    assert caregiver.get(f"{ASSIGNMENTS}/{SUBMITTED}").status_code == 404
