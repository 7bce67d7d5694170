"""A test client that runs each request as one task in an event loop that tests share.

Starlette's TestClient starts a thread and a loop per client and switches threads a dozen times per request.
Websockets and streams still use TestClient, on the shared loop.
"""

import asyncio
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from typing import Any
from urllib.parse import unquote

import httpx2
from anyio.from_thread import BlockingPortal, start_blocking_portal
from starlette.testclient import TestClient

from app.http.router import Router
from tests.leftovers import State, open_streams, reject_leftovers
from tests.patience import PATIENCE

Message = dict[str, Any]


class Loops:
    """Event loops in their own threads. An open application has one for itself; the next one reuses it."""

    def __init__(self) -> None:
        self.free: list[BlockingPortal] = []
        self.stack = ExitStack()

    @contextmanager
    def one(self) -> Iterator[BlockingPortal]:
        portal = self.free.pop() if self.free else self.start()
        yield portal
        self.free.append(portal)  # not after a failure

    def start(self) -> BlockingPortal:
        return self.stack.enter_context(start_blocking_portal("asyncio", {"use_uvloop": True}))

    def close(self) -> None:
        self.free.clear()
        self.stack.close()


LOOPS = Loops()


class Client(TestClient):
    """A client of an open application."""

    comes_from = "127.0.0.1"

    def __init__(self, app: Router, portal: BlockingPortal, state: dict[str, Any]) -> None:
        super().__init__(app, raise_server_exceptions=False)
        self.portal = portal
        self.loop = portal.call(asyncio.get_running_loop)  # the portal would switch threads once more
        self.app_state.update(state)

    def fetch(self, method: str, path: str, **options: Any) -> httpx2.Response:
        """Returns the complete response. Does not follow redirects. Fails if a stream does not end."""
        request = self.build_request(method, path, **options)
        response = asyncio.run_coroutine_threadsafe(self.respond(request), self.loop)
        try:
            return response.result(PATIENCE)
        finally:
            response.cancel()  # no effect if it is done

    async def respond(self, request: httpx2.Request) -> httpx2.Response:
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
            assert not is_complete.is_set(), "sent after the end"
            assert (message["type"] == "http.response.start") == (not sent), message["type"]
            sent.append(message)
            if sent[1:] and not message.get("more_body", False):
                is_complete.set()

        try:
            await self.app(scope, receive, send)
        except Exception:  # a server would log it and end the response
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
def open_client(app: Router) -> Iterator[Client]:
    """Starts the application; at the end stops it, cancels its remaining tasks, and checks that it has given
    everything back."""
    with LOOPS.one() as portal:
        before, streams = portal.call(tasks), open_streams()
        try:
            with (
                portal.wrap_async_context_manager(app.pages.router.lifespan_context(app.pages)) as state,
                closing(Client(app, portal, dict(state or {}))) as client,
            ):
                yield client
        finally:
            portal.call(cancel_others, before)
        portal.call(check, app, client.app_state)
        assert open_streams() == streams


async def tasks() -> set[Any]:
    return asyncio.all_tasks()


async def check(app: Router, state: State) -> None:
    reject_leftovers(app, state)


async def cancel_others(known: set[Any]) -> None:
    """Like an event loop that ends."""
    others = asyncio.all_tasks() - known - {asyncio.current_task()}
    for each in others:
        each.cancel()
    await asyncio.gather(*others, return_exceptions=True)
