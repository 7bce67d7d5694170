"""Checks the running service: its events, audit log and clocks, and the copies of its database."""

import socket
from collections.abc import Iterator
from contextlib import closing
from datetime import UTC, datetime, timedelta
from email.utils import parsedate_to_datetime
from http.client import HTTPConnection, HTTPException
from typing import Any

import orjson
from sqlalchemy import text

from app.auth.key_sources import opener_for
from app.auth.limited_http import limited
from app.care.context import utc_now
from app.db.audit.verifying import finding_newest_moment, verifying_tail
from app.db.drivers.interface import sqlite_path
from app.db.drivers.waiting_commits import reading_waiting_commits
from app.db.moments import known_moment
from app.db.sql import Statement, selecting
from app.doctor.findings import CONNECT_SECONDS, Finding, Installation, failed, ok, warning
from app.telemetry.metrics.backlog import MAX_COUNTED, reading_backlog
from app.telemetry.wording import counted

OVERDUE = timedelta(minutes=2)  # a dispatcher runs every second
CLOCK_TOLERANCE = 2  # seconds
MAX_WAIT = 5  # seconds; a commit waits some milliseconds for a standby that works
REBUILD = "stop the server with the older data, and rebuild it as a standby: docs/scale.md, A standby"
SYNC_SECONDS = 10
MAX_RESPONSE = 1_000_000  # bytes
REPLICA_ADVICE = "see the log of Litestream, and docs/operations.md, Continuous backup"
CLOCK = Statement(text("SELECT clock_timestamp()"))
START_DISPATCHER = "start `care-gateway worker`, or `serve` with CARE_DISPATCHER=on"
LIST_WAITING = "care-gateway deliveries list --state waiting shows the responses"
RETRY_DEAD = "care-gateway deliveries list --state dead, then care-gateway deliveries retry --all-dead"


def check_dispatcher(installation: Installation) -> Iterator[Finding]:
    backlog, now = installation.read(reading_backlog()), utc_now()
    if backlog["unsealed_since"] and now - backlog["unsealed_since"] > OVERDUE:
        unsealed = number_of(backlog["unsealed"], "audit record has", "audit records have")
        yield failed("dispatcher", f"no dispatcher seems to run: {unsealed} no seal", START_DISPATCHER)
    elif (
        installation.settings.webhook_url
        and backlog["events_since"]
        and now - backlog["events_since"] > OVERDUE
    ):
        waiting = number_of(backlog["events"], "event waits", "events wait")
        message = f"no dispatcher with this webhook seems to run: {waiting}"
        yield failed("dispatcher", message, START_DISPATCHER)
    else:
        yield ok("dispatcher", "nothing is overdue")
    if backlog["dead"]:
        dead = number_of(backlog["dead"], "delivery is", "deliveries are")
        yield failed("webhook", f"{dead} dead: all attempts failed", RETRY_DEAD)
    if backlog["retried"]:
        retried = number_of(backlog["retried"], "delivery", "deliveries")
        yield warning("webhook", f"{retried} failed and will be retried", LIST_WAITING)


def number_of(number: int, singular: str, plural: str) -> str:
    return f"{number} or more {plural}" if number == MAX_COUNTED else counted(number, singular, plural)


def check_audit_trail(installation: Installation) -> Iterator[Finding]:
    verdict = installation.read(verifying_tail())
    for fault in verdict.faults:
        advice = "care-gateway audit verify, and keep the database as it is: docs/audit.md"
        yield failed("audit trail", fault, advice)
    if not verdict.faults:
        last = f"seal {verdict.last.id} matches its records" if verdict.seals else "there are no seals yet"
        yield ok("audit trail", last)


# --- clocks ---------------------------------------------------------------------------------------


def check_clock(installation: Installation) -> Iterator[Finding]:
    settings = installation.settings
    found = []
    if installation.is_migrated and not settings.database.startswith("sqlite:"):
        [[moment]] = installation.read(selecting(CLOCK))
        found.append(compare(known_moment(moment), "the clock of the database", CLOCK_TOLERANCE))
    if installation.is_migrated:
        found += future_records(installation)
    if settings.token_jwks.startswith(("http://", "https://")):
        date = date_of(settings.token_jwks)
        if date is not None:
            tolerance = max(settings.token_leeway, CLOCK_TOLERANCE)
            found.append(compare(date, "the clock of the key server", tolerance))
    yield from found or [ok("clock", "there is no other clock to compare with")]


def compare(other: datetime, name: str, tolerance: int) -> Finding:
    difference = utc_now() - other
    if abs(difference.total_seconds()) <= tolerance:
        return ok("clock", f"this machine agrees with {name}")
    side = "ahead of" if difference > timedelta(0) else "behind"
    advice = "synchronise both (NTP): tokens are checked to CARE_TOKEN_LEEWAY seconds"
    return failed("clock", f"this machine is {seconds(abs(difference))} {side} {name}", advice)


def future_records(installation: Installation) -> Iterator[Finding]:
    newest = installation.read(finding_newest_moment())
    if newest is not None and newest - utc_now() > OVERDUE:
        message = f"the newest audit record is {seconds(newest - utc_now())} ahead of this machine"
        yield failed("clock", message, "synchronise the clock; until then new records sort before older ones")


def seconds(span: timedelta) -> str:
    return f"{span.total_seconds():,.0f} seconds"


def date_of(url: str) -> datetime | None:
    """The Date header of the key server. `check_keys` checks whether its keys can be read."""
    try:
        with opener_for(url).open(url, timeout=CONNECT_SECONDS) as response:
            date = response.headers.get("date")
    except (OSError, HTTPException, ValueError):
        return None
    try:
        return parsedate_to_datetime(date).astimezone(UTC) if date else None
    except ValueError:
        return None


# --- standbys of PostgreSQL --------------------------------------------------------------------------


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
    number, waited = installation.read(reading_waiting_commits())
    if waited > MAX_WAIT:
        waiting = counted(number, "change waits", "changes wait")
        message = f"{waiting} for a synchronous standby, the first for {waited:,.0f} seconds"
        advice = "start the standby, or remove it from synchronous_standby_names: docs/scale.md, A standby"
        yield failed("database", message, advice)


# --- the replica of SQLite by Litestream ----------------------------------------------------------


def check_replica(installation: Installation) -> Iterator[Finding]:
    """The time of the newest file would say less: an idle database adds none, and S3 shows none."""
    path = installation.settings.litestream_socket
    if not path:
        return
    url = installation.settings.database
    if not url.startswith("sqlite:///"):  # it can contain a password, and Litestream returns it in an error
        yield warning(
            "replica", "CARE_LITESTREAM_SOCKET has no effect: the database is not SQLite", "unset it"
        )
        return
    database = str(sqlite_path(url).absolute())
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
