"""The command line `care-gateway`, and what its commands share: settings, an opened and checked database,
audit records, option types."""

import asyncio
import os
from collections.abc import Awaitable, Callable, Iterable
from enum import Enum
from errno import EPIPE
from typing import Any

import click
from sqlalchemy.exc import SQLAlchemyError

from app.auth.key_sources import KeysAway
from app.care.context import Role, utc_now
from app.care.errors import CareError
from app.db.admin.migrate import reject_newer, serves, version_of
from app.db.audit.records import About, operator_record, recording
from app.db.drivers.factory import open_database
from app.db.drivers.interface import (
    Database,
    DatabaseAway,
    DatabaseError,
    DatabaseUnavailable,
    Result,
    is_fault_of_database,
    reason_of,
    sqlite_path,
)
from app.db.sql import DATABASE_KIND, Step, Steps, mapping_steps
from app.doctor.database import check_access, check_version
from app.doctor.findings import Finding, Verdict
from app.settings import Settings, SettingsError, read_settings, unknown_variables
from app.telemetry.wording import OperatorError


class WholeNumber(click.IntRange):
    """An IntRange that error messages call "whole number"."""

    name = "whole number"


MAX_SUMMARY = 1000  # characters; longer than every summary
ID = WholeNumber(1, 2**63 - 2)


class EnumChoice(click.Choice[Enum]):
    """A member of an enum, by its name in lower case."""

    def normalize_choice(self, choice: object, ctx: click.Context | None) -> str:
        return choice.name.lower() if isinstance(choice, Enum) else str(choice)


ROLE = EnumChoice(Role)


class Group(click.Group):
    """A group whose help shows the complete first sentence of each command; Click truncates it."""

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        names = self.list_commands(ctx)
        rows = [(name, self.commands[name].get_short_help_str(MAX_SUMMARY)) for name in names]
        with formatter.section("Commands"):
            formatter.write_dl(rows)


class Gateway(Group):
    """Prints one line per correctable error and exits with code 2."""

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except (SettingsError, OperatorError, CareError) as error:
            message = str(error)
        except (click.Abort, KeyboardInterrupt):
            if isinstance(self.commands.get(ctx.invoked_subcommand or ""), Service):
                raise
            click.echo(err=True)  # ends the line of a prompt
            message = "aborted"
        except UnicodeEncodeError as error:
            if error.encoding != "utf-8":
                raise
            message = "an argument is not valid UTF-8"
        except SQLAlchemyError as error:
            message = f"database error: {str(error).splitlines()[0]}"
        except OSError as error:
            if error.errno == EPIPE or isinstance(self.commands.get(ctx.invoked_subcommand or ""), Service):
                raise
            message = ": ".join(str(each) for each in (error.filename, error.strerror or error) if each)
        for line in message.splitlines():  # an import can report several errors
            click.echo(f"care-gateway: {line}", err=True)
        ctx.exit(2)


class Service(click.Command):
    """A command that runs until it is stopped. Exit code 1 lets its supervisor start it again."""

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except (DatabaseAway, KeysAway) as error:
            click.echo(f"care-gateway: {error}", err=True)
            ctx.exit(1)


@click.group(cls=Gateway, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="care-gateway", prog_name="care-gateway")
def main() -> None:
    """Care sessions for caregivers and clients: a GraphQL API and four legacy REST paths."""


def settings_or_warn() -> Settings:
    """Reads the settings and warns about unknown CARE_ variables."""
    settings = read_settings()
    for name in unknown_variables(os.environ):
        click.echo(f"care-gateway: warning: {name} is not a setting and is ignored", err=True)
    return settings


# --- the database ---------------------------------------------------------------------------------


def reject_version(version: str | None) -> None:
    reject_newer(version)
    reject_failed([check_version(version)])


def reject_failed(findings: Iterable[Finding]) -> None:
    for finding in findings:
        if finding.verdict is Verdict.FAILED:
            raise DatabaseError(f"{finding.message}; {finding.advice}")


def on_database(
    settings: Settings,
    work: Callable[[Database], Awaitable[Result]],
    reject: Callable[[str | None], None] = reject_version,
) -> Result:
    """Opens the database, checks that it is migrated, and runs `work`."""

    async def run() -> Result:
        db = await open_database(settings.database, settings.read_threads, patience=None)
        try:
            reject(await version_of(db))
            return await work(db)
        except Exception as error:
            if is_fault_of_database(error):
                kind = DatabaseAway if isinstance(error, DatabaseUnavailable) else DatabaseError
                raise kind(f"database error: {reason_of(error)}") from None
            raise
        finally:
            await db.close()

    return asyncio.run(run())


def read_database(settings: Settings, steps: Steps[Result]) -> Result:
    return on_database(settings, lambda db: db.read(steps))


def write_database(settings: Settings, steps: Steps[Result]) -> Result:
    return on_database(settings, lambda db: db.write(until_cancelled(steps, asyncio.current_task())))


def until_cancelled(steps: Steps[Result], task: "asyncio.Task[Any] | None") -> Steps[Result]:
    """The writer thread of SQLite would complete and commit the steps of a command that Ctrl-C has ended."""

    def check(step: Step) -> Step:
        if task is not None and task.cancelling():
            raise asyncio.CancelledError
        return step

    result = yield from mapping_steps(steps, check)
    check(DATABASE_KIND)
    return result


def reject_unserved(version: str | None) -> None:
    """Commands need the tables of their own version: an older `erase` would leave what a newer column has."""
    if not serves(version):
        reject_version(version)


def check_database(settings: Settings, reject: Callable[[str | None], None] = reject_version) -> None:
    """Rejects a database that cannot be opened or is not migrated."""

    async def no_work(db: Database) -> None: ...

    on_database(settings, no_work, reject)


def check_before_serving(settings: Settings) -> None:
    """A read-only database opens without error, so check that it is writable before serving."""
    if settings.database.startswith("sqlite:"):
        reject_failed(check_access(sqlite_path(settings.database)))
    check_database(settings, reject_unserved)


# --- audit records of operators -------------------------------------------------------------------


def audited(
    name: str, steps: Steps[Result], about: Callable[[Result], About] = lambda _: []
) -> Steps[Result]:
    """Runs the steps and writes their audit record in the same transaction."""
    result = yield from steps
    yield from audit_record(name, about(result))
    return result


def audit_record(name: str, about: About) -> Steps[None]:
    return recording([operator_record(utc_now(), name, about)])


def about_person(role: str, person: int) -> About:
    return [(person, None, {}) if role == Role.CAREGIVER else (None, person, {})]
