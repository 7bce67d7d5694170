"""The commands that keep the database: `migrate`, `import`, `verify`."""

import asyncio
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import IO

import click

from app.cli.common import on_database, on_record, settings_or_warn
from app.cli.import_recording import import_recording, is_recording, say_counts
from app.db.admin.importing import ImportRefused, importing
from app.db.admin.migrate import migrate, newest_version
from app.db.drivers.interface import place_of
from app.db.session_counters import differences
from app.telemetry.wording import counted


@click.command("migrate")
def migrate_command() -> None:
    """Bring the database to the tables of this version."""
    url = settings_or_warn().database
    before, now = asyncio.run(migrate(url)), newest_version()
    if before == now:
        click.echo(f"{place_of(url)}: the tables are those of {now} already: nothing was changed")
    else:
        there_were = "none" if before is None else f"those of {before}"
        click.echo(f"{place_of(url)}: the tables are those of {now} now; before there were {there_were}")


@click.command("import")
@click.argument("file", type=click.Path(exists=True, allow_dash=True, path_type=Path))
@click.option("--partial", is_flag=True, help="Take an incomplete recording too, as far as it goes.")
def import_command(file: Path, partial: bool) -> None:
    """Load a world from JSON Lines, or from a recording of the legacy paths: all of it or nothing."""
    settings = settings_or_warn()
    if is_recording(file):
        import_recording(settings, file, partial)
        return
    if partial:
        raise click.UsageError("--partial is about recordings, and this is none")
    try:
        with click.open_file(str(file), "rb") as lines:
            counts = on_database(
                settings, lambda db: db.write(on_record("import", importing(with_progress(lines))))
            )
    except ImportRefused as refusal:
        raise ImportRefused.of_file(str(file), refusal) from None
    say_counts(counts)


def with_progress(file: IO[bytes]) -> Iterator[bytes]:
    """The file's lines; on a terminal with a bar of how much of it is read."""
    size = os.fstat(file.fileno()).st_size if file.seekable() else 0
    with click.progressbar(length=size, label="importing", file=sys.stderr) as bar:
        for line in file:
            yield line
            bar.update(len(line))


@click.command()
def verify() -> None:
    """Recompute the numbers that sessions keep of their assignments, and compare."""
    found = on_database(settings_or_warn(), lambda db: db.read(differences()))
    for one in found:
        click.echo(f"session {one.session_id}: {one.name} is {one.kept}, should be {one.recomputed}")
    click.echo(counted(len(found), "difference"))
    if found:
        raise SystemExit(1)
