"""Each legacy path answers only its role, with the viewer's own data."""

import pytest
from httpx2 import Response

from tests.access.table import PATHS, Path, is_for
from tests.access.viewers import (
    MINE,
    PEOPLE_WITH_DATA,
    REQUEST_ID,
    assert_rejects_outsiders,
    assert_shows_only_known,
    sign_in,
    write_in,
)
from tests.access.world import SHARED
from tests.callers import Caller, Gateway
from tests.database_rows import stored


def send(caller: Caller, row: Path, shared: str) -> Response:
    body = write_in(row.body, shared)
    if body is not None:
        body = body | {"sessionId": int(body["sessionId"])}
    return caller.request(row.method, write_in(row.path, shared), json=body, headers=REQUEST_ID)


def without_its_path(answer: Response) -> Response:
    """An error body repeats the request path, and with it the id."""
    path = answer.request.url.path
    return Response(answer.status_code, headers=answer.headers, text=answer.text.replace(path, "path"))


@pytest.mark.parametrize("name", PATHS)
def test_a_path_shows_only_the_viewers_own_data(changing: Gateway, name: str) -> None:
    row = PATHS[name]
    takes_id = "{1" in str((row.path, row.body))
    before = stored(changing)

    for viewer in PEOPLE_WITH_DATA:
        for shared in SHARED:
            is_theirs = is_for(row.who, viewer) and (viewer in shared or not takes_id)
            if is_theirs and row.method == "PUT":
                continue
            answer = without_its_path(send(sign_in(changing, viewer), row, shared))
            shown = assert_shows_only_known(answer, viewer)
            refused = 404 if is_for(row.who, viewer) else 403
            assert answer.status_code == (200 if is_theirs else refused), (viewer, shared)
            if is_theirs and "Z" not in shared:
                assert write_in(row.shows, shared if takes_id else MINE[viewer]) in shown
    assert_rejects_outsiders(changing, lambda caller: without_its_path(send(caller, row, "AX")))
    assert stored(changing) == before

    if row.method == "PUT":
        answer = send(sign_in(changing, "A"), row, "AX")
        assert answer.status_code == 200
        assert row.shows in assert_shows_only_known(answer, "A")
        assert stored(changing) != before


def test_head_shows_no_more_than_get(world: Gateway) -> None:
    for row in PATHS.values():
        if row.method == "GET":
            for viewer in PEOPLE_WITH_DATA:
                caller, path = sign_in(world, viewer), write_in(row.path, "AX")
                got = caller.get(path, headers=REQUEST_ID)
                head = caller.request("HEAD", path, headers=REQUEST_ID)

                assert (head.status_code, head.headers) == (got.status_code, got.headers)
                assert head.content == b""
