"""Concurrent requests with the same Idempotency-Key have one effect."""

import asyncio
from typing import Any, cast

import orjson
import pytest
from httpx2 import Response

from app.care.context import Context
from app.care.idempotency import IdempotentRequest, KeyScope
from app.http.errors import RequestRejected
from app.http.idempotency import run_once
from app.http.messages import Reply
from app.main import create_app
from tests.callers import Gateway, opened
from tests.concurrency import (
    ApiCall,
    ApiResponse,
    before_database_calls,
    nothing,
    send_call,
    send_together,
)
from tests.factories import NOW, a_world, starting_with
from tests.schema.keyed import (
    KEYED,
    OTHER_REQUEST,
    STILL_RUNNING,
    again,
    assign,
    assigning,
    books,
    is_assigned,
    whole,
)

pytestmark = starting_with(a_world)


def test_sixteen_concurrent_requests_have_one_effect(world: Gateway) -> None:
    request = ApiCall(world.as_caregiver(1), "POST", "/graphql", assigning(), KEYED)

    responses = send_together([request] * 16)

    [first] = [each for each in responses if (each.status, each.is_replayed) == (200, False)]
    assert {(each.status, each.is_replayed) for each in responses} <= {
        (200, False),
        (200, True),
        (409, False),
    }
    assert books(world) == [3]
    assert assign(world).content == first.body


def test_sixteen_concurrent_requests_to_two_processes_have_one_effect(world: Gateway) -> None:
    with opened(create_app(world.settings, clock=lambda: NOW)) as client:
        elsewhere = Gateway(client, world.settings)
        request = [
            ApiCall(each.as_caregiver(1), "POST", "/graphql", assigning(), KEYED)
            for each in (world, elsewhere)
        ]

        responses = send_together(request * 8)

    [first] = [each for each in responses if (each.status, each.is_replayed) == (200, False)]
    assert {each.body for each in responses if each.status == 200} == {first.body}
    assert {each.status for each in responses} <= {200, 409}
    assert books(world) == [3]


@pytest.mark.parametrize("is_found", [True, False])
def test_a_key_in_use_is_a_conflict(world: Gateway, is_found: bool) -> None:
    """Also while the first request looks for a stored response."""
    same = ApiCall(world.as_caregiver(1), "POST", "/graphql", assigning(), KEYED)
    responses: list[ApiResponse] = []

    async def meanwhile() -> None:
        responses.append(await send_call(world.client, same))

    calls = {"writes": [meanwhile]} if is_found else {"reads": [nothing, meanwhile]}
    with before_database_calls(world, **calls):
        first = assign(world)

    assert is_assigned(first)
    assert (responses[0].status, responses[0].headers["retry-after"]) == (409, "1")
    body = orjson.loads(responses[0].body)
    assert body["errors"][0]["extensions"].pop("requestId")
    assert body == {"errors": [{"message": STILL_RUNNING, "extensions": {"code": "IDEMPOTENCY_CONFLICT"}}]}
    assert books(world) == [3]


@pytest.mark.parametrize(
    ("changed", "left"), [({}, [3]), ({"bookIds": ["1"]}, [1])], ids=["the same", "another"]
)
def test_a_request_that_another_process_completes_first_is_not_executed(
    world: Gateway, changed: dict[str, Any], left: list[int]
) -> None:
    """It had looked for a stored response before that."""
    with opened(create_app(world.settings, clock=lambda: NOW)) as client:
        elsewhere = Gateway(client, world.settings)
        responses: list[Response] = []

        async def meanwhile() -> None:
            responses.append(await asyncio.to_thread(assign, elsewhere, **changed))

        with before_database_calls(world, writes=[meanwhile]):
            overtaken = assign(world)

    assert is_assigned(responses[0])
    if changed:
        assert (overtaken.status_code, overtaken.json()["data"]) == (422, None)
        [error] = overtaken.json()["errors"]
        assert (error["message"], error["extensions"]["code"]) == (OTHER_REQUEST, "IDEMPOTENCY_CONFLICT")
    else:
        assert whole(overtaken) == again(responses[0])
    assert books(world) == left


@pytest.mark.sqlite_only
def test_a_request_that_ends_leaves_the_keys_of_others_in_progress() -> None:
    class NothingStored:
        async def read(self, steps: Any) -> None:
            steps.close()

    first, second = (IdempotentRequest(KeyScope("CLIENT", 1, "legacy", key), "") for key in "ab")
    context = Context(None, cast(Any, NothingStored()), NOW, "r", "UTC")
    running: set[KeyScope] = set()

    async def main() -> Reply:
        released = asyncio.Event()

        async def wait(_: Context) -> tuple[Reply, bool]:
            await released.wait()
            return Reply(b"{}"), True

        async def end(_: Context) -> tuple[Reply, bool]:
            return Reply(b"{}"), True

        waiting = asyncio.create_task(run_once(running, context, first, wait))
        await asyncio.sleep(0)
        await run_once(running, context, second, end)
        with pytest.raises(RequestRejected, match="still in progress"):
            await run_once(running, context, first, end)
        released.set()
        return await waiting

    assert asyncio.run(main()) == Reply(b"{}")
    assert running == set()
