"""Fragments, aliases, directives, variables and nesting.

Contract: equivalent documents get the same response, with the selected fields only.
"""

import pytest

from tests.callers import Gateway
from tests.schema.worlds import global_id

PLAIN = "{ session(id: 1) { title client { name } latestAssignment { name book { name } } } }"
SAME = {
    "variables": """query Q($id: ID!) { session(id: $id) {
        title client { name } latestAssignment { name book { name } } } }""",
    "a default": """query($id: ID! = "1") { session(id: $id) {
        title client { name } latestAssignment { name book { name } } } }""",
    "named fragments": """{ session(id: 1) { ...a ...b } }
        fragment a on Session { title client { ...c } ...b }
        fragment b on Session { latestAssignment { name ...d } }
        fragment c on Client { name } fragment d on Assignment { book { name } }""",
    "inline fragments": """{ session(id: 1) { ... { title }
        ... on Session { client { ... on Client { name } } }
        ... on Node { ... on Session { latestAssignment { name book { name } } } } } }""",
    "fields repeated": """{ session(id: 1) { title title client { name } client { name name }
        latestAssignment { name } latestAssignment { book { name } } } }""",
    "fields in two selections": """{ session(id: 1) { title client { name } }
        session(id: 1) { latestAssignment { name } latestAssignment { book { name } } } }""",
    "directives that say yes": """query($yes: Boolean! = true, $no: Boolean! = false) { session(id: 1) {
        title @include(if: $yes) client @skip(if: $no) { name @include(if: true) }
        ... @include(if: $yes) { latestAssignment { name ...b @skip(if: $no) } } } }
        fragment b on Assignment { book { name } }""",
    "directives that say no": """query($no: Boolean! = false) { session(id: 1) {
        title chatId @include(if: $no) client { name opptId @skip(if: true) }
        assignments(first: 1) @include(if: false) { totalCount }
        ...b @include(if: $no) latestAssignment { name book { name } } } }
        fragment b on Session { description caregiver { name } }""",
}


@pytest.mark.parametrize("query", SAME.values(), ids=SAME.keys())
def test_equivalent_documents_get_the_same_response(standing: Gateway, query: str) -> None:
    response = standing.as_client(1).data(query, id="1")

    assert response == standing.as_client(1).data(PLAIN)
    assert response == {
        "session": {
            "title": "Session 1",
            "client": {"name": "Zoë Client 1"},
            "latestAssignment": {"name": "Sleep diary", "book": {"name": "Sleep diary"}},
        }
    }


def test_a_repeated_document_uses_the_current_variables_of_its_fragments(standing: Gateway) -> None:
    query = """query($more: Boolean!, $first: Int!) { session(id: 1) { ...part } }
        fragment part on Session { title @include(if: $more) client @include(if: $more) { name }
            ... @skip(if: $more) { chatId } assignments(first: $first) { nodes { legacyId } } }"""
    parts = {
        True: {"title": "Session 1", "client": {"name": "Zoë Client 1"}},
        False: {"chatId": "chat-1"},
    }
    newest = [{"legacyId": "7"}, {"legacyId": "2"}]

    for more, first in ((True, 1), (False, 1), (True, 1), (True, 2), (False, 2), (False, 1)):
        response = standing.as_client(1).data(query, more=more, first=first)

        assert response == {"session": {**parts[more], "assignments": {"nodes": newest[:first]}}}


def test_aliases_name_the_members_of_the_response(standing: Gateway) -> None:
    query = """{ mine: session(id: 1) { a: title b: title who: client { c: name } other: client { id }
        kind: __typename } missing: node(id: "1") { id } }"""

    response = standing.as_client(1).data(query)

    assert response == {
        "mine": {
            "a": "Session 1",
            "b": "Session 1",
            "who": {"c": "Zoë Client 1"},
            "other": {"id": global_id("Client", 1)},
            "kind": "Session",
        },
        "missing": None,
    }


def test_fields_are_returned_in_the_selected_order(standing: Gateway) -> None:
    query = "{ session(id: 1) { title id legacyId ... { isClosed } chatId } }"

    text = standing.as_client(1).post_graphql(query).text

    assert text == (
        '{"data":{"session":{"title":"Session 1","id":"U2Vzc2lvbjox","legacyId":"1","isClosed":false,'
        '"chatId":"chat-1"}}}'
    )


