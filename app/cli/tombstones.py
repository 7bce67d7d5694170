"""`tombstones`: erased clients and disabled accounts, as every restore must find them."""

import asyncio
from collections.abc import Iterable
from datetime import datetime
from pathlib import Path
from typing import TextIO

import click

from app.care.context import utc_now
from app.cli.backup import replacing
from app.cli.common import Group, about_person, audited, on_database, read_database, settings_or_warn
from app.cli.erase import erasing_on_record
from app.db.admin.erasing import clean
from app.db.admin.tombstones import (
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
from app.db.drivers.interface import Database, DatabaseError
from app.db.sql import Steps
from app.db.tables import TombstoneState
from app.telemetry.wording import counted

Again = dict[str, list[int]]  # what was done again, with the ids


@click.group(cls=Group)
def tombstones() -> None:
    """Save and apply the erased clients and disabled accounts, which backups do not know."""


@tombstones.command("save")
@click.argument("file", type=click.Path(dir_okay=False, path_type=Path))
def save_tombstones(file: Path) -> None:
    """Add the erased clients and disabled accounts to a file, which never loses any.

    Store it apart from backups. It has ids and moments, and no names.
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
    """Erases, disables and enables people as the tombstones say."""
    found = await db.write(merging_tombstones(given))
    again: Again = {"clients erased": []}
    for (state, role), people in (await db.read(finding_contradictions(found))).items():
        for person in people:
            if state is TombstoneState.ERASED:
                await db.write(erasing_on_record(person, now))
            else:
                await db.write(switching_on_record(role, person, state is TombstoneState.DISABLED))
        if people:
            what = f"{role.lower()}s" if state is TombstoneState.ERASED else f"{role.lower()} accounts"
            again[f"{what} {state.lower()}"] = people
    return again


def switching_on_record(role: str, person: int, is_disabled: bool) -> Steps[None]:
    name = f"account {'disable' if is_disabled else 'enable'}"
    return audited(name, switching(role, person, is_disabled), lambda _: about_person(role, person))


def print_again(again: Again) -> None:
    for what, ids in again.items():
        click.echo(f"{what} again: {', '.join(map(str, ids)) or 'none'}")
