"""`Session.assignments`: a list inside a row, selected under several aliases with different arguments.

Contract: each alias has its own arguments, also below aliases of the session; equal selections are merged;
totals are those of the session and status.
"""

from typing import Any

import pytest

from tests.callers import Gateway
from tests.factories import a_session, a_world, an_assignment
from tests.schema.worlds import in_base64, numbers

CURSOR_2 = in_base64("Assignment:before:2")
CURSOR_7 = in_base64("Assignment:before:7")


def nodes(*found: int) -> dict[str, Any]:
    return {"nodes": [{"legacyId": str(number)} for number in found]}


def test_aliases_with_different_arguments_on_the_same_session(standing: Gateway) -> None:
    query = f"""{{ session(id: 1) {{
        all: assignments {{ totalCount nodes {{ legacyId }} }}
        newest: assignments(first: 1) {{ totalCount nodes {{ legacyId }} pageInfo {{ hasNextPage }} }}
        pending: assignments(status: PENDING) {{ totalCount nodes {{ legacyId }} }}
        complete: assignments(status: COMPLETE, first: 1) {{ totalCount nodes {{ legacyId status }} }}
        later: assignments(after: "{CURSOR_7}") {{ nodes {{ legacyId }} pageInfo {{ hasPreviousPage }} }}
        last: assignments(after: "{CURSOR_2}", first: 1) {{ nodes {{ legacyId }} }}
        total: assignments(first: 2) {{ totalCount }} }} }}"""

    response = standing.as_client(1).data(query)

    assert response == {
        "session": {
            "all": {"totalCount": 3, **nodes(7, 2, 1)},
            "newest": {"totalCount": 3, **nodes(7), "pageInfo": {"hasNextPage": True}},
            "pending": {"totalCount": 1, **nodes(2)},
            "complete": {"totalCount": 2, "nodes": [{"legacyId": "7", "status": "COMPLETE"}]},
            "later": {**nodes(2, 1), "pageInfo": {"hasPreviousPage": True}},
            "last": nodes(1),
            "total": {"totalCount": 3},
        }
    }


@pytest.mark.sqlite_only
def test_the_same_alias_on_differently_aliased_sessions(standing: Gateway) -> None:
    query = """{
        one: session(id: 1) { list: assignments(first: 1) { totalCount nodes { legacyId } } }
        four: session(id: 4) { list: assignments(first: 1, status: PENDING) { nodes { legacyId name } } }
        page: sessions(timeState: RUNNING) { nodes {
            legacyId list: assignments(status: COMPLETE) { totalCount nodes { legacyId } } } }
        other: sessions(timeState: COMPLETED) { nodes {
            list: assignments(first: 2) { nodes { legacyId } }
            none: assignments(status: PENDING) { totalCount } } } }"""

    response = standing.as_caregiver(1).data(query)

    assert response == {
        "one": {"list": {"totalCount": 3, **nodes(7)}},
        "four": {"list": {"nodes": [{"legacyId": "6", "name": "Weekly mood – über alles"}]}},
        "page": {
            "nodes": [
                {"legacyId": "4", "list": {"totalCount": 0, "nodes": []}},
                {"legacyId": "1", "list": {"totalCount": 2, **nodes(7, 1)}},
            ]
        },
        "other": {"nodes": [{"list": nodes(3), "none": {"totalCount": 0}}]},
    }


@pytest.mark.sqlite_only
def test_equal_variables_and_literals_select_the_same_page(standing: Gateway) -> None:
    query = """query($status: AssignmentStatus, $first: Int! = 2, $nothing: String) { session(id: 1) {
        a: assignments(status: $status, first: $first) { nodes { legacyId } }
        b: assignments(status: PENDING, first: 2, after: $nothing) { totalCount }
        c: assignments(status: null) { nodes { legacyId } } } }"""

    response = standing.as_client(1).data(query, status="PENDING")

    assert response == {"session": {"a": nodes(2), "b": {"totalCount": 1}, "c": nodes(7, 2, 1)}}


