"""Requests that reach one or several processes of the service at the same time."""

import asyncio
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any, NamedTuple, TypeVar

import orjson

from app.auth.authenticator import Authenticator
from app.db.drivers.interface import Database, DatabaseUnavailable
from app.db.sql import Operation
from tests.callers import Caller, Gateway
from tests.client import Client

Result = TypeVar("Result")


class Asked(NamedTuple):
    caller: Caller
    method: str
    path: str
    body: Any
    headers: Mapping[str, str] = MappingProxyType({})


class Answered(NamedTuple):
    status: int
    headers: dict[str, str]  # without the request id, which is new every time
    body: bytes

    @property
    def is_replayed(self) -> bool:
        return self.headers.get("idempotency-replayed") == "true"


def ask_together(asked: Sequence[Asked]) -> list[Answered]:
    """All begin before the first is answered; those of one client share its event loop."""
    clients: dict[int, Client] = {id(one.caller.client): one.caller.client for one in asked}
    of_each = [[one for one in asked if one.caller.client is client] for client in clients.values()]
    waiting = [
        client.portal.start_task_soon(gather, client, mine)
        for client, mine in zip(clients.values(), of_each, strict=True)
        if client.portal is not None
    ]
    return [answered for future in waiting for answered in future.result()]


async def gather(client: Client, asked: list[Asked]) -> list[Answered]:
    return await asyncio.gather(*(ask(client, one) for one in asked))


async def ask(client: Client, asked: Asked) -> Answered:
    said = {
        "authorization": f"bearer {asked.caller.token}",
        "content-type": "application/json",
        **asked.headers,
    }
    scope = {
        "type": "http",
        "asgi": {"version": "3.0"},
        "http_version": "1.1",
        "method": asked.method,
        "scheme": "http",
        "path": asked.path,
        "raw_path": asked.path.encode(),
        "query_string": b"",
        "root_path": "",
        "headers": [(name.encode(), value.encode()) for name, value in said.items()],
        "state": dict(client.app_state),
    }
    body = iter([orjson.dumps(asked.body)])
    sent: list[dict[str, Any]] = []

    async def receive() -> dict[str, Any]:
        return {"type": "http.request", "body": next(body, b""), "more_body": False}

    async def send(message: Any) -> None:
        sent.append(message)

    await client.app(scope, receive, send)  # type: ignore[arg-type]
    headers = {name.decode(): value.decode() for name, value in sent[0]["headers"]}
    assert headers.pop("x-request-id")
    return Answered(sent[0]["status"], headers, b"".join(each["body"] for each in sent[1:]))


# --- what happens in between -----------------------------------------------------------------------

LoggedEvent = Callable[[], Awaitable[None]]


@dataclass
class Eventful:
    """A database before whose reads and writes something happens, one thing each, in order."""

    db: Database
    reads: list[LoggedEvent]
    writes: list[LoggedEvent]

    async def read(self, operation: Operation[Result]) -> Result:
        if self.reads:
            await self.reads.pop(0)()
        return await self.db.read(operation)

    async def write(self, operation: Operation[Result]) -> Result:
        if self.writes:
            await self.writes.pop(0)()
        return await self.db.write(operation)

    async def close(self) -> None:
        await self.db.close()


async def nothing() -> None: ...


async def failure() -> None:
    raise DatabaseUnavailable


@contextmanager
def happening(
    gateway: Gateway, reads: Sequence[LoggedEvent] = (), writes: Sequence[LoggedEvent] = ()
) -> Iterator[None]:
    """The account of a token that is new is the first read."""
    state = gateway.client.app_state
    authenticator: Authenticator = state["authenticator"]
    state["authenticator"] = replace(authenticator, db=Eventful(authenticator.db, list(reads), list(writes)))
    try:
        yield
    finally:
        state["authenticator"] = authenticator
