"""A server of streams in the event loop of a test."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

Accept = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


@asynccontextmanager
async def serving(accept: Accept) -> AsyncIterator[int]:
    """Yields its port. The loop of a test may end before the server has noticed that a client has left, so
    all connections are closed at the end of the block."""
    writers: list[asyncio.StreamWriter] = []

    async def accept_noted(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writers.append(writer)
        await accept(reader, writer)

    server = await asyncio.start_server(accept_noted, "127.0.0.1", 0)
    try:
        yield server.sockets[0].getsockname()[1]
    finally:
        server.close()
        for writer in writers:
            writer.transport.abort()
        await asyncio.sleep(0)  # the loop closes them in its next iteration
