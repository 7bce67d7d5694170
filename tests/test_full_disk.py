"""A full disk rejects changes on both contracts and loses nothing that was confirmed."""

from typing import Any

import pytest

from app.auth.authenticator import Authenticator
from app.db.sql import Steps
from tests.callers import Gateway
from tests.database_rows import stored, wrong_counters
from tests.db.small_steps import sql
from tests.factories import a_world
from tests.rest_compat.legacy import ASSIGNMENTS, homework, rejection_of

pytestmark = pytest.mark.parametrize("kind", ["sqlite"], indirect=True)

REJECTED = "the database cannot take this now; nothing was changed"
UNRECORDED = "the database cannot store the audit record of this now, so it is not shown"
MUTATION = """
    mutation { assignHomework(input: {sessionId: "1", bookIds: ["1", "2"],
      startDate: "2026-11-22T08:00:00Z", endDate: "2026-11-29T18:30:00Z"}) { message } }"""


def limit_pages(pages: int) -> Steps[None]:
    """Limits the size of the database, which SQLite reports like a full disk."""
    taken = (yield sql("PRAGMA page_count"), {})[0][0]
    yield sql(f"PRAGMA max_page_count = {taken + pages}"), {}


def limit(gateway: Gateway, pages: int) -> None:
    authenticator: Authenticator = gateway.client.app_state["authenticator"]
    assert gateway.client.portal is not None
    gateway.client.portal.call(authenticator.db.write, limit_pages(pages))


def another_homework(number: int) -> dict[str, Any]:
    """A repeated request would need no space."""
    return homework(endTime=f"{number // 60:02}:{number % 60:02}")


def test_a_full_disk_rejects_homework_and_loses_nothing(gateway: Gateway) -> None:
    gateway.import_records(a_world())
    caregiver = gateway.as_caregiver(1)
    before = len(stored(gateway)["assignment"])
    limit(gateway, pages=1)

    confirmed = 0
    while (response := caregiver.put(ASSIGNMENTS, json=another_homework(confirmed))).status_code == 200:
        confirmed += 1

    assert rejection_of(response) == (503, REJECTED)
    by_graphql = caregiver.post_graphql(MUTATION)
    assert by_graphql.status_code == 503
    assert by_graphql.json()["errors"][0]["message"] == REJECTED
    assert by_graphql.json()["errors"][0]["extensions"]["code"] == "OVERLOADED"
    assert len(stored(gateway)["assignment"]) == before + 2 * confirmed
    assert wrong_counters(gateway) == []

    limit(gateway, pages=1000)

    assert caregiver.put(ASSIGNMENTS, json=another_homework(confirmed)).status_code == 200
    assert len(stored(gateway)["assignment"]) == before + 2 * confirmed + 2


def test_answers_are_not_shown_if_the_audit_record_cannot_be_stored(gateway: Gateway) -> None:
    gateway.import_records(a_world())
    caregiver = gateway.as_caregiver(1)
    limit(gateway, pages=0)

    while (response := caregiver.get(f"{ASSIGNMENTS}/1")).status_code == 200:
        pass

    assert rejection_of(response) == (503, UNRECORDED)
    by_graphql = caregiver.post_graphql("{ assignment(id: 1) { answerSets { answers { answer } } } }")
    assert (by_graphql.status_code, by_graphql.json()["data"]) == (503, {"assignment": None})
    assert caregiver.graphql("{ assignment(id: 1) { score } }") == {"data": {"assignment": {"score": 70}}}