@pytest.mark.sqlite_only
def test_a_page_selected_twice_is_merged(standing: Gateway) -> None:
    query = """{ session(id: 1) {
            assignments(first: 1) { nodes { legacyId } }
            ...more
            assignments(first: 1) { nodes { session { title } } edges { cursor node { name } } } } }
        fragment more on Session {
            assignments(first: 1) { totalCount nodes { status session { chatId } } } }"""

    response = standing.as_client(1).data(query)

    assert response == {
        "session": {
            "assignments": {
                "totalCount": 3,
                "nodes": [
                    {
                        "legacyId": "7",
                        "status": "COMPLETE",
                        "session": {"title": "Session 1", "chatId": "chat-1"},
                    }
                ],
                "edges": [{"cursor": CURSOR_7, "node": {"name": "Sleep diary"}}],
            }
        }
    }


def test_a_list_may_contain_itself_on_deeper_levels(standing: Gateway) -> None:
    query = """{ session(id: 1) { assignments(first: 1) { nodes { legacyId session {
        assignments(status: PENDING) { nodes { legacyId session {
            assignments { totalCount }
            complete: assignments(status: COMPLETE) { totalCount nodes { legacyId } } } } } } } } } }"""

    response = standing.as_client(1).data(query)

    deepest = {"assignments": {"totalCount": 3}, "complete": {"totalCount": 2, **nodes(7, 1)}}
    pending = {"nodes": [{"legacyId": "2", "session": deepest}]}
    assert response == {
        "session": {"assignments": {"nodes": [{"legacyId": "7", "session": {"assignments": pending}}]}}
    }


def test_each_session_of_a_page_has_its_own_first_assignments(gateway: Gateway) -> None:
    sessions = [a_session(n) for n in range(10, 20)]
    rows = [an_assignment(100 * n + k, session=n) for n in range(10, 20) for k in range(n - 9)]
    gateway.import_records([*a_world(), *sessions, *rows])
    query = """{ sessions(first: 10) { nodes { legacyId assignments(first: 3) {
        totalCount nodes { legacyId } pageInfo { hasNextPage } } } } }"""

    page = gateway.as_client(1).data(query)["sessions"]

    assert numbers(page) == list(range(19, 9, -1))
    for node in page["nodes"]:
        number = int(node["legacyId"])
        own = [100 * number + k for k in reversed(range(number - 9))]
        assert node["assignments"] == {
            "totalCount": len(own),
            **nodes(*own[:3]),
            "pageInfo": {"hasNextPage": len(own) > 3},
        }


def test_paging_through_the_list_of_a_session_returns_each_row_once(gateway: Gateway) -> None:
    gateway.import_records([*a_world(), *(an_assignment(n) for n in range(10, 15))])
    query = """query($after: String) { session(id: 1) { assignments(first: 3, after: $after) {
        nodes { legacyId } pageInfo { hasNextPage endCursor } } } }"""
    caller = gateway.as_caregiver(1)

    first = caller.data(query)["session"]["assignments"]
    gateway.import_records([an_assignment(20)])
    second = caller.data(query, after=first["pageInfo"]["endCursor"])["session"]["assignments"]
    third = caller.data(query, after=second["pageInfo"]["endCursor"])["session"]["assignments"]

    assert [numbers(page) for page in (first, second, third)] == [[14, 13, 12], [11, 10, 2], [1]]
    assert [page["pageInfo"]["hasNextPage"] for page in (first, second, third)] == [True, True, False]


@pytest.mark.sqlite_only
@pytest.mark.parametrize(
    "query",
    [
        "{ session(id: 1) { assignments(first: $n) { nodes { legacyId } } } }",
        "{ assignments: session(id: 1) { assignments(first: $n) { nodes { legacyId } } } }",
        "{ one: session(id: 1) { one: assignments(first: $n) { nodes { legacyId } } } }",
        "{ ...F } fragment F on Query { session(id: 1) { assignments(first: $n) { nodes { legacyId } } } }",
        "{ session(id: 1) { ...F } } fragment F on Session { assignments(first: $n) { nodes { legacyId } } }",
    ],
)
def test_the_size_of_a_list_is_that_of_each_request(standing: Gateway, query: str) -> None:
    """Whatever the list and the field around it are called."""
    for size in (1, 3, 2):
        [session] = standing.as_caregiver(1).data(f"query($n: Int) {query}", n=size).values()

        assert [numbers(page) for page in session.values()] == [[7, 2, 1][:size]]
