"""Access to drafts, and lateness at the time of the request.

Contract: only the client sees a DRAFT or AUTO_SAVE answer set, as `draft` and as a node, never in
`answerSets`.
"""

from datetime import timedelta
from typing import Any

import pytest

from tests.callers import Gateway
from tests.factories import DAY, NOW, a_complete_assignment, a_world, an_assignment
from tests.schema.worlds import a_draft, global_id

DRAFT = """query($id: ID!) { assignment(id: 2) {
    draft { id saveType attempt revision submitDate answers { questionText answer } assignment { legacyId } }
    answerSets { id } }
    node(id: $id) { ... on AnswerSet {
        legacyId saveType answers { answer } draftOf: assignment { legacyId } } } }"""


@pytest.mark.parametrize("save_type", ["DRAFT", "AUTO_SAVE"])
def test_a_client_sees_their_own_draft(gateway: Gateway, save_type: str) -> None:
    gateway.import_records([*a_world(), a_draft(6, assignment=2, saveType=save_type)])

    response = gateway.as_client(1).data(DRAFT, id=global_id("AnswerSet", 6))

    draft_text = "Not yet don"
    assert response == {
        "assignment": {
            "draft": {
                "id": global_id("AnswerSet", 6),
                "saveType": save_type,
                "attempt": 1,
                "revision": 3,
                "submitDate": None,
                "answers": [{"questionText": "How was it?", "answer": draft_text}],
                "assignment": {"legacyId": "2"},
            },
            "answerSets": [],
        },
        "node": {
            "legacyId": "6",
            "saveType": save_type,
            "answers": [{"answer": draft_text}],
            "draftOf": {"legacyId": "2"},
        },
    }


@pytest.mark.parametrize("save_type", ["DRAFT", "AUTO_SAVE"])
def test_a_caregiver_sees_no_draft(gateway: Gateway, save_type: str) -> None:
    gateway.import_records([*a_world(), a_draft(6, assignment=2, saveType=save_type)])

    response = gateway.as_caregiver(1).data(DRAFT, id=global_id("AnswerSet", 6))

    assert response == {"assignment": {"draft": None, "answerSets": []}, "node": None}


def test_the_draft_of_another_client_is_missing(gateway: Gateway) -> None:
    gateway.import_records([*a_world(), a_draft(6, assignment=2), a_draft(7, assignment=4)])
    query = "query($ids: [ID!]!) { nodes(ids: $ids) { id } }"
    ids = [global_id("AnswerSet", number) for number in (6, 7, 1, 3)]
    six, seven, one, three = ({"id": each} for each in ids)

    visible = {
        "client 1": gateway.as_client(1).data(query, ids=ids)["nodes"],
        "client 2": gateway.as_client(2).data(query, ids=ids)["nodes"],
        "caregiver 1": gateway.as_caregiver(1).data(query, ids=ids)["nodes"],
        "caregiver 2": gateway.as_caregiver(2).data(query, ids=ids)["nodes"],
    }

    assert visible == {
        "client 1": [six, None, one, None],
        "client 2": [None, seven, None, three],
        "caregiver 1": [None, None, one, None],
        "caregiver 2": [None, None, None, three],
    }


def test_a_draft_is_not_among_the_answer_sets_of_earlier_attempts(gateway: Gateway) -> None:
    gateway.import_records([*a_world(), a_draft(7, assignment=1, saveType="AUTO_SAVE")])
    query = "{ assignments { nodes { legacyId draft { legacyId } answerSets { legacyId saveType } } } }"
    final = [{"legacyId": "1", "saveType": "FINAL"}]

    of_client = gateway.as_client(1).data(query)["assignments"]["nodes"][-1]
    of_caregiver = gateway.as_caregiver(1).data(query)["assignments"]["nodes"][-1]

    assert of_client == {"legacyId": "1", "draft": {"legacyId": "7"}, "answerSets": final}
    assert of_caregiver == {"legacyId": "1", "draft": None, "answerSets": final}


def test_a_draft_is_hidden_on_every_level(standing: Gateway) -> None:
    query = """{ session(id: 1) { assignments(status: PENDING) { nodes { draft { id } session {
        assignments { nodes { draft { answers { answer } assignment { draft { id } } } } } } } }
        latestAssignment { answerSets { assignment { session { assignments(status: PENDING) {
            nodes { draft { id answers { answer } } } } } } } } } }"""

    of_caregiver = standing.as_caregiver(1).post_graphql(query).text
    of_client = standing.as_client(1).post_graphql(query).text

    assert "Not yet don" not in of_caregiver and global_id("AnswerSet", 6) not in of_caregiver
    assert of_client.count("Not yet don") == 3  # once below the list, once below each submission


# --- lateness --------------------------------------------------------------------------------------

SECOND = timedelta(seconds=1)
LATENESS: dict[str, tuple[dict[str, Any], str, int]] = {
    "pending, the end to come": ({"endDate": NOW + SECOND}, "ON_TIME", 0),
    "pending, the end is now": ({"endDate": NOW}, "ON_TIME", 0),
    "pending, the end was a second ago": ({"endDate": NOW - SECOND}, "OVERDUE", 1),
    "pending, the end was ten days ago": ({"endDate": NOW - 10 * DAY}, "OVERDUE", 864_000),
    "pending, half a second ago": ({"endDate": NOW - SECOND / 2}, "OVERDUE", 0),
    "pending, without an end": ({"endDate": None}, "ON_TIME", 0),
    "submitted before the end": ({"endDate": NOW - DAY, "submitDate": NOW - 2 * DAY}, "ON_TIME", 0),
    "submitted at the end": ({"endDate": NOW - DAY, "submitDate": NOW - DAY}, "ON_TIME", 0),
    "submitted a second late": ({"endDate": NOW - DAY, "submitDate": NOW - DAY + SECOND}, "LATE", 1),
    "submitted a day late": ({"endDate": NOW - 3 * DAY, "submitDate": NOW - 2 * DAY}, "LATE", 86_400),
    "submitted, without an end": ({"endDate": None, "submitDate": NOW - DAY}, "ON_TIME", 0),
}


@pytest.mark.sqlite_only
def test_lateness_is_computed_at_the_time_of_the_request(gateway: Gateway) -> None:
    rows = [
        (a_complete_assignment if "submitDate" in changed else an_assignment)(number, **changed)
        for number, (changed, *_) in enumerate(LATENESS.values(), 10)
    ]
    gateway.import_records([*a_world(), *rows])

    found = {}
    for number, what in enumerate(LATENESS, 10):
        query = f"{{ assignment(id: {number}) {{ lateness {{ state seconds }} }} }}"
        found[what] = gateway.as_client(1).data(query)["assignment"]["lateness"]

    assert found == {
        what: {"state": state, "seconds": seconds} for what, (_, state, seconds) in LATENESS.items()
    }
