"""An erased client: the caregiver sees only numbers, the client cannot sign in."""

from typing import Any

import pytest

from app.db.admin.erasing import erasing
from tests.callers import Gateway, run_write
from tests.factories import NOW
from tests.lifecycle import PRIVATE, load_one_client
from tests.rest_compat.legacy import ASSIGNMENTS


@pytest.fixture
def erased(gateway: Gateway) -> Gateway:
    load_one_client(gateway.settings.database)
    run_write(gateway.settings.database, erasing(1, NOW))
    return gateway


def test_a_caregiver_sees_only_numbers_of_an_erased_client(erased: Gateway) -> None:
    query = """{ session(id: 1) {
        title description chatId runningStatus closeDate assignmentCount completedAssignmentCount
        lastAssignmentScore client { name opptId }
        assignments { nodes { legacyId status score reminders { state } feedbacks { text score }
            answerSets { legacyId attempt answers { questionText answer } } } } } }"""

    response = erased.as_caregiver(1).data(query)

    answers = [
        {"questionText": "How was it?", "answer": ""},
        {"questionText": "Did you practise?", "answer": ""},
    ]
    said_again = [
        {"questionText": "How was it?", "answer": ""},
        {"questionText": "How many hours?", "answer": ""},
    ]
    assert response["session"] == {
        "title": "",
        "description": "",
        "chatId": "erased-1",
        "runningStatus": "COMPLETED",
        "closeDate": "2026-11-21T09:00:00Z",
        "assignmentCount": 2,
        "completedAssignmentCount": 1,
        "lastAssignmentScore": 12,
        "client": {"name": "erased", "opptId": "erased-1"},
        "assignments": {
            "nodes": [
                {
                    "legacyId": "2",
                    "status": "PENDING",
                    "score": 0,
                    "reminders": [{"state": "SENT"}, {"state": "SKIPPED"}],
                    "feedbacks": [],
                    "answerSets": [],
                },
                {
                    "legacyId": "1",
                    "status": "COMPLETE",
                    "score": 12,
                    "reminders": [],
                    "feedbacks": [{"text": "", "score": 12}],
                    "answerSets": [
                        {"legacyId": "2", "attempt": 2, "answers": said_again},
                        {"legacyId": "1", "attempt": 1, "answers": answers},
                    ],
                },
            ]
        },
    }


def test_the_legacy_path_shows_only_numbers_of_an_erased_client(erased: Gateway) -> None:
    response = erased.as_caregiver(1).get(f"{ASSIGNMENTS}/1")

    body: dict[str, Any] = response.json()
    assert response.status_code == 200
    assert {name: body[name] for name in ("clientName", "sessionTitle", "status", "score")} == {
        "clientName": "erased",
        "sessionTitle": "",
        "status": "COMPLETE",
        "score": 12,
    }
    assert [word for word in PRIVATE if word in response.text] == []


def test_an_erased_client_cannot_sign_in(erased: Gateway) -> None:
    response = erased.as_client(1).post_graphql("{ viewer { role } }")

    assert (response.status_code, response.json()["errors"][0]["extensions"]["code"]) == (403, "FORBIDDEN")


@pytest.mark.once_on_postgresql
@pytest.mark.parametrize(
    "client", [{"clientOpptId": "OPPT-1"}, {"clientOpptId": "erased-1"}, {"clientId": "1"}]
)
def test_no_session_can_be_created_with_an_erased_client(erased: Gateway, client: dict[str, str]) -> None:
    query = """mutation($input: CreateSessionInput!) { createSession(input: $input) {
        sessions { id } userErrors { code } } }"""
    input_fields = {"title": "Again", "description": "x", "startDate": "2026-11-22T09:00:00Z"} | client

    assert erased.as_caregiver(1).data(query, input=input_fields) == {
        "createSession": {"sessions": [], "userErrors": [{"code": "NOT_FOUND"}]}
    }
