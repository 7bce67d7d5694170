"""Runs all checks. A check that raises is reported as failed, and the next one runs."""

import asyncio
from collections.abc import Callable, Iterator

from app.db.drivers.factory import open_database
from app.db.drivers.interface import DatabaseError, DatabaseUnavailable, reason_of, sqlite_path
from app.doctor.configuration import (
    check_keys,
    check_limits,
    check_settings,
    check_trusted_documents,
    check_webhook,
)
from app.doctor.database import check_access, check_database, check_full_disk, check_migrations
from app.doctor.findings import Finding, Installation, Verdict, failed
from app.doctor.runtime import (
    check_audit_trail,
    check_clock,
    check_dispatcher,
    check_hosts,
    check_replica,
    check_standby,
)
from app.settings import Settings

STATEMENT_SECONDS = 15  # timeout of a statement on PostgreSQL


def run_checks(settings: Settings) -> list[Finding]:
    with asyncio.Runner() as runner:
        installation = Installation(settings, runner)
        found = run_each(installation, check_settings, check_keys)
        found += run_each(installation, check_trusted_documents, check_webhook, check_limits)
        try:
            installation.db = runner.run(open_database(settings.database, 1, patience=STATEMENT_SECONDS))
        except DatabaseError as error:
            found += not_opened(settings.database, error)
            return found + run_each(installation, check_hosts, check_clock)
        try:
            migrations = run_each(installation, check_migrations)
            installation.is_migrated = all(one.verdict is not Verdict.FAILED for one in migrations)
            found += [*migrations, *run_each(installation, check_database, check_hosts, check_standby)]
            found += run_each(installation, check_replica)
            if installation.is_migrated:
                found += run_each(installation, check_dispatcher, check_audit_trail)
            return found + run_each(installation, check_clock)
        finally:
            runner.run(installation.db.close())


def not_opened(url: str, error: DatabaseError) -> list[Finding]:
    if not url.startswith("sqlite:"):
        return [failed("database", str(error), "check CARE_DATABASE_URL, and that the server is running")]
    path = sqlite_path(url)
    if found := list(check_access(path)):
        advice = "see the findings about files"
    elif found := list(check_full_disk(path)):
        advice = "see the finding about the disk"
    else:
        advice = "check CARE_DATABASE_URL; restore a backup if the file is damaged"
    return [failed("database", str(error), advice), *found]


def run_each(
    installation: Installation, *checks: Callable[[Installation], Iterator[Finding]]
) -> list[Finding]:
    found = []
    for check in checks:
        try:
            for finding in check(installation):
                found.append(finding)  # kept if the check raises later
        except Exception as error:
            message = f"the check raised {type(error).__name__}: {reason_of(error)}"
            advice = "fix the failures above, then run doctor again"
            if isinstance(error, DatabaseUnavailable):  # Citus adds lines with advice of its own
                message = f"the database does not allow the check: {reason_of(error).splitlines()[0]}"
                advice = "check that every server of the database runs, then run doctor again"
            about = check.__name__.removeprefix("check_").replace("_", " ")
            found.append(failed(about, message, advice))
    return found
