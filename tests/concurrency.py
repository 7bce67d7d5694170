"""Sends requests concurrently, and runs actions before the database calls of a service."""

import asyncio
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any, NamedTuple, TypeVar

import orjson

from app.auth.authenticator import Authenticator
from app.db.drivers.interface import Database, DatabaseUnavailable
from app.db.sql import Steps
from tests.callers import Caller, Gateway
from tests.client import Client

Result = TypeVar("Result")


class ApiCall(NamedTuple):
    caller: Caller
    method: str
    path: str
    body: Any
    headers: Mapping[str, str] = MappingProxyType({})


class ApiResponse(NamedTuple):
    status: int
    headers: dict[str, str]  # without the request id, which differs every time
    body: bytes

    @property
    def is_replayed(self) -> bool:
        return self.headers.get("idempotency-replayed") == "true"


def send_together(calls: Sequence[ApiCall]) -> list[ApiResponse]:
    """All requests start before the first response. Those of one client share its event loop."""
    clients: dict[int, Client] = {id(call.caller.client): call.caller.client for call in calls}
    of_each = [[call for call in calls if call.caller.client is client] for client in clients.values()]
    waiting = [
        client.portal.start_task_soon(gather, client, own)
        for client, own in zip(clients.values(), of_each, strict=True)
        if client.portal is not None
    ]
    return [response for future in waiting for response in future.result()]


async def gather(client: Client, calls: list[ApiCall]) -> list[ApiResponse]:
    return await asyncio.gather(*(send_call(client, call) for call in calls))


async def send_call(client: Client, call: ApiCall) -> ApiResponse:
    headers = {
        "authorization": f"bearer {call.caller.token}",
        "content-type": "application/json",
        **call.headers,
    }
    content = orjson.dumps(call.body)
    response = await client.respond(
        client.build_request(call.method, call.path, headers=headers, content=content)
    )
    received = dict(response.headers)
    assert received.pop("x-request-id")
    return ApiResponse(response.status_code, received, response.content)


# --- actions before database calls ------------------------------------------------------------------

Action = Callable[[], Awaitable[None]]


@dataclass
class InterruptedDatabase:
    """Runs one action before each read and each write, in order, until none is left."""

    db: Database
    reads: list[Action]
    writes: list[Action]

    async def read(self, steps: Steps[Result]) -> Result:
        if self.reads:
            await self.reads.pop(0)()
        return await self.db.read(steps)

    async def write(self, steps: Steps[Result]) -> Result:
        if self.writes:
            await self.writes.pop(0)()
        return await self.db.write(steps)

    async def close(self) -> None:
        await self.db.close()


async def nothing() -> None: ...


async def failure() -> None:
    raise DatabaseUnavailable


@contextmanager
def before_database_calls(
    gateway: Gateway, reads: Sequence[Action] = (), writes: Sequence[Action] = ()
) -> Iterator[None]:
    """With a new token the first read is the lookup of the account."""
    state = gateway.client.app_state
    authenticator: Authenticator = state["authenticator"]
    db = InterruptedDatabase(authenticator.db, list(reads), list(writes))
    state["authenticator"] = replace(authenticator, db=db)
    try:
        yield
    finally:
        state["authenticator"] = authenticator
