"""`clients`: the clients with whom a caregiver has or had a session, newest first. Caregivers only."""

from tests.callers import Gateway
from tests.factories import a_client, a_session, a_world
from tests.schema.worlds import global_id, refusal


def test_a_client_has_no_clients(standing: Gateway) -> None:
    response = standing.as_client(1).graphql("{ clients { totalCount } }")

    assert response == {
        "data": None,
        "errors": [refusal("FORBIDDEN", "only a caregiver may do this", "clients", column=3)],
    }


def test_a_request_without_sign_in_is_rejected(standing: Gateway) -> None:
    for root in ("clients(first: 0)", "submissions(first: 0)"):
        response = standing.as_anonymous().graphql(f"{{ {root} {{ totalCount }} }}")

        assert [error["extensions"]["code"] for error in response["errors"]] == ["UNAUTHENTICATED"]


def test_a_client_of_another_caregiver_is_missing(standing: Gateway) -> None:
    query = """query($id: ID!) { node(id: $id) { ... on Client { progress { assignmentCount } } }
        clients { totalCount nodes { legacyId } } }"""

    assert standing.as_caregiver(2).data(query, id=global_id("Client", 1)) == {
        "node": None,
        "clients": {"totalCount": 1, "nodes": [{"legacyId": "2"}]},
    }


def test_each_caregiver_sees_only_their_sessions_with_a_shared_client(standing: Gateway) -> None:
    query = """query($id: ID!) { node(id: $id) { ... on Client {
        progress { assignmentCount } scoreHistory(bookId: 1) { assignment { legacyId } } } } }"""
    of_client = global_id("Client", 2)

    counted = [standing.as_caregiver(each).data(query, id=of_client)["node"]["progress"] for each in (1, 2)]

    assert counted == [{"assignmentCount": 2}, {"assignmentCount": 1}]


def test_clients_are_paged(gateway: Gateway) -> None:
    gateway.import_records(
        [*a_world(), *(a_client(n) for n in range(3, 8)), *(a_session(n + 90, client=n) for n in (3, 5, 6))]
    )
    query = """query($after: String) { clients(first: 2, after: $after) {
        totalCount nodes { legacyId } pageInfo { hasNextPage endCursor } } }"""
    caller = gateway.as_caregiver(1)

    pages, after = [], None
    for _ in range(3):
        pages.append(caller.data(query, after=after)["clients"])
        after = pages[-1]["pageInfo"]["endCursor"]

    assert [[node["legacyId"] for node in page["nodes"]] for page in pages] == [["6", "5"], ["3", "2"], ["1"]]
    assert [(page["totalCount"], page["pageInfo"]["hasNextPage"]) for page in pages] == [
        (5, True), (5, True), (5, False),
    ]  # fmt: skip
