"""The database commands: `migrate`, `import`, `verify`."""

import asyncio
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import IO

import click

from app.cli.common import on_database, on_record, settings_or_warn
from app.cli.import_recording import import_recording, is_recording, print_counts
from app.db.admin.importing import ImportRefused, importing
from app.db.admin.migrate import migrate, newest_version
from app.db.drivers.interface import location_of
from app.db.session_counters import differences
from app.telemetry.wording import counted


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


@click.command("import")
@click.argument("file", type=click.Path(exists=True, allow_dash=True, path_type=Path))
@click.option("--partial", is_flag=True, help="Import an incomplete recording as far as possible.")
def import_command(file: Path, partial: bool) -> None:
    """Import data from JSON Lines or from a recording of the legacy paths, in one transaction."""
    settings = settings_or_warn()
    if is_recording(file):
        import_recording(settings, file, partial)
        return
    if partial:
        raise click.UsageError("--partial applies to recordings only")
    try:
        with click.open_file(str(file), "rb") as lines:
            counts = on_database(
                settings, lambda db: db.write(on_record("import", importing(with_progress(lines))))
            )
    except ImportRefused as refusal:
        raise ImportRefused.of_file(str(file), refusal) from None
    print_counts(counts)


def with_progress(file: IO[bytes]) -> Iterator[bytes]:
    """The lines of the file, with a progress bar on a terminal."""
    size = os.fstat(file.fileno()).st_size if file.seekable() else 0
    with click.progressbar(length=size, label="importing", file=sys.stderr) as bar:
        for line in file:
            yield line
            bar.update(len(line))


@click.command()
def verify() -> None:
    """Recompute the assignment counters of all sessions and print differences."""
    found = on_database(settings_or_warn(), lambda db: db.read(differences()))
    for one in found:
        click.echo(f"session {one.session_id}: {one.name} is {one.stored}, should be {one.recomputed}")
    click.echo(counted(len(found), "difference"))
    if found:
        raise SystemExit(1)
