"""Filters of `assignments` and `sessions`: every combination matches a naive filter over the same data.

Contract: the time state is that of the session; filters can be combined; `totalCount`, which is a sum of
the sessions' counters, equals the number of rows.
"""

from itertools import product
from typing import Any

import pytest

from tests.callers import Gateway
from tests.factories import NOW, a_session, a_world
from tests.schema.worlds import a_full_world, every_page, global_id, numbers, refusal

STATES = (None, "RUNNING", "FUTURE", "COMPLETED")
QUERY = """query($timeState: TimeState, $status: AssignmentStatus, $sessionId: ID, $clientId: ID) {
    assignments(timeState: $timeState, status: $status, sessionId: $sessionId, clientId: $clientId) {
        totalCount nodes { legacyId } } }"""
TOTAL_ONLY = QUERY.replace("nodes { legacyId }", "")


def naive_state(session: dict[str, Any]) -> str:
    if session["isClosed"]:
        return "COMPLETED"
    return "FUTURE" if session["startDate"] > NOW else "RUNNING"


def naive_assignments(viewer: tuple[str, int], filters: dict[str, Any]) -> list[int]:
    """The ids of the rows that match."""
    world = a_full_world()
    sessions = {record["id"]: record for record in world if record["kind"] == "session"}
    found = []
    for record in world:
        if record["kind"] != "assignment":
            continue
        session = sessions[record["sessionId"]]
        if (
            session[viewer[0]] == viewer[1]
            and filters["timeState"] in (None, naive_state(session))
            and filters["status"] in (None, record["status"])
            and filters["sessionId"] in (None, session["id"])
            and filters["clientId"] in (None, session["clientId"])
        ):
            found.append(record["id"])
    return sorted(found, reverse=True)


@pytest.mark.parametrize("state", STATES, ids=str)
@pytest.mark.parametrize(
    "viewer", [("caregiverId", 1), ("caregiverId", 2), ("clientId", 1), ("clientId", 2)], ids=str
)
def test_every_combination_of_filters_matches_a_naive_filter(
    standing: Gateway, viewer: tuple[str, int], state: str | None
) -> None:
    caller = standing.as_caregiver(viewer[1]) if viewer[0] == "caregiverId" else standing.as_client(viewer[1])
    combinations = product((None, "PENDING", "COMPLETE"), (None, 1, 4, 99), (None, 1, 99))

    for status, session, client in combinations:
        filters = {"timeState": state, "status": status, "sessionId": session, "clientId": client}
        expected = naive_assignments(viewer, filters)
        found = caller.data(QUERY, **filters)["assignments"]
        assert (numbers(found), found["totalCount"]) == (expected, len(expected)), filters


def test_the_total_selected_alone_is_the_same(standing: Gateway) -> None:
    for state, status in product(STATES, (None, "PENDING", "COMPLETE")):
        filters = {"timeState": state, "status": status}
        whole = standing.as_caregiver(1).data(QUERY, **filters)["assignments"]["totalCount"]
        alone = standing.as_caregiver(1).data(TOTAL_ONLY, **filters)["assignments"]

        assert alone == {"totalCount": whole}


@pytest.mark.parametrize("state", STATES, ids=str)
def test_sessions_are_filtered_by_time_state(standing: Gateway, state: str | None) -> None:
    expected = {None: [4, 3, 2, 1], "RUNNING": [4, 1], "FUTURE": [2], "COMPLETED": [3]}[state]
    query = """query($state: TimeState) { sessions(timeState: $state) {
        totalCount nodes { legacyId runningStatus } } }"""

    found = standing.as_caregiver(1).data(query, state=state)["sessions"]

    assert (numbers(found), found["totalCount"]) == (expected, len(expected))
    assert state is None or {node["runningStatus"] for node in found["nodes"]} == {state}


@pytest.mark.parametrize("form", [str, lambda number: global_id("Session", number)], ids=["plain", "global"])
def test_the_session_filter_accepts_both_forms_of_an_id(standing: Gateway, form: Any) -> None:
    found = standing.as_caregiver(1).data(QUERY, sessionId=form(4))["assignments"]

    assert found == {"totalCount": 2, "nodes": [{"legacyId": "6"}, {"legacyId": "4"}]}


