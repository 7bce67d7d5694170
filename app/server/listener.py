"""The listening socket of a single process: at shutdown no connection that has arrived is lost."""

import asyncio
import os
import socket
import sys
from contextlib import closing, suppress
from typing import Any

import uvicorn
from uvicorn.config import STARTUP_FAILURE


class AcceptingServer(uvicorn.Server):
    """While a process drains, each response closes its connection, and every request needs a new one. When
    the socket is closed, the system resets the connections that wait in its queue. So they are accepted."""

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        listeners = [os.dup(each.fileno()) for server in self.servers for each in server.sockets]
        for server in self.servers:
            server.close()  # the loop accepts no more, but the duplicates keep the queue
        accepted = [each for listener in listeners for each in accept_all(listener, self.config.backlog)]
        loop = asyncio.get_running_loop()
        for each in accepted:
            with suppress(OSError):  # the client has gone
                await loop.connect_accepted_socket(self.make_protocol, each)
        await super().shutdown(sockets)

    def make_protocol(self) -> asyncio.Protocol:
        kind: Any = self.config.http_protocol_class
        return kind(self.config, self.server_state, self.lifespan.state)  # type: ignore[no-any-return]


def accept_all(listener: int, most: int) -> list[socket.socket]:
    """Accepts what waits, and closes the listener."""
    accepted: list[socket.socket] = []
    with closing(socket.socket(fileno=listener)) as waiting:
        waiting.setblocking(False)
        with suppress(OSError):  # nothing waits any more
            while len(accepted) < most:
                accepted.append(waiting.accept()[0])
    for each in accepted:
        each.setblocking(False)
    return accepted


def run_single(app: Any, **options: Any) -> None:
    """Like `uvicorn.run` for one process."""
    server = AcceptingServer(uvicorn.Config(app, **options))
    with suppress(KeyboardInterrupt):
        server.run()
    if not server.started:
        sys.exit(STARTUP_FAILURE)
