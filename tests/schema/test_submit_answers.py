"""`submitAnswers`: the answer set, the score and the counters, on both contracts.

Contract: one answer per question, in the order of the book; COMPLETE once per attempt; a late submission
is accepted and marked.
"""

from typing import Any

import pytest

from app.db.moments import moment_as_text
from tests.answers import (
    EVERY_KIND,
    FITTING,
    LATE,
    REMARK,
    SUBMIT,
    SUBMITTED,
    SUBMITTED_TWICE,
    TEST,
    THEIR_SCORE,
    a_world_to_answer_in,
    answers,
    events_since,
    refused,
    reopen,
    save,
    submit,
    to_answer,
)
from tests.callers import Gateway
from tests.database_rows import added, stored
from tests.db import raw
from tests.factories import DAY, NOW, a_complete_assignment, an_assignment, starting_with
from tests.rest_compat.legacy import ASSIGNMENTS, SESSIONS
from tests.schema.worlds import global_id

pytestmark = starting_with(a_world_to_answer_in)


SENT: dict[str, Any] = {
    "assignment": {
        "legacyId": str(TEST),
        "status": "COMPLETE",
        "attempt": 1,
        "score": THEIR_SCORE,
        "submitDate": "2026-11-21T09:00:00Z",
        "feedbackStatus": "WAITING",
        "feedbackSubmitDate": None,
        "lateness": {"state": "ON_TIME", "seconds": 0},
        "draft": None,
        "answerSets": [{"legacyId": "12"}],
        "reminders": [{"state": "SENT"}, {"state": "SKIPPED"}, {"state": "SKIPPED"}],
        "session": {
            "assignmentCount": 5,
            "completedAssignmentCount": 3,
            "pendingAssignmentCount": 2,
            "lastAssignmentScore": 70,  # that of a newer assignment, complete before
        },
    },
    "answerSet": {
        "id": global_id("AnswerSet", 12),
        "legacyId": "12",
        "saveType": "FINAL",
        "attempt": 1,
        "revision": 1,
        "submitDate": "2026-11-21T09:00:00Z",
        "score": THEIR_SCORE,
        "answers": [
            {"questionId": global_id("Question", number), "questionText": each["text"], "answer": answer}
            for (number, answer), each in zip(FITTING.items(), EVERY_KIND, strict=True)
        ],
        "feedback": None,
    },
    "draft": None,
    "userErrors": [],
}


def test_answers_of_every_kind_are_submitted_and_scored(world: Gateway) -> None:
    """Of an assignment that starts at this moment."""
    starts = f"UPDATE assignment SET start_date = '{moment_as_text(NOW)}' WHERE id = {TEST}"
    raw.run(world.settings.database, starts)
    before = stored(world)

    response = submit(world.as_client(1), TEST, dict(reversed(FITTING.items())))

    assert response == SENT
    after = stored(world)
    assert added(before, after, "answer_set") == [
        {
            "caregiver_id": 1,
            "client_id": 101,
            "assignment_id": TEST,
            "save_type": "FINAL",
            "attempt": 1,
            "revision": 1,
            "submit_date": NOW,
            "score": THEIR_SCORE,
            "own_score": THEIR_SCORE,
            "answers": [
                [number, each["text"], answer]
                for (number, answer), each in zip(FITTING.items(), EVERY_KIND, strict=True)
            ],
        }
    ]
    assert events_since(world, before) == [("SUBMITTED", "CLIENT", 1, 101, 1, TEST)]
    assert [row for row in after["assignment"] if row["id"] != TEST] == [
        row for row in before["assignment"] if row["id"] != TEST
    ]


def test_a_submission_has_no_feedback_though_pending_homework_was_imported_with_one(world: Gateway) -> None:
    feedback = {"feedbackStatus": "SUBMITTED", "feedbackSubmitDate": NOW - DAY}
    world.import_records([an_assignment(11, book=4, attempt=2, **feedback)])

    response = submit(world.as_client(1), 11, FITTING)["assignment"]

    assert {
        name: response[name] for name in ("status", "attempt", "feedbackStatus", "feedbackSubmitDate")
    } == {
        "status": "COMPLETE",
        "attempt": 2,
        "feedbackStatus": "WAITING",
        "feedbackSubmitDate": None,
    }


