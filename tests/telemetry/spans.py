"""The spans of a traced service, as plain values."""

from typing import Any
from urllib.parse import urlsplit

from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from app.settings import Settings
from app.telemetry.tracing.requests import Tracing

TRACE, CALLER = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"
TRACEPARENT = f"00-{TRACE}-{CALLER}-01"


class Exporter(InMemorySpanExporter):
    def shutdown(self) -> None:
        """The next application uses the same exporter."""


EXPORTER = Exporter()
TRACING = Tracing(lambda: SimpleSpanProcessor(EXPORTER))


def finished() -> list[dict[str, Any]]:
    """The spans in the order of their ends, each with the name or else the id of its parent."""
    found = EXPORTER.get_finished_spans()
    names = {span.context.span_id: span.name for span in found if span.context}
    return [
        {
            "name": span.name,
            "kind": span.kind.name,
            "parent": span.parent and names.get(span.parent.span_id, f"{span.parent.span_id:016x}"),
            "status": (span.status.status_code.name, span.status.description),
            "attributes": dict(span.attributes or {}),
            "events": list(span.events),
        }
        for span in found
    ]


def a_span(
    name: str, kind: str, parent: str | None, attributes: dict[str, Any], status: str = "UNSET"
) -> dict[str, Any]:
    return {
        "name": name,
        "kind": kind,
        "parent": parent,
        "status": (status, None),
        "attributes": attributes,
        "events": [],
    }


def a_request(method: str, route: str, status: int, request_id: str = "of-mara-7") -> dict[str, Any]:
    return {
        "http.request.method": method,
        "http.route": route,
        "network.protocol.version": "1.1",
        "url.path": route,
        "url.scheme": "http",
        "server.address": "testserver",
        "server.port": 80,
        "http.response.status_code": status,
        "care.request_id": request_id,
    }


def database_of(settings: Settings) -> dict[str, Any]:
    if settings.database.startswith("sqlite:"):
        return {"db.system.name": "sqlite", "db.namespace": "care.db"}
    parts = urlsplit(settings.database)
    return {
        "db.system.name": "postgresql",
        "db.namespace": parts.path[1:],
        "server.address": parts.hostname,
        "server.port": parts.port,
    }


def without_texts(spans: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Without the texts of statements, which are long."""
    for span in spans:
        span["attributes"].pop("db.query.text", None)
    return spans
