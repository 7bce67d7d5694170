"""A look at what goes on: what waits and for how long, the end of the audit trail, and the clocks."""

import asyncio
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from email.utils import parsedate_to_datetime
from http.client import HTTPException
from urllib.error import HTTPError

from sqlalchemy import text

from app.auth.key_sources import opener_for
from app.care.context import utc_now
from app.db.admin.backlog import MOST_COUNTED, Backlog, looking_at_backlog
from app.db.audit.verifying import newest_moment, verifying_tail
from app.db.reader.entities import known_moment
from app.db.sql import Operation, Statement
from app.doctor.results import Finding, Findings, Looked, good, look, wrong
from app.telemetry.wording import counted

LATE = timedelta(minutes=2)  # a dispatcher comes round every second
CLOCK = Statement(lambda kind: text("SELECT clock_timestamp()"))
NEAR = 2.0  # seconds by which two clocks differ that are one for all that matters
REACH_SECONDS = 5


# --- what waits -----------------------------------------------------------------------------------


async def look_at_dispatcher(looked: Looked) -> Findings:
    if looked.db is None:
        return
    backlog = await looked.db.read(looking_at_backlog())
    for finding in of_the_backlog(backlog, bool(looked.settings.webhook_url), utc_now()):
        yield finding


def of_the_backlog(backlog: Backlog, has_webhook: bool, now: datetime) -> list[Finding]:
    def is_late(since: datetime | None) -> bool:
        return since is not None and now - since > LATE

    found = []
    start = "start `care-gateway worker`, or `serve` with CARE_DISPATCHER=on"
    if is_late(backlog.unsealed_since):
        unsealed = up_to(backlog.unsealed, "record of the audit trail has", "records of the audit trail have")
        said = f"no dispatcher seems to run: {unsealed} no seal"
        found.append(wrong("dispatcher", said, start))
    elif has_webhook and is_late(backlog.events_since):
        waiting = up_to(backlog.events, "event waits", "events wait")
        said = f"no dispatcher with this webhook seems to run: {waiting}"
        found.append(wrong("dispatcher", said, start))
    else:
        found.append(good("dispatcher", "nothing waits that should have been done"))
    if backlog.dead:
        do = "care-gateway deliveries list --state dead, then care-gateway deliveries retry --all-dead"
        found.append(
            wrong("webhook", up_to(backlog.dead, "delivery was given up", "deliveries were given up"), do)
        )
    if backlog.retried:
        said = up_to(
            backlog.retried,
            "delivery was not taken yet and is tried again",
            "deliveries were not taken yet and are tried again",
        )
        found.append(look("webhook", said, "care-gateway deliveries list --state waiting tells its answers"))
    return found


def up_to(number: int, one: str, more: str) -> str:
    return f"{number} or more {more}" if number == MOST_COUNTED else counted(number, one, more)


async def look_at_trail(looked: Looked) -> Findings:
    if looked.db is None:
        return
    verdict = await looked.db.read(verifying_tail())
    for fault in verdict.faults:
        do = "care-gateway audit verify, and keep the database as it is: docs/audit.md"
        yield wrong("audit trail", fault, do)
    if not verdict.faults:
        last = f"seal {verdict.last.id} is that of its records" if verdict.seals else "there are no seals yet"
        yield good("audit trail", last)


# --- clocks ---------------------------------------------------------------------------------------


async def look_at_clock(looked: Looked) -> Findings:
    leeway = max(looked.settings.token_leeway, NEAR)
    told = []
    if looked.db is not None:
        told += [one async for one in of_the_database(looked)]
    if looked.settings.token_jwks.startswith(("http://", "https://")):
        date = await asyncio.to_thread(date_of, looked.settings.token_jwks)
        if date is not None:
            told += compared(date, "that of the issuer of keys", max(leeway, NEAR))
    for finding in told:
        yield finding
    if not told:
        yield good("clock", "there is no other to compare it with")


async def of_the_database(looked: Looked) -> Findings:
    assert looked.db is not None
    if not looked.settings.database.startswith("sqlite:"):
        for finding in compared(await looked.db.read(asking_clock()), "that of the database", NEAR):
            yield finding
    newest = await looked.db.read(newest_moment())
    if newest is not None and newest - utc_now() > LATE:
        said = f"the newest record of the audit trail is {seconds(newest - utc_now())} ahead of it"
        yield wrong("clock", said, "synchronise it; until then new records sort before older ones")


def asking_clock() -> Operation[datetime]:
    return known_moment((yield CLOCK, {})[0][0])


def compared(other: datetime, whose: str, allowed: float) -> Iterable[Finding]:
    apart = utc_now() - other
    if abs(apart.total_seconds()) <= allowed:
        return [good("clock", f"it agrees with {whose}")]
    side = "ahead of" if apart > timedelta(0) else "behind"
    do = "synchronise both (NTP): tokens are checked to CARE_TOKEN_LEEWAY seconds"
    return [wrong("clock", f"it is {seconds(abs(apart))} {side} {whose}", do)]


def seconds(span: timedelta) -> str:
    return f"{span.total_seconds():,.0f} seconds"


def date_of(url: str) -> datetime | None:
    """What an HTTP server says of the time; whether its keys can be read is looked at elsewhere."""
    try:
        with opener_for(url).open(url, timeout=REACH_SECONDS) as reply:
            said = reply.headers.get("date")
    except HTTPError as refusal:
        said = refusal.headers.get("date")
        refusal.close()
    except (OSError, HTTPException, ValueError):
        return None
    try:
        return parsedate_to_datetime(said).astimezone(UTC) if said else None
    except ValueError:
        return None
