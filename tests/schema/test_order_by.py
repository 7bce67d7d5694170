"""`orderBy`: assignments by due date and sessions by start date, each with its own cursors.

Contract: ties are sorted by id; a cursor is rejected in another order; null means NEWEST.
"""

from base64 import b64encode
from datetime import datetime
from typing import Any

import pytest

from tests.callers import Caller, Gateway
from tests.factories import (
    DAY,
    HOUR,
    NOW,
    Record,
    a_client,
    a_complete_assignment,
    a_session,
    a_world,
    an_assignment,
)
from tests.schema.worlds import refusal

DUE = "query($first: Int, $after: String, $status: AssignmentStatus, $offset: Int) {"
PAGE = """first: $first, after: $after, orderBy: DUE_SOONEST) {
    totalCount nodes { legacyId } edges { cursor } pageInfo { hasNextPage hasPreviousPage endCursor } } }"""
ASSIGNMENTS = f"{DUE} assignments(status: $status, offset: $offset, {PAGE}"
OF_SESSION = (
    "query($first: Int, $after: String, $status: AssignmentStatus) {"
    f" session(id: 10) {{ assignments(status: $status, {PAGE} }}"
)
SESSIONS = """query($first: Int, $after: String, $state: TimeState) {
    sessions(timeState: $state, orderBy: STARTS_SOONEST, first: $first, after: $after) {
        totalCount nodes { legacyId } edges { cursor }
        pageInfo { hasNextPage hasPreviousPage endCursor } } }"""

# Assignment id -> end date. Those of session 11 belong to another caregiver.
ENDS: dict[int, datetime | None] = {
    100: NOW + 3 * DAY,
    101: NOW + DAY,
    102: None,
    103: NOW + DAY,
    104: NOW - HOUR,
    105: NOW + DAY,
    106: NOW + DAY + HOUR / 3600_000_000,
    107: None,
}
DUE_SOONEST = ["104", "101", "103", "105", "106", "100", "102", "107"]
SUBMITTED = ["110", "111"]
STARTS = {10: NOW - DAY, 11: NOW + 2 * DAY, 12: NOW + DAY, 13: NOW + DAY, 14: NOW - 2 * DAY}


def lines() -> list[Record]:
    return [
        *a_world(),
        a_client(3),
        *(a_session(number, client=3, startDate=start) for number, start in STARTS.items() if number != 11),
        a_session(11, caregiver=2, client=3, startDate=STARTS[11]),
        *(an_assignment(number, session=10, endDate=end) for number, end in ENDS.items()),
        a_complete_assignment(110, session=10, endDate=NOW - 3 * DAY),
        a_complete_assignment(111, session=10, endDate=NOW - 4 * DAY),
        an_assignment(112, session=11, endDate=NOW + 2 * DAY),
    ]


@pytest.fixture
def world(gateway: Gateway) -> Gateway:
    gateway.import_records(lines())
    return gateway


@pytest.fixture(scope="module")
def listed(shared: Gateway) -> Gateway:
    """The same, for tests that only read."""
    shared.import_records(lines())
    return shared


def pages(caller: Caller, query: str, path: str, first: int, **list_after: Any) -> list[list[str]]:
    """All pages of a list. Every cursor is checked to lead to the items after it."""
    found: list[list[str]] = []
    after, total = None, 0
    while True:
        page: Any = caller.data(query, first=first, after=after, **list_after)
        for name in path.split("."):
            page = page[name]
        assert page["pageInfo"]["hasPreviousPage"] is (after is not None)
        found.append([node["legacyId"] for node in page["nodes"]])
        total += len(found[-1])
        if not page["pageInfo"]["hasNextPage"]:
            assert page["totalCount"] == total
            return found
        after = page["pageInfo"]["endCursor"]
        assert after == page["edges"][-1]["cursor"]


def flat(found: list[list[str]]) -> list[str]:
    return [each for page in found for each in page]


@pytest.mark.parametrize("first", [1, 3, 100])
def test_paging_by_due_date_returns_every_item_in_order(listed: Gateway, first: int) -> None:
    client, caregiver = listed.as_client(3), listed.as_caregiver(1)
    by_session = pages(caregiver, OF_SESSION, "session.assignments", first)
    by_client = pages(client, ASSIGNMENTS, "assignments", first)
    pending = pages(client, ASSIGNMENTS, "assignments", first, status="PENDING")
    submitted = pages(client, ASSIGNMENTS, "assignments", first, status="COMPLETE")
    of_caregiver = pages(caregiver, ASSIGNMENTS, "assignments", first, status="PENDING")

    def in_pages(ids: list[str]) -> list[list[str]]:
        return [ids[start : start + first] for start in range(0, len(ids), first)]

    of_both = [*DUE_SOONEST[:5], "112", *DUE_SOONEST[5:]]  # the client's other caregiver, too
    assert by_session == in_pages([*DUE_SOONEST, *SUBMITTED])
    assert by_client == in_pages([*of_both, *SUBMITTED])
    assert pending == in_pages(of_both)
    assert submitted == in_pages(SUBMITTED)
    assert [each for each in flat(of_caregiver) if int(each) >= 100] == DUE_SOONEST
    assert "112" not in flat(of_caregiver)


