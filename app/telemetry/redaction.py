"""Keeps personal data and tokens out of the logs."""

import logging
import traceback
from collections.abc import Iterator
from typing import Any

SERVER_LOGGER = logging.getLogger("uvicorn.error")
DROPPED = ('"WebSocket ', "Invalid UTF-8", "Invalid HTTP")
STRAWBERRY_LOGGER = logging.getLogger("strawberry.ws")


def redact_logs(is_production: bool) -> None:
    """Applies to the whole process. In production, exception messages are removed as well."""
    SERVER_LOGGER.addFilter(is_loggable)
    STRAWBERRY_LOGGER.addFilter(is_not_about_origins)
    if is_production:
        logging.setLogRecordFactory(record_without_message)


def is_loggable(record: logging.LogRecord) -> bool:
    """Drops lines of uvicorn: a websocket's URL may contain a token, debug lines contain messages, and any
    client can cause a line or a traceback by sending invalid HTTP or UTF-8, which metrics count."""
    text = str(record.msg)
    return record.levelno > logging.DEBUG and not any(part in text for part in DROPPED)


def is_not_about_origins(record: logging.LogRecord) -> bool:
    """Drops Strawberry's lines about rejected origins: the service logs them itself."""
    return "`allowed_origins`" not in str(record.msg)


def record_without_message(*args: Any, **kwargs: Any) -> logging.LogRecord:
    """Removes the message of an exception: databases and libraries may quote rows or values in it."""
    record = logging.LogRecord(*args, **kwargs)
    if record.exc_info and record.exc_info[1] is not None:
        record.exc_text = frames_of(record.exc_info[1])  # formatters print it unchanged
        if record.name == "asyncio":  # repeats the exception message after the first line
            record.msg = str(record.msg).partition("\n")[0]
    return record


def frames_of(fault: BaseException) -> str:
    """The traceback with the exception type but without the message."""
    parts = []
    for one in reversed(list(chain_of(fault))):
        frames = "".join(traceback.format_tb(one.__traceback__))
        parts.append(f"Traceback (most recent call last):\n{frames}{class_of(one)}")
    return "\n\n".join(parts)


def chain_of(fault: BaseException) -> Iterator[BaseException]:
    """The exception, its causes, and the members of exception groups."""
    seen: set[int] = set()
    waiting: list[BaseException | None] = [fault]
    while waiting:
        one = waiting.pop(0)
        if one is None or id(one) in seen:
            continue
        seen.add(id(one))
        yield one
        waiting.append(one.__cause__ or (None if one.__suppress_context__ else one.__context__))
        if isinstance(one, BaseExceptionGroup):
            waiting.extend(one.exceptions)


def class_of(fault: BaseException) -> str:
    """The exception class, with the database error code if there is one."""
    name = f"{type(fault).__module__}.{type(fault).__qualname__}".removeprefix("builtins.")
    return f"{name} ({code})" if (code := database_code(fault)) else name


def database_code(fault: BaseException | None) -> str | None:
    code = getattr(fault, "sqlstate", None) or getattr(fault, "sqlite_errorname", None)
    return code if isinstance(code, str) else None
