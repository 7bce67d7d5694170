"""The commands `schema` and `ide`."""

import time

import click

from app.cli.common import Group
from app.dev.ide.building import build
from app.telemetry.wording import counted


@click.command()
@click.option("--reference", is_flag=True, help="Print an HTML page instead of plain SDL.")
def schema(reference: bool) -> None:
    """Print the GraphQL schema as SDL."""
    from app.landing.reference import schema_page  # slow to import
    from app.schema.schema import build_schema, schema_text

    sdl = schema_text(build_schema())
    click.echo(schema_page(sdl) if reference else sdl, nl=False)


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