@pytest.mark.parametrize("first", [1, 2, 100])
def test_paging_by_start_date_returns_every_item_in_order(listed: Gateway, first: int) -> None:
    client, caregiver = listed.as_client(3), listed.as_caregiver(1)

    of_client = pages(client, SESSIONS, "sessions", first)
    future = pages(client, SESSIONS, "sessions", first, state="FUTURE")
    running = pages(client, SESSIONS, "sessions", first, state="RUNNING")
    of_caregiver = pages(caregiver, SESSIONS, "sessions", first, state="FUTURE")

    assert flat(of_client) == ["14", "10", "12", "13", "11"]
    assert flat(future) == ["12", "13", "11"]
    assert flat(running) == ["14", "10"]
    assert [each for each in flat(of_caregiver) if int(each) >= 10] == ["12", "13"]
    assert {len(page) for page in of_client[:-1]} <= {first}


def test_an_offset_works_in_every_order(listed: Gateway) -> None:
    found = listed.as_client(3).data(ASSIGNMENTS, offset=2, first=2, status="PENDING")["assignments"]

    assert [node["legacyId"] for node in found["nodes"]] == DUE_SOONEST[2:4]
    assert found["pageInfo"]["hasPreviousPage"] is True


def test_overdue_homework_is_sorted_by_its_due_date(world: Gateway) -> None:
    """What has ended in a closed or future session is not overdue."""
    world.import_records(
        [
            a_session(15, client=3, isClosed=True),
            an_assignment(120, session=10, endDate=NOW - DAY),
            an_assignment(121, session=15, endDate=NOW - DAY),
            an_assignment(122, session=12, endDate=NOW - HOUR),
        ]
    )
    query = """{ assignments(isOverdue: true, orderBy: DUE_SOONEST) { totalCount nodes { legacyId } }
        others: assignments(isOverdue: false, orderBy: DUE_SOONEST, status: PENDING) {
            totalCount nodes { legacyId } } }"""

    found = world.as_client(3).data(query)

    assert found["assignments"] == {"totalCount": 2, "nodes": [{"legacyId": "120"}, {"legacyId": "104"}]}
    others = ["121", "122", *DUE_SOONEST[1:5], "112", *DUE_SOONEST[5:]]
    assert found["others"] == {"totalCount": 10, "nodes": [{"legacyId": each} for each in others]}


@pytest.mark.parametrize("order", ["", "orderBy: NEWEST", "orderBy: null"])
def test_newest_first_is_the_default_order(listed: Gateway, order: str) -> None:
    named = f"({order})" if order else ""
    query = f"""{{ assignments{named} {{ nodes {{ legacyId }} }} sessions{named} {{ nodes {{ legacyId }} }}
        session(id: 10) {{ assignments{named} {{ nodes {{ legacyId }} }} }} }}"""

    found = listed.as_client(3).data(query)

    newest = [str(number) for number in (112, 111, 110, *range(107, 99, -1))]
    assert found == {
        "assignments": {"nodes": [{"legacyId": each} for each in newest]},
        "sessions": {"nodes": [{"legacyId": str(each)} for each in range(14, 9, -1)]},
        "session": {"assignments": {"nodes": [{"legacyId": each} for each in newest[1:]]}},
    }


def test_one_list_can_be_selected_in_two_orders(listed: Gateway) -> None:
    query = """query($order: AssignmentOrder) { session(id: 10) {
        newest: assignments(first: 1) { nodes { legacyId } }
        due: assignments(first: 1, orderBy: $order) { nodes { legacyId } } } }"""

    for order, first in (("DUE_SOONEST", "104"), ("NEWEST", "111"), (None, "111"), ("DUE_SOONEST", "104")):
        assert listed.as_client(3).data(query, order=order)["session"] == {
            "newest": {"nodes": [{"legacyId": "111"}]},
            "due": {"nodes": [{"legacyId": first}]},
        }


