"""Log formats: text on a terminal, otherwise one JSON object per line; both contain the request id."""

import logging
import sys
from contextvars import ContextVar
from datetime import UTC, datetime
from typing import Any

import orjson

from app.settings import LogFormat, Settings

REQUEST_ID: ContextVar[str] = ContextVar("request_id", default="")
LOG_FIELDS = "fields"  # attribute of a log record: additional members of the JSON object
MAX_MESSAGE, MAX_TRACEBACK = 2000, 12_000  # characters; some log collectors split longer lines
COLOURS = {logging.WARNING: "33", logging.ERROR: "31", logging.CRITICAL: "31"}


class TextFormatter(logging.Formatter):
    def __init__(self, has_colours: bool) -> None:
        super().__init__()
        self.has_colours = has_colours

    def formatMessage(self, record: logging.LogRecord) -> str:
        label, id = f"{record.levelname}:".ljust(10), REQUEST_ID.get()
        if self.has_colours and record.levelno in COLOURS:
            label = f"\033[{COLOURS[record.levelno]}m{label}\033[0m"
        suffix = f" (request {id})" if id and id not in record.message else ""
        return f"{label}{record.message}{suffix}"


class JsonFormatter(logging.Formatter):
    """A traceback is a member of the object. A long one loses its beginning, as its end names the error."""

    def format(self, record: logging.LogRecord) -> str:
        line: dict[str, Any] = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": without_end(record.getMessage(), MAX_MESSAGE),
        }
        if id := REQUEST_ID.get():
            line["requestId"] = id
        line |= getattr(record, LOG_FIELDS, {})
        if record.exc_info and not record.exc_text:
            record.exc_text = self.formatException(record.exc_info)
        if record.exc_text:
            line["fault"] = without_beginning(record.exc_text, MAX_TRACEBACK)
        try:
            return orjson.dumps(line).decode()
        except orjson.JSONEncodeError:  # unpaired surrogates, which UTF-8 cannot encode
            line = {name: str(value).encode(errors="replace").decode() for name, value in line.items()}
            return orjson.dumps(line).decode()


def without_end(text: str, limit: int) -> str:
    return text if len(text) <= limit else f"{text[:limit]} ..."


def without_beginning(text: str, limit: int) -> str:
    return text if len(text) <= limit else f"... {text[-limit:]}"


def config_of(settings: Settings) -> dict[str, Any]:
    """The dictConfig of this process and its workers. Libraries log only warnings and errors."""
    is_json = settings.log_format is LogFormat.JSON
    if settings.log_format is LogFormat.AUTO:
        is_json = not sys.stderr.isatty()
    text = {"()": "app.telemetry.logs.TextFormatter", "has_colours": sys.stderr.isatty()}
    level = settings.log_level.upper()
    return {
        "version": 1,
        "disable_existing_loggers": False,
        "formatters": {"default": {"()": "app.telemetry.logs.JsonFormatter"} if is_json else text},
        "handlers": {
            "default": {
                "class": "logging.StreamHandler",
                "formatter": "default",
                "stream": "ext://sys.stderr",
            }
        },
        "root": {"handlers": ["default"], "level": "WARNING"},
        "loggers": {"care": {"level": level}, "uvicorn": {"level": level}},
    }
