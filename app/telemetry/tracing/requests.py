"""The span of an HTTP request: https://opentelemetry.io/docs/specs/semconv/http/http-spans/

Left out, because a client chooses them or they are personal: the query string, the path below its route, the
Host and User-Agent headers, an unknown method, and addresses of clients.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from http import HTTPMethod
from typing import TYPE_CHECKING

from opentelemetry.context import Context, attach, detach
from opentelemetry.propagate import extract
from opentelemetry.trace import SpanKind
from starlette.types import Scope

from app.telemetry.logs import REQUEST_ID
from app.telemetry.tracing.spans import Attributes, set_error, span_options

if TYPE_CHECKING:
    from app.telemetry.tracing.provider import Tracing

KNOWN_METHODS = {*HTTPMethod, "QUERY"}
OTHER_METHOD = "_OTHER"


@contextmanager
def request_span(tracing: "Tracing", scope: Scope, route: str) -> Iterator[None]:
    """Joins the trace that the headers name, if any. A websocket has no span of its own, because it lasts for
    many operations."""
    caller = caller_of(scope)
    if scope["type"] == "websocket":
        token = attach(caller)
        try:
            yield
        finally:
            detach(token)
        return
    attributes = request_attributes(scope, route)
    method = attributes["http.request.method"]
    name = f"{'HTTP' if method == OTHER_METHOD else method} {route}"
    with tracing.tracer.start_as_current_span(
        name, caller, **span_options(SpanKind.SERVER, attributes)
    ) as span:
        try:
            yield
        finally:
            status = scope["state"].get("status", 500) or 200  # 0: a stream
            span.set_attribute("http.response.status_code", status)
            span.set_attribute("care.request_id", REQUEST_ID.get())
            if status >= 500:
                set_error(span, str(status))


def caller_of(scope: Scope) -> Context:
    headers = {name.decode("latin-1"): value.decode("latin-1") for name, value in scope["headers"]}
    return extract(headers, Context())


def request_attributes(scope: Scope, route: str) -> Attributes:
    method = scope["method"]
    attributes: Attributes = {
        "http.request.method": method if method in KNOWN_METHODS else OTHER_METHOD,
        "http.route": route,
        "network.protocol.version": scope["http_version"],
        "url.path": route,
        "url.scheme": scope["scheme"],
    }
    if scope.get("server"):
        address, port = scope["server"]
        attributes["server.address"] = address
        if port is not None:  # None for a Unix socket
            attributes["server.port"] = port
    return attributes
