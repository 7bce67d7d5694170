"""Keeps what people say, and what lets them in, out of the logs."""

import logging
import traceback
from collections.abc import Iterator
from typing import Any

SERVER = logging.getLogger("uvicorn.error")
SOCKETS = logging.getLogger("strawberry.ws")


def keep_quiet(is_production: bool) -> None:
    """For the whole process. Only development shows what the text of a fault says."""
    SERVER.addFilter(is_harmless)
    SOCKETS.addFilter(is_of_a_setting_there_is)
    if is_production:
        logging.setLogRecordFactory(record_without_words)


def is_harmless(record: logging.LogRecord) -> bool:
    """The server tells of every websocket with its address, which may hold a token that somebody put there;
    when it is debugged, every message that goes over one; and when a message is no text, a traceback, which
    anybody can have it write."""
    said = str(record.msg)
    return record.levelno > logging.DEBUG and '"WebSocket ' not in said and "Invalid UTF-8" not in said


def is_of_a_setting_there_is(record: logging.LogRecord) -> bool:
    """Strawberry tells of every page that it refuses, with what that page says it is and the name of a
    setting of its own. The service tells of it itself."""
    return "`allowed_origins`" not in str(record.msg)


def record_without_words(*given: Any, **named: Any) -> logging.LogRecord:
    """Databases and libraries quote in their faults what they were given: rows, values, texts."""
    record = logging.LogRecord(*given, **named)
    if record.exc_info and record.exc_info[1] is not None:
        record.exc_text = frames_of(record.exc_info[1])  # formatters take it as it is
        if record.name == "asyncio":  # which quotes the fault in its message too
            record.msg = str(record.msg).partition("\n")[0]
    return record


def frames_of(fault: BaseException) -> str:
    """Where it happened and of which kind it is, as in a traceback, and nothing of what it says."""
    told = []
    for one in reversed(list(chain_of(fault))):
        frames = "".join(traceback.format_tb(one.__traceback__))
        told.append(f"Traceback (most recent call last):\n{frames}{kind_of(one)}")
    return "\n\n".join(told)


def chain_of(fault: BaseException) -> Iterator[BaseException]:
    """The fault, what it came from, and what is gathered in it."""
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


def kind_of(fault: BaseException) -> str:
    """Its class, and the code of the database where it has one."""
    code = getattr(fault, "sqlstate", None) or getattr(fault, "sqlite_errorname", None)
    name = f"{type(fault).__module__}.{type(fault).__qualname__}".removeprefix("builtins.")
    return f"{name} ({code})" if isinstance(code, str) else name
