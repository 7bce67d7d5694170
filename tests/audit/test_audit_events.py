"""Promise: a caregiver sees who read a client's answers in their sessions, and who changed something."""

import asyncio
from datetime import timedelta
from typing import Any

import pytest

from app.care.audit import list_audit_events
from app.care.context import Context, Role, Viewer
from app.db.audit.chain import MAX_SEALED
from app.db.audit.records import as_text, recording
from app.db.drivers.factory import open_database
from app.db.drivers.interface import DatabaseUnavailable
from app.db.reader.selection import PageRequest
from app.schema.types.scalars import global_id
from tests.audit.audit_log import audit_rows
from tests.audit.test_chain import records, seal_all
from tests.callers import Gateway, load, run_write
from tests.db import raw
from tests.factories import NOW, a_world
from tests.fault_injection import Failing
from tests.rest_compat.legacy import ASSIGNMENTS, homework

EVENTS = """query ($client: ID!, $first: Int, $after: String) {
  auditEvents(clientId: $client, first: $first, after: $after) { totalCount }
  auditEvents(clientId: $client, first: $first, after: $after) {
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
def used(gateway: Gateway) -> Gateway:
    """Caregiver 1 reads and assigns, client 1 reads; client 2 reads and caregiver 2 closes a session."""
    gateway.import_records(a_world())
    gateway.as_caregiver(1).get(f"{ASSIGNMENTS}/1", headers={"x-request-id": "looks"})
    gateway.as_caregiver(1).put(ASSIGNMENTS, json=homework(), headers={"x-request-id": "assigns"})
    gateway.as_client(1).data(OWN)
    gateway.as_client(2).data(OWN)
    gateway.as_caregiver(2).data(CLOSE)
    return gateway


def test_events_are_listed_newest_first(used: Gateway) -> None:
    events = used.as_caregiver(1).data(EVENTS, client="1", first=2)["auditEvents"]

    assert events["totalCount"] == 3
    assert events["pageInfo"].pop("endCursor")
    assert events["pageInfo"] == {"hasNextPage": True, "hasPreviousPage": False}
    client, assigned = events["nodes"]
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


def test_a_cursor_continues_the_list(used: Gateway) -> None:
    caregiver = used.as_caregiver(1)

    first = caregiver.data(EVENTS, client="1", first=2)["auditEvents"]
    second = caregiver.data(EVENTS, client="1", after=first["pageInfo"]["endCursor"])["auditEvents"]

    assert [one["requestId"] for one in second["nodes"]] == ["looks"]
    assert (second["pageInfo"]["hasNextPage"], second["pageInfo"]["hasPreviousPage"]) == (False, True)


def test_a_request_seals_a_limited_number_of_records_and_lists_the_sealed_ones(
    gateway: Gateway, caplog: pytest.LogCaptureFixture
) -> None:
    gateway.import_records(a_world())
    assert gateway.client.portal is not None
    gateway.client.portal.call(gateway.database.write, recording(records(MAX_SEALED + 1)))
    listed = "auditEvents(clientId: 1, first: 1) { totalCount nodes { requestId } }"
    url = gateway.settings.database

    seen = []
    for _ in range(2):
        answer = gateway.as_caregiver(1).data(f"{{ one: {listed} other: {listed} }}")
        seals = raw.run(url, "SELECT record_count FROM audit_seal ORDER BY id")
        warnings = [message for message in caplog.messages if "many records wait to be sealed" in message]
        seen.append((answer["one"], answer["other"], seals, len(warnings)))

    def shown(total: int) -> dict[str, Any]:
        return {"totalCount": total, "nodes": [{"requestId": f"request-{total - 1}"}]}

    assert seen == [
        (shown(MAX_SEALED), shown(MAX_SEALED), [(MAX_SEALED,)], 2),  # one for each list
        (shown(MAX_SEALED + 1), shown(MAX_SEALED + 1), [(MAX_SEALED,), (1,)], 2),
    ]


@pytest.mark.sqlite_only
def test_sealed_events_are_listed_while_others_cannot_be_sealed(
    database_url: str, caplog: pytest.LogCaptureFixture
) -> None:
    load(database_url, a_world())
    run_write(database_url, recording(records(2)))
    seal_all(database_url)
    run_write(database_url, recording(records(1)))

    fault = DatabaseUnavailable("away")
    fault.__cause__ = OSError("the disk is full")

    async def run() -> int:
        db = await open_database(database_url)
        try:
            faults: list[BaseException | None] = [fault, None, None]  # at the write that seals
            ctx = Context(Viewer(Role.CAREGIVER, 1), Failing(db, faults), NOW, "request", "UTC")
            return len((await list_audit_events(ctx, 1, PageRequest())).rows)
        finally:
            await db.close()

    assert asyncio.run(run()) == 2
    assert caplog.messages == ["request request: records wait to be sealed (the disk is full)"]


def test_a_caregiver_sees_only_events_of_the_own_sessions(used: Gateway) -> None:
    """Both have sessions with client 2."""
    assert names(used.as_caregiver(1).data(NAMES, client="2")) == []
    assert names(used.as_caregiver(2).data(NAMES, client="2")) == [
        ("CAREGIVER", "closeSession"),
        ("CLIENT", "assignments"),
    ]


def test_a_record_about_several_relationships_shows_only_rows_of_the_listed_one(gateway: Gateway) -> None:
    """Caregiver 2 has sessions with client 2, too."""
    gateway.import_records(a_world())
    of_client = {"sessions": [4, 3], "assignments": [7], "answerSets": [1]}
    about = as_text([(2, 2, {"answerSets": [5]}), (1, 1, of_client), (1, 2, {"answerSets": [3]})])
    assert gateway.client.portal is not None
    moment = NOW - timedelta(seconds=1.75)
    gateway.client.portal.call(gateway.database.write, recording(records(1, about, moment)))
    caregiver = gateway.as_caregiver(1)

    listed = {client: caregiver.data(EVENTS, client=client)["auditEvents"]["nodes"] for client in ("1", "2")}

    members = ("moment", "sessionIds", "assignmentIds", "answerSetIds")
    assert {
        client: [[one[each] for each in members] for one in nodes] for client, nodes in listed.items()
    } == {
        "1": [
            [
                "2026-11-21T08:59:58.250000Z",
                [global_id("Session", 4), global_id("Session", 3)],
                [global_id("Assignment", 7)],
                [global_id("AnswerSet", 1)],
            ]
        ],
        "2": [["2026-11-21T08:59:58.250000Z", [], [], [global_id("AnswerSet", 3)]]],
    }


SAVE = """mutation { saveAnswers(input: { assignmentId: 2, revision: 0, answers: [], autoSave: true }) {
  draft { answers { answer } }
} }"""


@pytest.mark.parametrize("save", [SAVE, SAVE.replace("true", "false")], ids=["automatic", "by the user"])
def test_events_of_drafts_are_hidden_from_caregivers(used: Gateway, save: str) -> None:
    client = used.as_client(1)
    client.data(save)
    client.data("{ assignment(id: 2) { draft { answers { answer } } answerSets { answers { answer } } } }")

    events = names(used.as_caregiver(1).data(NAMES, client="1"))

    assert events == [("CLIENT", "assignments"), ("CAREGIVER", "assignHomework"), ("CAREGIVER", "assignment")]
    assert [(one.operation, one.about) for one in audit_rows(used.settings.database)][-3:] == [
        (name, [[1, 1, {"drafts": [4]}]]) for name in ("saveAnswers", "answerSet", "assignment")
    ]


def test_a_read_of_a_draft_and_submissions_is_listed_with_the_submissions(
    used: Gateway,
) -> None:
    client = used.as_client(1)
    client.data(SAVE)
    client.data(
        "{ assignments { nodes { draft { answers { answer } } answerSets { answers { answer } } } } }"
    )
    [*_, both] = audit_rows(used.settings.database)

    events = used.as_caregiver(1).data(EVENTS, client="1", first=1)["auditEvents"]

    assert (events["totalCount"], both.operation) == (4, "assignments")
    assert both.about == [[1, 1, {"answerSets": [2, 1], "drafts": [4]}]]
    [shown] = events["nodes"]
    assert (shown["actor"], shown["requestId"]) == ("CLIENT", both.request_id)
    assert shown["answerSetIds"] == ["QW5zd2VyU2V0OjI=", "QW5zd2VyU2V0OjE="]


@pytest.mark.once_on_postgresql
@pytest.mark.parametrize("client", ["1", "Q2xpZW50OjE=", "99"])
def test_a_foreign_client_is_answered_like_a_missing_one(used: Gateway, client: str) -> None:
    assert used.as_caregiver(2).data(EVENTS, client=client)["auditEvents"] == {
        "totalCount": 0,
        "nodes": [],
        "pageInfo": {"endCursor": None, "hasNextPage": False, "hasPreviousPage": False},
    }


@pytest.mark.sqlite_only
def test_clients_may_not_list_events(used: Gateway) -> None:
    answer = used.as_client(1).graphql(NAMES, client="1")

    assert [error["extensions"]["code"] for error in answer["errors"]] == ["FORBIDDEN"]


@pytest.mark.sqlite_only
@pytest.mark.parametrize(
    ("asked", "message"),
    [
        ({"first": 0}, "first must lie between 1 and 100"),
        ({"first": 101}, "first must lie between 1 and 100"),
        ({"after": "QXNzaWdubWVudDpiZWZvcmU6MQ=="}, "after is not a cursor of this list"),
    ],
)
def test_invalid_page_arguments_are_rejected(used: Gateway, asked: dict[str, Any], message: str) -> None:
    answer = used.as_caregiver(1).graphql(EVENTS, client="1", **asked)

    assert [error["message"] for error in answer["errors"]] == [message]


@pytest.mark.sqlite_only
def test_listing_events_is_not_recorded(used: Gateway) -> None:
    for _ in range(2):
        assert len(names(used.as_caregiver(1).data(NAMES, client="1"))) == 3
