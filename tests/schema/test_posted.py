"""Promise: of a body that comes in many small pieces no more is held than of one that comes whole."""

import asyncio
from collections import deque

import pytest
from starlette.types import Message, Scope

from app.schema.transport.request_parsing import read_whole

LONGEST_BODY = 4096
SCOPE: Scope = {"method": "POST", "headers": [(b"content-type", b"application/json")]}


def handed_on(*pieces: bytes) -> Message:
    """What the next reader receives first; of the last piece nobody says that it is the last."""
    messages = deque({"type": "http.request", "body": piece, "more_body": True} for piece in pieces)

    async def receive() -> Message:
        return messages.popleft() if messages else {"type": "http.disconnect"}

    async def read() -> Message:
        posted, again = await read_whole(SCOPE, receive, LONGEST_BODY)
        assert posted is None
        return await again()

    return asyncio.run(read())


def test_what_is_too_long_is_handed_on_in_one_piece() -> None:
    pieces = (b"x" * 1024,) * (LONGEST_BODY // 1024 + 1)

    assert handed_on(*pieces) == {"type": "http.request", "body": b"".join(pieces), "more_body": True}


@pytest.mark.parametrize("pieces", [(), (b"{",), (b"[", b"]")])
def test_who_goes_before_the_end_is_gone(pieces: tuple[bytes, ...]) -> None:
    assert handed_on(*pieces)["type"] == "http.disconnect"
