"""`restore`: replaces the SQLite database with a backup."""

import asyncio
import shutil
import sqlite3
from collections.abc import Iterable
from datetime import datetime
from pathlib import Path
from typing import Any, TextIO

import click

from app.care.context import utc_now
from app.cli.account import TABLES, record_change
from app.cli.backup import sync, unfinished
from app.cli.common import audit_record, on_database, settings_or_warn
from app.cli.erase import erasing_on_record
from app.db.admin.erasing import clean_sqlite
from app.db.admin.migrate import migrate
from app.db.admin.orm import transaction
from app.db.admin.restore import (
    ReplacedDatabase,
    check_backup,
    find_people_to_change,
    is_later,
    locked_database,
    new_path_of,
    remove_logs,
    skip_ids,
)
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
    help="Also erase these clients: one id per line, as printed by `erase --list`.",
)
def restore(file: Path, lists: tuple[TextIO, ...]) -> None:
    """Replace the SQLite database, which no process may have open, with a backup.

    Clients erased and accounts disabled since the backup are erased and disabled again, based on the replaced
    database.
    """
    settings = settings_or_warn()
    if not settings.database.startswith("sqlite:///"):
        raise DatabaseError(POSTGRES_ADVICE)
    path, now = sqlite_path(settings.database), utc_now()
    if path.exists() and file.samefile(path):
        raise DatabaseError(f"{file} is the database itself")
    check_backup(file)
    erased = read_ids(lists)
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
                changed = prepare(settings, part, current, erased, now)
                aside = new_path_of(path, now)
                current.rename(aside)
                part.replace(path)
                sync(path.absolute().parent)
    except (OSError, sqlite3.Error) as error:
        reason = error.strerror if isinstance(error, OSError) else error
        raise DatabaseError(f"the backup cannot be restored to {path}: {reason}") from None
    click.echo(f"{path} was restored from {file}")
    for change, ids in changed.items():
        click.echo(f"{change} again: {', '.join(map(str, ids)) or 'none'}")
    if not later:
        click.echo("accounts disabled since the backup may be enabled: check `care-gateway account list`")
    if aside.exists():
        click.echo(f"the replaced database was kept as {aside}; remove it as you would a backup")


def read_ids(lists: Iterable[TextIO]) -> set[int]:
    ids = set()
    for file in lists:
        for line, text in enumerate(file, 1):
            id = text.split("\t")[0].strip()
            if id and not (id.isascii() and id.isdigit()):
                raise DatabaseError(f"{file.name}, line {line}: must be a client id")
            if id:
                ids.add(int(id))
    return ids


def prepare(
    settings: Settings, part: Path, current: ReplacedDatabase, erased: set[int], now: datetime
) -> dict[str, list[int]]:
    """Migrates and cleans the copy before it replaces the database. Returns the ids that it changed."""
    copy = settings.model_copy(update={"database_url": f"sqlite:///{part.absolute()}"})
    remove_logs(part)  # left by a killed command: SQLite would apply them to this file
    try:
        asyncio.run(migrate(copy.database))
        skip_ids(part)
        to_erase, to_disable = find_people_to_change(part, current, erased)
        on_database(copy, lambda db: erase_again(db, to_erase, now))
        asyncio.run(disable_again(copy.database, to_disable))
        clean_sqlite(part)
        sync(part)
    finally:
        remove_logs(part)
    disabled = {f"{role} accounts disabled": ids for role, ids in to_disable.items()}
    return {"clients erased": to_erase, **disabled}


async def erase_again(db: Database, to_erase: list[int], now: datetime) -> None:
    await db.write(audit_record("restore", []))
    for client in to_erase:
        await db.write(erasing_on_record(client, now))
    if found := await db.read(differences()):
        differ = counted(len(found), "difference")
        click.echo(f"care-gateway: warning: `care-gateway verify` finds {differ} in this backup", err=True)


async def disable_again(url: str, to_disable: dict[str, list[int]]) -> None:
    async with transaction(url) as tx:
        for role, ids in to_disable.items():
            for id in ids:
                person: Any = await tx.get_one(TABLES[role], id)
                person.is_disabled = True
                record_change(tx, "account disable", person)