@pytest.mark.parametrize("form", [str, lambda number: global_id("Client", number)], ids=["plain", "global"])
def test_the_client_filter_accepts_both_forms_of_an_id(standing: Gateway, form: Any) -> None:
    found = standing.as_caregiver(1).data(QUERY, clientId=form(2))["assignments"]

    assert found == {"totalCount": 2, "nodes": [{"legacyId": "6"}, {"legacyId": "4"}]}


@pytest.mark.parametrize("argument", ["sessionId", "clientId"])
@pytest.mark.parametrize("text", ["0", "5", "999", str(2**63), str(10**19)])
def test_an_unknown_or_foreign_id_matches_nothing(standing: Gateway, argument: str, text: str) -> None:
    assert standing.as_caregiver(1).data(QUERY, **{argument: text}) == {
        "assignments": {"totalCount": 0, "nodes": []}
    }


@pytest.mark.parametrize(
    "text", ["", "x", "-1", "١", "1²", global_id("Book", 1), global_id("Nothing", 1), "Session:1"]
)
@pytest.mark.parametrize(
    ("argument", "call"),
    [
        ("sessionId", "assignments(sessionId: $id)"),
        ("clientId", "assignments(clientId: $id)"),
        ("clientId", "submissions(clientId: $id)"),
        ("clientId", "auditEvents(clientId: $id)"),
        ("moduleId", "books(moduleId: $id)"),
    ],
)
def test_an_id_of_another_type_in_a_filter_is_an_error(
    standing: Gateway, argument: str, call: str, text: str
) -> None:
    """An empty list would hide the mistake."""
    query = f"query($id: ID!) {{ found: {call} {{ totalCount }} }}"

    response = standing.as_caregiver(1).graphql(query, id=text)

    kind = argument.removesuffix("Id")
    error = refusal("UNREADABLE", f"{argument} must be the id of a {kind}", "found", column=19)
    assert response == {"data": None, "errors": [error]}


def test_filters_apply_to_every_page(standing: Gateway) -> None:
    query = """query($after: String, $offset: Int) {
        assignments(status: COMPLETE, timeState: RUNNING, first: 1, after: $after, offset: $offset) {
            totalCount nodes { legacyId } pageInfo { hasNextPage endCursor } } }"""
    caller = standing.as_client(1)

    first = caller.data(query)["assignments"]
    second = caller.data(query, after=first["pageInfo"]["endCursor"])["assignments"]
    numbered = caller.data(query, offset=1)["assignments"]

    assert (numbers(first), first["totalCount"], first["pageInfo"]["hasNextPage"]) == ([7], 2, True)
    assert (numbers(second), second["totalCount"], second["pageInfo"]["hasNextPage"]) == ([1], 2, False)
    assert numbered == second


PAGED = {
    "sessions": ["timeState: RUNNING"],
    "assignments": [
        "clientId: 1",
        "sessionId: 1",
        "timeState: RUNNING",
        "isOverdue: false",
        'submittedSince: "2026-11-19T00:00:00Z"',
    ],
    "submissions": ['since: "2026-11-19T00:00:00Z"'],
    "books": ["moduleId: 1", "isTest: false", 'search: "mood"'],
}


@pytest.mark.parametrize(("root", "filter"), [(root, one) for root, some in PAGED.items() for one in some])
def test_each_filter_applies_to_every_page(standing: Gateway, root: str, filter: str) -> None:
    caller = standing.as_caregiver(1)

    found = every_page(caller, root, 1, filter)

    assert found == every_page(caller, root, 100, filter)
    assert 1 < len(found) < len(every_page(caller, root, 100))


def test_a_session_that_starts_now_is_running(gateway: Gateway) -> None:
    gateway.import_records([*a_world(), a_session(9, startDate=NOW)])

    found = gateway.as_client(1).data("{ sessions(timeState: RUNNING) { nodes { legacyId runningStatus } } }")

    assert found["sessions"]["nodes"][0] == {"legacyId": "9", "runningStatus": "RUNNING"}
