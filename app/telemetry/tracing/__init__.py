"""OpenTelemetry traces, by the semantic conventions for HTTP, GraphQL and databases.

Spans contain no values, no person's id and no name that a client chooses: paths are routes, and statements
have placeholders. If tracing is off, nothing is imported or wrapped.
"""

import os
from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING

from app.settings import SettingsError

if TYPE_CHECKING:
    from opentelemetry.sdk.trace import SpanProcessor

    from app.telemetry.tracing.requests import Tracing

ENDPOINTS = ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT")
PROTOCOLS = ("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "OTEL_EXPORTER_OTLP_PROTOCOL")
HTTP = "http/protobuf"
NOT_INSTALLED = (
    "OTEL_* enables traces, which need the extra `telemetry`: install it, or set OTEL_SDK_DISABLED=true"
)


def open_tracing(environment: Mapping[str, str] = os.environ) -> "Tracing | None":
    """None if no variable enables traces; raises SettingsError if they are enabled but not possible."""
    exporter = environment.get("OTEL_TRACES_EXPORTER", "")
    is_off = environment.get("OTEL_SDK_DISABLED", "").lower() == "true" or exporter == "none"
    if is_off or not (exporter or any(environment.get(name) for name in ENDPOINTS)):
        return None
    if exporter not in ("", "otlp", "console"):
        raise SettingsError("OTEL_TRACES_EXPORTER must be otlp, console or none")
    protocol = next((environment[name] for name in PROTOCOLS if environment.get(name)), HTTP)
    if protocol != HTTP and exporter != "console":
        raise SettingsError(f"{' and '.join(PROTOCOLS)} must be {HTTP}")
    try:
        import opentelemetry.exporter.otlp.proto.http  # noqa: F401

        from app.telemetry.tracing.requests import Tracing
    except ImportError:
        raise SettingsError(NOT_INSTALLED) from None
    return Tracing(partial(span_processor, exporter))


def span_processor(exporter: str) -> "SpanProcessor":
    from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
    from opentelemetry.sdk.trace.export import BatchSpanProcessor, ConsoleSpanExporter

    return BatchSpanProcessor(ConsoleSpanExporter() if exporter == "console" else OTLPSpanExporter())
