"""Shared by the commands: settings, an opened and migrated database, option types."""

import asyncio
import os
from collections.abc import Awaitable, Callable
from typing import TypeVar

import click

from app.care.context import Role, utc_now
from app.db.admin.migrate import newest_version, refuse_newer, stored_version
from app.db.audit.records import About, operator_record, recording
from app.db.drivers.factory import open_database
from app.db.drivers.interface import (
    Database,
    DatabaseError,
    is_fault_of_database,
    reason_of,
    sqlite_path,
)
from app.db.sql import Operation
from app.doctor.access import barred
from app.settings import Settings, read_settings, unknown_variables

Result = TypeVar("Result")


class Whole(click.IntRange):
    """An IntRange that error messages call "whole number"."""

    name = "whole number"


MAX_SUMMARY = 1000  # characters; longer than every summary
NUMBER = Whole(1, 2**63 - 2)  # an id
ROLES = click.Choice([role.lower() for role in Role])


def settings_or_warn() -> Settings:
    """Reads the settings and warns about unknown CARE_ variables."""
    settings = read_settings()
    for name in unknown_variables(os.environ):
        click.echo(f"care-gateway: warning: {name} is not a setting and is ignored", err=True)
    return settings


async def refuse_other_tables(db: Database) -> None:
    try:
        version = await db.read(stored_version())
    except Exception:
        version = None
    refuse_newer(version)
    if version != newest_version():
        raise DatabaseError(
            "the database does not have the tables of this version; run `care-gateway migrate`"
        )


def refuse_barred(settings: Settings) -> None:
    """A read-only database opens without error, so check that it is writable before serving."""
    if settings.database.startswith("sqlite:"):
        for finding in barred(sqlite_path(settings.database)):
            raise DatabaseError(f"the database cannot be served: {finding.message}")


def on_database(settings: Settings, work: Callable[[Database], Awaitable[Result]]) -> Result:
    async def run() -> Result:
        db = await open_database(settings.database, settings.read_threads, patience=None)
        try:
            await refuse_other_tables(db)
            return await work(db)
        except Exception as error:
            if is_fault_of_database(error):
                raise DatabaseError(f"the database refuses: {reason_of(error)}") from None
            raise
        finally:
            await db.close()

    return asyncio.run(run())


def on_record(
    what: str, operation: Operation[Result], about: Callable[[Result], About] = lambda _: []
) -> Operation[Result]:
    """Runs the operation and writes its audit record in the same transaction."""
    result = yield from operation
    yield from recording([operator_record(utc_now(), what, about(result))])
    return result


class Group(click.Group):
    """A group whose help shows the whole first sentence of each command; Click truncates it."""

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        rows = [(name, self.commands[name].get_short_help_str(MAX_SUMMARY)) for name in sorted(self.commands)]
        with formatter.section("Commands"):
            formatter.write_dl(rows)


async def no_work(db: Database) -> None:
    """For on_database calls that only check that the database opens and is migrated."""
