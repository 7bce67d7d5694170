"""`legacy record`: records the old service."""

import sys
from pathlib import Path

import click

from app.cli.common import WholeNumber, settings_or_warn
from app.telemetry.wording import counted
from moving_over import LegacyMigrationError
from moving_over.commands import shared
from moving_over.http_client import read_address
from moving_over.recorder import record as record_users


@click.command()
@click.option("--old", metavar="URL", required=True, help="URL of the service to record.")
@click.option("--to", "folder", type=click.Path(path_type=Path), metavar="FOLDER", required=True)
@shared.caregivers_option
@shared.clients_option
@click.option("--size", type=WholeNumber(1, 1000), default=100, show_default=True, help="Page size.")
@shared.timeout_option
@shared.at_once_option
def record(
    old: str,
    folder: Path,
    caregivers: tuple[str, ...],
    clients: tuple[str, ...],
    size: int,
    timeout: float,
    at_once: int,
) -> None:
    """Record all pages that these users can read into a new private folder."""
    tokens = shared.read_all_tokens(caregivers, clients, settings_or_warn().claim_user)
    if not tokens:
        raise LegacyMigrationError("no tokens; give files with --caregivers and --clients")
    address = read_address(old)
    if address.exposes_tokens:
        click.echo("warning: tokens are sent to the old service unencrypted", err=True)
    responses = 0
    with click.progressbar(length=len(tokens), label="recording", file=sys.stderr) as bar:
        for written in record_users(address, folder, tokens, size, timeout, at_once):
            responses += written
            bar.update(1)
    click.echo(f"{counted(responses, 'response')} for {counted(len(tokens), 'user')}, in {folder}")
