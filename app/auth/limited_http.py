"""`http.client` with limits on the bytes and the time of a response, for requests to other services.

The library itself limits only the time between two bytes, and reads `100 Continue` without end.
"""

import io
import socket
from collections.abc import Callable
from functools import partial
from http.client import HTTPConnection, HTTPException, HTTPResponse
from time import monotonic
from typing import Any


class ResponseTooLong(HTTPException):
    pass


class LimitedReader(io.RawIOBase):
    def __init__(self, raw: io.RawIOBase, connected: socket.socket, max_bytes: int) -> None:
        self.raw, self.connected, self.left = raw, connected, max_bytes
        self.seconds = connected.gettimeout() or 0.0
        self.deadline = monotonic() + self.seconds

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int | None:
        seconds = self.deadline - monotonic()
        if seconds <= 0:
            raise TimeoutError("timed out")
        self.connected.settimeout(seconds)
        try:
            # Reads at most one byte beyond the limit, also if more has arrived.
            number: int | None = self.raw.readinto(memoryview(buffer)[: self.left + 1])
        finally:
            self.connected.settimeout(self.seconds)  # for the next request on this connection
        self.left -= number or 0
        if self.left < 0:
            raise ResponseTooLong("the response is too long")
        return number

    def close(self) -> None:
        self.raw.close()
        super().close()


class LimitedResponse(HTTPResponse):
    """The limits include its headers. The timeout of the socket becomes the time for the whole response."""

    def __init__(self, max_bytes: int, connected: socket.socket, *args: Any, **given: Any) -> None:
        super().__init__(connected, *args, **given)
        raw: Any = self.fp.detach()
        self.fp = io.BufferedReader(LimitedReader(raw, connected, max_bytes))

    def begin(self) -> None:
        """Skips interim responses. The library skips only 100."""
        super().begin()
        while 102 <= self.status <= 199:
            self.headers = self.msg = None  # type: ignore[assignment]
            super().begin()


def limited(kind: Callable[..., HTTPConnection], max_bytes: int, *args: Any, **given: Any) -> HTTPConnection:
    """Opens a connection of this kind with a limit on each response."""
    connection = kind(*args, **given)
    connection.response_class = partial(LimitedResponse, max_bytes)  # type: ignore[assignment]
    return connection
