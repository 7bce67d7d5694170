"""A legacy path returns the viewer's own data only, to its role only."""

import pytest
from httpx2 import Response

from tests.access.table import PATHS, Path, is_allowed
from tests.access.viewers import (
    OWN_PAIR,
    REQUEST_ID,
    VIEWERS,
    assert_known_only,
    assert_outsiders_rejected,
    caller_of,
    fill_for,
)
from tests.access.world import SHARED
from tests.callers import Caller, Gateway
from tests.database_rows import stored


def send(caller: Caller, row: Path, shared: str) -> Response:
    body = fill_for(row.body, shared)
    if body is not None:
        body = body | {"sessionId": int(body["sessionId"])}
    return caller.request(row.method, fill_for(row.path, shared), json=body, headers=REQUEST_ID)


def without_its_path(response: Response) -> Response:
    """An error repeats the requested path, including the id."""
    path = response.request.url.path
    return Response(response.status_code, headers=response.headers, text=response.text.replace(path, "path"))


@pytest.mark.parametrize("name", PATHS)
def test_a_path_returns_the_viewers_own_data_only(writable_world: Gateway, name: str) -> None:
    row = PATHS[name]
    takes_id = "{1" in str((row.path, row.body))
    before = stored(writable_world)

    for viewer in VIEWERS:
        for shared in SHARED:
            is_theirs = is_allowed(row.who, viewer) and (viewer in shared or not takes_id)
            if is_theirs and row.method == "PUT":
                continue
            response = without_its_path(send(caller_of(writable_world, viewer), row, shared))
            content = assert_known_only(response, viewer)
            rejected = 404 if is_allowed(row.who, viewer) else 403
            assert response.status_code == (200 if is_theirs else rejected), (viewer, shared)
            if is_theirs and "Z" not in shared:
                assert fill_for(row.shows, shared if takes_id else OWN_PAIR[viewer]) in content
    assert_outsiders_rejected(writable_world, lambda caller: without_its_path(send(caller, row, "AX")))
    assert stored(writable_world) == before

    if row.method == "PUT":
        response = send(caller_of(writable_world, "A"), row, "AX")
        assert response.status_code == 200
        assert row.shows in assert_known_only(response, "A")
        assert stored(writable_world) != before


def test_head_has_the_status_and_headers_of_get(world: Gateway) -> None:
    for row in PATHS.values():
        if row.method == "GET":
            for viewer in VIEWERS:
                caller, path = caller_of(world, viewer), fill_for(row.path, "AX")
                got = caller.get(path, headers=REQUEST_ID)
                head = caller.request("HEAD", path, headers=REQUEST_ID)

                assert (head.status_code, head.headers) == (got.status_code, got.headers)
                assert head.content == b""
