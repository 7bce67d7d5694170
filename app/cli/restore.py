"""`restore` and `tombstones`: replaces the SQLite database with a backup, and erases clients and disables
accounts again, which backups do not know."""

import asyncio
import shutil
import sqlite3
from collections.abc import Iterable
from datetime import datetime
from pathlib import Path
from typing import TextIO

import click

from app.care.context import utc_now
from app.cli.backup import replacing, sync, unfinished
from app.cli.client_data import erasing_on_record
from app.cli.common import (
    Group,
    about_person,
    audit_record,
    audited,
    main,
    on_database,
    read_database,
    reject_failed,
    settings_or_warn,
)
from app.db.admin.backup import (
    LOG_SUFFIXES,
    check_backup,
    is_later,
    locked_database,
    new_path_of,
    remove_logs,
    skip_ids,
)
from app.db.admin.erasing import clean, clean_sqlite
from app.db.admin.migrate import migrate
from app.db.admin.tombstones import (
    LOCK_TOMBSTONES,
    Mark,
    Person,
    Tombstones,
    as_lines,
    finding_contradictions,
    merged,
    merging_tombstones,
    people_in,
    read_lines,
    reading_tombstones,
    switching,
)
from app.db.drivers.interface import Database, DatabaseError, sqlite_path
from app.db.session_counters import differences
from app.db.sql import Steps
from app.db.tables import TombstoneState
from app.doctor.database import check_access
from app.settings import Settings
from app.telemetry.wording import counted

POSTGRES_ADVICE = "restore PostgreSQL with its own tools: docs/operations.md, Restore"
Again = dict[str, list[int]]  # what was done again, with the ids


# --- tombstones -----------------------------------------------------------------------------------


@main.group(cls=Group)
def tombstones() -> None:
    """Save and apply the erased clients and disabled accounts, which backups do not know."""


@tombstones.command("save")
@click.argument("file", type=click.Path(dir_okay=False, path_type=Path))
def save_tombstones(file: Path) -> None:
    """Add the erased clients and disabled accounts to a file, which never loses any.

    Also store its newest version elsewhere. It has ids and moments, and no names.
    """
    stored = read_database(settings_or_warn(), reading_tombstones())
    try:
        with replacing(file) as part:
            known = read_lists([file.open()]) if file.exists() else {}
            found = merged(known, stored)
            part.write_text(as_lines(found))
    except OSError as error:
        raise DatabaseError(f"{file} cannot be written: {error.strerror}") from None
    new = sum(person not in known for person in found)
    click.echo(f"{file}: {counted(len(found), 'tombstone')}, {new:,} new")


@tombstones.command("apply")
@click.argument("files", nargs=-1, required=True, type=click.File(), metavar="FILE...")
def apply_tombstones(files: tuple[TextIO, ...]) -> None:
    """Erase clients and disable accounts again after a restore of PostgreSQL; also while the service runs."""
    settings, now = settings_or_warn(), utc_now()
    given = read_lists(files)
    again = on_database(settings, lambda db: applying(db, given, now))
    if erased := people_in(given, TombstoneState.ERASED):  # also those of an interrupted run
        asyncio.run(clean(settings.database, min(erased)))
    print_again(again)


def read_lists(files: Iterable[TextIO]) -> dict[Person, Mark]:
    now, found = utc_now(), []
    for file in files:
        with file:
            try:
                found.append(read_lines(file.name, file, now))
            except UnicodeDecodeError:
                raise DatabaseError(f"{file.name} is no list of erased clients") from None
    return merged(*found)


async def applying(db: Database, given: Tombstones, now: datetime) -> Again:
    """Erases, disables and enables people as the tombstones say, and records the restore: once, also if an
    earlier run was interrupted."""
    found = await db.write(merging_tombstones(given))
    erased = (await db.read(finding_contradictions(found)))[TombstoneState.ERASED, "CLIENT"]
    for person in erased:
        await db.write(erasing_on_record(person, now))
    switched = await db.write(switching_again())
    await db.write(audit_record("restore", []))
    return {"clients erased": erased} | switched


def switching_again() -> Steps[Again]:
    """Finds and switches accounts in one transaction, so that it reverts no later decision of an operator."""
    yield LOCK_TOMBSTONES, {}
    found = yield from finding_contradictions((yield from reading_tombstones()))
    again: Again = {}
    for (state, role), people in found.items():
        if people and state is not TombstoneState.ERASED:
            for person in people:
                yield from switching_on_record(role, person, state is TombstoneState.DISABLED)
            again[f"{role.lower()} accounts {state.lower()}"] = people
    return again


def switching_on_record(role: str, person: int, is_disabled: bool) -> Steps[None]:
    name = f"account {'disable' if is_disabled else 'enable'}"
    return audited(name, switching(role, person, is_disabled), lambda _: about_person(role, person))


def print_again(again: Again) -> None:
    for what, ids in again.items():
        click.echo(f"{what} again: {', '.join(map(str, ids)) or 'none'}")


# --- restore --------------------------------------------------------------------------------------


@main.command()
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
    part = path.with_name(f"{path.name}.part")
    if part.exists() and file.samefile(part):
        raise DatabaseError(f"{file} is the file that `restore` writes; rename it first")
    check_backup(file)
    given = read_lists(lists)
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        with locked_database(path) as current:
            if current.last_ids is None:  # perhaps only this user cannot read it
                reject_failed(check_access(path))
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
    names = [aside, *(aside.with_name(aside.name + suffix) for suffix in LOG_SUFFIXES)]
    if kept := next((each for each in names if each.exists()), None):  # perhaps its log only
        click.echo(f"the replaced database was kept as {kept}; remove it as you would a backup")


def prepare(settings: Settings, part: Path, tombstones: Tombstones, now: datetime) -> Again:
    """Migrates and cleans the copy before it replaces the database."""
    copy = settings.model_copy(update={"database_url": f"sqlite:///{part.absolute()}"})
    remove_logs(part)  # left by a killed command: SQLite would apply them to this file

    async def work(db: Database) -> Again:
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
