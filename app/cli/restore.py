"""`restore`: replaces the SQLite database with a backup."""

import asyncio
import shutil
import sqlite3
from datetime import datetime
from pathlib import Path
from typing import TextIO

import click

from app.care.context import utc_now
from app.cli.backup import sync, unfinished
from app.cli.common import audit_record, on_database, settings_or_warn
from app.cli.tombstones import Again, applying, print_again, read_lists
from app.db.admin.backup import (
    check_backup,
    is_later,
    locked_database,
    new_path_of,
    remove_logs,
    skip_ids,
)
from app.db.admin.erasing import clean_sqlite
from app.db.admin.migrate import migrate
from app.db.admin.tombstones import Tombstones, merged
from app.db.drivers.interface import Database, DatabaseError, sqlite_path
from app.db.session_counters import differences
from app.settings import Settings
from app.telemetry.wording import counted

POSTGRES_ADVICE = "restore PostgreSQL with its own tools: docs/operations.md, Restore"


@click.command()
@click.argument("file", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option(
    "--erased",
    "lists",
    type=click.File(),
    multiple=True,
    metavar="LIST",
    help="Also obey this file of `tombstones save`, or erase these clients: one id per line.",
)
def restore(file: Path, lists: tuple[TextIO, ...]) -> None:
    """Replace the SQLite database, which no process may have open, with a backup.

    Clients erased and accounts disabled since the backup are erased and disabled again, based on the replaced
    database; so are those of earlier restores.
    """
    settings = settings_or_warn()
    if not settings.database.startswith("sqlite:///"):
        raise DatabaseError(POSTGRES_ADVICE)
    path, now = sqlite_path(settings.database), utc_now()
    if path.exists() and file.samefile(path):
        raise DatabaseError(f"{file} is the database itself")
    check_backup(file)
    given = read_lists(lists)
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        with locked_database(path) as current:
            later = is_later(current, file)
            if not (lists or later):
                raise DatabaseError(
                    f"the database at {path} does not show which clients were erased since the backup: it is "
                    "missing, damaged or not a later state; give their ids with --erased LIST (an "
                    "empty file if there are none)"
                )
            with unfinished(path) as part:
                shutil.copyfile(file, part)
                again = prepare(settings, part, merged(current.tombstones, given), now)
                aside = new_path_of(path, now)
                current.replace(part, aside)
                remove_logs(part)
                sync(path.absolute().parent)
    except (OSError, sqlite3.Error) as error:
        reason = error.strerror if isinstance(error, OSError) else error
        raise DatabaseError(f"the backup cannot be restored to {path}: {reason}") from None
    click.echo(f"{path} was restored from {file}")
    print_again(again)
    if not later:
        click.echo("accounts disabled since the list may be enabled: check `care-gateway account list`")
    if aside.exists():
        click.echo(f"the replaced database was kept as {aside}; remove it as you would a backup")


def prepare(settings: Settings, part: Path, tombstones: Tombstones, now: datetime) -> Again:
    """Migrates and cleans the copy before it replaces the database."""
    copy = settings.model_copy(update={"database_url": f"sqlite:///{part.absolute()}"})
    remove_logs(part)  # left by a killed command: SQLite would apply them to this file

    async def work(db: Database) -> Again:
        await db.write(audit_record("restore", []))
        again = await applying(db, tombstones, now)
        if found := await db.read(differences()):
            differ = counted(len(found), "difference")
            click.echo(
                f"care-gateway: warning: `care-gateway verify` finds {differ} in this backup", err=True
            )
        return again

    try:
        asyncio.run(migrate(copy.database))
        skip_ids(part)
        again = on_database(copy, work)
        clean_sqlite(part)
        sync(part)
    finally:
        remove_logs(part)
    return again
