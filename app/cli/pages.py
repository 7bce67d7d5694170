"""The command `pages`."""

import time

import click

from app.cli.common import Group
from app.dev.building import build
from app.telemetry.wording import counted


@click.group(cls=Group)
def pages() -> None:
    """GraphiQL and the other pages of development."""


@pages.command("build")
def build_command() -> None:
    """Build the pages from their npm packages (needs Node)."""
    started = time.perf_counter()
    built = build(report=click.echo)
    seconds = time.perf_counter() - started
    click.echo(f"built: {counted(len(built.files), 'file')}, {built.size / 1e6:.1f} MB, in {seconds:.0f} s")
    click.echo("Restart a running server to use them.")
