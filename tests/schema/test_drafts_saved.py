"""`saveAnswers`, when it is done: one draft per assignment, a revision further each time, the client's alone.

Contract: a save that comes a second time is the same save; a stale revision is told with the stored draft;
the draft is gone after the submission, and a later attempt does not meet its revisions again.
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
from tests.factories import an_answer_set
from tests.rest_compat.legacy import ASSIGNMENTS
from tests.schema.worlds import global_id

STALE = refused("DRAFT_CONFLICT", "the draft was saved elsewhere meanwhile", "revision")
SECRET = "Das weiß noch niemand"


@pytest.fixture
def world(gateway: Gateway) -> Gateway:
    gateway.given(a_world_to_answer_in())
    return gateway


def a_draft(number: int, revision: int, said: dict[int, str], texts: dict[int, str]) -> dict[str, Any]:
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
            for each, answer in said.items()
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


def test_the_first_draft_is_kept_and_the_next_one_takes_its_place(world: Gateway) -> None:
    client, before = world.as_client(1), stored(world)

    first = save(client, TEST, {6: "sieben?", 4: "Half a thou"})
    second = save(client, TEST, {4: "Half a thought", 9: ""}, revision=1)

    in_order = {4: "Half a thou", 6: "sieben?"}  # unfinished: it need not be a number yet
    assert first == {"draft": a_draft(12, 1, in_order, TEXTS), "userErrors": []}
    later = {4: "Half a thought", 9: ""}
    assert second == {"draft": a_draft(12, 2, later, TEXTS), "userErrors": []}
    after = stored(world)
    assert [row["position"] for row in after["answer"] if row["answer_set_id"] == 12] == [1, 6]
    assert len(added(before, after, "answer_set")) == 1
    saved = ("DRAFT_SAVED", "CLIENT", 1, 1, 1, TEST)
    assert events_since(world, before) == [saved, saved]
    others = ("session", "assignment", "reminder", "feedback")
    assert {name: after[name] for name in others} == {name: before[name] for name in others}


def test_a_draft_may_be_saved_by_the_device_and_by_the_person(world: Gateway) -> None:
    client = world.as_client(1)

    kinds = [
        save(client, TEST, {4: str(revision)}, revision=revision, autoSave=by_device)["draft"]["saveType"]
        for revision, by_device in enumerate([True, False, True])
    ]

    assert kinds == ["AUTO_SAVE", "DRAFT", "AUTO_SAVE"]


def test_a_draft_may_be_emptied(world: Gateway) -> None:
    client = world.as_client(1)
    save(client, TEST, {4: "x"})

    assert save(client, TEST, {}, revision=1) == {"draft": a_draft(12, 2, {}, TEXTS), "userErrors": []}


def test_a_save_that_comes_a_second_time_is_the_same_save(world: Gateway) -> None:
    """Its answer was lost on the way: the device asks again and must not be told of a conflict."""
    client = world.as_client(1)

    for revision, said in enumerate([{4: "a", 6: "7"}, {4: "b"}, {}]):
        first = save(client, TEST, said, revision=revision)
        before = stored(world)
        assert save(client, TEST, said, revision=revision) == first
        assert stored(world) == before
        assert first["draft"]["revision"] == revision + 1


def test_a_stale_revision_is_told_with_the_stored_draft(world: Gateway) -> None:
    client = world.as_client(1)
    save(client, TEST, {4: "on the phone"})
    save(client, TEST, {4: "on the phone, later"}, revision=1)
    before = stored(world)

    answers = [save(client, TEST, {4: "on the table"}, revision=n) for n in (0, 1, 3, 99, -1, 2**31 - 1)]

    there = a_draft(12, 2, {4: "on the phone, later"}, TEXTS)
    assert answers == [{"draft": there, "userErrors": STALE}] * 6
    without_draft = client.data(
        "mutation($input: SaveAnswersInput!) { saveAnswers(input: $input) { userErrors { code } } }",
        input={"assignmentId": str(TEST), "answers": [], "revision": 1},
    )
    assert without_draft == {"saveAnswers": {"userErrors": [{"code": "DRAFT_CONFLICT"}]}}
    assert stored(world) == before


def test_a_draft_that_is_not_there_is_at_no_revision(world: Gateway) -> None:
    before = stored(world)

    answers = [save(world.as_client(1), TEST, {4: "x"}, revision=revision) for revision in (1, -1)]

    assert answers == [{"draft": None, "userErrors": STALE}] * 2
    assert stored(world) == before


def test_a_draft_that_was_imported_is_carried_on(gateway: Gateway) -> None:
    draft = {"saveType": "AUTO_SAVE", "revision": 7, "answers": [{"questionText": "?", "answer": "x"}]}
    gateway.given([*a_world_to_answer_in(), an_answer_set(20, TEST, **draft)])

    answer = save(gateway.as_client(1), TEST, {4: "y"}, revision=7)

    assert answer == {"draft": a_draft(20, 8, {4: "y"}, TEXTS), "userErrors": []}


# --- whose it is -----------------------------------------------------------------------------------

EVERYWHERE = """query($ids: [ID!]!, $id: ID!) {
    node(id: $id) { id ... on AnswerSet { answers { answer } } }
    nodes(ids: $ids) { id ... on AnswerSet { answers { answer } assignment { draft { id } } } }
    assignments { nodes { draft { id answers { answer } } answerSets { id answers { answer } }
        feedbacks { answerSet { id } } } }
    sessions { nodes { latestAssignment { draft { id } } assignments { nodes {
        draft { id answers { answer } } answerSets { id assignment { draft { answers { answer } } } } } } } }
    submissions { totalCount nodes { id saveType answers { answer } } }
    clients { nodes { id } } }"""


def test_a_draft_is_the_clients_alone_on_every_path_of_both_contracts(world: Gateway) -> None:
    save(world.as_client(1), LATE, {REMARK: SECRET})
    draft = global_id("AnswerSet", 12)
    ids = [draft, global_id("AnswerSet", 8), global_id("Assignment", LATE)]

    own = world.as_client(1).post_graphql(
        EVERYWHERE.replace("clients { nodes { id } }", ""), id=draft, ids=ids
    )
    others = [
        caller.post_graphql(EVERYWHERE, id=draft, ids=ids).text
        for caller in (world.as_caregiver(1), world.as_caregiver(2), world.as_client(2), world.as_nobody())
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


# --- what becomes of it ----------------------------------------------------------------------------


def test_a_draft_is_gone_after_the_submission(world: Gateway) -> None:
    client = world.as_client(1)
    for revision in range(3):
        save(client, TEST, {4: str(revision)}, revision=revision)
    query = (
        """query($id: ID!) { node(id: $id) { id } assignment(id: 1) { draft { id } answerSets { id } } }"""
    )

    submit(client, TEST, FITTING, revision=3)

    final = global_id("AnswerSet", 13)
    assert client.data(query, id=global_id("AnswerSet", 12)) == {
        "node": None,
        "assignment": {"draft": None, "answerSets": [{"id": final}]},
    }
    assert 12 not in {row["answer_set_id"] for row in stored(world)["answer"]}


def test_a_device_that_slept_through_an_attempt_does_not_overwrite_the_next_draft(world: Gateway) -> None:
    """The revisions go on behind those of earlier attempts, although a new draft begins with nothing seen."""
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


def test_a_draft_of_an_earlier_attempt_belongs_to_this_one_once_it_is_saved(gateway: Gateway) -> None:
    draft = {"saveType": "DRAFT", "revision": 4, "answers": []}
    gateway.given([*a_world_to_answer_in(), an_answer_set(20, SUBMITTED, **draft)])
    reopen(gateway.as_caregiver(1), SUBMITTED)

    answer = save(gateway.as_client(1), SUBMITTED, {REMARK: "x"}, revision=4)

    assert re.sub("[^0-9]", "", answer["draft"]["legacyId"]) == "20"
    assert (answer["draft"]["attempt"], answer["draft"]["revision"]) == (2, 5)


# --- the payload's assignment, and nulls -----------------------------------------------------------

SAVE_OF = """mutation($input: SaveAnswersInput!) { saveAnswers(input: $input) {
    assignment { id legacyId status draft { legacyId revision saveType } session { pendingAssignmentCount } }
    userErrors { code field message } } }"""


def test_a_payload_gives_the_assignment_with_its_new_draft(world: Gateway) -> None:
    asked = to_answer(TEST, {4: "Half a thought"}, autoSave=True)

    saved = world.as_client(1).data(SAVE_OF, input=asked)["saveAnswers"]

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


def test_a_payload_of_a_refusal_gives_no_assignment(world: Gateway) -> None:
    world.as_client(1).data(SAVE_OF, input=to_answer(TEST, {4: "One"}))

    stale = world.as_client(1).data(SAVE_OF, input=to_answer(TEST, {4: "Two"}))["saveAnswers"]
    foreign = world.as_client(2).data(SAVE_OF, input=to_answer(TEST, {4: "Two"}))["saveAnswers"]

    assert stale == {"assignment": None, "userErrors": STALE}
    assert foreign == {
        "assignment": None,
        "userErrors": refused("NOT_FOUND", "assignment not found", "assignmentId"),
    }


def test_null_is_the_default_of_a_revision_and_of_saving_automatically(world: Gateway) -> None:
    client = world.as_client(1)

    first = save(client, TEST, {4: "One"}, revision=None, autoSave=None)
    stale = save(client, TEST, {4: "Two"}, revision=None)
    submitted = submit(client, LATE, {REMARK: "Done"}, revision=None)

    assert first == {"draft": a_draft(12, 1, {4: "One"}, TEXTS), "userErrors": []}
    assert stale == {"draft": a_draft(12, 1, {4: "One"}, TEXTS), "userErrors": STALE}
    assert (submitted["userErrors"], submitted["answerSet"]["revision"]) == ([], 1)
