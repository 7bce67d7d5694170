"""With CARE_ENGINE=off the service gives the same responses: a smoke test. tests/engine compares more."""

from pathlib import Path
from typing import Any

import pytest

from app.main import create_app
from app.settings import Settings
from tests.callers import Gateway, opened
from tests.conftest import fresh_database
from tests.factories import NOW, a_world
from tests.rest_compat.legacy import ASSIGNMENTS, SESSIONS, homework
from tests.schema.listening import listening, wait_for_subscription

pytestmark = pytest.mark.sqlite_only

LIST = """{ viewer { role } assignments(first: 3) { totalCount pageInfo { endCursor }
    nodes { id name status session { title client { name } } answerSets { answers { answer } } } } }"""
ASSIGN = """mutation($books: [ID!]!) { assignHomework(input: {sessionId: "1", bookIds: $books,
    startDate: "2026-11-22T09:00:00Z", endDate: "2026-11-25T09:00:00Z"}) {
    assignments { legacyId name } userErrors { code field message } } }"""
LISTEN = "subscription { assignmentChanged { id what assignment { name status } } }"
DOCUMENTS: dict[str, dict[str, Any]] = {
    LIST: {},
    ASSIGN: {"books": ["3", "999"]},
    "query($id: ID!) { session(id: $id) { title } }": {"id": "999"},
    "{ assignments(first: 0) { totalCount } }": {},
    "{ nothing }": {},
    "{ viewer {": {},
    "{ sessions { nodes { " + "latestAssignment { session { " * 40 + "id" + " } }" * 40 + " } } }": {},
}


def everything(settings: Settings) -> list[Any]:
    """The responses of one service to one request of each kind, and the number of its statements."""
    with opened(create_app(settings, clock=lambda: NOW)) as client:
        gateway = Gateway(client, settings)
        gateway.import_records(a_world())
        caregiver = gateway.as_caregiver(1)
        with gateway.watched() as statements:
            found = [caregiver.graphql(text, **variables) for text, variables in DOCUMENTS.items()]
        with listening(gateway.as_client(1)) as listener:
            listener.subscribe(LISTEN)
            wait_for_subscription(gateway)
            found.append(caregiver.graphql(ASSIGN, books=["3"]))
            found.append(listener.receive_change())
        legacy = [
            caregiver.get(f"{ASSIGNMENTS}?time-state=RUNNING"),
            gateway.as_client(1).get(f"{SESSIONS}?time-state=RUNNING"),
            caregiver.put(ASSIGNMENTS, json=homework()),
            caregiver.put(ASSIGNMENTS, json=homework(sessionId=999)),
        ]
        bodies = [(each.status_code, {**each.json(), "timestamp": ""}) for each in legacy]
        return [*found, *bodies, len(statements)]


def test_both_engines_give_the_same_responses(
    usual_settings: Settings, kind: str, migrated: str, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    responses = []
    for engine in (True, False):
        with fresh_database(kind, migrated, request, tmp_path / f"{engine}.db") as url:
            # the usual limits, so that one document is too deep
            changed = {"database_url": url, "var": str(tmp_path), "engine": engine, "depth_limit": 15}
            responses.append(everything(usual_settings.model_copy(update=changed)))

    prepared, plain = responses
    assert plain == prepared
    codes = [
        [error["extensions"]["code"] for error in each.get("errors", ())]
        for each in prepared[: len(DOCUMENTS)]
    ]
    assert [bool(each) for each in codes] == [False, False, True, True, True, True, True], codes
    assert [status for status, _ in prepared[-5:-1]] == [200, 200, 200, 404]
