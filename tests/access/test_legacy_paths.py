"""Promise: the legacy paths keep to the same: each answers its own role, of that person's own things."""

import pytest
from httpx2 import Response

from tests.access.table import PATHS, Path, is_for
from tests.access.visitors import (
    MINE,
    PEOPLE_WITH_THINGS,
    REQUEST_ID,
    assert_not_told,
    assert_shut_out,
    come,
    write_in,
)
from tests.access.world import SHARED
from tests.callers import Caller, Gateway
from tests.database_rows import stored


def ask(caller: Caller, row: Path, shared: str) -> Response:
    body = write_in(row.body, shared)
    if body is not None:
        body = body | {"sessionId": int(body["sessionId"])}
    return caller.request(row.method, write_in(row.path, shared), json=body, headers=REQUEST_ID)


def without_its_path(answer: Response) -> Response:
    """A refusal repeats the path that it was asked by, and the id in it with that."""
    path = answer.request.url.path
    return Response(answer.status_code, headers=answer.headers, text=answer.text.replace(path, "path"))


@pytest.mark.parametrize("name", PATHS)
def test_a_path_tells_its_viewers_own_and_nothing_else(changing: Gateway, name: str) -> None:
    row = PATHS[name]
    takes_id = "{1" in str((row.path, row.body))
    before = stored(changing)

    for viewer in PEOPLE_WITH_THINGS:
        for shared in SHARED:
            is_theirs = is_for(row.who, viewer) and (viewer in shared or not takes_id)
            if is_theirs and row.method == "PUT":
                continue
            answer = without_its_path(ask(come(changing, viewer), row, shared))
            said = assert_not_told(answer, viewer)
            refused = 404 if is_for(row.who, viewer) else 403
            assert answer.status_code == (200 if is_theirs else refused), (viewer, shared)
            if is_theirs and "Z" not in shared:
                assert write_in(row.shows, shared if takes_id else MINE[viewer]) in said
    assert_shut_out(changing, lambda caller: without_its_path(ask(caller, row, "AX")))
    assert stored(changing) == before

    if row.method == "PUT":
        answer = ask(come(changing, "A"), row, "AX")
        assert answer.status_code == 200
        assert row.shows in assert_not_told(answer, "A")
        assert stored(changing) != before


def test_head_tells_no_more_than_get(world: Gateway) -> None:
    for row in PATHS.values():
        if row.method == "GET":
            for viewer in PEOPLE_WITH_THINGS:
                caller, path = come(world, viewer), write_in(row.path, "AX")
                got = caller.get(path, headers=REQUEST_ID)
                head = caller.request("HEAD", path, headers=REQUEST_ID)

                assert (head.status_code, head.headers) == (got.status_code, got.headers)
                assert head.content == b""
