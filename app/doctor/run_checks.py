"""The round: one look after another, whatever the one before found."""

from collections.abc import AsyncIterator

from app.db.drivers.factory import open_database
from app.db.drivers.interface import Database, DatabaseError, reason_of, sqlite_path
from app.db.drivers.sqlite import check_sqlite
from app.doctor.access import barred
from app.doctor.configuration import look_at_keys, look_at_manifest, look_at_settings, look_at_webhook
from app.doctor.database import look_at_database, look_at_tables
from app.doctor.results import Finding, Look, Looked, Verdict, wrong
from app.doctor.runtime import look_at_clock, look_at_dispatcher, look_at_trail
from app.settings import Settings

SECONDS = 15  # for a statement of PostgreSQL

OF_SETTINGS: tuple[Look, ...] = (look_at_settings, look_at_keys, look_at_manifest, look_at_webhook)
OF_DATABASE: tuple[Look, ...] = (look_at_tables, look_at_database)
OF_LIFE: tuple[Look, ...] = (look_at_dispatcher, look_at_trail)  # which there is on tables of this version


async def go_round(settings: Settings) -> list[Finding]:
    found: list[Finding] = []
    db = None
    try:
        db = await opened(settings)
    except DatabaseError as refusal:
        found = not_opened(settings, refusal)
    looked = Looked(settings, db)
    try:
        found[:0] = await gathered(OF_SETTINGS, looked)
        found += await gathered(OF_DATABASE, looked)
        is_migrated = not any(one.about == "migrations" and one.verdict is Verdict.WRONG for one in found)
        if is_migrated:
            found += await gathered(OF_LIFE, looked)
        found += await gathered((look_at_clock,), looked if is_migrated else Looked(settings, None))
    finally:
        if db is not None:
            await db.close()
    return found


def not_opened(settings: Settings, refusal: DatabaseError) -> list[Finding]:
    if settings.database.startswith("sqlite:"):
        about_files = barred(sqlite_path(settings.database))
        do = "see what is said of the files" if about_files else "is CARE_DATABASE_URL the right one?"
        return [wrong("database", str(refusal), do), *about_files]
    return [wrong("database", str(refusal), "see CARE_DATABASE_URL: is it the right one, and running?")]


async def opened(settings: Settings) -> Database:
    if settings.database.startswith("sqlite:"):
        check_sqlite(sqlite_path(settings.database))
    return await open_database(settings.database, 1, patience=SECONDS)


async def gathered(looks: tuple[Look, ...], looked: Looked) -> list[Finding]:
    return [finding for each in looks async for finding in unbroken(each, looked)]


async def unbroken(each: Look, looked: Looked) -> AsyncIterator[Finding]:
    """A look that fails is a finding too, and the others go on."""
    about = each.__name__.removeprefix("look_at_")
    try:
        async for finding in each(looked):
            yield finding
    except Exception as fault:
        said = f"it could not be looked at: {type(fault).__name__}: {reason_of(fault)}"
        yield wrong(about, said, "mend what stands above, then look again")
