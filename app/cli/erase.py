"""`erase`: erases a client's names, texts and answers, or lists the erased clients."""

import asyncio
from datetime import datetime

import click

from app.care.context import utc_now
from app.cli.common import audited, read_database, settings_or_warn, write_database
from app.cli.export import about_client, client_option, id_option, reject_unless_one
from app.db.admin.accounts import AccountRejected
from app.db.admin.erasing import Erased, clean, erasing, finding_client
from app.db.admin.tombstones import reading_tombstones
from app.db.moments import moment_as_text
from app.db.sql import Steps
from app.db.tables import TombstoneState
from app.telemetry.wording import counted


@click.command()
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
        click.echo(f"Client {client.id}, {client.name}: erasing cannot be undone.")
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


def erasing_on_record(client: int, now: datetime) -> Steps[Erased]:
    return audited("erase", erasing(client, now), lambda erased: about_client(client, erased.caregivers))
