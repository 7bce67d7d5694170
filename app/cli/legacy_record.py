"""`legacy record`: records the responses of the old service in a folder that `import` reads."""

import sys
from pathlib import Path

import click

from app.cli.common import Whole, settings_or_warn
from app.cli.legacy_compare import SOURCE, read_both
from app.legacy_migration import MigrationError
from app.legacy_migration.http_client import read_address
from app.legacy_migration.recorder import Recorder
from app.telemetry.wording import counted


@click.command()
@click.option("--old", metavar="URL", required=True, help="URL of the service to record.")
@click.option("--to", "folder", type=click.Path(path_type=Path), metavar="FOLDER", required=True)
@click.option(
    "--caregivers", multiple=True, metavar=SOURCE, help="Caregivers' tokens, one per line, or env:NAME."
)
@click.option("--clients", multiple=True, metavar=SOURCE, help="Clients' tokens, one per line, or env:NAME.")
@click.option("--size", type=Whole(1, 1000), default=100, show_default=True, help="Page size.")
@click.option("--timeout", type=click.FloatRange(0.1, 600), default=30, show_default=True, metavar="SECONDS")
@click.option("--at-once", type=Whole(1, 16), default=4, show_default=True, metavar="N")
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
    tokens = read_both(caregivers, clients, settings_or_warn().claim_user)
    if not tokens:
        raise MigrationError("no tokens; give files with --caregivers and --clients")
    address = read_address(old)
    if address.exposes_tokens:
        click.echo("warning: tokens are sent to the old service unencrypted", err=True)
    recorder = Recorder(address, folder, size, timeout, at_once)
    responses = 0
    with click.progressbar(length=len(tokens), label="recording", file=sys.stderr) as bar:
        for written in recorder.record(tokens):
            responses += written
            bar.update(1)
    click.echo(f"{counted(responses, 'response')} for {counted(len(tokens), 'user')}, in {folder}")
