"""`copy`: copies a SQLite database to PostgreSQL."""

import asyncio
import sqlite3
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import click

from app.cli.common import audited, check_database, reject_version, settings_or_warn, write_database
from app.db.admin.backup import version_in
from app.db.admin.copying import copying, count_rows, locked_source, migrate_empty
from app.db.drivers.interface import DatabaseError, location_of, sqlite_path
from app.settings import Settings
from app.telemetry.wording import counted


@click.command()
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
