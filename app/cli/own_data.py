"""The commands for a client's personal data: `export` and `erase`."""

import asyncio
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

import click

from app.care.context import utc_now
from app.care.own_data import DataFormat, exporting
from app.cli.common import NUMBER, on_database, on_record, settings_or_warn
from app.db.admin.accounts import AccountRefused
from app.db.admin.erasing import Named, clean, erasing, finding_client, finding_erased
from app.db.audit.records import About
from app.db.moments import moment_as_text
from app.db.reader.own_data import reading_key
from app.db.sql import Operation
from app.telemetry.wording import counted

FORMATS = click.Choice([format.lower() for format in DataFormat])


def refuse_unless_one(user: str | None, client_id: int | None) -> None:
    if (user is None) == (client_id is None):
        raise click.UsageError("give either --client or --id")


@click.command()
@click.option("--client", "user", metavar="NAME", help="The client's user name.")
@click.option("--id", "client_id", type=NUMBER, metavar="N", help="The client's id.")
@click.option("--format", "name", type=FORMATS, required=True)
@click.option(
    "--output",
    type=click.Path(dir_okay=False, path_type=Path),
    metavar="FILE",
    help="Output file; default is standard output.",
)
def export(user: str | None, client_id: int | None, name: str, output: Path | None) -> None:
    """Export all data of a client."""
    refuse_unless_one(user, client_id)
    settings = settings_or_warn()
    format = DataFormat(name.upper())

    client, caregivers = on_database(settings, lambda db: db.read(finding_cared_for(user, client_id)))
    noted = on_record("export", nothing(), lambda _: about(client.id, caregivers))
    on_database(settings, lambda db: db.write(noted))  # record the export before any output
    with open_output(output) as file:
        writing = exporting(client.id, format, lambda text: file.write(text.encode()))
        on_database(settings, lambda db: db.read(writing))


def finding_cared_for(user: str | None, client_id: int | None) -> Operation[tuple[Named, list[int]]]:
    client = yield from finding_client(user, client_id)
    key = yield from reading_key(client.id)
    return client, key["caregivers"]


def nothing() -> Operation[None]:
    yield from ()


def about(client: int, caregivers: list[int]) -> About:
    """All rows of the client with these caregivers."""
    return [(caregiver, client, {}) for caregiver in sorted(caregivers)] or [(None, client, {})]


@contextmanager
def open_output(path: Path | None) -> Iterator[BinaryIO]:
    """Standard output, or a private file that appears only when it is complete."""
    if path is None:
        yield sys.stdout.buffer
        return
    unfinished = path.with_name(f"{path.name}.part")
    try:
        unfinished.unlink(missing_ok=True)  # left by an interrupted export, or not ours
        with open(os.open(unfinished, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
            yield file
        unfinished.replace(path)
    except OSError as error:
        raise click.FileError(str(path), error.strerror) from None
    finally:
        unfinished.unlink(missing_ok=True)


@click.command()
@click.option("--client", "user", metavar="NAME", help="The client's user name.")
@click.option("--id", "client_id", type=NUMBER, metavar="N", help="The client's id.")
@click.option("--yes", is_flag=True, help="Erase without confirmation.")
@click.option(
    "--list", "is_list", is_flag=True, help="List the erased clients. Store the list apart from backups."
)
def erase(user: str | None, client_id: int | None, yes: bool, is_list: bool) -> None:
    """Erase a client's names, texts and answers; numbers and the audit log stay."""
    if is_list:
        list_erased(user, client_id, yes)
        return
    refuse_unless_one(user, client_id)
    settings = settings_or_warn()
    client = on_database(settings, lambda db: db.read(finding_client(user, client_id)))
    if not yes:
        click.echo(f"Client {client.id}, {client.name}: erasing cannot be undone.")
        called = user or str(client.id)
        if click.prompt(f"Type {called} to erase", prompt_suffix=": ") != called:
            raise AccountRefused("the input does not match; nothing was erased")
    erasing_it = on_record("erase", erasing(client.id, utc_now()), lambda it: about(client.id, it.caregivers))
    erased = on_database(settings, lambda db: db.write(erasing_it))
    asyncio.run(clean(settings.database, client.id))
    click.echo(
        f"client {client.id} is erased: {counted(erased.sessions, 'session')}, "
        f"{counted(erased.answers, 'answer')}, {counted(erased.feedbacks, 'feedback')}, "
        f"{counted(erased.drafts, 'draft')}"
    )


def list_erased(user: str | None, client_id: int | None, yes: bool) -> None:
    """Prints the input of `restore --erased`: one id per line with the time of the erasure."""
    if user is not None or client_id is not None or yes:
        raise click.UsageError("--list takes no other option")
    for client, moment in on_database(settings_or_warn(), lambda db: db.read(finding_erased())):
        click.echo(f"{client}\t{moment_as_text(moment)}")