@pytest.mark.parametrize(
    ("field", "type_name", "order", "ids"),
    [
        ("assignments", "AssignmentOrder", "DUE_SOONEST", ["104", "101"]),
        ("sessions", "SessionOrder", "STARTS_SOONEST", ["14", "10"]),
    ],
)
def test_a_list_can_be_requested_again_in_another_order(
    listed: Gateway, field: str, type_name: str, order: str, ids: list[str]
) -> None:
    """Each order has cursors with another column."""
    query = f"""query($order: {type_name}, $after: String) {{
        {field}(first: 1, orderBy: $order, after: $after) {{
            nodes {{ legacyId }} pageInfo {{ endCursor }} }} }}"""
    client, newest = listed.as_client(3), [{"assignments": "112", "sessions": "14"}[field]]
    # The third request uses what was prepared for the order of the second.
    for requested, expected in ((None, newest), ("NEWEST", newest), (order, ids), (order, ids)):
        after = None
        for legacy_id in expected:
            page = client.data(query, order=requested, after=after)[field]
            assert page["nodes"] == [{"legacyId": legacy_id}]
            after = page["pageInfo"]["endCursor"]


OTHER_ORDER = "after is a cursor of this list in another order"
NO_CURSOR = "after is not a cursor of this list"
FIELDS = {
    "assignments": ("assignments(orderBy: %s, after: $after)", "DUE_SOONEST"),
    "sessions": ("sessions(orderBy: %s, after: $after)", "STARTS_SOONEST"),
    "session": ("session(id: 10) { assignments(orderBy: %s, after: $after)", "DUE_SOONEST"),
}


@pytest.mark.parametrize("field", FIELDS)
def test_a_cursor_of_another_order_is_rejected(listed: Gateway, field: str) -> None:
    client, (text, other) = listed.as_client(3), FIELDS[field]
    end = " } }" if field == "session" else " }"

    def list_after(order: str, after: str | None) -> Any:
        document = f"query($after: String) {{ {text % order} {{ pageInfo {{ endCursor }} }}{end}"
        return client.graphql(document, after=after)

    def cursor(order: str) -> str:
        found: Any = list_after(order, None)["data"][field]
        found = found["assignments"] if field == "session" else found
        return str(found["pageInfo"]["endCursor"])

    cursors = {order: cursor(order) for order in ("NEWEST", other)}

    for order in cursors:
        for of_order, after in cursors.items():
            answer = list_after(order, after)
            if order == of_order:
                assert "errors" not in answer
            else:
                [error] = answer["errors"]
                assert (error["message"], error["extensions"]["code"]) == (OTHER_ORDER, "UNREADABLE")


BY_HAND = {
    "no moment": "Assignment:DUE_SOONEST:101",
    "another kind": "Session:DUE_SOONEST:101:2026-11-22T09:00:00.000000Z",
    "no day": "Assignment:DUE_SOONEST:101:2026-02-30T09:00:00.000000Z",
    "the year 0": "Assignment:DUE_SOONEST:101:0000-01-01T09:00:00.000000Z",
    "no time zone": "Assignment:DUE_SOONEST:101:2026-11-22T09:00:00.000000",
    "an offset": "Assignment:DUE_SOONEST:101:2026-11-22T09:00:00.00+02:00",
    "a number that no row has": f"Assignment:DUE_SOONEST:{2**63}:2026-11-22T09:00:00.000000Z",
    "no number": "Assignment:DUE_SOONEST::2026-11-22T09:00:00.000000Z",
    "a line break behind": "Assignment:DUE_SOONEST:101:2026-11-22T09:00:00.000000Z\n",
}


def test_an_invalid_cursor_is_rejected(listed: Gateway) -> None:
    query = """query($after: String) { assignments(orderBy: DUE_SOONEST, after: $after) { nodes { id } } }"""

    for what, cursor_text in BY_HAND.items():
        response = listed.as_client(3).graphql(query, after=b64encode(cursor_text.encode()).decode())

        assert response == {
            "data": None,
            "errors": [refusal("UNREADABLE", NO_CURSOR, "assignments", column=25)],
        }, what


def test_a_cursor_of_a_deleted_item_still_works(world: Gateway) -> None:
    client = world.as_client(3)
    first = client.data(ASSIGNMENTS, first=2, status="PENDING")["assignments"]
    world.as_caregiver(1).data(
        """mutation { withdrawAssignment(input: {assignmentId: "101"}) { userErrors { code } } }"""
    )

    after = first["pageInfo"]["endCursor"]
    second = client.data(ASSIGNMENTS, first=2, after=after, status="PENDING")["assignments"]

    assert [node["legacyId"] for node in first["nodes"]] == ["104", "101"]
    assert [node["legacyId"] for node in second["nodes"]] == ["103", "105"]
