"""The outermost ASGI application: routes each request to its contract, counts it and logs it."""

import logging
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from functools import partial
from time import perf_counter
from typing import Any

import orjson
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from app.http.cors import AllowedOrigins, is_preflight, send_preflight
from app.http.errors import Failure, legacy_reply, request_error
from app.http.health import HEALTH
from app.http.messages import Reply, header, request_id_of, send_reply, with_default_headers
from app.http.paths import ASSIGNMENTS, BELOW_ROOT, ONE_ASSIGNMENT, ROOT, SESSIONS
from app.telemetry import counters
from app.telemetry.logs import LOG_FIELDS

METHODS = {"GET", "HEAD", "POST", "PUT", "OPTIONS"}
ANY_LEGACY = f"{ROOT}/*"
ASSIGNMENT_PREFIX = f"{ASSIGNMENTS}/"
ROUTES = {"/graphql", SESSIONS, ASSIGNMENTS, *HEALTH}
CLOSE_CODES = {*range(1000, 1016), 4400, 4401, 4403, 4406, 4408, 4409, 4429}  # RFC 6455, graphql-transport-ws
NOT_ALLOWED = "pages of this origin may not call the service: it is not in CARE_CORS_ORIGINS"

logger = logging.getLogger("care.requests")


@dataclass(eq=False)
class Router:
    """Compares the path itself, because Starlette's router would try its routes one by one."""

    pages: ASGIApp  # every other path, and the lifespan
    graphql: ASGIApp
    legacy: ASGIApp
    origins: AllowedOrigins
    logs_requests: bool
    trace: Callable[[Scope, str], AbstractContextManager[None]] | None  # of a request with its route
    vitals: Any  # of the process, which decide its exit code

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.run_other(scope, receive, send)
            return
        started = scope["state"].get("received") or perf_counter()
        path = scope["path"]
        try:
            if path == "/graphql":
                contract, methods = self.graphql, b"GET, POST"
            elif BELOW_ROOT.match(path):
                contract, methods = self.legacy, b"GET, HEAD, PUT"
            else:
                await self.pages(scope, receive, with_default_headers(scope, send))
                return
            if self.origins.is_enabled:
                self.origins.set_headers(scope)
            if is_preflight(scope):
                contract = partial(self.preflight, methods=methods)
            if self.trace is None:
                await contract(scope, receive, send)
            else:
                with self.trace(scope, route_of(path)):
                    await contract(scope, receive, send)
        except Exception as fault:
            if "status" not in scope["state"]:  # nothing was sent
                response = await respond_500(Request(scope), fault)
                await response(scope, receive, with_default_headers(scope, send))
            raise
        finally:
            if status := scope["state"].get("status", 500):  # 0: a stream, which has its own metrics
                labels = (route_of(path), method_of(scope), status)
                seconds = perf_counter() - started
                counters.requests[labels].add(seconds)
                if self.logs_requests and path not in HEALTH:
                    log_request(labels, seconds)

    async def preflight(self, scope: Scope, receive: Receive, send: Send, methods: bytes) -> None:
        """Responds to a CORS preflight request."""
        if self.origins.allows(header(scope, b"origin") or "", "a preflight"):
            await send_preflight(scope, send, methods)
            return
        request_id = request_id_of(scope)
        if scope["path"] == "/graphql":
            body = request_error(NOT_ALLOWED, Failure.FORBIDDEN, request_id)
            reply = Reply(orjson.dumps(body), Failure.FORBIDDEN.json)
        else:
            reply = legacy_reply(scope, Failure.FORBIDDEN.legacy, NOT_ALLOWED)
        await send_reply(scope, send, reply, request_id)

    async def run_other(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Runs websockets, and the lifespan events of ASGI."""
        if scope["type"] == "websocket" and scope["path"] == "/graphql":
            with nullcontext() if self.trace is None else self.trace(scope, "/graphql"):
                await self.graphql(scope, *count_socket(receive, send))
        else:
            await self.pages(scope, receive, with_default_headers(scope, send))


async def respond_500(request: Request, fault: Exception) -> Response:
    """Handles an unexpected error. The server logs it."""
    return PlainTextResponse("Internal error", 500)


def route_of(path: str) -> str:
    """The route for metrics and the log, from a fixed set: the path itself can contain an id."""
    if path in ROUTES:
        return path
    if path.startswith(ASSIGNMENT_PREFIX) and "/" not in path[len(ASSIGNMENT_PREFIX) :]:
        return ONE_ASSIGNMENT
    return ANY_LEGACY if BELOW_ROOT.match(path) else counters.OTHER


def method_of(scope: Scope) -> str:
    method: str = scope["method"]
    return method if method in METHODS else counters.OTHER


def log_request(labels: counters.RequestLabels, seconds: float) -> None:
    route, method, status = labels
    fields = {"method": method, "route": route, "status": status, "seconds": round(seconds, 6)}
    message = "%s %s %s in %.1f ms"
    logger.info(message, method, route, status, seconds * 1000, extra={LOG_FIELDS: fields})


def count_socket(receive: Receive, send: Send) -> tuple[Receive, Send]:
    """Counts open websockets and close codes; unknown codes are counted together."""
    is_open = False

    def count_close(side: str, code: object) -> None:
        nonlocal is_open
        if is_open:
            is_open = False
            counters.sockets["closed"] += 1
            counters.closes[side, str(code) if code in CLOSE_CODES else counters.OTHER] += 1

    async def counted_receive() -> Message:
        message = await receive()
        if message["type"] == "websocket.disconnect":
            side = "server" if message.get("is_by_server") else "client"  # set by `serve` only
            count_close(side, message.get("code"))
        return message

    async def counted_send(message: Message) -> None:
        nonlocal is_open
        if message["type"] == "websocket.accept":
            is_open = True
            counters.sockets["opened"] += 1
        elif message["type"] == "websocket.close":
            count_close("server", message.get("code", 1000))
        try:
            await send(message)
        except OSError:  # the client has disconnected, and the handler does not receive that message
            count_close("client", 1006)
            raise

    return counted_receive, counted_send
