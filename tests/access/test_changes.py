"""Promise: what two people share, they alone change, each in their own part; a refusal says nothing and
writes nothing."""

import pytest
from httpx2 import Response

from tests.access.documents import outcome
from tests.access.table import CHANGES, Change, is_for
from tests.access.visitors import (
    MINE,
    PEOPLE_WITH_THINGS,
    assert_not_told,
    assert_shut_out,
    come,
    post,
    write_in,
)
from tests.access.world import KNOWN, SHARED
from tests.callers import Caller, Gateway
from tests.database_rows import stored, wrong_counters


@pytest.mark.parametrize("change", CHANGES)
def test_only_the_two_may_change_what_is_theirs(changing: Gateway, change: str) -> None:
    row, query = CHANGES[change], outcome(change)
    before = stored(changing)

    def ask(caller: Caller, shared: str = "AX") -> Response:
        return post(caller, query, {"input": write_in(row.given, shared)})

    for viewer in PEOPLE_WITH_THINGS:
        for shared in SHARED:
            if may_change(row, viewer, shared):
                continue
            answer = ask(come(changing, viewer), shared)
            said = assert_not_told(answer, viewer)
            assert write_in(row.shows, shared) not in said, (viewer, shared)
            assert "errors" in answer.json() or answer.json()["data"][change]["userErrors"], (viewer, shared)
    assert_shut_out(changing, ask)
    assert stored(changing) == before

    for viewer, shared in MINE.items():
        if is_for(row.who, viewer) and shared in ("AX", "BX"):
            answer = ask(come(changing, viewer), shared)
            said = assert_not_told(answer, viewer)
            assert answer.json()["data"][change]["userErrors"] == []
            assert write_in(row.shows, shared) in said
    assert stored(changing) != before
    assert wrong_counters(changing) == []


def may_change(row: Change, viewer: str, shared: str) -> bool:
    """A session may be opened with a client of one's own, whoever else has them as a client."""
    is_theirs = shared[1] in KNOWN[viewer] if "clientId" in row.given else viewer in shared
    return is_theirs and is_for(row.who, viewer)
