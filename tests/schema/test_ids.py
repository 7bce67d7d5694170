"""Ids: every object has one global id and one legacy id.

Contract: `session(id)` and the other lookups accept both forms; `node` and `nodes` accept global ids only.
A foreign id, one of another type and an invalid one get exactly the response of a missing object.
"""

import pytest

from app.db.tables import Assignment, Session
from tests.callers import Gateway
from tests.schema.worlds import count, global_id, in_base64, not_found, refusal

NAMES_NOTHING = {
    "unknown": "999",
    "unknown global": global_id("Session", 999),
    "another's": "5",
    "another's global": global_id("Session", 5),
    "of no kind": global_id("Nothing", 1),
    "kind in lower case": in_base64("session:1"),
    "zero": "0",
    "the largest id": str(2**63 - 1),
    "behind the largest id": str(2**63),
    "behind 64 bits": str(2**64 + 1),
    "20 digits": str(10**19),
    "20 digits global": in_base64(f"Session:{10**19}"),
    "behind the largest id, global": in_base64(f"Session:{2**63}"),
    "negative": "-1",
    "negative global": in_base64("Session:-1"),
    "plus sign": "+1",
    "blank before": " 1",
    "newline after": "1\n",
    "newline after global": global_id("Session", 1) + "\n",
    "empty": "",
    "not base64": "!!",
    "only padding": "==",
    "padding cut off": global_id("Session", 12).rstrip("="),
    "padding added": global_id("Session", 1) + "====",
    "leading zero": in_base64("Session:01"),
    "without number": in_base64("Session:"),
    "without colon": in_base64("Session"),
    "text as number": in_base64("Session:x"),
    "more after the number": in_base64("Session:1:1"),
    "digits of another script": "١",
    "digits of another script, global": in_base64("Session:١"),
    "not text": "//79",
    "a cursor": in_base64("Session:before:1"),
    "a format of numbers": in_base64("%d:5"),
    "a wide format of numbers": in_base64("%300000000d:5"),
    "an incomplete format": in_base64("%:5"),
}
LOOK_UP = "query($id: ID!) { session(id: $id) { title } }"
BY_ROOT = {"assignment": "5", "session": "5", "book": "99"}


@pytest.mark.parametrize("form", ["1", global_id("Session", 1), 1], ids=["plain", "global", "integer"])
def test_an_id_argument_accepts_both_forms(standing: Gateway, form: object) -> None:
    assert standing.as_client(1).data(LOOK_UP, id=form) == {"session": {"title": "Session 1"}}


def test_a_legacy_id_may_have_leading_zeros(standing: Gateway) -> None:
    assert standing.as_client(1).data(LOOK_UP, id="01") == {"session": {"title": "Session 1"}}


@pytest.mark.parametrize("text", NAMES_NOTHING.values(), ids=NAMES_NOTHING.keys())
def test_an_unknown_id_is_not_found(standing: Gateway, text: str) -> None:
    assert standing.as_caregiver(1).graphql(LOOK_UP, id=text) == not_found("session", column=19)


@pytest.mark.parametrize("text", NAMES_NOTHING.values(), ids=NAMES_NOTHING.keys())
def test_a_node_with_an_unknown_id_is_null(standing: Gateway, text: str) -> None:
    query = "query($id: ID!) { node(id: $id) { legacyId } nodes(ids: [$id]) { legacyId } }"

    assert standing.as_caregiver(1).graphql(query, id=text) == {"data": {"node": None, "nodes": [None]}}


@pytest.mark.parametrize(("root", "foreign"), BY_ROOT.items(), ids=BY_ROOT.keys())
def test_a_foreign_id_gets_exactly_the_response_of_a_missing_one(
    standing: Gateway, root: str, foreign: str
) -> None:
    query = f"query($id: ID!) {{ {root}(id: $id) {{ id }} }}"
    caller = standing.as_caregiver(1)

    bodies = set()
    for text in (foreign, "999", global_id(root.capitalize(), int(foreign)), global_id("Client", 1)):
        response = caller.request(
            "POST",
            "/graphql",
            json={"query": query, "variables": {"id": text}},
            headers={"x-request-id": "same"},
        )
        bodies.add((response.status_code, tuple(sorted(response.headers.items())), response.content))

    assert len(bodies) == 1
    assert caller.graphql(query, id=foreign) == not_found(root, column=19)


