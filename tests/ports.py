"""Ports for the servers that tests start.

A server may be stopped and started again on its port, and several processes run tests at the same time. So a
port is not one that the system gives to connections, and belongs to one process of tests until that ends.
"""

import fcntl
import os
import socket
import tempfile
from collections.abc import Iterator
from pathlib import Path
from secrets import randbelow

FIRST, BLOCK = 10_000, 50
RANGE_OF_CONNECTIONS = Path("/proc/sys/net/ipv4/ip_local_port_range")


def free_port() -> int:
    return next(port for port in PORTS if is_free(port))


def locked_ports() -> Iterator[int]:
    """Without end: the ports of blocks that this process has locked, each once."""
    folder = Path(tempfile.gettempdir()) / f"care-ports-{os.getuid()}"
    folder.mkdir(mode=0o700, exist_ok=True)
    locks = []  # a lock ends with its process
    while True:
        first = FIRST + BLOCK * randbelow((end_of_range() - FIRST) // BLOCK)
        lock = (folder / str(first)).open("w")
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            lock.close()
            continue
        locks.append(lock)
        yield from range(first, first + BLOCK)


def end_of_range() -> int:
    """The first port that the system gives to connections."""
    try:
        first = int(RANGE_OF_CONNECTIONS.read_text().split()[0])
    except OSError:
        first = 32_768
    return first if first >= FIRST + 20 * BLOCK else 32_768


def is_free(port: int) -> bool:
    try:
        with socket.create_server(("127.0.0.1", port)):
            return True
    except OSError:
        return False


PORTS = locked_ports()
