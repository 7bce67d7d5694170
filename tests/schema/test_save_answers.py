"""`saveAnswers`: every assignment has one draft, which only its client sees.

Contract: each save increments the revision; a retried save gets the same response; a stale revision is
rejected with the stored draft; a submission deletes the draft, and revisions continue in the next attempt.
"""

import re
from typing import Any

import pytest

from tests.answers import (
    FITTING,
    LATE,
    REMARK,
    SUBMITTED,
    TEST,
    a_world_to_answer_in,
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
from tests.factories import NOW, an_answer_set, an_assignment
from tests.rest_compat.legacy import ASSIGNMENTS
from tests.schema.worlds import global_id

STALE = refused("DRAFT_CONFLICT", "the draft was saved elsewhere meanwhile", "revision")
SECRET = "Das weiß noch niemand"


@pytest.fixture
def world(gateway: Gateway) -> Gateway:
    gateway.import_records(a_world_to_answer_in())
    return gateway


def a_draft(number: int, revision: int, answers: dict[int, str], texts: dict[int, str]) -> dict[str, Any]:
    return {
        "id": global_id("AnswerSet", number),
        "legacyId": str(number),
        "saveType": "DRAFT",
        "attempt": 1,
        "revision": revision,
        "submitDate": None,
        "score": None,
        "answers": [
            {"questionId": global_id("Question", each), "questionText": texts[each], "answer": answer}
            for each, answer in answers.items()
        ],
        "assignment": {"legacyId": str(TEST), "status": "PENDING"},
    }


TEXTS = {
    4: "How was it?",
    5: "Did you practise?",
    6: "How many hours?",
    7: "How often?",
    8: "What helped?",
    9: "How strongly?",
    10: "Anything else?",
}


def test_a_saved_draft_replaces_the_previous_one(world: Gateway) -> None:
    client, before = world.as_client(1), stored(world)

    first = save(client, TEST, {6: "sieben?", 4: "Half a thou"})
    second = save(client, TEST, {4: "Half a thought", 9: ""}, revision=1)

    in_order = {4: "Half a thou", 6: "sieben?"}  # unfinished: a draft is not validated
    assert first == {"draft": a_draft(12, 1, in_order, TEXTS), "userErrors": []}
    later = {4: "Half a thought", 9: ""}
    assert second == {"draft": a_draft(12, 2, later, TEXTS), "userErrors": []}
    after = stored(world)
    [draft] = added(before, after, "answer_set")
    assert draft["answers"] == [[number, TEXTS[number], answer] for number, answer in later.items()]
    saved = ("DRAFT_SAVED", "CLIENT", 1, 101, 1, TEST)
    assert events_since(world, before) == [saved, saved]
    others = ("session", "assignment", "reminder", "feedback")
    assert {name: after[name] for name in others} == {name: before[name] for name in others}


def test_the_answers_are_in_the_order_of_the_book_in_whichever_order_its_questions_are_stored(
    world: Gateway,
) -> None:
    """The ids of the questions have another order too."""
    raw.run(world.settings.database, "UPDATE question SET position = 99 - position")

    draft = save(world.as_client(1), TEST, {6: "7.5", 4: "Better", 9: "3"})["draft"]

    assert [each["questionId"] for each in draft["answers"]] == [global_id("Question", n) for n in (9, 6, 4)]


@pytest.mark.sqlite_only
def test_a_draft_may_be_saved_automatically_or_by_the_user(world: Gateway) -> None:
    client = world.as_client(1)

    kinds = [
        save(client, TEST, {4: str(revision)}, revision=revision, autoSave=by_device)["draft"]["saveType"]
        for revision, by_device in enumerate([True, False, True])
    ]

    assert kinds == ["AUTO_SAVE", "DRAFT", "AUTO_SAVE"]


@pytest.mark.sqlite_only
def test_the_revision_alone_can_be_selected(world: Gateway) -> None:
    selected = "saveAnswers(input: $input) { draft { legacyId revision } }"
    saving = f"mutation($input: SaveAnswersInput!) {{ {selected} }}"

    saved = [
        world.as_client(1).data(saving, input=to_answer(TEST, {4: "x" * number}, revision=number))
        for number in range(3)
    ]

    assert saved == [
        {"saveAnswers": {"draft": {"legacyId": "12", "revision": number}}} for number in (1, 2, 3)
    ]


def test_an_assignment_accepts_answers_from_its_start_on(world: Gateway) -> None:
    world.import_records([an_assignment(30, book=5, startDate=NOW)])

    assert save(world.as_client(1), 30, {REMARK: "x"})["userErrors"] == []
    assert submit(world.as_client(1), 30, {REMARK: "x"}, revision=1)["userErrors"] == []


def test_a_draft_may_be_emptied(world: Gateway) -> None:
    client = world.as_client(1)
    save(client, TEST, {4: "x"})

    assert save(client, TEST, {}, revision=1) == {"draft": a_draft(12, 2, {}, TEXTS), "userErrors": []}


def test_a_retried_save_gets_the_same_response(world: Gateway) -> None:
    """The response was lost, and the device repeats the request; that is no conflict."""
    client = world.as_client(1)

    for revision, answers in enumerate([{4: "a", 6: "7"}, {4: "b"}, {}]):
        first = save(client, TEST, answers, revision=revision)
        before = stored(world)
        assert save(client, TEST, answers, revision=revision) == first
        assert stored(world) == before
        assert first["draft"]["revision"] == revision + 1


def test_a_stale_revision_is_rejected_with_the_stored_draft(world: Gateway) -> None:
    client = world.as_client(1)
    save(client, TEST, {4: "on the phone"})
    save(client, TEST, {4: "on the phone, later"}, revision=1)
    before = stored(world)

    responses = [save(client, TEST, {4: "on the table"}, revision=n) for n in (0, 1, 3, 99, -1, 2**31 - 1)]

    same = [save(client, TEST, {4: "on the phone, later"}, revision=n) for n in (0, 3, -1)]

    there = a_draft(12, 2, {4: "on the phone, later"}, TEXTS)
    assert responses + same == [{"draft": there, "userErrors": STALE}] * 9
    without_draft = client.data(
        "mutation($input: SaveAnswersInput!) { saveAnswers(input: $input) { userErrors { code } } }",
        input={"assignmentId": str(TEST), "answers": [], "revision": 1},
    )
    assert without_draft == {"saveAnswers": {"userErrors": [{"code": "DRAFT_CONFLICT"}]}}
    assert stored(world) == before


@pytest.mark.sqlite_only
def test_a_revision_of_a_missing_draft_is_rejected(world: Gateway) -> None:
    before = stored(world)

    responses = [save(world.as_client(1), TEST, {4: "x"}, revision=revision) for revision in (1, -1)]

    assert responses == [{"draft": None, "userErrors": STALE}] * 2
    assert stored(world) == before


@pytest.mark.sqlite_only
def test_an_imported_draft_can_be_saved(gateway: Gateway) -> None:
    draft = {"saveType": "AUTO_SAVE", "revision": 7, "answers": [{"questionText": "?", "answer": "x"}]}
    gateway.import_records([*a_world_to_answer_in(), an_answer_set(20, TEST, **draft)])

    response = save(gateway.as_client(1), TEST, {4: "y"}, revision=7)

    assert response == {"draft": a_draft(20, 8, {4: "y"}, TEXTS), "userErrors": []}


# --- access ----------------------------------------------------------------------------------------

EVERYWHERE = """query($ids: [ID!]!, $id: ID!) {
    node(id: $id) { id ... on AnswerSet { answers { answer } } }
    nodes(ids: $ids) { id ... on AnswerSet { answers { answer } assignment { draft { id } } } }
    assignments { nodes { draft { id answers { answer } } answerSets { id answers { answer } }
        feedbacks { answerSet { id } } } }
    sessions { nodes { latestAssignment { draft { id } } assignments { nodes {
        draft { id answers { answer } } answerSets { id assignment { draft { answers { answer } } } } } } } }
    submissions { totalCount nodes { id saveType answers { answer } } }
    clients { nodes { id } } }"""


def test_only_the_client_sees_a_draft_on_both_contracts(world: Gateway) -> None:
    save(world.as_client(1), LATE, {REMARK: SECRET})
    draft = global_id("AnswerSet", 12)
    ids = [draft, global_id("AnswerSet", 8), global_id("Assignment", LATE)]

    own = world.as_client(1).post_graphql(
        EVERYWHERE.replace("clients { nodes { id } }", ""), id=draft, ids=ids
    )
    others = [
        caller.post_graphql(EVERYWHERE, id=draft, ids=ids).text
        for caller in (world.as_caregiver(1), world.as_caregiver(2), world.as_client(2), world.as_anonymous())
    ]
    legacy = [
        caller.get(path).text
        for caller in (world.as_caregiver(1), world.as_caregiver(2), world.as_client(1))
        for path in (
            f"{ASSIGNMENTS}/{LATE}",
            f"{ASSIGNMENTS}?time-state=RUNNING",
            "/gateway/profile/client/session?time-state=RUNNING",
        )
    ]

    assert own.text.count(SECRET) == 4
    assert own.json()["data"]["submissions"]["totalCount"] == 4
    for text in (*others, *legacy):
        assert SECRET not in text and draft not in text
    of_caregiver = world.as_caregiver(1).get(f"{ASSIGNMENTS}/{LATE}").json()
    assert (of_caregiver["status"], of_caregiver["answers"]) == ("PENDING", [])
    assert (of_caregiver["drafts"], of_caregiver["autoSaveAnswers"]) == ([], [])


# --- attempts --------------------------------------------------------------------------------------


def test_a_submission_deletes_the_draft(world: Gateway) -> None:
    client = world.as_client(1)
    for revision in range(3):
        save(client, TEST, {4: str(revision)}, revision=revision)
    query = (
        """query($id: ID!) { node(id: $id) { id } assignment(id: 1) { draft { id } answerSets { id } } }"""
    )

    final = submit(client, TEST, FITTING, revision=3)["answerSet"]["id"]

    assert client.data(query, id=global_id("AnswerSet", 12)) == {
        "node": None,
        "assignment": {"draft": None, "answerSets": [{"id": final}]},
    }
    assert 12 not in {row["id"] for row in stored(world)["answer_set"]}


def test_a_device_with_the_draft_of_an_earlier_attempt_gets_a_conflict(world: Gateway) -> None:
    """Revisions continue across attempts, although a new draft accepts revision 0."""
    caregiver, client = world.as_caregiver(1), world.as_client(1)
    save(client, LATE, {REMARK: "seen by both devices"})
    submit(client, LATE, {REMARK: "sent"}, revision=1)
    reopen(caregiver, LATE)

    too_early = save(client, LATE, {REMARK: "by the one that slept"}, revision=1)
    awake = save(client, LATE, {REMARK: "by the other"})
    again = save(client, LATE, {REMARK: "by the other"})
    slept = save(client, LATE, {REMARK: "by the one that slept"}, revision=1)
    sent = submit(client, LATE, {REMARK: "by the one that slept"}, revision=1)

    assert too_early == {"draft": None, "userErrors": STALE}
    assert (awake["draft"]["revision"], awake["draft"]["attempt"], awake["userErrors"]) == (2, 2, [])
    assert again == awake
    assert slept == {"draft": awake["draft"], "userErrors": STALE}
    assert (sent["answerSet"], sent["userErrors"]) == (None, STALE)


def test_saving_an_imported_draft_moves_it_to_the_current_attempt(gateway: Gateway) -> None:
    draft = {"saveType": "DRAFT", "revision": 4, "answers": []}
    gateway.import_records([*a_world_to_answer_in(), an_answer_set(20, SUBMITTED, **draft)])
    reopen(gateway.as_caregiver(1), SUBMITTED)

    response = save(gateway.as_client(1), SUBMITTED, {REMARK: "x"}, revision=4)

    assert re.sub("[^0-9]", "", response["draft"]["legacyId"]) == "20"
    assert (response["draft"]["attempt"], response["draft"]["revision"]) == (2, 5)


# --- the payload's assignment, and nulls -----------------------------------------------------------

SAVE_OF = """mutation($input: SaveAnswersInput!) { saveAnswers(input: $input) {
    assignment { id legacyId status draft { legacyId revision saveType } session { pendingAssignmentCount } }
    userErrors { code field message } } }"""


@pytest.mark.sqlite_only
def test_the_payload_has_the_assignment_with_its_new_draft(world: Gateway) -> None:
    input_fields = to_answer(TEST, {4: "Half a thought"}, autoSave=True)

    saved = world.as_client(1).data(SAVE_OF, input=input_fields)["saveAnswers"]

    assert saved == {
        "assignment": {
            "id": global_id("Assignment", TEST),
            "legacyId": str(TEST),
            "status": "PENDING",
            "draft": {"legacyId": "12", "revision": 1, "saveType": "AUTO_SAVE"},
            "session": {"pendingAssignmentCount": 3},
        },
        "userErrors": [],
    }


@pytest.mark.sqlite_only
def test_the_payload_of_a_rejection_has_no_assignment(world: Gateway) -> None:
    world.as_client(1).data(SAVE_OF, input=to_answer(TEST, {4: "One"}))

    stale = world.as_client(1).data(SAVE_OF, input=to_answer(TEST, {4: "Two"}))["saveAnswers"]
    foreign = world.as_client(2).data(SAVE_OF, input=to_answer(TEST, {4: "Two"}))["saveAnswers"]

    assert stale == {"assignment": None, "userErrors": STALE}
    assert foreign == {
        "assignment": None,
        "userErrors": refused("NOT_FOUND", "assignment not found", "assignmentId"),
    }


@pytest.mark.sqlite_only
def test_null_means_the_default_of_revision_and_auto_save(world: Gateway) -> None:
    client = world.as_client(1)

    first = save(client, TEST, {4: "One"}, revision=None, autoSave=None)
    stale = save(client, TEST, {4: "Two"}, revision=None)
    submitted = submit(client, LATE, {REMARK: "Done"}, revision=None)

    assert first == {"draft": a_draft(12, 1, {4: "One"}, TEXTS), "userErrors": []}
    assert stale == {"draft": a_draft(12, 1, {4: "One"}, TEXTS), "userErrors": STALE}
    assert (submitted["userErrors"], submitted["answerSet"]["revision"]) == ([], 1)
