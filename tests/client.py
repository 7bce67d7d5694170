"""A client of the service in the same process: one event loop for all tests, one hop per request.

Starlette's own starts a thread and a loop per client, and crosses between the threads a dozen times per
request. What it does besides, websockets and streams, it still does: on our loop.
"""

import asyncio
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from typing import Any
from urllib.parse import unquote

import httpx2
from anyio.from_thread import BlockingPortal, start_blocking_portal
from starlette.applications import Starlette
from starlette.testclient import TestClient

Message = dict[str, Any]
PATIENCE = 60  # seconds until a response that does not end is a failure


class Loops:
    """Event loops in threads of their own. Each application has one to itself while it is open, as a process
    would; the next takes over what is free."""

    def __init__(self) -> None:
        self.free: list[BlockingPortal] = []
        self.stack = ExitStack()

    @contextmanager
    def one(self) -> Iterator[BlockingPortal]:
        portal = self.free.pop() if self.free else self.started()
        yield portal
        self.free.append(portal)  # after a failure it is left alone

    def started(self) -> BlockingPortal:
        return self.stack.enter_context(start_blocking_portal("asyncio", {"use_uvloop": True}))

    def close(self) -> None:
        self.free.clear()
        self.stack.close()


LOOPS = Loops()


class Client(TestClient):
    """Knows the application while it is open."""

    comes_from = "127.0.0.1"

    def __init__(self, app: Starlette, portal: BlockingPortal, state: dict[str, Any]) -> None:
        super().__init__(app, raise_server_exceptions=False)
        self.portal = portal
        self.app_state.update(state)

    def ask(self, method: str, path: str, **options: Any) -> httpx2.Response:
        """The whole response to one request. Redirects are not followed; a stream that does not end fails."""
        assert self.portal is not None
        response = self.portal.start_task_soon(self.answer, self.build_request(method, path, **options))
        try:
            return response.result(PATIENCE)
        finally:
            response.cancel()  # no effect on one that is done

    async def answer(self, request: httpx2.Request) -> httpx2.Response:
        url = request.url
        scope = {
            "type": "http",
            "asgi": {"version": "3.0"},
            "http_version": "1.1",
            "method": request.method,
            "scheme": url.scheme,
            "path": unquote(url.path),
            "raw_path": url.raw_path.split(b"?", 1)[0],
            "query_string": url.query,
            "root_path": "",
            "headers": [(name.lower(), value) for name, value in request.headers.raw],
            "client": (self.comes_from, 50000),
            "server": (url.host, url.port or 80),
            "state": self.app_state.copy(),
        }
        body = iter([request.read()])
        is_complete = asyncio.Event()
        sent: list[Message] = []

        async def receive() -> Message:
            for part in body:
                return {"type": "http.request", "body": part, "more_body": False}
            await is_complete.wait()
            return {"type": "http.disconnect"}

        async def send(message: Any) -> None:
            assert not is_complete.is_set(), "said after the end"
            assert (message["type"] == "http.response.start") == (not sent), message["type"]
            sent.append(message)
            if sent[1:] and not message.get("more_body", False):
                is_complete.set()

        try:
            await self.app(scope, receive, send)
        except Exception:  # a server would log it; what was said of it by then has to do
            if not sent:
                return httpx2.Response(500, request=request)
        content = b"".join(each.get("body", b"") for each in sent[1:])
        return httpx2.Response(
            sent[0]["status"],
            headers=sent[0]["headers"],
            content=b"" if request.method == "HEAD" else content,
            request=request,
        )


@contextmanager
def open_client(app: Starlette) -> Iterator[Client]:
    """The application from its start to its end, after which nothing of it is left in the loop."""
    with LOOPS.one() as portal:
        before = portal.call(tasks)
        try:
            with (
                portal.wrap_async_context_manager(app.router.lifespan_context(app)) as state,
                closing(Client(app, portal, dict(state or {}))) as client,
            ):
                yield client
        finally:
            portal.call(end_others, before)


async def tasks() -> set[Any]:
    return asyncio.all_tasks()


async def end_others(known: set[Any]) -> None:
    """As a loop does that ends."""
    others = asyncio.all_tasks() - known - {asyncio.current_task()}
    for each in others:
        each.cancel()
    await asyncio.gather(*others, return_exceptions=True)
