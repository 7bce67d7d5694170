"""Only the two people of a relationship can change its data, each within their role. A rejection reveals
nothing and writes nothing."""

import pytest
from httpx2 import Response

from tests.access.documents import mutation_document
from tests.access.table import CHANGES, Change, is_for
from tests.access.viewers import (
    MINE,
    PEOPLE_WITH_DATA,
    assert_rejects_outsiders,
    assert_shows_only_known,
    post,
    sign_in,
    write_in,
)
from tests.access.world import KNOWN, SHARED
from tests.callers import Caller, Gateway
from tests.database_rows import stored, wrong_counters


@pytest.mark.parametrize("change", CHANGES)
def test_only_the_two_people_of_a_relationship_can_change_its_data(changing: Gateway, change: str) -> None:
    row, query = CHANGES[change], mutation_document(change)
    before = stored(changing)

    def send(caller: Caller, shared: str = "AX") -> Response:
        return post(caller, query, {"input": write_in(row.given, shared)})

    for viewer in PEOPLE_WITH_DATA:
        for shared in SHARED:
            if may_change(row, viewer, shared):
                continue
            answer = send(sign_in(changing, viewer), shared)
            shown = assert_shows_only_known(answer, viewer)
            assert write_in(row.shows, shared) not in shown, (viewer, shared)
            assert "errors" in answer.json() or answer.json()["data"][change]["userErrors"], (viewer, shared)
    assert_rejects_outsiders(changing, send)
    assert stored(changing) == before

    for viewer, shared in MINE.items():
        if is_for(row.who, viewer) and shared in ("AX", "BX"):
            answer = send(sign_in(changing, viewer), shared)
            shown = assert_shows_only_known(answer, viewer)
            assert answer.json()["data"][change]["userErrors"] == []
            assert write_in(row.shows, shared) in shown
    assert stored(changing) != before
    assert wrong_counters(changing) == []


def may_change(row: Change, viewer: str, shared: str) -> bool:
    """A caregiver may open a session with a client who also has other caregivers."""
    is_theirs = shared[1] in KNOWN[viewer] if "clientId" in row.given else viewer in shared
    return is_theirs and is_for(row.who, viewer)
