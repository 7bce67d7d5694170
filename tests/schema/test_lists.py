"""Connections: edges, nodes, pageInfo, totalCount; pages by cursor and by offset.

Contract: paging returns each row once, newest first; by cursor also if rows are added meanwhile;
`totalCount` is the total of the whole list on every page.
"""

from typing import Any

import pytest

from app.db.reader import plan_cache
from app.db.reader.plan_cache import PlanCache
from tests.callers import Gateway
from tests.factories import a_book, a_session, a_world, an_assignment, starting_with
from tests.schema.worlds import every_page, global_id, in_base64, numbers

PAGE = """query($first: Int!, $after: String, $offset: Int) {
    sessions(first: $first, after: $after, offset: $offset) { totalCount }
    sessions(first: $first, after: $after, offset: $offset) {
    nodes { legacyId } edges { cursor node { legacyId } }
    pageInfo { hasNextPage hasPreviousPage startCursor endCursor } } }"""


def cursor(number: int) -> str:
    return in_base64(f"Session:before:{number}")


def page(
    *found: int, total: int = 4, has_next: bool = False, has_previous: bool = False
) -> dict[str, dict[str, Any]]:
    nodes = [{"legacyId": str(number)} for number in found]
    return {
        "sessions": {
            "totalCount": total,
            "nodes": nodes,
            "edges": [
                {"cursor": cursor(number), "node": node} for number, node in zip(found, nodes, strict=True)
            ],
            "pageInfo": {
                "hasNextPage": has_next,
                "hasPreviousPage": has_previous,
                "startCursor": cursor(found[0]) if found else None,
                "endCursor": cursor(found[-1]) if found else None,
            },
        }
    }


def test_a_short_list_is_one_page(standing: Gateway) -> None:
    assert standing.as_caregiver(1).data(PAGE, first=4) == page(4, 3, 2, 1)


def test_pages_by_cursor(standing: Gateway) -> None:
    caller = standing.as_caregiver(1)

    assert caller.data(PAGE, first=3) == page(4, 3, 2, has_next=True)
    assert caller.data(PAGE, first=3, after=cursor(2)) == page(1, has_previous=True)
    assert caller.data(PAGE, first=3, after=cursor(1)) == page(has_previous=True)


