"""Concurrent PUTs with the same Idempotency-Key have one effect."""

import asyncio
from typing import Any

import orjson
import pytest
from httpx2 import Response

from app.main import create_app
from tests.callers import Gateway, opened
from tests.concurrency import (
    ApiCall,
    ApiResponse,
    before_database_calls,
    failure,
    nothing,
    send_call,
    send_together,
)
from tests.database_rows import wrong_counters
from tests.factories import NOW, a_world, starting_with
from tests.rest_compat.keyed import (
    AGAIN,
    ASSIGNED,
    ERROR_MEMBERS,
    FIRST,
    KEYED,
    OTHER_REQUEST,
    STILL_RUNNING,
    STORED,
    books,
    parts_of,
    put,
    stored_keys,
)
from tests.rest_compat.legacy import ASSIGNMENTS, homework, rejection_of

pytestmark = starting_with(a_world)


def test_sixteen_concurrent_requests_have_one_effect(world: Gateway) -> None:
    request = ApiCall(world.as_caregiver(1), "PUT", ASSIGNMENTS, homework(), KEYED)

    answers = send_together([request] * 16)

    assert [each.body for each in answers if (each.status, each.is_replayed) == (200, False)] == [ASSIGNED]
    assert {(each.status, each.is_replayed) for each in answers} <= {(200, False), (200, True), (409, False)}
    assert books(world) == [1, 2]
    assert wrong_counters(world) == []
    assert parts_of(put(world)) == AGAIN


def test_a_request_in_progress_is_reported(world: Gateway) -> None:
    """Also for another request with the key, since the first result is not known yet."""
    same = ApiCall(world.as_caregiver(1), "PUT", ASSIGNMENTS, homework(), KEYED)
    other = same._replace(body=homework(bookIds=[3]))
    received: list[ApiResponse] = []

    async def meanwhile() -> None:
        received.extend([await send_call(world.client, same), await send_call(world.client, other)])

    with before_database_calls(world, writes=[meanwhile]):
        first = put(world)

    assert parts_of(first) == FIRST
    assert [(each.status, orjson.loads(each.body)["message"]) for each in received] == [STILL_RUNNING] * 2
    assert [list(orjson.loads(each.body)) for each in received] == [ERROR_MEMBERS] * 2
    assert [each.headers["retry-after"] for each in received] == ["1"] * 2
    assert books(world) == [1, 2]
    assert parts_of(put(world)) == AGAIN


def test_sixteen_concurrent_requests_in_two_processes_have_one_effect(world: Gateway) -> None:
    with opened(create_app(world.settings, clock=lambda: NOW)) as client:
        elsewhere = Gateway(client, world.settings)
        requests = [
            ApiCall(each.as_caregiver(1), "PUT", ASSIGNMENTS, homework(), KEYED)
            for each in (world, elsewhere)
        ]

        answers = send_together(requests * 8)

        assert parts_of(put(elsewhere)) == AGAIN
    assert [each.body for each in answers if (each.status, each.is_replayed) == (200, False)] == [ASSIGNED]
    assert {(each.status, each.is_replayed) for each in answers} <= {(200, False), (200, True), (409, False)}
    assert books(world) == [1, 2]
    assert stored_keys(world) == [STORED]
    assert wrong_counters(world) == []


@pytest.mark.parametrize(
    ("changed", "left"), [({}, [1, 2]), ({"bookIds": [3]}, [3])], ids=["the same", "another"]
)
def test_a_request_that_another_process_overtakes_is_not_performed(
    world: Gateway, changed: dict[str, Any], left: list[int]
) -> None:
    """It had already looked for a stored response and found none."""
    with opened(create_app(world.settings, clock=lambda: NOW)) as client:
        elsewhere = Gateway(client, world.settings)
        received: list[Response] = []

        async def meanwhile() -> None:
            received.append(await asyncio.to_thread(put, elsewhere, **changed))

        with before_database_calls(world, writes=[meanwhile]):
            overtaken = put(world)

    assert parts_of(received[0]) == FIRST
    if changed:
        assert rejection_of(overtaken) == OTHER_REQUEST
    else:
        assert parts_of(overtaken) == AGAIN
    assert books(world) == left


def test_a_response_that_cannot_be_stored_is_sent_anyway(world: Gateway) -> None:
    with before_database_calls(world, writes=[nothing, failure]):
        first = put(world)

    assert parts_of(first) == FIRST
    assert stored_keys(world) == [(*STORED[:5], None, None)]
    assert parts_of(put(world)) == AGAIN
    assert stored_keys(world) == [STORED]
    assert books(world) == [1, 2]


def test_a_failed_write_leaves_the_key_free(world: Gateway) -> None:
    with before_database_calls(world, writes=[failure]):
        unavailable = put(world)

    assert rejection_of(unavailable) == (503, "the database cannot take this now; nothing was changed")
    assert stored_keys(world) == []
    assert parts_of(put(world)) == FIRST