def test_an_id_of_another_type_is_not_found(standing: Gateway) -> None:
    """Both assignment 1 and session 1 exist."""
    assert standing.as_caregiver(1).graphql(LOOK_UP, id=global_id("Assignment", 1)) == not_found(
        "session", column=19
    )


def test_not_found_has_the_same_message_for_a_client(standing: Gateway) -> None:
    assert standing.as_client(1).graphql(LOOK_UP, id="4") == not_found("session", column=19)
    assert standing.as_client(1).graphql(LOOK_UP, id="999") == not_found("session", column=19)


def test_node_accepts_no_legacy_id(standing: Gateway) -> None:
    query = '{ node(id: "1") { id } nodes(ids: ["1", "U2Vzc2lvbjox"]) { id } }'

    response = standing.as_client(1).data(query)

    assert response == {"node": None, "nodes": [None, {"id": "U2Vzc2lvbjox"}]}


def test_people_are_visible_only_to_those_who_share_a_session(standing: Gateway) -> None:
    query = "query($ids: [ID!]!) { nodes(ids: $ids) { id } }"
    everybody = [global_id(kind, number) for kind in ("Caregiver", "Client") for number in (1, 2)]
    one, two, three, four = ({"id": each} for each in everybody)

    visible = {
        "caregiver 1": standing.as_caregiver(1).data(query, ids=everybody)["nodes"],
        "caregiver 2": standing.as_caregiver(2).data(query, ids=everybody)["nodes"],
        "client 1": standing.as_client(1).data(query, ids=everybody)["nodes"],
        "client 2": standing.as_client(2).data(query, ids=everybody)["nodes"],
    }

    assert visible == {
        "caregiver 1": [one, None, three, four],
        "caregiver 2": [None, two, None, four],
        "client 1": [one, None, three, None],
        "client 2": [one, two, None, four],
    }


def test_nodes_returns_a_repeated_id_twice(standing: Gateway) -> None:
    ids = [global_id("Session", 1), global_id("Session", 5), global_id("Session", 1)]

    response = standing.as_client(1).data("query($ids: [ID!]!) { nodes(ids: $ids) { legacyId } }", ids=ids)

    assert response == {"nodes": [{"legacyId": "1"}, None, {"legacyId": "1"}]}


def test_an_empty_list_of_ids_returns_no_nodes(standing: Gateway) -> None:
    assert standing.as_client(1).data("{ nodes(ids: []) { id } }") == {"nodes": []}


def test_nodes_accepts_at_most_100_ids(standing: Gateway) -> None:
    query = "query($ids: [ID!]!) { nodes(ids: $ids) { legacyId } }"
    ids = [global_id("Session", 1)] * 100

    response = standing.as_client(1).data(query, ids=ids)
    refused = standing.as_client(1).graphql(query, ids=[*ids, ids[0]])

    assert response == {"nodes": [{"legacyId": "1"}] * 100}
    assert refused == {
        "data": None,
        "errors": [refusal("UNREADABLE", "ids may hold at most 100 ids", "nodes", column=23)],
    }


def test_every_global_id_identifies_its_object(standing: Gateway) -> None:
    caller = standing.as_caregiver(1)
    listed = caller.data("{ sessions { nodes { id title } } assignments { nodes { id name } } }")
    nodes = listed["sessions"]["nodes"] + listed["assignments"]["nodes"]

    query = (
        "query($ids: [ID!]!) { nodes(ids: $ids) { id ... on Session { title } ... on Assignment { name } } }"
    )
    response = caller.data(query, ids=[node["id"] for node in nodes])

    assert response == {"nodes": nodes}
    assert (
        len(nodes) == count(standing, Session) - 1 + count(standing, Assignment) - 1
    )  # one of each is foreign
