"""A minimal HTTP server for /metrics on its own port, so that a public proxy does not expose it.

prometheus_client's server needs a thread per request and cannot collect from this event loop.
"""

import asyncio
import logging
import re
from asyncio import StreamReader, StreamWriter
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, closing, suppress
from functools import partial

from app.settings import SettingsError

PATH = "/metrics"
CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
TIMEOUT_SECONDS = 5  # to receive a request and send its response
MAX_HEAD_BYTES = 8192
REQUEST = re.compile(rb"([A-Z]{1,16}) (/[^ ?]*)(?:\?[^ ]*)? HTTP/1\.[01]\r\n")

logger = logging.getLogger("care.metrics")

Render = Callable[[str], Awaitable[bytes | None]]  # the body for a path; None for an unknown path


@asynccontextmanager
async def serve_tcp(host: str, port: int, render: Render) -> AsyncIterator[None]:
    try:
        server = await asyncio.start_server(partial(handle, render), host, port, limit=MAX_HEAD_BYTES)
    except OSError as error:
        reason = error.strerror or "no such address"
        raise SettingsError(f"cannot listen for metrics on {host}, port {port}: {reason}") from None
    with closing(server):
        yield


@asynccontextmanager
async def serve_unix_socket(path: str, render: Render) -> AsyncIterator[None]:
    with closing(await asyncio.start_unix_server(partial(handle, render), path, limit=MAX_HEAD_BYTES)):
        yield


async def handle(render: Render, reader: StreamReader, writer: StreamWriter) -> None:
    with closing(writer), suppress(OSError, EOFError, TimeoutError, asyncio.LimitOverrunError):
        async with asyncio.timeout(TIMEOUT_SECONDS):
            head = await reader.readuntil(b"\r\n\r\n")
            writer.write(await response_to(head, render))
            await writer.drain()


async def response_to(head: bytes, render: Render) -> bytes:
    request = REQUEST.match(head)
    if request is None:
        return response("400 Bad Request")
    if request[1] not in (b"GET", b"HEAD"):
        return response("405 Method Not Allowed")
    try:
        body = await render(request[2].decode("latin-1"))
    except Exception:
        logger.exception("metrics cannot be collected")
        return response("500 Internal Server Error")
    if body is None:
        return response("404 Not Found")
    return response("200 OK", body, has_body=request[1] == b"GET")


def response(status: str, body: bytes = b"", has_body: bool = True) -> bytes:
    lines = [
        f"HTTP/1.1 {status}",
        f"content-type: {CONTENT_TYPE}",
        f"content-length: {len(body)}",
        "cache-control: no-store",
        "x-content-type-options: nosniff",
        "connection: close",
    ]
    return "\r\n".join([*lines, "", ""]).encode() + (body if has_body else b"")
