"""When an HTTP connection has waited for too long. The subclass sets the phase, and ends the connection."""

import asyncio
import socket
import struct
from contextlib import suppress
from typing import Any

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

MIN_PROGRESS = 64 * 1024  # bytes that a slow client must read within the timeout
TIMER_TOLERANCE = 0.002  # seconds by which timers of the event loop may fire early
LAST_READ_SECONDS = 0.01  # before a timeout: a process that was paused runs timers before reads
IDLE, HEADERS, BODY, RESPONSE = "idle", "headers", "body", "response"
NO_LINGER = struct.pack("ii", 1, 0)  # the value of SO_LINGER with which closing resets the connection


def reset(transport: asyncio.Transport) -> None:
    """Drops the unsent bytes and resets the connection. If it ended regularly, a client of HTTP/1.0 would use
    an incomplete response without a length as a complete one."""
    with suppress(OSError):  # the client has reset the connection already
        transport.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, NO_LINGER)
    transport.abort()


class TimedProtocol(HttpToolsProtocol):
    """Each connection has one timer that rarely fires; requests only store their start time."""

    timeout = 15.0  # seconds for the headers, for the body, and for a client that does not read the response

    def __init__(self, config: Any, server_state: Any, app_state: dict[str, Any], _loop: Any = None) -> None:
        super().__init__(config, server_state, app_state, _loop)
        self.now = self.loop.time
        self.phase = HEADERS  # what the connection waits for; a new one has the timeout of a request
        self.phase_since = self.now()
        self.unsent, self.unsent_since = 0, self.phase_since  # bytes in the write buffer at that time
        self.timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self.check_timeout()

    def on_timeout(self) -> None:
        raise NotImplementedError

    def check_timeout(self) -> None:
        now = self.now()
        deadline = self.deadline(now)
        if deadline <= now + TIMER_TOLERANCE:
            self.timer = self.loop.call_later(LAST_READ_SECONDS, self.end_if_due)
        else:
            self.timer = self.loop.call_later(deadline - now, self.check_timeout)

    def end_if_due(self) -> None:
        """Checks again after a read: if the process was paused for longer than the timeout, a request may
        have waited in the socket."""
        now = self.now()
        if self.deadline(now) <= now + TIMER_TOLERANCE:
            self.on_timeout()
        else:
            self.check_timeout()

    def deadline(self, now: float) -> float:
        """When to end the connection, or when to check again."""
        next_check = now + min(self.timeout, self.timeout_keep_alive)
        if unsent := self.transport.get_write_buffer_size():
            if unsent <= self.unsent - MIN_PROGRESS:  # a slow client that makes progress
                self.note_unsent()
            return min(next_check, self.unsent_since + self.timeout)
        if self.phase is IDLE:
            return min(next_check, self.phase_since + self.timeout_keep_alive)
        if self.phase is not RESPONSE and not self.flow.read_paused:
            return min(next_check, self.phase_since + self.timeout)
        return next_check

    def pause_writing(self) -> None:
        super().pause_writing()
        self.note_unsent()

    def note_unsent(self) -> None:
        self.unsent, self.unsent_since = self.transport.get_write_buffer_size(), self.now()

    def cancel_timer(self) -> None:
        if self.timer is not None:
            self.timer.cancel()
            self.timer = None
