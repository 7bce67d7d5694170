"""Log formats: text on a terminal, otherwise one JSON object per line; both contain the request id."""

import logging
import sys
import time
from contextvars import ContextVar
from datetime import UTC, datetime
from typing import Any

import orjson

from app.settings import LogFormat, Settings

REQUEST_ID: ContextVar[str] = ContextVar("request_id", default="")
LOG_FIELDS = "fields"  # attribute of a log record: additional members of the JSON object
OMITTED = "omitted"  # attribute of a log record: the number of such records that were not logged
MAX_MESSAGE, MAX_TRACEBACK = 2000, 12_000  # characters; some log collectors split longer lines
MAX_LINES = 10  # per minute and place in the code
MINUTE = 60
# Loggers with limits of their own; `care.requests` logs every response if that is enabled.
WITHOUT_LIMIT = frozenset(("care.auth", "care.cors", "care.documents", "care.requests"))
COLOURS = {logging.WARNING: "33", logging.ERROR: "31", logging.CRITICAL: "31"}


class LineLimit(logging.Filter):
    """Passes MAX_LINES records of each place in the code per minute, and counts the others, so that callers
    who cause errors cannot fill the log. The next record of the place has their number."""

    def __init__(self) -> None:
        super().__init__()
        self.ticks = time.monotonic
        self.counts: dict[tuple[str, int], tuple[float, int]] = {}  # the minute and the number of its records

    def filter(self, record: logging.LogRecord) -> bool:
        if record.name in WITHOUT_LIMIT:
            return True
        place, minute = (record.pathname, record.lineno), self.ticks() // MINUTE
        last, number = self.counts.get(place, (minute, 0))
        if last != minute:
            setattr(record, OMITTED, max(0, number - MAX_LINES))
            number = 0
        self.counts[place] = minute, number + 1
        return number < MAX_LINES


class TextFormatter(logging.Formatter):
    def __init__(self, has_colours: bool) -> None:
        super().__init__()
        self.has_colours = has_colours

    def formatMessage(self, record: logging.LogRecord) -> str:
        label, id = f"{record.levelname}:".ljust(10), REQUEST_ID.get()
        if self.has_colours and record.levelno in COLOURS:
            label = f"\033[{COLOURS[record.levelno]}m{label}\033[0m"
        suffix = f" (request {id})" if id and id not in record.message else ""
        if omitted := getattr(record, OMITTED, 0):
            suffix += f" ({omitted} such lines were omitted)"
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
        if omitted := getattr(record, OMITTED, 0):
            line[OMITTED] = omitted
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
        "filters": {"limit": {"()": "app.telemetry.logs.LineLimit"}},
        "handlers": {
            "default": {
                "filters": ["limit"],
                "class": "logging.StreamHandler",
                "formatter": "default",
                "stream": "ext://sys.stderr",
            }
        },
        "root": {"handlers": ["default"], "level": "WARNING"},
        "loggers": {"care": {"level": level}, "uvicorn": {"level": level}},
    }
