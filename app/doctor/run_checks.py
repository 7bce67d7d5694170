"""Runs all checks. A check that raises is reported as failed."""

from collections.abc import AsyncIterator

from app.db.drivers.factory import open_database
from app.db.drivers.interface import Database, DatabaseError, reason_of, sqlite_path
from app.db.drivers.sqlite import check_sqlite
from app.doctor.access import barred
from app.doctor.configuration import check_keys, check_manifest, check_settings, check_webhook
from app.doctor.database import check_database, check_tables
from app.doctor.results import Check, CheckContext, Finding, Verdict, failed
from app.doctor.runtime import check_clock, check_dispatcher, check_trail
from app.settings import Settings

SECONDS = 15  # for a statement of PostgreSQL

SETTINGS_CHECKS: tuple[Check, ...] = (check_settings, check_keys, check_manifest, check_webhook)
DATABASE_CHECKS: tuple[Check, ...] = (check_tables, check_database)
RUNTIME_CHECKS: tuple[Check, ...] = (check_dispatcher, check_trail)  # these need a migrated database


async def run_checks(settings: Settings) -> list[Finding]:
    found: list[Finding] = []
    db = None
    try:
        db = await opened(settings)
    except DatabaseError as refusal:
        found = not_opened(settings, refusal)
    context = CheckContext(settings, db)
    try:
        found[:0] = await run_all(SETTINGS_CHECKS, context)
        found += await run_all(DATABASE_CHECKS, context)
        is_migrated = not any(one.about == "migrations" and one.verdict is Verdict.FAILED for one in found)
        if is_migrated:
            found += await run_all(RUNTIME_CHECKS, context)
        found += await run_all((check_clock,), context if is_migrated else CheckContext(settings, None))
    finally:
        if db is not None:
            await db.close()
    return found


def not_opened(settings: Settings, refusal: DatabaseError) -> list[Finding]:
    if settings.database.startswith("sqlite:"):
        about_files = barred(sqlite_path(settings.database))
        do = "see the findings about files" if about_files else "is CARE_DATABASE_URL the right one?"
        return [failed("database", str(refusal), do), *about_files]
    return [failed("database", str(refusal), "see CARE_DATABASE_URL: is it the right one, and running?")]


async def opened(settings: Settings) -> Database:
    if settings.database.startswith("sqlite:"):
        check_sqlite(sqlite_path(settings.database))
    return await open_database(settings.database, 1, patience=SECONDS)


async def run_all(checks: tuple[Check, ...], context: CheckContext) -> list[Finding]:
    return [finding for each in checks async for finding in run_one(each, context)]


async def run_one(each: Check, context: CheckContext) -> AsyncIterator[Finding]:
    """Reports an exception as a failed check and continues."""
    about = each.__name__.removeprefix("check_")
    try:
        async for finding in each(context):
            yield finding
    except Exception as fault:
        message = f"the check raised {type(fault).__name__}: {reason_of(fault)}"
        yield failed(about, message, "fix the failures above, then run doctor again")
