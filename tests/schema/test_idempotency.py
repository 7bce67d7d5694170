"""A mutation with an Idempotency-Key is executed once, and its response is replayed.

The key is for one mutation, is ignored on queries and rejected on several mutations. Rejections are not
stored.
"""

from collections.abc import Iterator
from typing import Any

import orjson
import pytest

from app.main import create_app
from tests.callers import Gateway, opened
from tests.concurrency import before_database_calls, failure, nothing
from tests.database_rows import stored
from tests.db import raw
from tests.factories import NOW, a_world, starting_with
from tests.rest_compat.legacy import ASSIGNMENTS
from tests.schema.keyed import (
    KEY,
    KEYED,
    OTHER_REQUEST,
    REPLAYED,
    again,
    assign,
    assigning,
    books,
    is_assigned,
    is_refused,
    keys,
    post,
    whole,
)
from tests.schema.test_assign_homework import ASSIGN, homework

pytestmark = starting_with(a_world)


def test_a_repeated_request_replays_the_first_response_and_changes_nothing(world: Gateway) -> None:
    first = assign(world)
    once = stored(world)
    repeated = [assign(world) for _ in range(3)]

    assert is_assigned(first)
    assert [whole(each) for each in repeated] == [again(first)] * 3
    assert stored(world) == once
    assert keys(world) == [("CAREGIVER", 1, "graphql", KEY, "[6]", 200)]


def test_a_replayed_response_is_not_recomputed(world: Gateway) -> None:
    first = assign(world)
    raw.run(world.settings.database, "UPDATE assignment SET withdraw_date = assign_date WHERE id = 6")

    assert whole(assign(world)) == again(first)


def test_a_replay_reads_only_the_stored_response(world: Gateway) -> None:
    assign(world)

    with world.watched() as statements:
        assign(world)

    assert len(statements) == 1


@pytest.mark.sqlite_only
def test_the_order_of_members_does_not_matter(world: Gateway) -> None:
    body = assigning()
    turned = {
        "operationName": None,
        "extensions": {},
        "variables": {"input": dict(reversed(homework().items()))},
        "query": body["query"],
    }
    first = assign(world)

    assert whole(post(world.as_caregiver(1), turned)) == again(first)
    assert books(world) == [3]


@pytest.mark.sqlite_only
def test_missing_null_and_empty_variables_are_equal(world: Gateway) -> None:
    rename = 'mutation { updateSession(input: {sessionId: 1, title: "New"}) { session { title } } }'
    forms: list[dict[str, Any]] = [{}, {"variables": None}, {"variables": {}}]

    first, *repeated = [post(world.as_caregiver(1), {"query": rename, **form}) for form in forms]

    assert [whole(each) for each in repeated] == [again(first)] * 2


def test_the_number_of_chunks_does_not_matter(world: Gateway) -> None:
    content = orjson.dumps(assigning())
    first = assign(world)

    def pieces() -> Iterator[bytes]:
        yield content[:10]
        yield content[10:]

    for kind in ("application/json", "application/json; charset=utf-8", "Application/JSON"):
        headers = {**KEYED, "content-type": kind}
        repeated = world.as_caregiver(1).request("POST", "/graphql", content=pieces(), headers=headers)

        assert whole(repeated) == again(first)
    assert books(world) == [3]


OTHERS: dict[str, dict[str, Any]] = {
    "other variables": assigning(bookIds=["1"]),
    "another text": {**assigning(), "query": ASSIGN.replace("message", "message message", 1)},
    "an operation name": {
        "query": ASSIGN.replace("mutation", "mutation A", 1),
        "variables": assigning()["variables"],
        "operationName": "A",
    },
    "a document that is not valid": {"query": "mutation { nothing }"},
}


@pytest.mark.once_on_postgresql
@pytest.mark.parametrize("other", OTHERS.values(), ids=OTHERS)
def test_another_request_with_the_same_key_is_rejected(world: Gateway, other: dict[str, Any]) -> None:
    first = assign(world)
    once = stored(world)

    response = post(world.as_caregiver(1), other)

    assert is_refused(response, 422, "IDEMPOTENCY_CONFLICT", OTHER_REQUEST)
    assert stored(world) == once
    assert whole(assign(world)) == again(first)


@pytest.mark.sqlite_only
def test_another_operation_of_the_same_document_is_another_request(world: Gateway) -> None:
    operations = [ASSIGN.replace("mutation", f"mutation {name}", 1) for name in ("A", "B")]
    body = {**assigning(), "query": " ".join(operations)}
    first = post(world.as_caregiver(1), {**body, "operationName": "A"})
    once = stored(world)

    other = post(world.as_caregiver(1), {**body, "operationName": "B"})

    assert is_refused(other, 422, "IDEMPOTENCY_CONFLICT", OTHER_REQUEST)
    assert stored(world) == once
    assert whole(post(world.as_caregiver(1), {**body, "operationName": "A"})) == again(first)


def test_keys_are_separate_per_viewer_and_contract(world: Gateway) -> None:
    """Caregiver 1 and client 1 have the same id."""
    put = {
        "bookIds": [2],
        "startDate": "2026/11/22",
        "startTime": "08:00",
        "endDate": "2026/11/29",
        "endTime": "18:30",
        "sessionId": 1,
    }
    draft = {
        "query": "mutation($input: SaveAnswersInput!) { saveAnswers(input: $input) {"
        " draft { legacyId revision } userErrors { code } } }",
        "variables": {"input": {"assignmentId": "2", "answers": []}},
    }

    mine = assign(world)
    theirs = post(world.as_caregiver(2), assigning(sessionId="5"))
    saved = post(world.as_client(1), draft)
    legacy = world.as_caregiver(1).put(ASSIGNMENTS, json=put, headers=KEYED)

    assert is_assigned(mine) and is_assigned(theirs)
    assert legacy.status_code == 200
    assert saved.json()["data"]["saveAnswers"]["userErrors"] == []
    for first in (mine, theirs, saved, legacy):
        assert REPLAYED not in first.headers.items()
    assert whole(post(world.as_client(1), draft)) == again(saved)
    assert books(world) == [3, 3, 2]
    assert [(role, viewer, contract) for role, viewer, contract, *_ in keys(world)] == [
        *[("CAREGIVER", 1, "graphql"), ("CAREGIVER", 1, "legacy"), ("CAREGIVER", 2, "graphql")],
        ("CLIENT", 1, "graphql"),
    ]


