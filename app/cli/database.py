"""The commands `migrate`, `copy`, `distribute`, `verify` and `retention`."""

import asyncio
import sqlite3
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager

import click

from app.care.context import utc_now
from app.cli.common import (
    WholeNumber,
    audited,
    check_database,
    main,
    on_database,
    read_database,
    reject_version,
    settings_or_warn,
    write_database,
)
from app.db.admin.backup import version_in
from app.db.admin.copying import copying, count_rows, locked_source, migrate_empty
from app.db.admin.distributing import distribute
from app.db.admin.migrate import Phase, migrate, newest_version, target_of
from app.db.audit.removing import finding_checkpoints
from app.db.drivers.interface import Database, DatabaseError, location_of, sqlite_path
from app.db.session_counters import differences
from app.events.retention import removing_expired
from app.settings import Settings, variable
from app.telemetry.wording import counted

MAX_SHARDS = 64_000  # of Citus
NOUNS = {
    "deliveries": ("dead delivery", "dead deliveries"),
    "events": ("event", "events"),
    "drafts": ("draft", "drafts"),
    "audit": ("audit record", "audit records"),
}


@main.command("migrate")
@click.option("--expand", "phase", flag_value=Phase.EXPAND, help="Only add, while the version before runs.")
@click.option("--contract", "phase", flag_value=Phase.CONTRACT, help="Remove the rest, after it has ended.")
def migrate_command(phase: str | None) -> None:
    """Migrate the database to the schema of this version."""
    url, chosen = settings_or_warn().database, Phase(phase or Phase.BOTH)
    before = asyncio.run(migrate(url, chosen))
    now = max(before or "", target_of(chosen))
    if before == now:
        click.echo(f"{location_of(url)}: the schema is already at version {now}")
    else:
        source = "an empty database" if before is None else f"version {before}"
        click.echo(f"{location_of(url)}: migrated from {source} to version {now}")
    if now < newest_version():
        click.echo("after the last process of the version before has ended: care-gateway migrate --contract")


@main.command()
def verify() -> None:
    """Recompute the assignment counters of all sessions and print differences."""
    found = read_database(settings_or_warn(), differences())
    for one in found:
        click.echo(f"session {one.session_id}: {one.name} is {one.stored}, should be {one.recomputed}")
    click.echo(counted(len(found), "difference"))
    if found:
        raise SystemExit(1)


@main.command()
@click.option("--dry-run", is_flag=True, help="Only count what would be removed.")
def retention(dry_run: bool) -> None:
    """Remove events, dead deliveries, drafts and audit records older than their retention period."""
    settings = settings_or_warn()
    removed: Counter[str] = Counter()

    async def remove(db: Database) -> str:
        before = await db.read(finding_checkpoints())
        async for kind, count in removing_expired(db, settings.retention, utc_now(), dry_run):
            removed[kind] += count
        after = await db.read(finding_checkpoints())
        return f"{after[-1].seal_id}:{after[-1].hash}" if after != before else ""

    seal = on_database(settings, remove)
    for kind, days in settings.retention._asdict().items():
        singular, plural = NOUNS[kind]
        if days:
            verb = "to be removed" if dry_run else "removed"
            kept = f"kept for {counted(days, 'day')}"
            click.echo(f"{counted(removed[kind], singular, plural)} {verb} ({kept})")
        else:
            click.echo(f"{plural} are kept forever ({variable(f'retention_{kind}')}=0)")
    if seal:
        click.echo(f"the audit log now begins after this seal; store it: {seal}")


# --- copy and distribute --------------------------------------------------------------------------


@main.command()
@click.option("--from", "source", required=True, metavar="URL", help="The database to copy: sqlite:///PATH.")
@click.option(
    "--to",
    "target",
    required=True,
    metavar="URL",
    envvar="CARE_DATABASE_URL",
    show_envvar=True,
    help="An empty database: postgresql://USER@HOST/NAME.",
)
def copy(source: str, target: str) -> None:
    """Copy a SQLite database, which no process may have open, to an empty PostgreSQL database."""
    if not source.startswith("sqlite:///"):
        raise click.UsageError("--from must begin with sqlite:///")
    if not target.startswith(("postgresql://", "postgres://")):
        raise click.UsageError("--to, or CARE_DATABASE_URL, must begin with postgresql://")
    settings = settings_or_warn().model_copy(update={"database_url": target})
    with locked_source(sqlite_path(source).absolute()) as connection:
        if (version := version_in(connection)) is None:
            raise DatabaseError(f"{location_of(source)} is not a database of this service")
        with naming(source, f" (with CARE_DATABASE_URL={source})"):
            reject_version(version)
        with naming(target):
            asyncio.run(migrate_empty(target))
            check_database(settings)
        rows = copy_with_progress(settings, connection)
    for table, count in rows.items():
        click.echo(f"{table}: {counted(count, 'row')}")
    total = counted(sum(rows.values()), "row")
    click.echo(f"{total} copied from {location_of(source)} to {location_of(target)}, counted and compared")


def copy_with_progress(settings: Settings, source: sqlite3.Connection) -> dict[str, int]:
    with click.progressbar(
        length=2 * count_rows(source),
        label="copying and verifying",
        file=sys.stderr,
        hidden=not sys.stderr.isatty(),
        update_min_steps=1000,
    ) as bar:
        try:
            return write_database(settings, audited("copy", copying(source, bar.update)))
        except (OverflowError, ValueError) as fault:  # SQLite stores any value in any column
            raise DatabaseError(f"nothing was copied: PostgreSQL cannot store a value: {fault}") from None


@contextmanager
def naming(url: str, end: str = "") -> Iterator[None]:
    """Begins the message of an error with the database."""
    try:
        yield
    except DatabaseError as error:
        raise DatabaseError(f"{location_of(url)}: {error}{end}") from None


@main.command("distribute")
@click.option(
    "--shards",
    type=WholeNumber(1, MAX_SHARDS),
    default=32,
    show_default=True,
    help="Number of parts of each table; a worker can hold several.",
)
def distribute_command(shards: int) -> None:
    """Distribute a migrated PostgreSQL database by caregiver with Citus."""

    def show(number: int, count: int, what: str) -> None:
        click.echo(f"{number:>2} of {count}: {what}", err=True)

    url = settings_or_warn().database
    asyncio.run(distribute(url, shards, show))
    click.echo(f"{location_of(url)} is distributed by caregiver")
