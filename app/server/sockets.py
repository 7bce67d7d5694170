"""Websockets behind `serve`: uvicorn's protocol with limits on the work and memory that a client causes."""

import asyncio
import logging
from collections import deque
from time import monotonic
from typing import Any, NamedTuple

from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol
from websockets.exceptions import ProtocolError
from websockets.frames import DATA_OPCODES, CloseCode, Frame, Opcode
from websockets.server import ServerProtocol

from app.care.budgets import Unsent
from app.server.admission import AdmissionControl
from app.server.protocol import LINGER_SECONDS
from app.server.rejections import INVALID_HTTP
from app.server.timeouts import MIN_PROGRESS
from app.server.turns import in_turns
from app.telemetry import counters

MAX_PENDING = 128  # websockets of one process that have not signed in
PENDING_FRAMES = 32  # frames of any kind that such a websocket may send
PENDING_BYTES = 64 * 1024  # bytes of a message before sign-in: a token, as in a header
FRAMES_AT_ONCE, FRAMES_PER_SECOND = 64, 32  # frames that do not complete a message: control frames, fragments
MESSAGES_AT_ONCE, MESSAGES_PER_SECOND = 200, 100  # of up to MESSAGE_BYTES; a longer one counts as several
MESSAGE_BYTES = 4096
READERS_PER_TURN = 8  # websockets that read their next message in one turn of the event loop


class Rate:
    """At most `burst` at once and `per_second` in the long run."""

    def __init__(self, burst: int, per_second: int) -> None:
        self.step, self.slack = 1 / per_second, burst / per_second
        self.due = 0.0

    def take(self, number: int = 1) -> float:
        """Counts `number` more. Returns the seconds by which they exceed the rate."""
        now = monotonic()
        self.due = max(self.due, now - self.slack) + number * self.step
        return max(0.0, self.due - now)


class EdgeConnection(ServerProtocol):
    """The parser of the library websockets. It stops after each message until the application has received
    it, and closes the connection of a client that sends too many other frames."""

    def __init__(self, plain: ServerProtocol, pending: dict[Any, Any]) -> None:
        self.max_size = plain.max_message_size or PENDING_BYTES
        super().__init__(
            extensions=plain.available_extensions,
            max_size=min(self.max_size, PENDING_BYTES),
            logger=logging.getLogger("websockets.server"),  # whose lines about each connection are not logged
        )
        self.pending = pending
        self.last: Frame | None = None
        self.frames_left = PENDING_FRAMES
        self.frames = Rate(FRAMES_AT_ONCE, FRAMES_PER_SECOND)
        self.unparsed = bytearray()  # received after a message that waits for the application

    def sign_in(self) -> None:
        self.pending.pop(self, None)
        self.max_message_size = self.max_size

    def receive_data(self, data: bytes | bytearray) -> None:
        if self.unparsed:
            self.reader.buffer, self.unparsed = self.unparsed, bytearray()
        super().receive_data(data)

    def recv_frame(self, frame: Frame) -> None:
        is_message = frame.fin and frame.opcode in DATA_OPCODES and self.close_sent is None
        if self.exceeds_limit(frame, is_message):
            counters.limits["frames of a websocket"] += 1
            self.fail(CloseCode.POLICY_VIOLATION, "too many frames")
            self.parser_exc = ProtocolError("too many frames")
            return
        super().recv_frame(frame)
        self.last = frame
        if is_message:
            self.unparsed, self.reader.buffer = self.reader.buffer, bytearray()

    def exceeds_limit(self, frame: Frame, is_message: bool) -> bool:
        if frame.opcode is Opcode.CLOSE:
            return False
        if self in self.pending:
            self.frames_left -= 1
            return self.frames_left < 0
        return not is_message and self.frames.take() > 0


