"""Watches the hosts of PostgreSQL: changes to a standby as soon as it is promoted, and gives up a server that
has stopped."""

import asyncio
import logging
from collections.abc import Callable
from time import monotonic
from typing import Any

from app.db.drivers.connections import Primary
from app.db.drivers.faults import close_at_once
from app.db.drivers.hosts import SILENT, Host, connect_to_host, identify
from app.db.drivers.interface import DatabaseError

WATCH_SECONDS = 1  # between two looks at a host: for so long an old primary may be read
SILENT_SECONDS = 5  # without a response, before the server in use is asked whether it still runs
ASK_SECONDS = 3  # so that a request to a server that has stopped ends after 9 seconds

logger = logging.getLogger("care.database")


async def watch_hosts(primary: Primary, silent: Callable[[], list[Any]]) -> None:
    """`silent` returns the connections to the server in use that do not respond."""
    await asyncio.gather(*(watch_host(primary, *host, silent) for host in primary.addresses))


async def watch_host(primary: Primary, name: str, address: str, silent: Callable[[], list[Any]]) -> None:
    """Keeps a connection to a host that is not in use. An old primary that only paused accepts changes and
    returns outdated rows, so a process must not have to fail first."""
    host = Host(name)
    try:
        while True:
            await asyncio.sleep(WATCH_SECONDS)
            try:
                host = await look(primary, host, address, silent)
            except Exception:  # without this task the process would stay with an old primary
                logger.exception("watching %s failed and goes on", name)
    finally:
        close_at_once(host.connection)


async def look(primary: Primary, host: Host, address: str, silent: Callable[[], list[Any]]) -> Host:
    if host.name != primary.host:
        host = await ask(host, address)
        if host.server.follows(primary.server):
            primary.use(host)
    elif silent():
        began = monotonic()
        host = await ask(host, address)
        # The time limit of a process that was paused has passed, although the server responds.
        was_paused = monotonic() - began > ASK_SECONDS + WATCH_SECONDS
        if host.fault == SILENT and not was_paused:
            for connection in silent():
                close_at_once(connection)  # its caller closes the others
    if host.name == primary.host:
        close_at_once(host.connection)
        host = Host(host.name)
    return host


async def ask(host: Host, address: str) -> Host:
    if host.connection:
        try:
            async with asyncio.timeout(ASK_SECONDS):
                return host._replace(server=await identify(host.connection))
        except Exception:  # connects again
            close_at_once(host.connection)
    try:
        return await connect_to_host(host.name, address, ASK_SECONDS, True)
    except DatabaseError as error:
        return Host(host.name, fault=str(error))
