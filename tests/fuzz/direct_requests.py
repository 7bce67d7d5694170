"""Requests as bytes, passed to the service without a server or a client."""

import asyncio
import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any
from urllib.parse import unquote

from app.http.router import Router

Headers = tuple[tuple[bytes, bytes], ...]
PATIENCE = 40  # event loop iterations that a listener waits before it disconnects


@dataclass(frozen=True)
class RawRequest:
    method: str
    path: str  # as it is written in the request line, without the query
    query: str = ""
    headers: Headers = ()
    body: bytes = b""

    def with_headers(self, *headers: tuple[bytes, bytes]) -> "RawRequest":
        """Replaces the headers of these names."""
        rest = self.without(*(name for name, _ in headers))
        return replace(rest, headers=(*rest.headers, *headers))

    def without(self, *names: bytes) -> "RawRequest":
        return replace(self, headers=tuple(each for each in self.headers if each[0] not in names))

    def all_of(self, name: bytes) -> list[bytes]:
        return [value for key, value in self.headers if key == name]


@dataclass
class RawResponse:
    status: int = 0
    headers: list[tuple[bytes, bytes]] = field(default_factory=list)
    body: bytes = b""

    def header(self, name: bytes) -> str | None:
        found = [value.decode("latin-1") for key, value in self.headers if key == name]
        assert len(found) < 2, name
        return found[0] if found else None

    def json(self) -> Any:
        return json.loads(self.body)


class DirectService:
    """The service in this thread, on its own event loop."""

    def __init__(self, app: Router, runner: asyncio.Runner, state: dict[str, Any]) -> None:
        self.app = app
        self.runner = runner
        self.state = state

    def send(self, request: RawRequest) -> RawResponse:
        return self.runner.run(self.exchange(request))

    async def exchange(self, request: RawRequest) -> RawResponse:
        response = RawResponse()
        incoming = iter([{"type": "http.request", "body": request.body, "more_body": False}])

        async def receive() -> dict[str, Any]:
            for message in incoming:
                return message
            for _ in range(PATIENCE):
                await asyncio.sleep(0)
            return {"type": "http.disconnect"}

        async def send(message: Any) -> None:
            if message["type"] == "http.response.start":
                assert response.status == 0
                response.status, response.headers = message["status"], list(message["headers"])
            response.body += message.get("body", b"")

        await self.app(self.scope_of(request), receive, send)
        return response

    def scope_of(self, request: RawRequest) -> dict[str, Any]:
        """The scope as the server builds it."""
        return {
            "type": "http",
            "asgi": {"version": "3.0"},
            "http_version": "1.1",
            "method": request.method,
            "scheme": "http",
            "path": unquote(request.path),
            "raw_path": request.path.encode(),
            "query_string": request.query.encode(),
            "root_path": "",
            "headers": list(request.headers),
            "client": ("127.0.0.1", 50000),
            "server": ("127.0.0.1", 8000),
            "state": dict(self.state),
        }


@contextmanager
def direct(app: Router) -> Iterator[DirectService]:
    with asyncio.Runner() as runner:
        lifespan = app.pages.router.lifespan_context(app.pages)

        async def enter() -> Any:
            return await lifespan.__aenter__()

        async def leave() -> None:
            await lifespan.__aexit__(None, None, None)

        state = runner.run(enter())
        try:
            yield DirectService(app, runner, state)
        finally:
            runner.run(leave())
