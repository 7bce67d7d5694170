"""Limits the memory of requests that have not arrived completely, or are deferred."""

from typing import Protocol


class Receiver(Protocol):
    def make_room(self) -> None:
        """Removes the connection here: rejects its incomplete request, or decides about its deferred one."""


class IncompleteRequests:
    """The bytes of incomplete heads, of incomplete bodies or of deferred requests of all connections.

    Beyond the limit the oldest are rejected. Rejecting the newest would let a stranger lock out everyone
    whose request needs two reads.
    """

    def __init__(self, most_bytes: int) -> None:
        self.most_bytes = most_bytes
        self.sizes: dict[Receiver, int] = {}  # the oldest first
        self.bytes = 0

    def set_size(self, connection: Receiver, size: int) -> None:
        self.bytes += size - self.sizes.get(connection, 0)
        self.sizes[connection] = size
        while self.bytes > self.most_bytes:
            next(iter(self.sizes)).make_room()

    def remove(self, connection: Receiver) -> None:
        self.bytes -= self.sizes.pop(connection, 0)
