"""Where /metrics is told: on a port of its own, which no proxy leads to unless somebody tells it to."""

import asyncio
import logging
import re
from asyncio import StreamReader, StreamWriter
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress

from app.settings import SettingsError

PATH = "/metrics"
TEXT = "text/plain; version=0.0.4; charset=utf-8"
SECONDS = 5  # for a request to come, and for its answer to go
LONGEST_HEAD = 8192
REQUEST = re.compile(rb"([A-Z]{1,16}) (/[^ ?]*)(?:\?[^ ]*)? HTTP/1\.[01]\r\n")

logger = logging.getLogger("care.metrics")

Tell = Callable[[str], Awaitable[bytes | None]]  # what is told at a path; None for no such path


@asynccontextmanager
async def listening(host: str, port: int, tell: Tell) -> AsyncIterator[None]:
    try:
        server = await asyncio.start_server(answering(tell), host, port, limit=LONGEST_HEAD)
    except OSError as error:
        reason = error.strerror or "no such address"
        raise SettingsError(f"cannot listen for metrics on {host}, port {port}: {reason}") from None
    try:
        yield
    finally:
        server.close()


@asynccontextmanager
async def listening_at(path: str, tell: Tell) -> AsyncIterator[None]:
    """The same in a file, for a process of the same user."""
    server = await asyncio.start_unix_server(answering(tell), path, limit=LONGEST_HEAD)
    try:
        yield
    finally:
        server.close()


def answering(tell: Tell) -> Callable[[StreamReader, StreamWriter], Awaitable[None]]:
    async def answer(reader: StreamReader, writer: StreamWriter) -> None:
        try:
            with suppress(OSError, EOFError, TimeoutError, asyncio.LimitOverrunError):
                async with asyncio.timeout(SECONDS):
                    head = await reader.readuntil(b"\r\n\r\n")
                    writer.write(await reply_to(head, tell))
                    await writer.drain()
        finally:
            writer.close()

    return answer


async def reply_to(head: bytes, tell: Tell) -> bytes:
    request = REQUEST.match(head)
    if request is None:
        return reply("400 Bad Request")
    if request[1] not in (b"GET", b"HEAD"):
        return reply("405 Method Not Allowed")
    try:
        told = await tell(request[2].decode("latin-1"))
    except Exception:
        logger.exception("the metrics cannot be gathered")
        return reply("500 Internal Server Error")
    if told is None:
        return reply("404 Not Found")
    return reply("200 OK", told, has_body=request[1] == b"GET")


def reply(status: str, body: bytes = b"", has_body: bool = True) -> bytes:
    lines = [
        f"HTTP/1.1 {status}",
        f"content-type: {TEXT}",
        f"content-length: {len(body)}",
        "cache-control: no-store",
        "x-content-type-options: nosniff",
        "connection: close",
    ]
    return "\r\n".join([*lines, "", ""]).encode() + (body if has_body else b"")
