"""`legacy record`: records the old service."""

import sys
from pathlib import Path
from typing import Any

import click

from app.cli.common import WholeNumber, settings_or_warn
from app.telemetry.wording import counted
from moving_over import LegacyMigrationError
from moving_over.commands import shared
from moving_over.http_client import read_address
from moving_over.recorder import Recorder
from moving_over.tokens import UserToken

Texts = tuple[str, ...]


@click.command()
@click.option("--old", metavar="URL", required=True, help="URL of the service to record.")
@click.option("--to", "folder", type=click.Path(path_type=Path), metavar="FOLDER", required=True)
@shared.caregivers_option
@shared.clients_option
@click.option("--size", type=WholeNumber(1, 1000), default=100, show_default=True, help="Page size.")
@click.option(
    "--paging", nargs=2, default=("page", "size"), show_default=True, help="Names of the parameters."
)
@click.option("--first-page", type=WholeNumber(0, 1), default=0, show_default=True, help="Its number.")
@click.option(
    "--attempts", type=WholeNumber(1, 20), default=8, show_default=True, help="Of a call that fails."
)
@click.option("--continue", "continues", is_flag=True, help="Continue a recording that failed.")
@shared.timeout_option
@shared.at_once_option
def record(
    old: str, folder: Path, caregivers: Texts, clients: Texts, continues: bool, at_once: int, **options: Any
) -> None:
    """Record all pages that these users can read into a new private folder."""
    claim = settings_or_warn().claim_user
    tokens = shared.read_all_tokens(caregivers, clients, claim)
    if not tokens:
        raise LegacyMigrationError("no tokens; give files with --caregivers and --clients")
    address = read_address(old)
    if address.exposes_tokens:
        click.echo("warning: tokens are sent to the old service unencrypted", err=True)

    def renew(rejected: UserToken) -> UserToken | None:
        try:
            read = shared.read_all_tokens(caregivers, clients, claim)
        except LegacyMigrationError:  # the file is being replaced: the next attempt reads it again
            return rejected
        again = {(each.role, each.user): each for each in read}
        found = again.get((rejected.role, rejected.user))
        return None if found is None or found.token == rejected.token else found

    recorder, responses = Recorder(address, folder, renew, at_once, **options), 0
    with click.progressbar(length=len(tokens), label="recording", file=sys.stderr) as bar:
        for written in recorder.record(tokens, continues):
            responses += written
            bar.update(1)
    click.echo(f"{counted(responses, 'response')} for {counted(len(tokens), 'user')}, in {folder}")
