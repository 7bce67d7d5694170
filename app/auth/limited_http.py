"""Connections of `http.client` that limit the bytes and the time of a response.

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
    def __init__(self, raw: io.RawIOBase, connected: socket.socket, most_bytes: int, seconds: float) -> None:
        self.raw = raw
        self.connected = connected
        self.left = most_bytes
        self.deadline = monotonic() + seconds

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int | None:
        seconds = self.deadline - monotonic()
        if seconds <= 0:
            raise TimeoutError
        if self.left <= 0:
            raise ResponseTooLong
        previous = self.connected.gettimeout()
        self.connected.settimeout(seconds)
        try:
            number: int | None = self.raw.readinto(buffer)
        finally:
            self.connected.settimeout(previous)  # for the next request on this connection
        self.left -= number or 0
        return number

    def close(self) -> None:
        self.raw.close()
        super().close()


class LimitedResponse(HTTPResponse):
    def __init__(
        self, most_bytes: int, seconds: float, connected: socket.socket, *args: Any, **given: Any
    ) -> None:
        super().__init__(connected, *args, **given)
        raw: Any = self.fp.detach()
        self.fp = io.BufferedReader(LimitedReader(raw, connected, most_bytes, seconds))


def limited(
    kind: Callable[..., HTTPConnection], most_bytes: int, seconds: float
) -> Callable[..., HTTPConnection]:
    """The same kind of connection with these limits on each response, including its headers."""

    def connection(*args: Any, **given: Any) -> HTTPConnection:
        made = kind(*args, **given)
        made.response_class = partial(LimitedResponse, most_bytes, seconds)  # type: ignore[assignment]
        return made

    return connection
