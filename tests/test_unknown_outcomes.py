"""Both contracts state when it is not known whether a change was made. A client must not treat that like a
rejected change, of which nothing was stored."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

import pytest

from app.auth.authenticator import Authenticator
from app.db.audit.recorder import AuditRecorder
from app.db.drivers.interface import DatabaseUnavailable, OutcomeUnknown
from tests.answers import LATE, REMARK, a_world_to_answer_in, to_answer
from tests.callers import Gateway
from tests.factories import a_world
from tests.fault_injection import Failing
from tests.rest_compat import legacy
from tests.schema.test_assign_homework import ASSIGN, homework

pytestmark = pytest.mark.sqlite_only


@contextmanager
def failing(gateway: Gateway, *faults: BaseException | None, of_records: bool = False) -> Iterator[None]:
    """One for each operation on the database, or for each audit record of a read."""
    state = gateway.client.app_state
    authenticator: Authenticator = state["authenticator"]
    db = Failing(authenticator.db, [*reversed(faults)])
    state["authenticator"] = (
        replace(authenticator, recorder=AuditRecorder(db)) if of_records else replace(authenticator, db=db)
    )
    yield
    state["authenticator"] = authenticator


CUT_OFF = "the database went away; whether the change was kept is not known"
NO_RESULT = "the change was made, but the database cannot return its result now"
SUBMIT = """mutation($input: SubmitAnswersInput!) { submitAnswers(input: $input) {
    answerSet { answers { answer } } } }"""
SAVE = """mutation($input: SaveAnswersInput!) { saveAnswers(input: $input) {
    draft { revision } userErrors { code } } }"""

FAULTS = pytest.mark.parametrize(
    ("faults", "message"),
    [
        ((None, OutcomeUnknown(CUT_OFF)), CUT_OFF),  # after the read of the account
        ((None, None, DatabaseUnavailable()), NO_RESULT),
    ],
    ids=["the commit was cut off", "the result cannot be read"],
)


@FAULTS
def test_graphql_reports_and_logs_an_unknown_outcome(
    gateway: Gateway,
    faults: tuple[BaseException | None, ...],
    message: str,
    caplog: pytest.LogCaptureFixture,
) -> None:
    gateway.import_records(a_world())
    with failing(gateway, *faults):
        response = gateway.as_caregiver(1).post_graphql(ASSIGN, input=homework())

    [error] = response.json()["errors"]
    assert (error["message"], error["extensions"]["code"]) == (message, "OUTCOME_UNKNOWN")
    assert (response.status_code, response.headers["retry-after"]) == (503, "1")
    assert [f"request {response.headers['x-request-id']}: {message}" in each for each in caplog.messages] == [
        True
    ]


def test_a_change_whose_result_cannot_be_recorded_is_made(gateway: Gateway) -> None:
    gateway.import_records(a_world_to_answer_in())
    client = gateway.as_client(1)
    with failing(gateway, DatabaseUnavailable(), of_records=True):
        response = client.post_graphql(SUBMIT, input=to_answer(LATE, {REMARK: "None"}))

    [error] = response.json()["errors"]
    assert (error["message"], error["extensions"]["code"]) == (NO_RESULT, "OUTCOME_UNKNOWN")
    assert client.data(f"{{ assignment(id: {LATE}) {{ status }} }}") == {"assignment": {"status": "COMPLETE"}}


def test_a_rejected_change_whose_draft_cannot_be_read_was_not_made(gateway: Gateway) -> None:
    gateway.import_records(a_world_to_answer_in())
    client = gateway.as_client(1)
    assert client.data(SAVE, input=to_answer(LATE, {REMARK: "first"}))["saveAnswers"]["userErrors"] == []
    with failing(gateway, None, None, DatabaseUnavailable()):  # account, change
        response = client.post_graphql(SAVE, input=to_answer(LATE, {REMARK: "second"}))

    [error] = response.json()["errors"]
    assert (error["message"], error["extensions"]["code"]) == (str(DatabaseUnavailable()), "OVERLOADED")


def test_a_legacy_path_reports_an_unknown_outcome(gateway: Gateway) -> None:
    gateway.import_records(a_world())
    with failing(gateway, None, OutcomeUnknown(CUT_OFF)):
        response = gateway.as_caregiver(1).put(legacy.ASSIGNMENTS, json=legacy.homework())

    assert (response.status_code, response.json()["message"]) == (503, CUT_OFF)
    assert response.headers["retry-after"] == "1"


@pytest.mark.parametrize("fault", [DatabaseUnavailable, OutcomeUnknown])
def test_a_change_whose_response_cannot_be_stored_is_answered(
    gateway: Gateway, fault: type[DatabaseUnavailable], caplog: pytest.LogCaptureFixture
) -> None:
    """A repetition builds the response again."""
    gateway.import_records(a_world())
    caller, headers = gateway.as_caregiver(1), {"idempotency-key": "one-change"}
    request = {"json": legacy.homework(), "headers": headers}
    with failing(gateway, None, None, None, fault()):  # account, key, change
        made = caller.request("PUT", legacy.ASSIGNMENTS, **request)
    repeated = caller.request("PUT", legacy.ASSIGNMENTS, **request)

    assert [made.status_code, repeated.status_code] == [200, 200]
    assert made.content == repeated.content
    assert ["idempotency-replayed" in each.headers for each in (made, repeated)] == [False, True]
    assert ["its response was not stored" in each for each in caplog.messages] == [True]


def test_a_repetition_with_the_same_key_returns_the_change_whose_result_was_lost(gateway: Gateway) -> None:
    gateway.import_records(a_world())
    headers = {"idempotency-key": "one-change"}
    request = {"json": {"query": ASSIGN, "variables": {"input": homework()}}, "headers": headers}
    caller = gateway.as_caregiver(1)
    with failing(gateway, None, None, None, DatabaseUnavailable()):  # account, key, change
        lost = caller.request("POST", "/graphql", **request)
    repeated = [caller.request("POST", "/graphql", **request) for _ in range(2)]

    assert (lost.status_code, [one.status_code for one in repeated]) == (503, [200, 200])
    assert repeated[0].headers["idempotency-replayed"] == "true"
    assert repeated[0].content == repeated[1].content
    assert len(repeated[0].json()["data"]["assignHomework"]["assignments"]) == len(homework()["bookIds"])
