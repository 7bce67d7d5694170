"""`export` and `erase`: the data of a client."""

import asyncio
import os
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import BinaryIO

import click

from app.care.context import utc_now
from app.care.own_data import DataFormat, exporting
from app.cli.common import (
    ID,
    EnumChoice,
    audit_record,
    audited,
    main,
    read_database,
    settings_or_warn,
    write_database,
)
from app.db.admin.accounts import AccountRejected
from app.db.admin.erasing import Erased, Named, clean, erasing, finding_client
from app.db.admin.tombstones import reading_tombstones
from app.db.audit.records import About
from app.db.drivers.interface import DatabaseError
from app.db.interchange.dump import reading_key
from app.db.moments import moment_as_text
from app.db.sql import Steps
from app.db.tables import TombstoneState
from app.telemetry.wording import counted, printable

client_option = click.option("--client", "user", metavar="NAME", help="The client's user name.")
id_option = click.option("--id", "client_id", type=ID, metavar="N", help="The client's id.")


@main.command()
@client_option
@id_option
@click.option("--format", type=EnumChoice(DataFormat), required=True)
@click.option(
    "--output",
    type=click.Path(dir_okay=False, path_type=Path),
    metavar="FILE",
    help="Output file; default is standard output.",
)
def export(user: str | None, client_id: int | None, format: DataFormat, output: Path | None) -> None:
    """Export all data of a client."""
    reject_unless_one(user, client_id)
    settings = settings_or_warn()
    client, caregivers = read_database(settings, finding_with_caregivers(user, client_id))
    record = audit_record("export", about_client(client.id, caregivers))
    write_database(settings, record)  # before any output
    with open_output(output) as file:
        read_database(settings, exporting(client.id, format, lambda text: file.write(text.encode())))


def reject_unless_one(user: str | None, client_id: int | None) -> None:
    if (user is None) == (client_id is None):
        raise click.UsageError("give either --client or --id")


def finding_with_caregivers(user: str | None, client_id: int | None) -> Steps[tuple[Named, list[int]]]:
    client = yield from finding_client(user, client_id)
    key = yield from reading_key(client.id)
    return client, key["caregivers"]


def about_client(client: int, caregivers: list[int]) -> About:
    """All rows of the client with these caregivers."""
    return [(caregiver, client, {}) for caregiver in sorted(caregivers)] or [(None, client, {})]


@contextmanager
def open_output(path: Path | None) -> Iterator[BinaryIO]:
    """Standard output, a pipe or device, or a private file that appears only when it is complete."""
    if path is None:
        yield sys.stdout.buffer
        return
    unfinished = ""  # a new file of our own: another one beside the output may be another command's
    try:
        if path.exists() and not path.is_file():
            with path.open("wb") as file:
                yield file
            return
        descriptor, unfinished = tempfile.mkstemp(".part", ".export-", path.parent)
        with open(descriptor, "wb") as file:
            yield file
        os.replace(unfinished, path)
        unfinished = ""
    except OSError as error:
        raise DatabaseError(f"{path} cannot be written: {error.strerror}") from None
    finally:
        if unfinished:
            os.unlink(unfinished)


# --- erase ----------------------------------------------------------------------------------------


@main.command()
@client_option
@id_option
@click.option("--yes", is_flag=True, help="Erase without confirmation.")
@click.option(
    "--list",
    "is_list",
    is_flag=True,
    help="List the erased clients, including clients who are missing since a restore.",
)
def erase(user: str | None, client_id: int | None, yes: bool, is_list: bool) -> None:
    """Erase a client's names, texts and answers; numbers and the audit log stay."""
    if is_list:
        if user is not None or client_id is not None or yes:
            raise click.UsageError("--list takes no other option")
        for (_, person), mark in sorted(read_database(settings_or_warn(), reading_tombstones()).items()):
            if mark.state is TombstoneState.ERASED:
                click.echo(f"{person}\t{moment_as_text(mark.moment)}")  # as `restore --erased` reads it
        return
    reject_unless_one(user, client_id)
    settings = settings_or_warn()
    client = read_database(settings, finding_client(user, client_id))
    if not yes:
        click.echo(f"Client {client.id}, {printable(client.name)}: erasing cannot be undone.")
        expected = user or str(client.id)
        if click.prompt(f"Type {expected} to erase", prompt_suffix=": ") != expected:
            raise AccountRejected("the input does not match; nothing was erased")
    erased = write_database(settings, erasing_on_record(client.id, utc_now()))
    asyncio.run(clean(settings.database, client.id))
    click.echo(
        f"client {client.id} is erased: {counted(erased.sessions, 'session')}, "
        f"{counted(erased.answers, 'answer')}, {counted(erased.feedbacks, 'feedback')}, "
        f"{counted(erased.drafts, 'draft')}"
    )
    if not settings.database.startswith("sqlite:"):  # where `restore` cannot read the replaced database
        click.echo("now run care-gateway tombstones save FILE: a restore needs it", err=True)


def erasing_on_record(client: int, now: datetime) -> Steps[Erased]:
    return audited("erase", erasing(client, now), lambda erased: about_client(client, erased.caregivers))
