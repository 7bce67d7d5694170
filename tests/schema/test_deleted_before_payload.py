"""Payloads are read after the change is committed, when another change may have deleted their objects.

The change is done, so there is no user error; a deleted object is null.
"""

from typing import Any

import pytest

from app.auth.authenticator import Authenticator
from app.care.answers import Answers, submit_answers
from app.care.questions import GivenAnswer
from app.db.drivers.interface import Database
from tests.answers import (
    GIVE,
    LATE,
    REMARK,
    REOPEN,
    SAVE,
    SUBMIT,
    SUBMITTED,
    a_world_to_answer_in,
    events_since,
    to_answer,
)
from tests.callers import Gateway
from tests.care.actions import Verb, as_client, reopening, withdrawing
from tests.concurrency import before_database_calls, nothing
from tests.database_rows import stored
from tests.factories import starting_with

pytestmark = starting_with(a_world_to_answer_in)

EXTEND = """mutation($input: ExtendAssignmentInput!) { extendAssignment(input: $input) {
    assignment { legacyId endDate } userErrors { code field message } } }"""
REMIND = """mutation($input: SetRemindersInput!) { setReminders(input: $input) {
    assignment { legacyId reminders { state } } userErrors { code field message } } }"""


async def sending(db: Database, number: int) -> Any:
    return await submit_answers(as_client(db, 101), Answers(number, (GivenAnswer(REMARK, "x"),), revision=1))


# The mutation and its assignment; the change before the payload is read; the payload and the events.
GONE: dict[str, tuple[str, dict[str, Any], int, list[Verb], dict[str, Any], list[str]]] = {
    "extended and withdrawn": (
        EXTEND,
        {"assignmentId": str(LATE), "endDate": "2026-12-24T18:00:00Z"},
        LATE,
        [withdrawing],
        {"extendAssignment": {"assignment": None}},
        ["EXTENDED", "WITHDRAWN"],
    ),
    "reminded and withdrawn": (
        REMIND,
        {"assignmentId": str(LATE), "remindDates": []},
        LATE,
        [withdrawing],
        {"setReminders": {"assignment": None}},
        ["REMINDERS_SET", "WITHDRAWN"],
    ),
    "reopened and withdrawn": (
        REOPEN,
        {"assignmentId": str(SUBMITTED)},
        SUBMITTED,
        [withdrawing],
        {"reopenAssignment": {"assignment": None}},
        ["REOPENED", "WITHDRAWN"],
    ),
    "submitted, reopened and withdrawn": (
        SUBMIT,
        to_answer(LATE, {REMARK: "x"}),
        LATE,
        [reopening, withdrawing],
        {"submitAnswers": {"assignment": None, "answerSet": None, "draft": None}},
        ["SUBMITTED", "REOPENED", "WITHDRAWN"],
    ),
    "saved and submitted": (
        SAVE,
        to_answer(LATE, {REMARK: "x"}),
        LATE,
        [sending],
        {"saveAnswers": {"draft": None}},
        ["DRAFT_SAVED", "SUBMITTED"],
    ),
    "given feedback, reopened and withdrawn": (
        GIVE,
        {"answerSetId": "8", "text": "Well done"},
        SUBMITTED,
        [reopening, withdrawing],
        {"giveFeedback": {"assignment": None}},
        ["FEEDBACK_GIVEN", "REOPENED", "WITHDRAWN"],
    ),
}


@pytest.mark.once_on_postgresql
@pytest.mark.parametrize("what", GONE)
def test_an_object_deleted_before_the_payload_is_read_is_null(gateway: Gateway, what: str) -> None:
    document, input_fields, number, verbs, payload, events = GONE[what]
    authenticator: Authenticator = gateway.client.app_state["authenticator"]
    caller = gateway.as_client(1) if document in (SAVE, SUBMIT) else gateway.as_caregiver(1)
    before = stored(gateway)

    async def meanwhile() -> None:
        for verb in verbs:
            await verb(authenticator.db, number)

    with before_database_calls(gateway, reads=[nothing, meanwhile]):
        response = caller.graphql(document, input=input_fields)

    ((verb, result),) = response["data"].items()
    assert "errors" not in response
    assert {verb: {name: value for name, value in result.items() if name in payload[verb]}} == payload
    assert result["userErrors"] == []
    assert [each[0] for each in events_since(gateway, before)] == events