def test_a_selection_may_consist_of_type_names(standing: Gateway) -> None:
    query = """{ __typename viewer { __typename caregiver { __typename } }
        sessions(first: 1) { __typename nodes { __typename } edges { __typename node { __typename } }
            pageInfo { __typename } }
        assignment(id: 7) { __typename lateness { __typename }
            answerSets { __typename answers { __typename } } feedbacks { __typename }
            session { assignments(first: 1) { __typename nodes { __typename } } } } }"""

    response = standing.as_caregiver(1).data(query)

    sets = {"__typename": "AnswerSet", "answers": [{"__typename": "Answer"}] * 2}
    assignments = {"__typename": "AssignmentConnection", "nodes": [{"__typename": "Assignment"}]}
    assert response == {
        "__typename": "Query",
        "viewer": {"__typename": "Viewer", "caregiver": {"__typename": "Caregiver"}},
        "sessions": {
            "__typename": "SessionConnection",
            "nodes": [{"__typename": "Session"}],
            "edges": [{"__typename": "SessionEdge", "node": {"__typename": "Session"}}],
            "pageInfo": {"__typename": "PageInfo"},
        },
        "assignment": {
            "__typename": "Assignment",
            "lateness": {"__typename": "Lateness"},
            "answerSets": [sets, sets],
            "feedbacks": [{"__typename": "Feedback"}],
            "session": {"assignments": assignments},
        },
    }


def test_inline_fragments_select_by_type(standing: Gateway) -> None:
    query = """query($id: ID!) { node(id: $id) { id
        ... on Session { what: title } ... on Book { what: name } ...assignment } }
        fragment assignment on Assignment { what: name session { title } }"""
    caller = standing.as_client(1)

    found = [
        caller.data(query, id=global_id(kind, 1))["node"]
        for kind in ("Session", "Book", "Assignment", "Client")
    ]

    assert found == [
        {"id": global_id("Session", 1), "what": "Session 1"},
        {"id": global_id("Book", 1), "what": "Sleep diary"},
        {"id": global_id("Assignment", 1), "what": "Sleep diary", "session": {"title": "Session 1"}},
        {"id": global_id("Client", 1)},
    ]


def test_several_root_fields_are_returned_together(standing: Gateway) -> None:
    roots = " ".join(f"r{n}: sessions(first: {1 + n % 3}) {{ nodes {{ legacyId }} }}" for n in range(40))

    response = standing.as_caregiver(1).data(f"{{ {roots} }}")

    newest = [{"legacyId": str(number)} for number in (4, 3, 2)]
    assert response == {f"r{n}": {"nodes": newest[: 1 + n % 3]} for n in range(40)}


@pytest.mark.parametrize("levels", [1, 6, 7, 12, 13, 30])
def test_a_deeply_nested_query_returns_the_right_rows(standing: Gateway, levels: int) -> None:
    """Joins continue in further statements."""
    deepest = "title client { name }"
    for _ in range(levels):
        deepest = f"legacyId latestAssignment {{ legacyId name session {{ {deepest} }} }}"

    response = standing.as_client(1).data(f"{{ session(id: 1) {{ {deepest} }} }}")

    found = response["session"]
    for _ in range(levels):
        assert found.keys() == {"legacyId", "latestAssignment"}
        assert found["legacyId"] == "1"
        assert found["latestAssignment"].keys() == {"legacyId", "name", "session"}
        assert found["latestAssignment"]["legacyId"] == "7"
        assert found["latestAssignment"]["name"] == "Sleep diary"
        found = found["latestAssignment"]["session"]
    assert found == {"title": "Session 1", "client": {"name": "Zoë Client 1"}}


def test_a_query_nested_through_lists_returns_the_right_rows(standing: Gateway) -> None:
    query = "legacyId"
    for _ in range(8):
        query = f"legacyId session {{ assignments(first: 2, status: COMPLETE) {{ nodes {{ {query} }} }} }}"

    response = standing.as_client(1).data(f"{{ assignment(id: 2) {{ {query} }} }}")

    found = response["assignment"]
    assert found["legacyId"] == "2"
    for _ in range(8):
        seven, one = found["session"]["assignments"]["nodes"]
        assert (seven["legacyId"], one["legacyId"]) == ("7", "1")
        assert seven.get("session") == one.get("session")  # both belong to the same session
        found = seven
    assert found == {"legacyId": "7"}


