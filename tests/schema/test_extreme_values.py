"""Extreme values: what an import or a change may store can be read.

Contract: no stored value makes a list fail. The moments of a window are those of the years 1900 to 2999,
and numbers are as large as an import accepts. Only a damaged value is an internal error, which is logged.
"""

import logging
from typing import Any

import pytest
from graphql import get_named_type

from app.db.interchange.import_format import LARGEST_COUNT, LARGEST_INTEGER
from app.db.tables import Assignment
from tests.callers import Caller, Gateway
from tests.db import raw
from tests.factories import (
    Record,
    a_book,
    a_caregiver,
    a_client,
    a_module,
    a_session,
    a_world,
    an_answer_set,
    an_assignment,
    starting_with,
)
from tests.rest_compat.legacy import ASSIGNMENTS, SESSIONS
from tests.rest_compat.legacy import homework as legacy_homework
from tests.schema.test_assign_homework import ASSIGNED
from tests.schema.test_assign_homework import homework as graphql_homework
from tests.schema.test_every_field import ASKED, LEVELS, ROOTS, SCHEMA, selection
from tests.schema.worlds import count, refusal

FIRST, LAST = "1900-01-01T00:00:00Z", "2999-12-31T23:59:59Z"
LONG_AGO = {"startDate": "1926/11/22", "endDate": "1926/11/29", "remindDates": None}
LATENESS = "{ assignments { nodes { legacyId lateness { state seconds } } } }"


def an_extreme_world() -> list[Record]:
    """Assignment 7 was submitted as late as possible; assignment 8 is pending and has a draft."""
    number = {"text": "How many?", "kind": "NUMBER", "minimum": -1.7e308, "maximum": 1.7e308}
    past: dict[str, Any] = {"startDate": FIRST, "endDate": FIRST, "assignDate": FIRST}
    late = {
        "status": "COMPLETE",
        "submitDate": LAST,
        "feedbackStatus": "SUBMITTED",
        "feedbackSubmitDate": LAST,
    }
    return [
        a_caregiver(1),
        a_client(1),
        a_module(1),
        a_book(1, isTest=True),
        a_book(4, isTest=True, questions=[number]),
        a_session(1, createDate=FIRST, startDate=FIRST),
        an_assignment(7, **past, **late, attempt=LARGEST_COUNT, score=LARGEST_INTEGER),
        an_assignment(8, **past, book=4, reminders=[{"remindDate": FIRST, "state": "SENT"}]),
        an_answer_set(1, 7, submitDate=LAST, attempt=LARGEST_COUNT, revision=LARGEST_COUNT),
        an_answer_set(2, 8, saveType="DRAFT", revision=LARGEST_COUNT),
    ]


def read_everything(gateway: Gateway) -> None:
    assert SCHEMA.query_type is not None
    for root, role in ASKED:
        caller: Caller = getattr(gateway, f"as_{role}")(1)
        kind = get_named_type(SCHEMA.query_type.fields[root].type)
        assert caller.data(f"{{ {root}{ROOTS[root]} {{ {selection(kind, LEVELS)} }} }}")[root] is not None
    assert gateway.as_client(1).get(f"{SESSIONS}?time-state=RUNNING").status_code == 200
    assert gateway.as_caregiver(1).get(f"{ASSIGNMENTS}?time-state=RUNNING").status_code == 200


REOPEN = """mutation($input: ReopenAssignmentInput!) { reopenAssignment(input: $input) {
    assignment { attempt } userErrors { message } } }"""
SAVE = """mutation($input: SaveAnswersInput!) { saveAnswers(input: $input) {
    draft { revision } userErrors { message } } }"""


@starting_with(an_extreme_world)
def test_the_most_extreme_values_can_be_read_and_changed(world: Gateway) -> None:
    read_everything(world)
    reopened = world.as_caregiver(1).data(REOPEN, input={"assignmentId": "7"})
    given = {"assignmentId": "8", "revision": LARGEST_COUNT, "answers": []}
    saved = world.as_client(1).data(SAVE, input=given)

    assert reopened == {"reopenAssignment": {"assignment": {"attempt": LARGEST_COUNT + 1}, "userErrors": []}}
    assert saved == {"saveAnswers": {"draft": {"revision": LARGEST_COUNT + 1}, "userErrors": []}}
    read_everything(world)


SUBMIT = """mutation($input: SubmitAnswersInput!) { submitAnswers(input: $input) {
    assignment { status } userErrors { code message } } }"""


