"""`submissions` since a time, and the filters `isOverdue` and `submittedSince` of `assignments`.

Contract: all filters can be combined, and totals count the filtered rows; submissions of every attempt are
listed, also after a reopening; those of withdrawn assignments are not.
"""

import json
from datetime import datetime
from itertools import product
from operator import getitem
from typing import Any

import pytest

from tests.callers import Gateway
from tests.db import raw
from tests.factories import DAY, HOUR, NOW, Record
from tests.schema.rich_world import (
    SESSION_BY_ID,
    WITHDRAWN,
    given_a_rich_world,
    naive_is_overdue,
    records,
    score_of,
)
from tests.schema.worlds import global_id, numbers

LONG_AGO, SOME_MONTHS = NOW - 700 * DAY, NOW - 150 * DAY
SINCE = (None, LONG_AGO, SOME_MONTHS, NOW)
ASSIGNMENTS = """query($overdue: Boolean, $since: DateTime, $state: TimeState, $status: AssignmentStatus,
        $client: ID, $session: ID) {
    assignments(isOverdue: $overdue, submittedSince: $since, timeState: $state, status: $status,
        clientId: $client, sessionId: $session, first: 100) { totalCount nodes { legacyId } } }"""
SUBMISSIONS = """query($since: DateTime, $client: ID) {
    submissions(since: $since, clientId: $client, first: 100) { totalCount nodes { legacyId } } }"""


def as_text(moment: datetime | None) -> str | None:
    return None if moment is None else moment.isoformat()


def naive_assignments(viewer: tuple[str, int], filters: dict[str, Any]) -> list[int]:
    found = [
        record["id"]
        for record in records("assignment")
        for session in [SESSION_BY_ID[record["sessionId"]]]
        if record["id"] not in WITHDRAWN
        and session[viewer[0]] == viewer[1]
        and filters["overdue"] in (None, naive_is_overdue(record))
        and is_since(record["submitDate"], filters["since"])
        and filters["state"] in (None, naive_state(session))
        and filters["status"] in (None, record["status"])
        and filters["client"] in (None, session["clientId"])
        and filters["session"] in (None, session["id"])
    ]
    return sorted(found, reverse=True)


def is_since(submitted: datetime | None, since: datetime | None) -> bool:
    return since is None or (submitted is not None and submitted >= since)


def naive_state(session: Record) -> str:
    if session["isClosed"]:
        return "COMPLETED"
    return "FUTURE" if session["startDate"] > NOW else "RUNNING"


@pytest.mark.parametrize("viewer", [("caregiverId", 1), ("clientId", 2)], ids=str)
def test_combinations_of_filters_match_a_naive_filter(rich: Gateway, viewer: tuple[str, int]) -> None:
    """All combinations of four filters; half of them, with each pair of values, also have a date."""
    caller = rich.as_caregiver(viewer[1]) if viewer[0] == "caregiverId" else rich.as_client(viewer[1])
    values: list[tuple[Any, ...]] = [
        (None, True, False),
        (None, "RUNNING", "COMPLETED", "FUTURE"),
        (None, "PENDING"),
        ((None, None), (2, None), (None, 1), (99, None)),
    ]
    combinations = []
    for places in product(*(range(len(each)) for each in values)):
        overdue, state, status, (client, session) = map(getitem, values, places)
        since = SOME_MONTHS if sum(places) % 2 else None
        combinations.append(
            {
                "overdue": overdue,
                "state": state,
                "status": status,
                "client": client,
                "session": session,
                "since": since,
            }
        )
    expected = [naive_assignments(viewer, filters) for filters in combinations]

    fields = [field_of(number, filters) for number, filters in enumerate(combinations)]
    response: dict[str, Any] = {}
    for start in range(0, len(fields), 16):
        response |= caller.data(f"{{ {' '.join(fields[start : start + 16])} }}")

    found = [response[f"list{number}"] for number in range(len(combinations))]
    assert [(numbers(each), each["totalCount"]) for each in found] == [(each, len(each)) for each in expected]
    assert max(map(len, expected)) > 3


def field_of(number: int, filters: dict[str, Any]) -> str:
    """One of many lists in a document, which is faster than a document per list."""
    written = {
        "isOverdue": json.dumps(filters["overdue"]),
        "timeState": filters["state"] or "null",
        "status": filters["status"] or "null",
        "clientId": json.dumps(filters["client"]),
        "sessionId": json.dumps(filters["session"]),
        "submittedSince": json.dumps(as_text(filters["since"])),
    }
    arguments = ", ".join(f"{name}: {value}" for name, value in written.items())
    return f"list{number}: assignments({arguments}, first: 100) {{ totalCount nodes {{ legacyId }} }}"


def test_the_overdue_filter_agrees_with_the_overdue_count(rich: Gateway) -> None:
    """The rule in SQL and the rule in Python."""
    query = """query($id: ID!) { assignments(isOverdue: true, clientId: $id) { totalCount }
        node(id: $id) { ... on Client { progress { overdueAssignmentCount } } } }"""

    for client in (1, 2, 3):
        for caregiver in (1, 2):
            found = rich.as_caregiver(caregiver).data(query, id=global_id("Client", client))
            counted = found["node"]["progress"]["overdueAssignmentCount"] if found["node"] else 0
            assert found["assignments"]["totalCount"] == counted