def test_caregiver_and_client_see_the_submission_at_once(world: Gateway) -> None:
    query = """{ assignment(id: 1) { status answerSets { score answers { answer } } }
        submissions(first: 1) { nodes { legacyId assignment { legacyId } } } }"""

    submit(world.as_client(1), TEST, FITTING)

    for caller in (world.as_client(1), world.as_caregiver(1)):
        assert caller.data(query) == {
            "assignment": {
                "status": "COMPLETE",
                "answerSets": [
                    {"score": THEIR_SCORE, "answers": [{"answer": texts} for texts in FITTING.values()]}
                ],
            },
            "submissions": {"nodes": [{"legacyId": "12", "assignment": {"legacyId": str(TEST)}}]},
        }


@pytest.mark.sqlite_only
def test_the_legacy_paths_show_the_submission(world: Gateway) -> None:
    caregiver, client = world.as_caregiver(1), world.as_client(1)
    before = caregiver.get(f"{ASSIGNMENTS}/{TEST}").json()
    session_before = client.get(f"{SESSIONS}?time-state=RUNNING").json()["content"][-1]

    submit(client, TEST, FITTING)

    sent = [
        {"questionText": each["text"], "answer": answer, "metadata": None, "highlights": []}
        for answer, each in zip(FITTING.values(), EVERY_KIND, strict=True)
    ]
    assert caregiver.get(f"{ASSIGNMENTS}/{TEST}").json() == {
        **before,
        "status": "COMPLETE",
        "submitDate": "2026/11/21 09:00",
        "score": THEIR_SCORE,
        "answers": [
            {
                "id": 12,
                "saveType": "FINAL",
                "metadata": None,
                "assignmentId": TEST,
                "submitDate": "2026/11/21 09:00",
                "answers": sent,
            }
        ],
    }
    counts = {"completedAssignmentCount": 3, "pendingAssignmentCount": 2}
    session = client.get(f"{SESSIONS}?time-state=RUNNING").json()["content"][-1]
    assert session == {**session_before, **counts}


def test_the_last_score_of_a_session_is_that_of_its_newest_complete_assignment(world: Gateway) -> None:
    """The newest is the one with the highest id, not the latest submission."""
    query = """mutation($input: AssignHomeworkInput!) {
        assignHomework(input: $input) { assignments { legacyId session { lastAssignmentScore } } } }"""
    window = {"startDate": "2026-11-20T08:00:00Z", "endDate": "2026-11-28T08:00:00Z"}
    added = world.as_caregiver(1).data(query, input={"sessionId": "1", "bookIds": ["4"], **window})
    (newest,) = added["assignHomework"]["assignments"]

    later = submit(world.as_client(1), int(newest["legacyId"]), FITTING | {5: "false"})
    earlier = submit(world.as_client(1), TEST, FITTING)

    assert newest["session"] == {"lastAssignmentScore": 70}
    assert later["assignment"]["session"]["lastAssignmentScore"] == THEIR_SCORE - 4
    assert earlier["assignment"]["session"]["lastAssignmentScore"] == THEIR_SCORE - 4


def test_the_last_score_of_a_session_is_that_of_no_pending_or_withdrawn_assignment(world: Gateway) -> None:
    """Nor of one in another session of the caregiver."""
    world.import_records([a_complete_assignment(12, book=5)])
    raw.run(
        world.settings.database,
        "UPDATE assignment SET withdraw_date = assign_date WHERE id = 12",
        "UPDATE session SET assignment_count = 5, completed_assignment_count = 2 WHERE id = 1",
    )
    for number in (SUBMITTED, SUBMITTED_TWICE):
        assert reopen(world.as_caregiver(1), number)["userErrors"] == []
    before = stored(world)

    response = submit(world.as_client(1), TEST, FITTING)

    assert response["assignment"]["session"] == {
        "assignmentCount": 5,
        "completedAssignmentCount": 1,
        "pendingAssignmentCount": 4,
        "lastAssignmentScore": THEIR_SCORE,
    }
    assert events_since(world, before) == [("SUBMITTED", "CLIENT", 1, 101, 1, TEST)]


