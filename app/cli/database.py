"""The commands `migrate`, `verify` and `retention`."""

import asyncio
from collections import Counter

import click

from app.care.context import utc_now
from app.cli.common import on_database, read_database, settings_or_warn
from app.db.admin.migrate import migrate, newest_version
from app.db.audit.removing import finding_checkpoints
from app.db.drivers.interface import Database, location_of
from app.db.session_counters import differences
from app.events.retention import removing_expired
from app.settings import variable
from app.telemetry.wording import counted

NOUNS = {
    "deliveries": ("dead delivery", "dead deliveries"),
    "events": ("event", "events"),
    "drafts": ("draft", "drafts"),
    "audit": ("audit record", "audit records"),
}


@click.command("migrate")
def migrate_command() -> None:
    """Migrate the database to the schema of this version."""
    url = settings_or_warn().database
    before, now = asyncio.run(migrate(url)), newest_version()
    if before == now:
        click.echo(f"{location_of(url)}: the schema is already at version {now}")
    else:
        source = "an empty database" if before is None else f"version {before}"
        click.echo(f"{location_of(url)}: migrated from {source} to version {now}")


@click.command()
def verify() -> None:
    """Recompute the assignment counters of all sessions and print differences."""
    found = read_database(settings_or_warn(), differences())
    for one in found:
        click.echo(f"session {one.session_id}: {one.name} is {one.stored}, should be {one.recomputed}")
    click.echo(counted(len(found), "difference"))
    if found:
        raise SystemExit(1)


@click.command()
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
