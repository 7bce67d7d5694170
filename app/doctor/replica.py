"""Checks the continuous backup of SQLite by Litestream, through its control socket."""

import socket
from collections.abc import Iterator
from typing import Any

import orjson

from app.db.drivers.interface import sqlite_path
from app.doctor.findings import Finding, Installation, failed, ok

SYNC_SECONDS = 10
ADVICE = "see the log of Litestream, and docs/operations.md, Continuous backup"


def check_replica(installation: Installation) -> Iterator[Finding]:
    """The time of the newest file would say less: an idle database adds none, and S3 shows none."""
    path = installation.settings.litestream_socket
    if not path:
        return
    database = str(sqlite_path(installation.settings.database).absolute())
    try:
        synced = ask(path, "POST /sync", {"path": database, "wait": True, "timeout": SYNC_SECONDS})
        listed = ask(path, "GET /list", {})["databases"]
    except (OSError, ValueError) as error:
        yield failed("replica", f"Litestream does not respond at {path}: {error}", ADVICE)
        return
    if "error" not in synced:
        yield ok("replica", "Litestream has copied every change to it")
        return
    last = next((one.get("last_sync_at") for one in listed if one["path"] == database), None)
    message = f"the last change was copied to it at {last}" if last else "nothing was copied to it"
    yield failed("replica", f"{message}: {synced['error']}", ADVICE)


def ask(path: str, endpoint: str, body: dict[str, Any]) -> Any:
    """Sends a request to Litestream, which has no TCP port, and returns the JSON of its response."""
    content = orjson.dumps(body)
    with socket.socket(socket.AF_UNIX) as connection:
        connection.settimeout(2 * SYNC_SECONDS)
        connection.connect(path)
        connection.sendall(
            f"{endpoint} HTTP/1.0\r\nContent-Length: {len(content)}\r\n\r\n".encode() + content
        )
        return orjson.loads(connection.makefile("rb").read().partition(b"\r\n\r\n")[2])
