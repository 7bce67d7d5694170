"""Valid Idempotency-Keys, and the GraphQL requests to which they apply."""

from typing import Any

import orjson
import pytest

from app.db.tables import Assignment
from tests.callers import Gateway
from tests.factories import a_world
from tests.schema.keyed import (
    KEY,
    KEYED,
    MALFORMED,
    SEVERAL,
    TITLES,
    again,
    assign,
    assigning,
    books,
    is_refused,
    keys,
    post,
    whole,
)
from tests.schema.test_assign_homework import ASSIGN, homework
from tests.schema.worlds import count

pytestmark = pytest.mark.sqlite_only


@pytest.fixture
def world(gateway: Gateway) -> Gateway:
    gateway.import_records(a_world())
    return gateway


@pytest.mark.parametrize("key", ["", "x" * 256, "a b", "a\tb", "a\x7fb"])
def test_a_malformed_key_is_rejected_before_execution(unchanged: Gateway, key: str) -> None:
    assert is_refused(assign(unchanged, key), 400, "UNREADABLE", MALFORMED)
    assert books(unchanged) == []


IGNORED: dict[str, dict[str, Any]] = {
    "a query": {"query": TITLES},
    "the query of two operations": {
        "query": f"query A {TITLES} mutation B {{ a: __typename }}",
        "operationName": "A",
    },
    "a mutation of nothing": {"query": "mutation { __typename }"},
    "neither clear": {"query": f"query A {TITLES} query B {TITLES}"},
    "no GraphQL": {"query": "mutation {"},
    "nested without end": {"query": "mutation " + "{ a " * 5000},
    "a fragment alone": {"query": "fragment a on Mutation { __typename }"},
    "an unknown operation": {"query": ASSIGN, "operationName": "Nobody"},
    "no query": {"query": None},
    "no object of variables": {"query": ASSIGN, "variables": []},
}


@pytest.mark.parametrize("key", [KEY, "a b"])
@pytest.mark.parametrize("body", IGNORED.values(), ids=IGNORED)
def test_a_key_has_no_effect_on_a_query(unchanged: Gateway, body: dict[str, Any], key: str) -> None:
    headers = {"x-request-id": "the-same"}
    caller = unchanged.as_caregiver(1)
    plain = caller.request("POST", "/graphql", json=body, headers=headers)

    for _ in range(2):
        keyed = post(caller, body, key, **headers)

        assert whole(keyed) == whole(plain)
    assert keys(unchanged) == []


@pytest.mark.parametrize("content_type", ["text/plain", "application/graphql", ""])
def test_a_request_with_a_key_has_the_same_content_types(unchanged: Gateway, content_type: str) -> None:
    response = unchanged.as_caregiver(1).request(
        "POST", "/graphql", content=orjson.dumps(assigning()), headers={**KEYED, "content-type": content_type}
    )

    assert response.status_code == 415
    assert books(unchanged) == []


def test_a_request_with_a_key_has_the_same_body_limit(unchanged: Gateway) -> None:
    content = orjson.dumps(assigning()) + b" " * (256 * 1024)

    response = unchanged.as_caregiver(1).request(
        "POST", "/graphql", content=content, headers={**KEYED, "content-type": "application/json"}
    )

    assert response.status_code == 413
    assert books(unchanged) == []


def test_too_deeply_nested_variables_are_rejected(unchanged: Gateway) -> None:
    deep: list[Any] = []
    for _ in range(500):
        deep = [deep]
    body = assigning() | {"variables": {"input": homework(), "more": deep}}

    response = post(unchanged.as_caregiver(1), body)

    message = "variables are nested too deeply for an Idempotency-Key"
    assert is_refused(response, 400, "UNREADABLE", message)
    assert books(unchanged) == []


def test_a_query_by_get_ignores_the_key(unchanged: Gateway) -> None:
    response = unchanged.as_caregiver(1).get("/graphql", params={"query": "{ __typename }"}, headers=KEYED)

    assert (response.status_code, response.json()) == (200, {"data": {"__typename": "Query"}})


ONE = "assignHomework(input: $input) { message }"
HEAD = "mutation($input: AssignHomeworkInput!)"
SEVERAL_MUTATIONS = {
    "side by side": f"{HEAD} {{ a: {ONE} b: {ONE} }}",
    "in a fragment": f"{HEAD} {{ a: {ONE} ...more }} fragment more on Mutation {{ b: {ONE} }}",
    "in an inline fragment": f"{HEAD} {{ a: {ONE} ... on Mutation {{ ... {{ b: {ONE} }} }} }}",
    "after a fragment that is spread twice": (
        f"{HEAD} {{ ...one ...one b: {ONE} }} fragment one on Mutation {{ a: {ONE} }}"
    ),
    "one of them left out": f"{HEAD} {{ a: {ONE} ... @skip(if: true) {{ b: {ONE} }} }}",
}


@pytest.mark.parametrize("key", [KEY, "a b"])
@pytest.mark.parametrize("query", SEVERAL_MUTATIONS.values(), ids=SEVERAL_MUTATIONS)
def test_several_mutations_cannot_share_a_key(unchanged: Gateway, query: str, key: str) -> None:
    body = {"query": query, "variables": {"input": homework()}}

    assert is_refused(post(unchanged.as_caregiver(1), body, key), 400, "UNREADABLE", SEVERAL)
    assert books(unchanged) == []
    assert keys(unchanged) == []


ONE_MUTATION = {
    "by another name": f"{HEAD} {{ a: {ONE} }}",
    "in a fragment": f"{HEAD} {{ ...one }} fragment one on Mutation {{ {ONE} }}",
    "in a fragment that is spread twice": (
        f"{HEAD} {{ ...one ... on Mutation {{ ...one }} }} fragment one on Mutation {{ {ONE} }}"
    ),
    "written twice": f"{HEAD} {{ {ONE} __typename {ONE} }}",
    "beside a type name": f"{HEAD} {{ {ONE} kind: __typename }}",
}


@pytest.mark.parametrize("query", ONE_MUTATION.values(), ids=ONE_MUTATION)
def test_one_mutation_may_be_written_in_several_ways(world: Gateway, query: str) -> None:
    body = {"query": query, "variables": {"input": homework()}}

    first = post(world.as_caregiver(1), body)

    assert "errors" not in first.json()
    assert whole(post(world.as_caregiver(1), body)) == again(first)
    assert books(world) == [3]


def test_circular_fragments_are_rejected(unchanged: Gateway) -> None:
    query = "mutation { ...a } fragment a on Mutation { ...b } fragment b on Mutation { ...a }"

    response = post(unchanged.as_caregiver(1), {"query": query})

    assert response.json()["errors"][0]["message"].startswith("Cannot spread fragment 'a' within itself")


@pytest.mark.parametrize("key", [KEY, "a b"])
def test_authentication_is_checked_before_the_key(world: Gateway, key: str) -> None:
    assign(world)

    response = post(world.as_anonymous(), assigning(), key)
    bad_token = post(world.with_token("nonsense"), assigning(), key)

    for each in (response, bad_token):
        assert (each.status_code, each.headers["www-authenticate"]) == (401, "Bearer")
        assert each.json()["errors"][0]["extensions"]["code"] == "UNAUTHENTICATED"
    assert count(world, Assignment) == 6
