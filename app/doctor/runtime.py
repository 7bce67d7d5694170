"""Checks the running service: overdue events and deliveries, the end of the audit log, and the clocks."""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from email.utils import parsedate_to_datetime
from http.client import HTTPException
from urllib.error import HTTPError

from sqlalchemy import text

from app.auth.key_sources import opener_for
from app.care.context import utc_now
from app.db.admin.backlog import MAX_COUNTED, reading_backlog
from app.db.audit.verifying import finding_newest_moment, verifying_tail
from app.db.moments import known_moment
from app.db.sql import Statement, selecting
from app.doctor.findings import Finding, Installation, failed, ok, warning
from app.telemetry.wording import counted

OVERDUE = timedelta(minutes=2)  # a dispatcher runs every second
CLOCK_TOLERANCE = 2  # seconds
CONNECT_SECONDS = 5
CLOCK = Statement(text("SELECT clock_timestamp()"))
START_DISPATCHER = "start `care-gateway worker`, or `serve` with CARE_DISPATCHER=on"
LIST_WAITING = "care-gateway deliveries list --state waiting shows the responses"
RETRY_DEAD = "care-gateway deliveries list --state dead, then care-gateway deliveries retry --all-dead"


def check_dispatcher(installation: Installation) -> Iterator[Finding]:
    backlog, now = installation.read(reading_backlog()), utc_now()
    if backlog.unsealed_since and now - backlog.unsealed_since > OVERDUE:
        unsealed = number_of(backlog.unsealed, "audit record has", "audit records have")
        yield failed("dispatcher", f"no dispatcher seems to run: {unsealed} no seal", START_DISPATCHER)
    elif installation.settings.webhook_url and backlog.events_since and now - backlog.events_since > OVERDUE:
        waiting = number_of(backlog.events, "event waits", "events wait")
        message = f"no dispatcher with this webhook seems to run: {waiting}"
        yield failed("dispatcher", message, START_DISPATCHER)
    else:
        yield ok("dispatcher", "nothing is overdue")
    if backlog.dead:
        dead = number_of(backlog.dead, "delivery is", "deliveries are")
        yield failed("webhook", f"{dead} dead: all attempts failed", RETRY_DEAD)
    if backlog.retried:
        retried = number_of(backlog.retried, "delivery", "deliveries")
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
    except HTTPError as error:
        date = error.headers.get("date")
        error.close()
    except (OSError, HTTPException, ValueError):
        return None
    try:
        return parsedate_to_datetime(date).astimezone(UTC) if date else None
    except ValueError:
        return None
