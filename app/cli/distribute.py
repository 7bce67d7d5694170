"""`distribute`: distributes the tables of a PostgreSQL database with Citus."""

import asyncio

import click

from app.cli.common import WholeNumber, settings_or_warn
from app.db.admin.distributing import distribute
from app.db.drivers.interface import location_of

MAX_SHARDS = 64_000  # of Citus


@click.command("distribute")
@click.option(
    "--shards",
    type=WholeNumber(1, MAX_SHARDS),
    default=32,
    show_default=True,
    help="Number of parts of each table; a worker can hold several.",
)
def distribute_command(shards: int) -> None:
    """Distribute a migrated PostgreSQL database by caregiver with Citus."""

    def show(number: int, count: int, what: str) -> None:
        click.echo(f"{number:>2} of {count}: {what}", err=True)

    url = settings_or_warn().database
    asyncio.run(distribute(url, shards, show))
    click.echo(f"{location_of(url)} is distributed by caregiver")