def test_a_rejection_is_not_stored(world: Gateway) -> None:
    """A corrected request may use the same key."""
    before = stored(world)

    for changed, code in (
        ({"sessionId": "2"}, "NOT_RUNNING"),
        ({"bookIds": ["99"]}, "NOT_FOUND"),
        ({"bookIds": []}, "INCOMPLETE"),
    ):
        for _ in range(2):
            response = assign(world, **changed)
            [error] = response.json()["data"]["assignHomework"]["userErrors"]
            assert (response.status_code, error["code"]) == (200, code)
            assert REPLAYED not in response.headers.items()
    assert stored(world) == before
    assert keys(world) == []

    raw.run(world.settings.database, "UPDATE session SET start_date = create_date WHERE id = 2")
    first = assign(world, sessionId="2")
    assert is_assigned(first)
    assert whole(assign(world, sessionId="2")) == again(first)


@pytest.mark.sqlite_only
def test_a_forbidden_request_is_rejected_every_time(world: Gateway) -> None:
    for _ in range(2):
        response = post(world.as_client(1), assigning())

        assert response.status_code == 200
        assert response.json()["errors"][0]["extensions"]["code"] == "FORBIDDEN"
    assert keys(world) == []


def test_a_response_lost_by_a_crash_is_rebuilt(world: Gateway) -> None:
    first = assign(world)
    raw.run(world.settings.database, "UPDATE idempotency_key SET status = NULL, body = NULL")

    other = assign(world, bookIds=["1"])
    assert is_refused(other, 422, "IDEMPOTENCY_CONFLICT", OTHER_REQUEST)
    assert [whole(assign(world)) for _ in range(2)] == [again(first)] * 2
    assert keys(world) == [("CAREGIVER", 1, "graphql", KEY, "[6]", 200)]
    assert books(world) == [3]


@pytest.mark.once_on_postgresql
def test_a_rebuilt_response_leaves_out_what_was_withdrawn_since(world: Gateway) -> None:
    selected = (
        "mutation($input: AssignHomeworkInput!) { assignHomework(input: $input) { assignments { id } } }"
    )
    body = assigning(bookIds=["1", "2"]) | {"query": selected}
    caregiver = world.as_caregiver(1)
    [first, second] = post(caregiver, body).json()["data"]["assignHomework"]["assignments"]
    raw.run(world.settings.database, "UPDATE idempotency_key SET status = NULL, body = NULL")
    withdrawing = (
        "mutation($id: ID!) { withdrawAssignment(input: {assignmentId: $id}) { userErrors { code } } }"
    )
    caregiver.data(withdrawing, id=first["id"])

    assert post(caregiver, body).json() == {"data": {"assignHomework": {"assignments": [second]}}}


def test_keys_survive_a_restart(world: Gateway) -> None:
    first = assign(world)

    with opened(create_app(world.settings, clock=lambda: NOW)) as client:
        repeated = assign(Gateway(client, world.settings))

    assert whole(repeated) == again(first)
    assert books(world) == [3]


@pytest.mark.sqlite_only
def test_a_response_with_errors_is_not_replayed(world: Gateway) -> None:
    """The change was committed, then the database became unavailable."""
    with before_database_calls(world, reads=[nothing, nothing, failure]):
        response = assign(world)

    assert response.status_code == 503
    assert [error["extensions"]["code"] for error in response.json()["errors"]] == ["OUTCOME_UNKNOWN"]
    assert keys(world) == [("CAREGIVER", 1, "graphql", KEY, "[6]", None)]
    with before_database_calls(world, reads=[nothing, nothing, failure]):
        again_lost = assign(world)
    assert (again_lost.status_code, again_lost.headers["retry-after"]) == (503, "1")
    assert REPLAYED in again_lost.headers.items()
    repeated = assign(world)
    assert is_assigned(repeated)
    assert REPLAYED in repeated.headers.items()
    assert whole(assign(world)) == whole(repeated)
    assert books(world) == [3]


@pytest.mark.sqlite_only
def test_a_response_with_the_error_of_a_field_is_not_replayed(world: Gateway) -> None:
    """Its status is 200. The response to a later repetition is read again."""
    count = "UPDATE session SET assignment_count = {} WHERE id = 1"
    selected = "session { title assignmentCount } userErrors { code }"
    rename = {
        "query": f'mutation {{ updateSession(input: {{sessionId: 1, title: "New"}}) {{ {selected} }} }}'
    }
    raw.run(world.settings.database, count.format(3_000_000_000))
    damaged = post(world.as_caregiver(1), rename)
    raw.run(world.settings.database, count.format(3))
    repeated = post(world.as_caregiver(1), rename)

    assert (damaged.status_code, damaged.json()["data"]["updateSession"]["session"]) == (200, None)
    assert REPLAYED in repeated.headers.items()
    payload = {"session": {"title": "New", "assignmentCount": 3}, "userErrors": []}
    assert repeated.json() == {"data": {"updateSession": payload}}