def a_world_with_exact_limits() -> list[Record]:
    """The questions have limits of 16 digits and more: the largest of all numbers is no limit."""
    limits = {"minimum": 1234567890.123456, "maximum": 1.7976931348623157e308}
    number = {"text": "How many?", "kind": "NUMBER", **limits}
    other = {"text": "How few?", "kind": "NUMBER", "maximum": 123456789012345.67}
    people = a_caregiver(1), a_client(1)
    return [*people, a_module(1), a_book(1, questions=[number, other]), a_session(1), an_assignment(1)]


@starting_with(a_world_with_exact_limits)
def test_an_answer_is_compared_with_all_digits_of_a_limit(world: Gateway) -> None:
    outside, equal = [
        world.as_client(1).data(
            SUBMIT,
            input={
                "assignmentId": "1",
                "answers": [{"questionId": "1", "answer": first}, {"questionId": "2", "answer": second}],
            },
        )["submitAnswers"]
        for first, second in (
            ("1234567890.123455", "123456789012345.69"),
            ("1234567890.123456", "123456789012345.67"),
        )
    ]

    messages = (
        "the answer to question 1 must be at least 1234567890.123456",
        "the answer to question 2 must be at most 123456789012345.67",
    )
    errors = [{"code": "UNREADABLE", "message": message} for message in messages]
    assert outside == {"assignment": None, "userErrors": errors}
    assert equal == {"assignment": {"status": "COMPLETE"}, "userErrors": []}


@starting_with(an_extreme_world)
def test_lateness_of_more_than_68_years_is_the_largest_number(world: Gateway) -> None:
    lists = [caller.data(LATENESS)["assignments"] for caller in (world.as_caregiver(1), world.as_client(1))]

    assert (
        lists
        == [
            {
                "nodes": [
                    {"legacyId": "8", "lateness": {"state": "OVERDUE", "seconds": 2147483647}},
                    {"legacyId": "7", "lateness": {"state": "LATE", "seconds": 2147483647}},
                ]
            }
        ]
        * 2
    )


@starting_with(a_world)
def test_homework_of_a_window_before_the_session_is_assigned_and_listed(world: Gateway) -> None:
    """Homework is sometimes entered late."""
    caregiver = world.as_caregiver(1)

    put = caregiver.put(ASSIGNMENTS, json=legacy_homework(bookIds=[1], **LONG_AGO))
    assign = """mutation($input: AssignHomeworkInput!) { assignHomework(input: $input) {
        message assignments { legacyId lateness { state seconds } } userErrors { code } } }"""
    window = {"startDate": "1926-11-22T08:00:00Z", "endDate": "1926-11-29T18:30:00Z"}
    assigned = caregiver.data(assign, input=graphql_homework(**window))

    overdue = {"state": "OVERDUE", "seconds": 2147483647}
    assert (put.status_code, put.json()) == (200, {"message": ASSIGNED})
    assert assigned["assignHomework"] == {
        "message": ASSIGNED,
        "assignments": [{"legacyId": "7", "lateness": overdue}],
        "userErrors": [],
    }
    for caller in (caregiver, world.as_client(1)):
        nodes = caller.data(LATENESS)["assignments"]["nodes"]
        assert nodes[:2] == [{"legacyId": "7", "lateness": overdue}, {"legacyId": "6", "lateness": overdue}]
    assert count(world, Assignment) == 7


@starting_with(a_world)
@pytest.mark.sqlite_only
def test_a_damaged_value_is_an_internal_error(world: Gateway, caplog: pytest.LogCaptureFixture) -> None:
    """An invalid argument that only the execution finds is not."""
    raw.run(world.settings.database_url, "UPDATE assignment SET attempt = 3000000000 WHERE id = 2")
    caller = world.as_client(1)

    damaged = caller.graphql("{ assignment(id: 2) { attempt } }")
    nullable = 'query($id: ID = "1") { assignment(id: $id) { attempt } }'
    invalid = caller.graphql(nullable, id=None)

    assert damaged == {
        "data": {"assignment": None},
        "errors": [refusal("INTERNAL", "Internal error", "assignment", "attempt", column=23)],
    }
    assert [error["extensions"]["code"] for error in invalid["errors"]] == ["GRAPHQL_VALIDATION_FAILED"]
    (record,) = [record for record in caplog.records if record.name == "care.graphql"]
    assert record.levelno == logging.ERROR
    assert record.getMessage().endswith(" at ['assignment', 'attempt']")
