"""Development only: `Server-Timing` of each response, and the last requests, which `/requests` lists.

`create_app` wraps the two contracts, the database, the schema and the audit log of a service in development.
Production has none of these wrappers.
"""

import re
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from copy import copy
from dataclasses import dataclass, field
from datetime import datetime
from functools import wraps
from html import escape
from inspect import iscoroutinefunction
from pathlib import Path
from time import perf_counter
from typing import Any

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from app.care.context import Context
from app.dev.assets import fill
from app.dev.graphiql import graphiql_link
from app.schema.schema import Schema
from app.schema.transport.endpoint import is_page_request
from app.telemetry.logs import REQUEST_ID

MAX_DOCUMENT = 20_000  # characters; of a longer document only the beginning is shown
SHOWN = 80  # characters of a document
PARTS = ("parse", "plan", "database", "audit")  # in the order of the header
MILLISECONDS = 1000


@dataclass(eq=False)
class RecentRequest:
    """Without headers, and so without tokens."""

    at: datetime
    method: str
    target: str
    started: float = field(default_factory=perf_counter)
    request_id: str = ""
    status: int = 0  # 0: no response yet
    seconds: float = 0.0
    cost: int | None = None
    query: str = ""
    variables: dict[str, Any] | None = None
    role: str = ""
    parts: dict[str, float] = field(default_factory=dict)  # seconds

    def server_timing(self) -> bytes:
        """https://www.w3.org/TR/server-timing/"""
        parts = {name: self.parts[name] for name in PARTS if name in self.parts} | {"total": self.seconds}
        return ", ".join(f"{name};dur={spent * MILLISECONDS:.2f}" for name, spent in parts.items()).encode()


# Of the request that this task works for. None inside of a measured part, so that no time counts twice.
CURRENT: ContextVar[RecentRequest | None] = ContextVar("CURRENT", default=None)


@contextmanager
def measured(part: str) -> Iterator[None]:
    request = CURRENT.get()
    if request is None:
        yield
        return
    token, started = CURRENT.set(None), perf_counter()
    try:
        yield
    finally:
        request.parts[part] = request.parts.get(part, 0.0) + perf_counter() - started
        CURRENT.reset(token)


def measure(target: object, part: str, *methods: str) -> None:
    """Replaces methods of one object."""
    for name in methods:
        setattr(target, name, measured_call(getattr(target, name), part))


def measured_call(call: Callable[..., Any], part: str) -> Callable[..., Any]:
    if not iscoroutinefunction(call):
        return measured(part)(call)

    @wraps(call)
    async def measured_coroutine(*args: Any, **options: Any) -> Any:
        with measured(part):
            return await call(*args, **options)

    return measured_coroutine


def measured_schema(schema: Schema) -> Schema:
    """A copy, because applications share a schema. It notes what the current request costs and runs."""
    own = copy(schema)
    measure(own, "parse", "admit", "errors_in")
    measure(own, "plan", "prepare_operation", "compile")
    charge, resolve = own.charge, own.resolve

    def note(context: Context, cost: int) -> RecentRequest | None:
        if request := CURRENT.get():
            request.cost = cost
            request.role = context.viewer.role.lower() if context.viewer else ""
        return request

    def noted_charge(cost: int, variables: dict[str, Any] | None, is_own: bool, context: Any) -> None:
        note(context, cost)
        charge(cost, variables, is_own, context)

    async def noted_resolve(pinned: str, variables: dict[str, Any], context: Any) -> Any:
        costs = own.operations.pinned[pinned, None].costs
        if request := note(context, costs.points(variables) if costs else 0):
            request.query, request.variables = pinned, variables
        return await resolve(pinned, variables, context)

    own.charge, own.resolve = noted_charge, noted_resolve  # type: ignore[method-assign]
    return own


class RecentRequests:
    """The last requests of this process to both contracts."""

    def __init__(self, clock: Callable[[], datetime], most: int) -> None:
        self.clock = clock
        self.requests: deque[RecentRequest] = deque(maxlen=most)

    def recorded(self, contract: ASGIApp) -> ASGIApp:
        @wraps(contract, updated=())
        async def recorded_contract(scope: Scope, receive: Receive, send: Send) -> None:
            if scope["type"] != "http" or is_page_request(scope):
                await contract(scope, receive, send)
                return
            request = RecentRequest(self.clock(), scope["method"], target_of(scope))
            self.requests.append(request)

            async def timed_send(message: Message) -> None:
                if message["type"] == "http.response.start":
                    finish(request, scope, message["status"])
                    # Later requests may have displaced it.
                    if is_introspection(scope) and request in self.requests:
                        self.requests.remove(request)
                    timing = (b"server-timing", request.server_timing())
                    message = {**message, "headers": [*message["headers"], timing]}
                await send(message)

            token = CURRENT.set(request)
            try:
                await contract(scope, receive, timed_send)
            finally:
                CURRENT.reset(token)

        return recorded_contract

    def page(self) -> str:
        rows = "".join(map(row, reversed(self.requests))) or NONE
        return fill(PAGE, {"rows": rows, "kept": str(self.requests.maxlen)})


def target_of(scope: Scope) -> str:
    """The query string of GraphQL contains a document."""
    query = "" if scope["path"] == "/graphql" else scope["query_string"].decode("latin-1")
    return f"{scope['path']}?{query}" if query else str(scope["path"])


def is_introspection(scope: Scope) -> bool:
    """Whether this is the request with which GraphiQL and other tools read the schema."""
    sent = scope["state"].get("request")
    return sent is not None and sent.operation_name == "IntrospectionQuery"


def finish(request: RecentRequest, scope: Scope, status: int) -> None:
    """Called when the response begins; that of a subscription may last for hours."""
    request.status, request.seconds = status, perf_counter() - request.started
    request.request_id = REQUEST_ID.get()
    if sent := scope["state"].get("request"):
        request.query, request.variables = sent.query, sent.variables
    if len(request.query) + len(str(request.variables)) > MAX_DOCUMENT:
        request.query, request.variables = request.query[:SHOWN], None
        request.role = ""


# --- the page -------------------------------------------------------------------------------------

PAGE = (Path(__file__).parent / "requests.html").read_text(encoding="utf-8")
NONE = '<tr><td colspan="7">No request yet.</td></tr>'


def row(request: RecentRequest) -> str:
    text = " ".join(re.sub(r"^#.*", "", request.query, flags=re.MULTILINE).split())
    operation = escape(text if len(text) <= SHOWN else f"{text[:SHOWN]}…")
    if request.role:
        link = graphiql_link(request.query, request.variables, request.role)
        operation = f'<a href="{escape(link)}">{operation}</a>'
    cells = [
        f"{request.at:%H:%M:%S}",
        f"<code>{request.method} {escape(request.target)}</code>",
        f"<code>{operation}</code>" if operation else "",
        str(request.status or "…"),
        f"{request.seconds * MILLISECONDS:.1f}" if request.status else "",
        "" if request.cost is None else str(request.cost),
        f"<code>{escape(request.request_id)}</code>",
    ]
    return f"<tr>{''.join(f'<td>{cell}</td>' for cell in cells)}</tr>\n"
