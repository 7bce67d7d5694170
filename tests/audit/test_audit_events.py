"""Promise: a caregiver can see who saw a client's answers in their sessions, and who changed something."""

from typing import Any

import pytest

from app.db.audit.chain import MAX_SEALED
from app.db.audit.records import recording
from tests.audit.test_chain import records
from tests.audit.trail import trail
from tests.callers import Gateway
from tests.db import raw
from tests.factories import a_world
from tests.rest_compat.legacy import ASSIGNMENTS, homework

EVENTS = """query ($client: ID!, $first: Int, $after: String) {
  auditEvents(clientId: $client, first: $first, after: $after) {
    totalCount
    nodes { actor actorId contract operation outcome sessionIds assignmentIds answerSetIds requestId moment }
    pageInfo { endCursor hasNextPage hasPreviousPage }
  }
}"""
NAMES = "query ($client: ID!) { auditEvents(clientId: $client) { nodes { actor operation } } }"
OWN = "{ assignments { nodes { answerSets { answers { answer } } } } }"
CLOSE = "mutation { closeSession(input: { sessionId: 5 }) { userErrors { code } } }"


def names(answer: dict[str, Any]) -> list[tuple[str, str]]:
    return [(one["actor"], one["operation"]) for one in answer["auditEvents"]["nodes"]]


@pytest.fixture
def lived(gateway: Gateway) -> Gateway:
    """Caregiver 1 looks and assigns, client 1 looks; client 2 looks at what they answered caregiver 2."""
    gateway.given(a_world())
    gateway.as_caregiver(1).get(f"{ASSIGNMENTS}/1", headers={"x-request-id": "looks"})
    gateway.as_caregiver(1).put(ASSIGNMENTS, json=homework(), headers={"x-request-id": "assigns"})
    gateway.as_client(1).data(OWN)
    gateway.as_client(2).data(OWN)
    gateway.as_caregiver(2).data(CLOSE)
    return gateway


def test_what_happened_is_told_newest_first(lived: Gateway) -> None:
    told = lived.as_caregiver(1).data(EVENTS, client="1", first=2)["auditEvents"]

    assert told["totalCount"] == 3
    assert told["pageInfo"].pop("endCursor")
    assert told["pageInfo"] == {"hasNextPage": True, "hasPreviousPage": False}
    client, assigned = told["nodes"]
    assert client.pop("requestId")
    assert client == {
        "actor": "CLIENT",
        "actorId": "Q2xpZW50OjE=",
        "contract": "GRAPHQL",
        "operation": "assignments",
        "outcome": "DONE",
        "sessionIds": [],
        "assignmentIds": [],
        "answerSetIds": ["QW5zd2VyU2V0OjI=", "QW5zd2VyU2V0OjE="],
        "moment": "2026-11-21T09:00:00Z",
    }
    assert assigned == {
        "actor": "CAREGIVER",
        "actorId": "Q2FyZWdpdmVyOjE=",
        "contract": "LEGACY",
        "operation": "assignHomework",
        "outcome": "DONE",
        "sessionIds": [],
        "assignmentIds": ["QXNzaWdubWVudDo2", "QXNzaWdubWVudDo3"],
        "answerSetIds": [],
        "requestId": "assigns",
        "moment": "2026-11-21T09:00:00Z",
    }


def test_pages_follow_upon_each_other(lived: Gateway) -> None:
    caregiver = lived.as_caregiver(1)

    first = caregiver.data(EVENTS, client="1", first=2)["auditEvents"]
    second = caregiver.data(EVENTS, client="1", after=first["pageInfo"]["endCursor"])["auditEvents"]

    assert [one["requestId"] for one in second["nodes"]] == ["looks"]
    assert (second["pageInfo"]["hasNextPage"], second["pageInfo"]["hasPreviousPage"]) == (False, True)


