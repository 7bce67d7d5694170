"""`ide build`."""

import time

import click

from app.cli.common import Group
from app.dev.ide.building import build
from app.telemetry.wording import counted


@click.group(cls=Group)
def ide() -> None:
    """GraphiQL, the GraphQL page in development."""


@ide.command("build")
def build_command() -> None:
    """Build GraphiQL from its npm packages (needs Node)."""
    started = time.perf_counter()
    built = build(report=click.echo)
    seconds = time.perf_counter() - started
    click.echo(f"built: {counted(len(built.files), 'file')}, {built.size / 1e6:.1f} MB, in {seconds:.0f} s")
    click.echo("Restart a running server to use it.")
