"""What all spans have in common."""

from typing import Any

from opentelemetry.trace import Span, SpanKind, StatusCode

Attributes = dict[str, str | int]


def span_options(kind: SpanKind, attributes: Attributes) -> dict[str, Any]:
    """Without exception messages, which may quote a row."""
    return {
        "kind": kind,
        "attributes": attributes,
        "record_exception": False,
        "set_status_on_exception": False,
    }


def set_error(span: Span, error_type: str) -> None:
    span.set_status(StatusCode.ERROR)
    span.set_attribute("error.type", error_type)