def test_a_request_seals_no_more_than_a_portion_of_a_backlog_and_shows_what_is_sealed(
    gateway: Gateway, caplog: pytest.LogCaptureFixture
) -> None:
    """And the later ones at the next request."""
    gateway.given(a_world())
    assert gateway.client.portal is not None
    gateway.client.portal.call(gateway.database.write, recording(records(MAX_SEALED + 1)))
    listed = "auditEvents(clientId: 1, first: 1) { totalCount nodes { requestId } }"
    url = gateway.settings.database

    seen = []
    for _ in range(2):
        answer = gateway.as_caregiver(1).data(f"{{ one: {listed} other: {listed} }}")
        seals = raw.run(url, "SELECT record_count FROM audit_seal ORDER BY id")
        seen.append((answer["one"], answer["other"], seals))

    def shown(total: int) -> dict[str, Any]:
        return {"totalCount": total, "nodes": [{"requestId": f"request-{total - 1}"}]}

    assert seen == [
        (shown(MAX_SEALED), shown(MAX_SEALED), [(MAX_SEALED,)]),
        (shown(MAX_SEALED + 1), shown(MAX_SEALED + 1), [(MAX_SEALED,), (1,)]),
    ]
    assert sum("many records wait to be sealed" in message for message in caplog.messages) == 2


def test_each_caregiver_is_told_of_their_own_sessions(lived: Gateway) -> None:
    """Both have sessions with client 2."""
    assert names(lived.as_caregiver(1).data(NAMES, client="2")) == []
    assert names(lived.as_caregiver(2).data(NAMES, client="2")) == [
        ("CAREGIVER", "closeSession"),
        ("CLIENT", "assignments"),
    ]


SAVE = """mutation { saveAnswers(input: { assignmentId: 2, revision: 0, answers: [] }) {
  draft { answers { answer } }
} }"""


def test_of_drafts_no_caregiver_is_told(lived: Gateway) -> None:
    """Neither what is in them, nor that there are any."""
    client = lived.as_client(1)
    client.data(SAVE)
    client.data("{ assignment(id: 2) { draft { answers { answer } } answerSets { answers { answer } } } }")

    told = names(lived.as_caregiver(1).data(NAMES, client="1"))

    assert told == [("CLIENT", "assignments"), ("CAREGIVER", "assignHomework"), ("CAREGIVER", "assignment")]
    assert [one.operation for one in trail(lived.settings.database)][-3:] == [
        "saveAnswers",
        "answerSet",
        "assignment",
    ]


def test_a_client_who_reads_a_draft_and_submissions_in_one_query_is_shown_with_the_submissions(
    lived: Gateway,
) -> None:
    client = lived.as_client(1)
    client.data(SAVE)
    client.data(
        "{ assignments { nodes { draft { answers { answer } } answerSets { answers { answer } } } } }"
    )
    [*_, both] = trail(lived.settings.database)

    told = lived.as_caregiver(1).data(EVENTS, client="1", first=1)["auditEvents"]

    assert (told["totalCount"], both.operation) == (4, "assignments")
    assert both.about == [[1, 1, {"answerSets": [2, 1], "drafts": [4]}]]
    [shown] = told["nodes"]
    assert (shown["actor"], shown["requestId"]) == ("CLIENT", both.request_id)
    assert shown["answerSetIds"] == ["QW5zd2VyU2V0OjI=", "QW5zd2VyU2V0OjE="]


@pytest.mark.parametrize("client", ["1", "Q2xpZW50OjE=", "99", "nonsense", "QXNzaWdubWVudDox"])
def test_of_others_clients_nothing_is_told(lived: Gateway, client: str) -> None:
    """Not there and not theirs are the same."""
    assert lived.as_caregiver(2).data(EVENTS, client=client)["auditEvents"] == {
        "totalCount": 0,
        "nodes": [],
        "pageInfo": {"endCursor": None, "hasNextPage": False, "hasPreviousPage": False},
    }


def test_clients_are_refused(lived: Gateway) -> None:
    answer = lived.as_client(1).graphql(NAMES, client="1")

    assert [error["extensions"]["code"] for error in answer["errors"]] == ["FORBIDDEN"]


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        ({"first": 0}, "first must lie between 1 and 100"),
        ({"first": 101}, "first must lie between 1 and 100"),
        ({"after": "QXNzaWdubWVudDpiZWZvcmU6MQ=="}, "after is not a cursor of this list"),
    ],
)
def test_a_page_that_is_not_to_be_had_is_refused(lived: Gateway, asked: dict[str, Any], message: str) -> None:
    answer = lived.as_caregiver(1).graphql(EVENTS, client="1", **asked)

    assert [error["message"] for error in answer["errors"]] == [message]


def test_what_is_asked_of_the_trail_leaves_none(lived: Gateway) -> None:
    for _ in range(2):
        assert len(names(lived.as_caregiver(1).data(NAMES, client="1"))) == 3