def test_two_aliases_on_every_level_do_not_double_the_work(standing: Gateway) -> None:
    """The expanded document would have 2 ** 40 fields; it is rejected before expansion."""
    levels = 40
    fragments = " ".join(
        f"fragment f{n} on Session {{ ...on Session {{ ...f{n + 1} }} ...f{n + 1} }}" for n in range(levels)
    )
    query = f"{{ session(id: 99) {{ ...f0 }} }} {fragments} fragment f{levels} on Session {{ id }}"

    response = standing.as_caregiver(1).graphql(query)

    assert [error["extensions"]["code"] for error in response["errors"]] == ["TOO_COSTLY"]


BRANCHES = {
    "lists": (
        "assignments(first: 1) { nodes { legacyId } }",
        "assignments(first: 2, status: COMPLETE) { edges { node { name } } totalCount }",
    ),
    "lists in another order": (
        "assignments(first: 1) { nodes { legacyId } }",
        "assignments(first: 1, orderBy: DUE_SOONEST) { nodes { legacyId endDate } pageInfo { endCursor } }",
    ),
    "scores": (
        "scoreHistory(bookId: 1) { score assignment { name } }",
        "scoreHistory(bookId: 2) { attempt }",
    ),
    "scores of one book": (
        "scoreHistory(bookId: 1) { score assignment { name } }",
        f'scoreHistory(bookId: "{global_id("Book", 1)}") {{ attempt }}',
    ),
    "other fields": ("x: title", "x: description"),
    "other links": ("x: client { name }", "x: caregiver { position }"),
    "other lists": (
        "x: assignments(first: 1) { nodes { legacyId } }",
        "x: scoreHistory(bookId: 1) { score }",
    ),
    "a list and its parts": (
        "a: assignments(first: 2) { x: nodes { legacyId } }",
        "a: assignments(first: 2) { x: edges { node { name } } }",
    ),
}


@pytest.mark.parametrize(("by_edges", "by_nodes"), BRANCHES.values(), ids=BRANCHES.keys())
def test_a_list_may_select_other_things_by_edges_and_by_nodes(
    standing: Gateway, by_edges: str, by_nodes: str
) -> None:
    """They are different members of the response, so one name may mean different things."""
    caller = standing.as_caregiver(1)

    for first, second in ((by_edges, by_nodes), (by_nodes, by_edges)):
        alone = caller.data(f"{{ sessions {{ edges {{ node {{ {first} }} }} }} }}")["sessions"]
        others = caller.data(f"{{ sessions {{ nodes {{ {second} }} }} }}")["sessions"]
        together = f"{{ sessions {{ edges {{ node {{ {first} }} }} nodes {{ {second} }} }} }}"
        assert caller.data(together) == {"sessions": {**alone, **others}}


def test_lists_below_two_fields_are_the_same_in_either_order_of_the_fields(standing: Gateway) -> None:
    session = "session { assignments(first: 1, status: PENDING) { totalCount nodes { legacyId } } }"
    client = "client { scoreHistory(bookId: 1) { score } }"
    caller = standing.as_caregiver(1)

    for fields in (f"{session} {client}", f"{client} {session}"):
        assert caller.data(f"{{ assignment(id: 1) {{ {fields} }} }}") == {
            "assignment": {
                "session": {"assignments": {"totalCount": 1, "nodes": [{"legacyId": "2"}]}},
                "client": {"scoreHistory": [{"score": 70}, {"score": 12}]},
            }
        }


def test_aliases_of_one_list_may_select_other_parts_under_one_name(standing: Gateway) -> None:
    query = """{ session(id: 1) { a: assignments(first: 1) { x: nodes { y: legacyId } }
        b: assignments(first: 1) { x: edges { node { y: name } } } } }"""

    response = standing.as_client(1).data(query)

    assert response == {
        "session": {
            "a": {"x": [{"y": "7"}]},
            "b": {"x": [{"node": {"y": "Sleep diary"}}]},
        }
    }
