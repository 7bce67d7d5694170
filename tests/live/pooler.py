"""PgBouncer in transaction mode, with two connections to PostgreSQL."""

import re
import shutil
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import unquote, urlsplit

from tests.live.processes import PATIENCE
from tests.postgres import free_ports, hand_over, start

POOL_SIZE = 2
CONFIGURATION = """
[databases]
* = host={host} port={port}

[pgbouncer]
listen_addr = 127.0.0.1
listen_port = {own_port}
unix_socket_dir =
auth_type = scram-sha-256
auth_file = users
pool_mode = transaction
default_pool_size = {size}
"""


def pgbouncer() -> tuple[str, tuple[int, ...]] | None:
    """The program on PATH and its version."""
    program = shutil.which("pgbouncer") or shutil.which("pgbouncer", path="/usr/sbin")
    if program is None:
        return None
    written = subprocess.run([program, "--version"], capture_output=True, text=True, check=True).stdout
    found = re.search(r"PgBouncer (\d+)\.(\d+)", written)
    assert found is not None, written
    return program, (int(found[1]), int(found[2]))


@contextmanager
def pooling(program: str, server_url: str, *settings: str) -> Iterator[str]:
    """The address of PgBouncer, in place of the host and port of the server."""
    server, [port, *_] = urlsplit(server_url), free_ports()
    with tempfile.TemporaryDirectory(prefix="care-pgbouncer-") as name:
        configuration = CONFIGURATION.format(
            host=server.hostname, port=server.port, own_port=port, size=POOL_SIZE
        )
        Path(name, "ini").write_text("\n".join([configuration, *settings]))
        Path(name, "users").write_text(f'"{server.username}" "{unquote(server.password or "")}"\n')
        hand_over(Path(name))
        process = start([program, "ini"], Path(name))
        try:
            wait_until_open(process, int(port))
            yield f"127.0.0.1:{port}"
        finally:
            process.kill()  # from 1.23 on SIGTERM waits for clients
            process.communicate()


def wait_until_open(process: subprocess.Popen[str], port: int) -> None:
    until = time.monotonic() + PATIENCE
    while process.poll() is None and time.monotonic() < until:
        try:
            socket.create_connection(("127.0.0.1", port)).close()
            return
        except ConnectionRefusedError:
            time.sleep(0.02)  # polls until PgBouncer listens
    process.terminate()
    raise AssertionError(process.communicate()[0])