class EdgeSocket(WebSocketsSansIOProtocol):
    timeout = 15.0  # seconds to read at least MIN_PROGRESS bytes, also while the connection closes
    conn: EdgeConnection

    def __init__(self, config: Any, server_state: Any, app_state: dict[str, Any], _loop: Any = None) -> None:
        super().__init__(config, server_state, app_state, _loop)
        self.pending: dict[EdgeConnection, EdgeSocket] = app_state["admission"].pending_sockets
        self.read_queue: deque[EdgeSocket] = app_state["admission"].read_queue
        self.conn = EdgeConnection(self.conn, self.pending)
        self.admission: AdmissionControl = app_state["admission"]
        self.app_state = {**app_state, "on_sign_in": self.conn.sign_in, "flow": Flow(self.writable)}
        self.messages = Rate(MESSAGES_AT_ONCE, MESSAGES_PER_SECOND)
        self.timer: asyncio.TimerHandle | None = None
        self.unaccepted = Unsent()
        self.written = 0  # characters of the last message
        self.waiting_bytes = 0  # of messages that wait until the client has read earlier ones
        self.unsent = 0  # bytes in the write buffer when `timer` was set
        self.is_ending = False
        self.is_failed = False  # further input is discarded

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        self.pending[self.conn] = self
        if len(self.pending) > MAX_PENDING:
            next(iter(self.pending.values())).close_unauthenticated()

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        self.unaccepted.release()
        self.pending.pop(self.conn, None)
        self.cancel_timer()
        # Both refer to `conn`: its memory would be kept until a garbage collection.
        self.conn.parser.close()
        self.conn.parser_exc = None

    def close_unauthenticated(self) -> None:
        """Closes the oldest websocket that has not signed in. Clients that sign in at once are not affected,
        and clients reconnect after a 1013."""
        counters.limits["websockets that are not signed in"] += 1
        del self.pending[self.conn]
        self.conn.fail(CloseCode.TRY_AGAIN_LATER, "too many websockets that are not signed in")
        self.handle_parser_exception()

    def handle_connect(self, event: Any) -> None:
        super().handle_connect(event)
        if self.close_sent:  # the handshake was rejected
            counters.limits[INVALID_HTTP] += 1

    # --- reading --------------------------------------------------------------------------------------

    def data_received(self, data: bytes) -> None:
        if self.is_failed:
            return
        super().data_received(data)
        if self.conn.last is not None:
            self.conn.last.data = b""  # the parser keeps the frame until the next one
        if not self.handshake_initiated:  # the request is complete, and uvicorn does not answer a bad one
            counters.limits[INVALID_HTTP] += 1
            response = b"".join(self.conn.data_to_send())
            self.transport.write(
                response or b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
            )
            self.transport.close()
            self.abort_if_unread()

    async def receive(self) -> Any:
        """Returns the next message. Later messages wait, so that other connections get their turn."""
        message: Any = await self.queue.get()
        if message["type"] == "websocket.disconnect" and self.conn.close_sent:
            message["is_by_server"] = not self.conn.close_rcvd_then_sent
        if self.read_paused and self.queue.empty():
            length = len(message.get("text") or message.get("bytes") or "")
            self.loop.call_later(self.messages.take(1 + length // MESSAGE_BYTES), self.queue_read)
        return message

    def queue_read(self) -> None:
        self.read_queue.append(self)
        if len(self.read_queue) == 1:
            self.loop.call_soon(read_next_messages, self.loop, self.read_queue)

    def read_next(self) -> None:
        if self.transport.is_closing():
            return
        self.read_paused = False
        self.data_received(b"")
        self.resume_reading()

    def resume_reading(self) -> None:
        if self.writable.is_set() and not self.read_paused:
            self.transport.resume_reading()

    # --- clients that do not read -----------------------------------------------------------------------

    async def send(self, message: Any) -> None:
        length = len(message.get("text") or message.get("bytes") or "")
        if not self.writable.is_set():
            await self.wait_writable(length)
        self.written = length
        await super().send(message)

    async def wait_writable(self, length: int) -> None:
        self.waiting_bytes += length
        self.count_unsent()
        try:
            await Flow(self.writable).drain()
        finally:
            self.waiting_bytes -= length

    def count_unsent(self) -> None:
        size = max(self.transport.get_write_buffer_size(), self.written) + self.waiting_bytes
        if not self.unaccepted.hold(self.scope["state"]["budget"], size, is_one=not self.waiting_bytes):
            self.transport.abort()

    def pause_writing(self) -> None:
        """Also stops reading, since every ping causes a pong."""
        super().pause_writing()
        self.transport.pause_reading()
        self.start_timer()
        self.count_unsent()

    def resume_writing(self) -> None:
        self.unaccepted.release()
        super().resume_writing()
        if not self.is_ending:
            self.cancel_timer()
        self.resume_reading()

    def start_timer(self) -> None:
        if self.timer is None:
            self.unsent = self.transport.get_write_buffer_size()
            self.timer = self.loop.call_later(self.timeout, self.check_unsent)

    def check_unsent(self) -> None:
        self.timer = None
        if self.transport.get_write_buffer_size() > self.unsent - MIN_PROGRESS:
            self.transport.abort()
        else:
            self.start_timer()

    def cancel_timer(self) -> None:
        if self.timer is not None:
            self.timer.cancel()
            self.timer = None

    # --- the end ----------------------------------------------------------------------------------------

    def handle_parser_exception(self) -> None:
        """Delays closing. uvicorn closes at once, which resets the connection if the client still sends, and
        the client may not receive the close code."""
        self.is_failed = True
        close = self.conn.close_sent
        if close is None or self.close_sent:  # not accepted yet, or the client has seen a code already
            self.transport.abort()
            return
        self.queue.put_nowait({"type": "websocket.disconnect", "code": close.code, "reason": close.reason})
        self.close_sent = True
        self.transport.write(b"".join(self.conn.data_to_send()))
        self.transport.write_eof()
        self.close_timer = self.loop.call_later(min(LINGER_SECONDS, self.timeout), self.transport.abort)

    def keepalive_timeout(self) -> None:
        """Sends no close code. After 1011 graphql-ws does not reconnect, as when a laptop wakes up."""
        self.transport.abort()

    async def run_asgi(self) -> None:
        state = self.scope["state"]
        state["budget"] = self.admission.budgets.of_address(self.client[0] if self.client else "")
        await in_turns(super().run_asgi(), state, self.admission.turns)
        self.abort_if_unread()

    def abort_if_unread(self) -> None:
        """Limits the time that a closing transport waits for a client that does not read."""
        if not self.disconnected:
            self.is_ending = True
            self.start_timer()


class Flow(NamedTuple):
    """It does not refer to the websocket, which would be a reference cycle."""

    writable: asyncio.Event

    async def drain(self) -> None:
        while not self.writable.is_set():  # the first of several that wait can fill the buffer again
            await self.writable.wait()


def read_next_messages(loop: asyncio.AbstractEventLoop, read_queue: deque[EdgeSocket]) -> None:
    """Reads a few websockets at a time, so that their operations do not delay HTTP requests."""
    for _ in range(min(len(read_queue), READERS_PER_TURN)):
        read_queue.popleft().read_next()
    if read_queue:
        loop.call_soon(read_next_messages, loop, read_queue)