def test_a_list_has_its_rows_after_a_request_for_its_total(
    standing: Gateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither the rows nor the total need a column."""
    monkeypatch.setattr(plan_cache, "PLANS", PlanCache())
    total = "sessions { totalCount } session(id: 1) { assignments { totalCount } }"
    rows = total.replace("totalCount", "totalCount nodes { __typename }")
    caller = standing.as_caregiver(1)

    alone, whole, again = (caller.data(f"{{ {selected} }}") for selected in (total, rows, total))

    sessions, assignments = {"totalCount": 4}, {"totalCount": 3}
    assert alone == again == {"sessions": sessions, "session": {"assignments": assignments}}
    assert whole == {
        "sessions": {**sessions, "nodes": [{"__typename": "Session"}] * 4},
        "session": {"assignments": {**assignments, "nodes": [{"__typename": "Assignment"}] * 3}},
    }


def test_pages_by_offset(standing: Gateway) -> None:
    caller = standing.as_caregiver(1)

    assert caller.data(PAGE, first=3, offset=0) == page(4, 3, 2, has_next=True)
    assert caller.data(PAGE, first=3, offset=3) == page(1, has_previous=True)
    assert caller.data(PAGE, first=3, offset=4) == page(has_previous=True)
    assert caller.data(PAGE, first=3, offset=2**31 - 1) == page(has_previous=True)


def test_a_later_page_has_a_previous_page_even_if_nothing_precedes(standing: Gateway) -> None:
    """Rows before the page are not searched for."""
    query = """query($after: String, $offset: Int) {
        assignments(status: COMPLETE, timeState: FUTURE, after: $after, offset: $offset) {
            totalCount pageInfo { hasPreviousPage } } }"""
    caller = standing.as_client(2)

    found = [
        caller.data(query, **arguments)["assignments"]
        for arguments in ({}, {"offset": 0}, {"offset": 1}, {"after": in_base64("Assignment:before:9")})
    ]

    assert found == [
        {"totalCount": 0, "pageInfo": {"hasPreviousPage": is_later}}
        for is_later in (False, False, True, True)
    ]


def test_an_empty_list_is_an_empty_page(standing: Gateway) -> None:
    response = standing.as_client(2).data(
        "{ assignments(status: COMPLETE, timeState: FUTURE) { totalCount nodes { id } } }"
    )

    assert response == {"assignments": {"totalCount": 0, "nodes": []}}


@pytest.mark.parametrize("first", [1, 2, 3, 5, 6, 7])
@pytest.mark.parametrize("root", ["sessions", "assignments", "books"])
def test_paging_returns_each_row_once(standing: Gateway, root: str, first: int) -> None:
    all_of_them = {"sessions": [4, 3, 2, 1], "assignments": [7, 6, 4, 3, 2, 1], "books": [4, 3, 2, 1]}

    assert every_page(standing.as_caregiver(1), root, first) == all_of_them[root]


def test_a_cursor_of_a_foreign_row_reveals_nothing(standing: Gateway) -> None:
    """A cursor is a position, not a row: session 5 of caregiver 2 precedes all sessions of caregiver 1."""
    assert standing.as_caregiver(1).data(PAGE, first=1, after=cursor(5)) == page(
        4, has_next=True, has_previous=True
    )


@starting_with(a_world)
def test_new_rows_do_not_disturb_paging_by_cursor(gateway: Gateway) -> None:
    caller = gateway.as_client(1)
    first = caller.data(PAGE, first=2)["sessions"]

    gateway.import_records([a_session(number) for number in (20, 21, 22)])
    second = caller.data(PAGE, first=2, after=first["pageInfo"]["endCursor"])
    by_offset = caller.data(PAGE, first=2, offset=2)["sessions"]

    assert numbers(first) == [3, 2]
    assert second == page(1, total=6, has_previous=True)
    assert numbers(by_offset) == [20, 3]  # the known weakness of offsets


def test_the_default_page_size_is_20_and_the_maximum_100(gateway: Gateway) -> None:
    books = [a_book(number) for number in range(10, 112)]
    gateway.import_records([*a_world(), *books, *(a_session(n) for n in range(10, 112))])
    gateway.import_records([an_assignment(n, session=10) for n in range(10, 112)])
    caller = gateway.as_client(1)
    sizes = {}

    for root, total in (("sessions", 105), ("assignments", 105), ("books", 105)):
        default = caller.data(f"{{ {root} {{ totalCount nodes {{ legacyId }} }} }}")[root]
        null = caller.data(f"{{ {root}(first: null) {{ totalCount nodes {{ legacyId }} }} }}")[root]
        largest = caller.data(f"{{ {root}(first: 100) {{ totalCount nodes {{ legacyId }} }} }}")[root]
        assert null == default
        assert default["totalCount"] == largest["totalCount"] == total
        assert default["nodes"] == largest["nodes"][:20]
        sizes[root] = (len(default["nodes"]), len(largest["nodes"]))
    nested = caller.data(
        "{ session(id: 10) { a: assignments { nodes { id } } b: assignments(first: 100) { nodes { id } } } }"
    )

    assert sizes == {"sessions": (20, 100), "assignments": (20, 100), "books": (20, 100)}
    assert [len(nested["session"][alias]["nodes"]) for alias in "ab"] == [20, 100]


def test_the_parts_of_a_page_can_be_selected_separately(standing: Gateway) -> None:
    """The selected parts are those of the whole page."""
    caller = standing.as_caregiver(1)
    whole = caller.data(PAGE, first=2)["sessions"]

    for part in (
        "totalCount",
        "nodes { legacyId }",
        "edges { cursor }",
        "edges { node { legacyId } }",
        "pageInfo { endCursor }",
        "pageInfo { hasNextPage }",
        "pageInfo { hasNextPage } totalCount",
    ):
        response = caller.data(f"{{ sessions(first: 2) {{ {part} }} }}")["sessions"]
        assert response == only(whole, response), part


def only(whole: Any, shape: Any) -> Any:
    """The members of the page that the shape has."""
    if isinstance(shape, dict):
        return {key: only(whole[key], value) for key, value in shape.items()}
    if isinstance(shape, list):
        return [only(one, value) for one, value in zip(whole, shape, strict=True)]
    return whole


def test_edges_and_nodes_select_the_same_rows(standing: Gateway) -> None:
    query = "{ sessions(first: 1) { edges { node { title } } nodes { id chatId } } }"

    response = standing.as_client(1).data(query)

    assert response == {
        "sessions": {
            "edges": [{"node": {"title": "Session 3"}}],
            "nodes": [{"id": global_id("Session", 3), "chatId": "chat-3"}],
        }
    }
