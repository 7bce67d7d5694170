"""Checks what goes on: what waits and for how long, the end of the audit trail, and the clocks."""

import asyncio
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from email.utils import parsedate_to_datetime
from http.client import HTTPException
from urllib.error import HTTPError

from sqlalchemy import text

from app.auth.key_sources import opener_for
from app.care.context import utc_now
from app.db.admin.backlog import MAX_COUNTED, Backlog, reading_backlog
from app.db.audit.verifying import finding_newest_moment, verifying_tail
from app.db.moments import known_moment
from app.db.sql import Operation, Statement
from app.doctor.results import CheckContext, Finding, Findings, failed, ok, warning
from app.telemetry.wording import counted

LATE = timedelta(minutes=2)  # a dispatcher runs every second
CLOCK = Statement(lambda kind: text("SELECT clock_timestamp()"))
NEAR = 2.0  # smaller differences between two clocks, in seconds, are ignored
REACH_SECONDS = 5


# --- backlog -----------------------------------------------------------------------------------


async def check_dispatcher(context: CheckContext) -> Findings:
    if context.db is None:
        return
    backlog = await context.db.read(reading_backlog())
    for finding in of_the_backlog(backlog, bool(context.settings.webhook_url), utc_now()):
        yield finding


def of_the_backlog(backlog: Backlog, has_webhook: bool, now: datetime) -> list[Finding]:
    def is_late(since: datetime | None) -> bool:
        return since is not None and now - since > LATE

    found = []
    start = "start `care-gateway worker`, or `serve` with CARE_DISPATCHER=on"
    if is_late(backlog.unsealed_since):
        unsealed = up_to(backlog.unsealed, "record of the audit trail has", "records of the audit trail have")
        message = f"no dispatcher seems to run: {unsealed} no seal"
        found.append(failed("dispatcher", message, start))
    elif has_webhook and is_late(backlog.events_since):
        waiting = up_to(backlog.events, "event waits", "events wait")
        message = f"no dispatcher with this webhook seems to run: {waiting}"
        found.append(failed("dispatcher", message, start))
    else:
        found.append(ok("dispatcher", "nothing is overdue"))
    if backlog.dead:
        do = "care-gateway deliveries list --state dead, then care-gateway deliveries retry --all-dead"
        found.append(
            failed("webhook", up_to(backlog.dead, "delivery was given up", "deliveries were given up"), do)
        )
    if backlog.retried:
        message = up_to(
            backlog.retried,
            "delivery was not taken yet and is tried again",
            "deliveries were not taken yet and are tried again",
        )
        found.append(
            warning("webhook", message, "care-gateway deliveries list --state waiting shows the responses")
        )
    return found


def up_to(number: int, one: str, more: str) -> str:
    return f"{number} or more {more}" if number == MAX_COUNTED else counted(number, one, more)


async def check_trail(context: CheckContext) -> Findings:
    if context.db is None:
        return
    verdict = await context.db.read(verifying_tail())
    for fault in verdict.faults:
        do = "care-gateway audit verify, and keep the database as it is: docs/audit.md"
        yield failed("audit trail", fault, do)
    if not verdict.faults:
        last = f"seal {verdict.last.id} matches its records" if verdict.seals else "there are no seals yet"
        yield ok("audit trail", last)


# --- clocks ---------------------------------------------------------------------------------------


async def check_clock(context: CheckContext) -> Findings:
    leeway = max(context.settings.token_leeway, NEAR)
    findings = []
    if context.db is not None:
        findings += [one async for one in of_the_database(context)]
    if context.settings.token_jwks.startswith(("http://", "https://")):
        date = await asyncio.to_thread(date_of, context.settings.token_jwks)
        if date is not None:
            findings += compared(date, "the clock of the key server", max(leeway, NEAR))
    for finding in findings:
        yield finding
    if not findings:
        yield ok("clock", "there is no other clock to compare with")


async def of_the_database(context: CheckContext) -> Findings:
    assert context.db is not None
    if not context.settings.database.startswith("sqlite:"):
        for finding in compared(await context.db.read(asking_clock()), "the clock of the database", NEAR):
            yield finding
    newest = await context.db.read(finding_newest_moment())
    if newest is not None and newest - utc_now() > LATE:
        message = (
            f"the newest record of the audit trail is {seconds(newest - utc_now())} ahead of this machine"
        )
        yield failed("clock", message, "synchronise the clock; until then new records sort before older ones")


def asking_clock() -> Operation[datetime]:
    return known_moment((yield CLOCK, {})[0][0])


def compared(other: datetime, whose: str, allowed: float) -> Iterable[Finding]:
    apart = utc_now() - other
    if abs(apart.total_seconds()) <= allowed:
        return [ok("clock", f"this machine agrees with {whose}")]
    side = "ahead of" if apart > timedelta(0) else "behind"
    do = "synchronise both (NTP): tokens are checked to CARE_TOKEN_LEEWAY seconds"
    return [failed("clock", f"this machine is {seconds(abs(apart))} {side} {whose}", do)]


def seconds(span: timedelta) -> str:
    return f"{span.total_seconds():,.0f} seconds"


def date_of(url: str) -> datetime | None:
    """The Date header of the key server. `check_keys` checks whether its keys can be read."""
    try:
        with opener_for(url).open(url, timeout=REACH_SECONDS) as reply:
            message = reply.headers.get("date")
    except HTTPError as refusal:
        message = refusal.headers.get("date")
        refusal.close()
    except (OSError, HTTPException, ValueError):
        return None
    try:
        return parsedate_to_datetime(message).astimezone(UTC) if message else None
    except ValueError:
        return None
