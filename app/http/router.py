"""Where every request passes: which contract it belongs to, and that it was answered."""

import logging
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from time import perf_counter

import orjson
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from app.http.cors import AllowedOrigins, is_preflight, send_preflight, with_headers
from app.http.errors import legacy_error, request_error
from app.http.health import HEALTH
from app.http.messages import Reply, header, request_id_of, send_reply
from app.http.paths import ASSIGNMENTS, ROOT, SESSIONS
from app.telemetry import counters
from app.telemetry.logs import LOG_FIELDS

METHODS = {"GET", "HEAD", "POST", "PUT", "OPTIONS"}
ANY_LEGACY = f"{ROOT}/*"
BEFORE_ID = f"{ASSIGNMENTS}/"
ONE_ASSIGNMENT = f"{BEFORE_ID}{{id}}"
ROUTES = {"/graphql", SESSIONS, ASSIGNMENTS, *HEALTH}
KNOWN_CODES = {*range(1000, 1016), 4400, 4401, 4403, 4406, 4408, 4409, 4429}  # RFC 6455, graphql-transport-ws
NOT_ALLOWED = "pages of this origin may not call the service: it is not in CARE_CORS_ORIGINS"

requests = logging.getLogger("care.requests")


class Router:
    """Both contracts stand before the router, which would try its routes one by one on every request."""

    def __init__(
        self,
        app: ASGIApp,
        graphql: ASGIApp,
        legacy: ASGIApp,
        origins: AllowedOrigins,
        logs: bool,
        trace: Callable[[Scope], AbstractContextManager[None]] | None,
    ) -> None:
        self.app = app
        self.trace = trace
        self.logs = logs  # every request
        self.graphql = graphql
        self.legacy = legacy
        self.origins = origins
        for route in (*ROUTES, ANY_LEGACY, ONE_ASSIGNMENT, counters.OTHER):
            for method in (*METHODS, counters.OTHER):
                counters.expect((route, method, 500))

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.last(scope, receive, send)
            return
        began = perf_counter()
        path = scope["path"]
        try:
            if path == "/graphql":
                contract, methods = self.graphql, b"GET, POST"
            elif path == "/gateway" or path.startswith("/gateway/"):
                contract, methods = self.legacy, b"GET, HEAD, PUT"
            else:
                await self.app(scope, receive, with_headers(scope, send))
                return
            if self.origins.is_open:
                self.origins.note(scope)
            if is_preflight(scope):
                await self.preflight(scope, send, methods)
            elif self.trace is None:
                await contract(scope, receive, send)
            else:
                with self.trace(scope):
                    await contract(scope, receive, send)
        finally:
            if status := scope["state"].get("status", 500):  # 0 of a stream, which is counted by itself
                answer = (route_of(path), method_of(scope), status)
                counters.answered(answer, perf_counter() - began)
                if self.logs and path not in HEALTH:
                    log_request(answer, perf_counter() - began)

    async def preflight(self, scope: Scope, send: Send, methods: bytes) -> None:
        """The browser asks whether a page of another origin may send a request."""
        if self.origins.allows(header(scope, b"origin") or "", "a preflight"):
            await send_preflight(scope, send, methods)
            return
        request_id = request_id_of(scope)
        if scope["path"] == "/graphql":
            body = request_error(NOT_ALLOWED, "FORBIDDEN", request_id)
        else:
            body = legacy_error(403, NOT_ALLOWED, scope["path"])
        await send_reply(scope, send, Reply(orjson.dumps(body), 403), request_id)

    async def last(self, scope: Scope, receive: Receive, send: Send) -> None:
        """The application's own life, and websockets."""
        if scope["type"] == "websocket" and scope["path"] == "/graphql":
            with nullcontext() if self.trace is None else self.trace(scope):
                await self.graphql(scope, *counted_socket(receive, send))
        else:
            await self.app(scope, receive, with_headers(scope, send))


def route_of(path: str) -> str:
    """What callers think of is no route."""
    if path in ROUTES:
        return path
    if path.startswith(BEFORE_ID) and "/" not in path[len(BEFORE_ID) :]:
        return ONE_ASSIGNMENT
    return ANY_LEGACY if path.startswith(ROOT) else counters.OTHER


def method_of(scope: Scope) -> str:
    method: str = scope["method"]
    return method if method in METHODS else counters.OTHER


def log_request(answer: counters.Answer, seconds: float) -> None:
    """By its route: a path may hold the number of somebody's assignment."""
    route, method, status = answer
    told = {"method": method, "route": route, "status": status, "seconds": round(seconds, 6)}
    ms = seconds * 1000
    requests.info("%s %s %s in %.1f ms", method, route, status, ms, extra={LOG_FIELDS: told})


def counted_socket(receive: Receive, send: Send) -> tuple[Receive, Send]:
    """Counts from its opening to its closing. A client may send any code: those that nobody knows are one."""
    is_open = False

    def close(by: str, code: object) -> None:
        nonlocal is_open
        if is_open:
            is_open = False
            counters.sockets["ended"] += 1
            counters.closes[by, str(code) if code in KNOWN_CODES else counters.OTHER] += 1

    async def counted_receive() -> Message:
        message = await receive()
        if message["type"] == "websocket.disconnect":
            close("client", message.get("code"))
        return message

    async def counted_send(message: Message) -> None:
        nonlocal is_open
        if message["type"] == "websocket.accept":
            is_open = True
            counters.sockets["begun"] += 1
        elif message["type"] == "websocket.close":
            close("server", message.get("code", 1000))
        await send(message)

    return counted_receive, counted_send
