"""How the log is written: text on a terminal, elsewhere a JSON object a line; with the id of the request."""

import logging
import sys
from contextvars import ContextVar
from datetime import UTC, datetime
from typing import Any

import orjson

from app.settings import LogFormat, Settings

REQUEST_ID: ContextVar[str] = ContextVar("request_id", default="")
LOG_FIELDS = "fields"  # attribute of a log record: members that the JSON log adds to the line
LONGEST_MESSAGE, LONGEST_FAULT = 2000, 12_000  # characters: longer lines are cut in two on their way by some
COLOURS = {logging.WARNING: "33", logging.ERROR: "31", logging.CRITICAL: "31"}


class TextFormatter(logging.Formatter):
    """For a person who looks on."""

    def __init__(self, has_colours: bool) -> None:
        super().__init__("%(label)s%(message)s%(of_request)s")
        self.has_colours = has_colours

    def formatMessage(self, record: logging.LogRecord) -> str:
        label, id = f"{record.levelname}:".ljust(10), REQUEST_ID.get()
        if self.has_colours and record.levelno in COLOURS:
            label = f"\033[{COLOURS[record.levelno]}m{label}\033[0m"
        of_request = f" (request {id})" if id and id not in record.message else ""
        return f"{label}{record.message}{of_request}"


class JsonFormatter(logging.Formatter):
    """For whoever gathers lines. A traceback is a part of the one object; of a long one the end is kept."""

    def format(self, record: logging.LogRecord) -> str:
        said: dict[str, Any] = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": shortened(record.getMessage(), LONGEST_MESSAGE),
        }
        if id := REQUEST_ID.get():
            said["requestId"] = id
        said |= getattr(record, LOG_FIELDS, {})
        if record.exc_info and not record.exc_text:
            record.exc_text = self.formatException(record.exc_info)
        if record.exc_text:
            said["fault"] = shortened(record.exc_text, LONGEST_FAULT, end=True)
        try:
            return orjson.dumps(said).decode()
        except orjson.JSONEncodeError:  # halves of characters, which no file takes either
            said = {name: str(value).encode(errors="replace").decode() for name, value in said.items()}
            return orjson.dumps(said).decode()


def shortened(text: str, most: int, end: bool = False) -> str:
    if len(text) <= most:
        return text
    return f"... {text[-most:]}" if end else f"{text[:most]} ..."


def config_of(settings: Settings) -> dict[str, Any]:
    """For logging.config, in this process and in those that it starts. Libraries tell only what is wrong."""
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
