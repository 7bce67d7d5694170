"""Requests as bytes, passed to the service without a server or a client."""

import asyncio
import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any
from urllib.parse import unquote

from starlette.applications import Starlette

Headers = tuple[tuple[bytes, bytes], ...]
PATIENCE = 40  # event loop iterations that a listener waits before it disconnects


@dataclass(frozen=True)
class Asked:
    method: str
    path: str  # as it is written in the request line, without the query
    query: str = ""
    headers: Headers = ()
    body: bytes = b""

    def saying(self, *headers: tuple[bytes, bytes]) -> "Asked":
        """Replaces the headers of these names."""
        rest = self.without(*(name for name, _ in headers))
        return replace(rest, headers=(*rest.headers, *headers))

    def without(self, *names: bytes) -> "Asked":
        return replace(self, headers=tuple(each for each in self.headers if each[0] not in names))

    def all_of(self, name: bytes) -> list[bytes]:
        return [value for key, value in self.headers if key == name]


@dataclass
class Answered:
    status: int = 0
    headers: list[tuple[bytes, bytes]] = field(default_factory=list)
    body: bytes = b""

    def header(self, name: bytes) -> str | None:
        found = [value.decode("latin-1") for key, value in self.headers if key == name]
        assert len(found) < 2, name
        return found[0] if found else None

    def json(self) -> Any:
        return json.loads(self.body)


class Direct:
    """The service in this thread, on its own event loop."""

    def __init__(self, app: Starlette, runner: asyncio.Runner, state: dict[str, Any]) -> None:
        self.app = app
        self.runner = runner
        self.state = state

    def ask(self, asked: Asked) -> Answered:
        return self.runner.run(self.answer(asked))

    async def answer(self, asked: Asked) -> Answered:
        seen = Answered()
        incoming = iter([{"type": "http.request", "body": asked.body, "more_body": False}])

        async def receive() -> dict[str, Any]:
            for message in incoming:
                return message
            for _ in range(PATIENCE):
                await asyncio.sleep(0)
            return {"type": "http.disconnect"}

        async def send(message: Any) -> None:
            if message["type"] == "http.response.start":
                assert seen.status == 0
                seen.status, seen.headers = message["status"], list(message["headers"])
            seen.body += message.get("body", b"")

        await self.app(self.scope_of(asked), receive, send)
        return seen

    def scope_of(self, asked: Asked) -> dict[str, Any]:
        """The scope as the server builds it."""
        return {
            "type": "http",
            "asgi": {"version": "3.0"},
            "http_version": "1.1",
            "method": asked.method,
            "scheme": "http",
            "path": unquote(asked.path),
            "raw_path": asked.path.encode(),
            "query_string": asked.query.encode(),
            "root_path": "",
            "headers": list(asked.headers),
            "client": ("127.0.0.1", 50000),
            "server": ("127.0.0.1", 8000),
            "state": dict(self.state),
        }


@contextmanager
def direct(app: Starlette) -> Iterator[Direct]:
    with asyncio.Runner() as runner:
        lifespan = app.router.lifespan_context(app)

        async def enter() -> Any:
            return await lifespan.__aenter__()

        async def leave() -> None:
            await lifespan.__aexit__(None, None, None)

        state = runner.run(enter())
        try:
            yield Direct(app, runner, state)
        finally:
            runner.run(leave())
