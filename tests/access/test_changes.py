"""A mutation changes the viewer's own data only, by its role; a rejected one reveals and writes nothing."""

import pytest
from httpx2 import Response

from tests.access.documents import mutation_document
from tests.access.table import MUTATIONS, Mutation, is_allowed
from tests.access.viewers import (
    OWN_PAIR,
    VIEWERS,
    assert_known_only,
    assert_outsiders_rejected,
    caller_of,
    fill_for,
    post,
)
from tests.access.world import KNOWN, SHARED
from tests.callers import Caller, Gateway
from tests.database_rows import stored, wrong_counters


@pytest.mark.parametrize("name", MUTATIONS)
def test_only_the_owners_with_the_right_role_can_run_a_mutation(writable_world: Gateway, name: str) -> None:
    row, query = MUTATIONS[name], mutation_document(name)
    before = stored(writable_world)

    def send(caller: Caller, shared: str = "AX") -> Response:
        return post(caller, query, {"input": fill_for(row.input, shared)})

    for viewer in VIEWERS:
        for shared in SHARED:
            if is_permitted(row, viewer, shared):
                continue
            response = send(caller_of(writable_world, viewer), shared)
            content = assert_known_only(response, viewer)
            assert fill_for(row.shows, shared) not in content, (viewer, shared)
            body = response.json()
            assert "errors" in body or body["data"][name]["userErrors"], (viewer, shared)
    assert_outsiders_rejected(writable_world, send)
    assert stored(writable_world) == before

    for viewer, shared in OWN_PAIR.items():
        if is_allowed(row.who, viewer) and shared in ("AX", "BX"):
            response = send(caller_of(writable_world, viewer), shared)
            content = assert_known_only(response, viewer)
            assert response.json()["data"][name]["userErrors"] == []
            assert fill_for(row.shows, shared) in content
    assert stored(writable_world) != before
    assert wrong_counters(writable_world) == []


def is_permitted(row: Mutation, viewer: str, shared: str) -> bool:
    """A caregiver may open a session with any of their clients, also with one of another caregiver too."""
    is_theirs = shared[1] in KNOWN[viewer] if "clientId" in row.input else viewer in shared
    return is_theirs and is_allowed(row.who, viewer)