def test_a_time_filter_includes_its_own_time(rich: Gateway) -> None:
    submitted = max(each["submitDate"] for each in records("assignment") if each["submitDate"])

    for query, root in ((ASSIGNMENTS, "assignments"), (SUBMISSIONS, "submissions")):
        totals = [
            sum(
                rich.as_caregiver(each).data(query, since=as_text(since))[root]["totalCount"]
                for each in (1, 2)
            )
            for since in (submitted, submitted + HOUR)
        ]
        assert totals[0] > 0
        assert totals[1] == 0


@pytest.mark.parametrize("since", SINCE, ids=str)
@pytest.mark.parametrize("viewer", [("caregiverId", 1), ("caregiverId", 2), ("clientId", 2)], ids=str)
def test_submissions_include_every_attempt(
    rich: Gateway, viewer: tuple[str, int], since: datetime | None
) -> None:
    caller = rich.as_caregiver(viewer[1]) if viewer[0] == "caregiverId" else rich.as_client(viewer[1])
    sessions = {
        record["id"]: SESSION_BY_ID[record["sessionId"]]
        for record in records("assignment")
        if record["id"] not in WITHDRAWN
    }
    nobody = {viewer[0]: None}

    for client in (None, 1, 2, 99):
        expected = [
            record["id"]
            for record in records("answer_set")
            if sessions.get(record["assignmentId"], nobody)[viewer[0]] == viewer[1]
            and is_since(record["submitDate"], since)
            and client in (None, sessions[record["assignmentId"]]["clientId"])
        ]
        found = caller.data(SUBMISSIONS, since=as_text(since), client=client)["submissions"]
        assert (numbers(found), found["totalCount"]) == (expected[::-1][:100], len(expected))


def test_a_submission_has_its_score_feedback_and_assignment(standing: Gateway) -> None:
    query = """{ submissions(clientId: 1, first: 2) { nodes { legacyId attempt score saveType
        feedback { text score author { name } } assignment { legacyId name } answers { answer }
    } pageInfo { hasNextPage } } }"""

    found = standing.as_caregiver(1).data(query)["submissions"]

    answers = [{"answer": "Better – über Nacht"}, {"answer": "true"}]
    about = {"saveType": "FINAL", "assignment": {"legacyId": "7", "name": "Sleep diary"}, "answers": answers}
    said = {"text": "Well done – schön!", "score": 12, "author": {"name": "Caregiver 1"}}
    assert found == {
        "nodes": [
            {"legacyId": "5", "attempt": 2, "score": 12, "feedback": said, **about},
            {"legacyId": "4", "attempt": 1, "score": None, "feedback": None, **about},
        ],
        "pageInfo": {"hasNextPage": True},
    }


def test_drafts_are_not_submissions_and_have_no_score(standing: Gateway) -> None:
    client = standing.as_client(1)

    found = client.data(
        "{ submissions { nodes { legacyId } } assignment(id: 2) { draft { score feedback { text } } } }"
    )

    assert numbers(found["submissions"]) == [5, 4, 2, 1]
    assert found["assignment"] == {"draft": {"score": None, "feedback": None}}


def test_the_score_of_a_submission_is_the_stored_one(rich: Gateway) -> None:
    found = rich.as_caregiver(1).data("{ submissions(first: 100) { nodes { legacyId score } } }")

    nodes = found["submissions"]["nodes"]
    assert [node["score"] for node in nodes] == [score_of(int(node["legacyId"])) for node in nodes]
    assert len(nodes) > 30


def test_a_submission_of_a_withdrawn_assignment_is_missing(gateway: Gateway) -> None:
    """Submitted, reopened, then withdrawn: the submission is missing in lists and by id."""
    given_a_rich_world(gateway)
    caller = gateway.as_caregiver(1)
    newest = caller.data("{ submissions(first: 1) { totalCount nodes { id assignment { legacyId } } } }")[
        "submissions"
    ]
    (submission,) = newest["nodes"]
    by_id = "query($id: ID!) { node(id: $id) { ... on AnswerSet { legacyId } } }"
    assert caller.data(by_id, id=submission["id"])["node"] is not None

    raw.run(
        gateway.settings.database,
        "UPDATE assignment SET withdraw_date = assign_date WHERE id = "
        + submission["assignment"]["legacyId"],
    )

    after = caller.data("{ submissions(first: 1) { totalCount nodes { id } } }")["submissions"]
    assert after["totalCount"] < newest["totalCount"]
    assert after["nodes"] != [{"id": submission["id"]}]
    assert caller.data(by_id, id=submission["id"])["node"] is None


@pytest.mark.sqlite_only
@pytest.mark.parametrize("text", ["yesterday", "2026-11-21", "2026-11-21T09:00:00", ""])
def test_a_time_without_an_offset_is_rejected(standing: Gateway, text: str) -> None:
    for query in (ASSIGNMENTS, SUBMISSIONS):
        response = standing.as_caregiver(1).graphql(query, since=text)

        assert [error["extensions"]["code"] for error in response["errors"]] == ["GRAPHQL_VALIDATION_FAILED"]


def test_the_legacy_list_ignores_the_filter(standing: Gateway) -> None:
    path = "/gateway/profile/caregiver/session/assignment?time-state=RUNNING"

    plain = standing.as_caregiver(1).get(path)
    filtered = standing.as_caregiver(1).get(path + "&isOverdue=true&submittedSince=2026-11-21T09:00:00Z")

    assert (filtered.status_code, filtered.text) == (200, plain.text)
