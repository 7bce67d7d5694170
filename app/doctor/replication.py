"""Checks the copies of the database: standbys of PostgreSQL, and the replica of SQLite by Litestream."""

import socket
from collections.abc import Iterator
from contextlib import closing
from http.client import HTTPConnection, HTTPException
from typing import Any

import orjson

from app.auth.limited_http import limited
from app.db.drivers.interface import sqlite_path
from app.db.drivers.waiting_commits import reading_waiting_commits
from app.doctor.findings import Finding, Installation, failed, ok, warning
from app.telemetry.wording import counted

MAX_WAIT = 5  # seconds; a commit waits some milliseconds for a standby that works
REBUILD = "stop the server with the older data, and rebuild it as a standby: docs/scale.md, A standby"
SYNC_SECONDS = 10
MAX_RESPONSE = 1_000_000  # bytes
REPLICA_ADVICE = "see the log of Litestream, and docs/operations.md, Continuous backup"


def check_hosts(installation: Installation) -> Iterator[Finding]:
    url = installation.settings.database
    if url.startswith("sqlite:"):
        return
    from app.db.drivers.connections import look_at_each_host  # imports an optional dependency

    hosts = installation.runner.run(look_at_each_host(url))
    if installation.db is None and len(hosts) == 1:
        return  # the reason is reported
    primaries = {host.server for host in hosts if host.server.timeline}
    for host in hosts:
        if host.fault:
            yield warning("hosts", f"{host.name} {host.fault}", "start it again as a standby, if it was one")
        elif len(primaries) > 1 and host.server in primaries:
            yield failed("hosts", f"{host} is one of {len(primaries)} primaries", REBUILD)
        elif host.server in primaries:
            yield ok("hosts", f"{host} is the primary")
        else:
            yield ok("hosts", f"{host.name} is {'a standby' if host.server.system else 'of an unknown role'}")


def check_standby(installation: Installation) -> Iterator[Finding]:
    number, seconds = installation.read(reading_waiting_commits())
    if seconds > MAX_WAIT:
        waiting = counted(number, "change waits", "changes wait")
        message = f"{waiting} for a synchronous standby, the first for {seconds:,.0f} seconds"
        advice = "start the standby, or remove it from synchronous_standby_names: docs/scale.md, A standby"
        yield failed("database", message, advice)


# --- Litestream -----------------------------------------------------------------------------------


def check_replica(installation: Installation) -> Iterator[Finding]:
    """The time of the newest file would say less: an idle database adds none, and S3 shows none."""
    path = installation.settings.litestream_socket
    if not path:
        return
    database = str(sqlite_path(installation.settings.database).absolute())
    try:
        synced = ask(path, "POST", "/sync", {"path": database, "wait": True, "timeout": SYNC_SECONDS})
        listed = ask(path, "GET", "/list", {})["databases"]
    except (OSError, ValueError, HTTPException) as error:
        yield failed("replica", f"Litestream does not respond at {path}: {error}", REPLICA_ADVICE)
        return
    if "error" not in synced:
        yield ok("replica", "Litestream has copied every change to it")
        return
    last = next((one.get("last_sync_at") for one in listed if one["path"] == database), None)
    message = f"the last change was copied to it at {last}" if last else "nothing was copied to it"
    yield failed("replica", f"{message}: {synced['error']}", REPLICA_ADVICE)


def ask(path: str, method: str, target: str, body: dict[str, Any]) -> Any:
    """Sends a request to Litestream, which has no TCP port, and returns the JSON of its response."""
    with closing(limited(HTTPConnection, MAX_RESPONSE, "localhost")) as connection:
        connection.sock = socket.socket(socket.AF_UNIX)
        connection.sock.settimeout(2 * SYNC_SECONDS)
        connection.sock.connect(path)
        connection.request(method, target, orjson.dumps(body))
        with connection.getresponse() as response:
            return orjson.loads(response.read())