@pytest.mark.sqlite_only
def test_a_late_submission_is_accepted_and_marked(world: Gateway) -> None:
    before = stored(world)

    response = submit(world.as_client(1), LATE, {REMARK: "better late"})

    assert response["userErrors"] == []
    assert response["assignment"]["lateness"] == {"state": "LATE", "seconds": 3600}
    assert response["assignment"]["reminders"] == [{"state": "SKIPPED"}]
    assert (response["assignment"]["score"], response["answerSet"]["score"]) == (0, None)
    assert events_since(world, before) == [("SUBMITTED", "CLIENT", 1, 101, 1, LATE)]


@pytest.mark.once_on_postgresql
@pytest.mark.parametrize("texts", [{}, {REMARK: ""}, {REMARK: " "}], ids=["left out", "empty", "blank"])
def test_an_optional_question_without_an_answer_is_stored_empty(
    world: Gateway, texts: dict[int, str]
) -> None:
    response = submit(world.as_client(1), LATE, texts)

    assert [each["answer"] for each in response["answerSet"]["answers"]] == [texts.get(REMARK, "")]


def test_a_draft_is_submitted_at_its_revision(world: Gateway) -> None:
    client = world.as_client(1)
    for revision in range(2):
        save(client, TEST, {4: str(revision)}, revision=revision)

    for stale in (0, 1, 3):
        conflict = submit(client, TEST, FITTING, revision=stale)
        assert conflict["userErrors"] == refused(
            "DRAFT_CONFLICT", "the draft was saved elsewhere meanwhile", "revision"
        )
        assert (conflict["assignment"], conflict["answerSet"]) == (None, None)
        assert (conflict["draft"]["legacyId"], conflict["draft"]["revision"]) == ("12", 2)
        assert [each["answer"] for each in conflict["draft"]["answers"]] == ["1"]

    selecting = "answerSet { saveType } draft { legacyId answers { answer } } userErrors { code }"
    query = f"mutation($input: SubmitAnswersInput!) {{ submitAnswers(input: $input) {{ {selecting} }} }}"
    for _ in range(3):  # read, then prepared
        payload = client.data(query, input={**to_answer(TEST, FITTING), "revision": 1})["submitAnswers"]
        assert payload["draft"] == {"legacyId": "12", "answers": [{"answer": "1"}]}

    done = submit(client, TEST, FITTING, revision=2)
    assert int(done["answerSet"]["legacyId"]) > 12
    assert done["answerSet"]["revision"] == 2


@pytest.mark.once_on_postgresql
@pytest.mark.parametrize("selected", ["userErrors { code }", "__typename", "assignment { __typename }"])
def test_the_change_does_not_depend_on_the_selection(world: Gateway, selected: str) -> None:
    query = f"mutation($input: SubmitAnswersInput!) {{ submitAnswers(input: $input) {{ {selected} }} }}"
    before = stored(world)

    world.as_client(1).data(query, input=to_answer(TEST, FITTING))

    assert events_since(world, before) == [("SUBMITTED", "CLIENT", 1, 101, 1, TEST)]


def test_two_submissions_in_one_request_run_in_order(world: Gateway) -> None:
    query = """mutation($a: SubmitAnswersInput!, $b: SubmitAnswersInput!) {
        one: submitAnswers(input: $a) { ...payload } two: submitAnswers(input: $b) { ...payload }
        three: submitAnswers(input: $a) { ...payload } }
        fragment payload on SubmitAnswersPayload {
            answerSet { legacyId } userErrors { code }
            assignment { session { completedAssignmentCount } } }"""
    a, b = to_answer(TEST, FITTING), to_answer(LATE, {})

    response = world.as_client(1).data(query, a=a, b=b)

    def done(number: str, count: int) -> dict[str, Any]:
        session = {"session": {"completedAssignmentCount": count}}
        return {"answerSet": {"legacyId": number}, "assignment": session, "userErrors": []}

    assert response == {"one": done("12", 3), "two": done("13", 4), "three": done("12", 4)}


@pytest.mark.sqlite_only
def test_a_question_id_accepts_both_forms(world: Gateway) -> None:
    texts = answers(FITTING)
    for each, number in zip(texts, FITTING, strict=True):
        each["questionId"] = str(number)

    response = world.as_client(1).data(SUBMIT, input={"assignmentId": str(TEST), "answers": texts})

    assert response == {"submitAnswers": SENT}
