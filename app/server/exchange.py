"""One request, which has come in whole, and its answer: what the application is handed, and what it sends.

uvicorn's own serves bodies that are still coming in, and looks at each header by itself: seven microseconds
more of the hundred and fifty that a small request takes.
"""

import asyncio
import logging
from collections.abc import Callable
from typing import Any

from starlette.types import ASGIApp, Message, Scope
from uvicorn.protocols.http.flow_control import FlowControl

from app.server.answers import START, Headers

logger = logging.getLogger("uvicorn.error")

CLOSE: Headers = [(b"connection", b"close")]
IN_CHUNKS: Headers = [(b"transfer-encoding", b"chunked")]
WITHOUT_BODY = (204, 304)
# What would end a header, or the connection in some client: everything below a blank but the tabulator.
CONTROLS = bytes([*range(9), *range(10, 32), 127])
FAILED = b"Internal Server Error"
SAID_OF_FAILURE: Headers = [
    (b"content-type", b"text/plain; charset=utf-8"),
    (b"content-length", b"%d" % len(FAILED)),
    *CLOSE,
]


class Exchange:
    __slots__ = (
        "body",
        "done",
        "ending",
        "flow",
        "head",
        "is_begun",
        "is_chunked",
        "is_complete",
        "is_lost",
        "is_read",
        "keep_alive",
        "left",
        "scope",
        "standing",
        "transport",
    )

    def __init__(
        self,
        scope: Scope,
        transport: asyncio.Transport,
        flow: FlowControl,
        standing: Headers,
        keep_alive: bool,
        done: Callable[[], None],
    ) -> None:
        self.scope = scope
        self.transport = transport
        self.flow = flow
        self.standing = standing  # headers of every answer
        self.keep_alive = keep_alive
        self.done = done
        self.body = bytearray()
        self.is_read = False
        self.is_lost = False
        self.ending: asyncio.Event | None = None  # where somebody waits for the end
        self.head = b""  # what was not sent yet, as the body comes at once
        self.is_begun = False
        self.is_chunked = False
        self.left: int | None = 0  # bytes of the body still to be sent; None: it ends with the connection
        self.is_complete = False

    async def run(self, app: ASGIApp, dequeue: Callable[[], None]) -> None:
        dequeue()
        try:
            await app(self.scope, self.receive, self.send)
        except BaseException as fault:
            logger.error("Exception in ASGI application\n", exc_info=fault)
            self.fail()
        else:
            if not (self.is_complete or self.is_lost):
                logger.error("ASGI callable returned without completing response.")
                self.fail()

    # --- what the application hears -------------------------------------------------------------------

    async def receive(self) -> Message:
        if not (self.is_read or self.is_over()):
            self.is_read = True
            body, self.body = bytes(self.body), bytearray()  # an answer may go on for long
            return {"type": "http.request", "body": body, "more_body": False}
        if not self.is_over():
            self.flow.resume_reading()
            self.ending = self.ending or asyncio.Event()
            await self.ending.wait()
        return {"type": "http.disconnect"}

    def is_over(self) -> bool:
        return self.is_lost or self.is_complete

    def lose(self) -> None:
        """Nobody is there any more to be answered."""
        self.is_lost = True
        self.end()

    def end(self) -> None:
        if self.ending is not None:
            self.ending.set()

    # --- what it says ---------------------------------------------------------------------------------

    async def send(self, message: Message) -> None:
        if self.flow.write_paused and not self.is_lost:
            await self.flow.drain()
        if self.is_lost:
            return
        kind = message["type"]
        if kind == "http.response.start" and not self.is_begun:
            self.begin(message["status"], message.get("headers", ()))
        elif kind == "http.response.body" and self.is_begun and not self.is_complete:
            self.go_on(message.get("body", b""), message.get("more_body", False))
        else:
            raise RuntimeError(f"Unexpected ASGI message '{kind}'.")

    def begin(self, status: int, headers: Any) -> None:
        said = dict(headers)
        all_said = [*self.standing, *headers]
        self.left, self.is_chunked = 0, False  # nothing of what was refused before
        if said.get(b"connection") == b"close":
            self.keep_alive = False
        elif not self.keep_alive:
            all_said += CLOSE
        length = said.get(b"content-length")
        if length is not None:
            self.left = int(length)
        elif self.scope["method"] != "HEAD" and status not in WITHOUT_BODY:
            if self.scope["http_version"] == "1.0":  # which knows no chunks
                self.left = None
            else:
                self.is_chunked = True
                all_said += IN_CHUNKS
        lines = b"\r\n".join([b": ".join(header) for header in all_said])
        ends_of_lines = 2 * (len(all_said) - 1)
        if len(lines) - len(lines.translate(None, CONTROLS)) != ends_of_lines:
            raise RuntimeError("a header holds a control character")
        self.head = b"%b%b\r\n\r\n" % (START[status], lines)
        self.is_begun = True
        if self.is_chunked or self.left is None:  # a stream, which may be silent for long
            self.write(b"")

    def go_on(self, body: bytes, has_more: bool) -> None:
        if self.scope["method"] == "HEAD":
            body, self.left = b"", 0
        elif self.is_chunked:
            body = b"%x\r\n%b\r\n" % (len(body), body) if body else b""
            if not has_more:
                body += b"0\r\n\r\n"
        elif self.left is not None:
            self.left -= len(body)
            if self.left < 0 or (self.left and not has_more):
                raise RuntimeError("the body is not as long as its header says")
        self.write(body)
        if not has_more:
            self.complete()

    def write(self, body: bytes) -> None:
        self.transport.write(self.head + body)
        self.head = b""

    def complete(self) -> None:
        self.is_complete = True
        self.body.clear()  # if nobody read it: the connection may be kept for long
        self.end()
        if not self.keep_alive:
            self.transport.close()
        self.done()

    def fail(self) -> None:
        """Where nothing was sent yet, this is the answer. Else it is cut: nobody is to take it for whole."""
        if self.is_over():
            return
        if self.is_begun and not self.head:
            if self.left is None:  # a regular end would look like the end of the body
                self.transport.abort()
            else:
                self.transport.close()
            return
        self.begin(500, SAID_OF_FAILURE)
        self.go_on(FAILED, has_more=False)
