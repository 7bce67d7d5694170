"""The command line `care-gateway`."""

import asyncio
import os
import signal
import socket
import sys
from collections.abc import Awaitable, Callable, Iterator
from typing import Any, BinaryIO, TypeVar

import click
import uvicorn
from sqlalchemy.exc import SQLAlchemyError
from sqlmodel.ext.asyncio.session import AsyncSession

from app.auth.door import utc_now
from app.care.context import Role
from app.db.drivers import Database, DatabaseError, is_fault_of_database, open_database, reason_of
from app.db.tables import Caregiver, Client
from app.db.upkeep.accounts import AccountRefused, add_person, list_people, set_disabled
from app.db.upkeep.demo import CAREGIVER, CLIENT, demo_lines
from app.db.upkeep.importing import ImportRefused, importing, is_empty
from app.db.upkeep.kept import differences
from app.db.upkeep.migrate import migrate, newest_version, stored_version
from app.db.upkeep.seldom import transaction
from app.development import mint_token
from app.first_minute import what_to_paste
from app.main import create_app, settle
from app.schema.schema import build_schema, schema_text
from app.settings import Settings, SettingsError, read_settings, unknown_variables, variable

Result = TypeVar("Result")
ROLES = click.Choice([role.lower() for role in Role])
TABLES: dict[str, type[Caregiver] | type[Client]] = {"caregiver": Caregiver, "client": Client}


class Gateway(click.Group):
    """Whatever the operator can mend ends a command with one sentence and exit code 2."""

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except (SettingsError, DatabaseError, ImportRefused, AccountRefused) as error:
            sentence = str(error)
        except SQLAlchemyError as error:
            sentence = f"the database refuses: {str(error).splitlines()[0]}"
        click.echo(f"care-gateway: {sentence}", err=True)
        ctx.exit(2)


@click.group(cls=Gateway, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="care-gateway")
def main() -> None:
    """Connects caregivers with their clients: GraphQL and four legacy REST paths over one domain."""


def settings_or_warn() -> Settings:
    """The settings; CARE_ variables that nobody reads are pointed out, platforms inject such names."""
    settings = read_settings()
    for name in unknown_variables(os.environ):
        click.echo(f"care-gateway: warning: {name} is not a setting and is ignored", err=True)
    return settings


async def refuse_old_tables(db: Database) -> None:
    try:
        version = await db.read(stored_version())
    except Exception:
        version = None
    if version != newest_version():
        raise DatabaseError(
            "the database does not have the tables of this version; run `care-gateway migrate`"
        )


def on_database(settings: Settings, work: Callable[[Database], Awaitable[Result]]) -> Result:
    async def run() -> Result:
        db = await open_database(settings.database, settings.read_threads, patience=None)
        try:
            await refuse_old_tables(db)
            return await work(db)
        except Exception as error:
            if is_fault_of_database(error):
                raise DatabaseError(f"the database refuses: {reason_of(error)}") from None
            raise
        finally:
            await db.close()

    return asyncio.run(run())


# --- serving --------------------------------------------------------------------------------------


@main.command()
@click.option("--host", help="Address to listen on; CARE_HOST otherwise.")
@click.option("--port", type=click.IntRange(1, 65535), help="Port to listen on; CARE_PORT otherwise.")
@click.option("--workers", type=click.IntRange(1, 64), default=1, show_default=True, help="Processes.")
def serve(host: str | None, port: int | None, workers: int) -> None:
    """Serve both contracts."""
    settings = settings_or_warn()
    app = create_app(settings)  # also with workers, which make their own: what is wrong is said here
    on_database(settings, no_work)
    settle()
    host, port = host or settings.host, port or settings.port
    refuse_taken_port(host, port)
    for each in (signal.SIGINT, signal.SIGTERM):
        signal.signal(each, stopped)
    uvicorn.run(
        app if workers == 1 else "app.main:app",
        workers=workers,
        host=host,
        port=port,
        log_level=settings.log_level,
        access_log=False,  # paths and queries name people's records
        server_header=False,
    )


async def no_work(db: Database) -> None:
    """Opening was the point: what is wrong with the database is said before anything is done."""


def refuse_taken_port(host: str, port: int) -> None:
    try:
        for family, kind, protocol, _, address in socket.getaddrinfo(host, port, type=socket.SOCK_STREAM):
            with socket.socket(family, kind, protocol) as one:
                one.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                one.bind(address)
    except OSError as error:
        raise SettingsError(f"cannot listen on {host}, port {port}: {error.strerror}") from None


def stopped(number: int, frame: object) -> None:
    """Being told to stop is no fault. The server, once it has shut down, raises the signal that it caught."""
    raise SystemExit(0)


@main.command()
def demo() -> None:
    """Migrate, load the demo world if the database is empty, and print what to paste."""
    settings = settings_or_warn()
    tokens = {  # first: outside development this is refused, and nothing is loaded
        role: mint_token(settings, role, user, utc_now())
        for role, user in ((Role.CAREGIVER, CAREGIVER), (Role.CLIENT, CLIENT))
    }
    asyncio.run(migrate(settings.database))

    async def load(db: Database) -> None:
        if await db.read(is_empty()):
            await db.write(importing(demo_lines(utc_now())))

    on_database(settings, load)
    click.echo(what_to_paste(f"http://{settings.host}:{settings.port}", tokens))


@main.command()
@click.option("--role", type=ROLES, required=True)
@click.option("--user", required=True, metavar="NAME", help="The user name of the account.")
@click.option("--hours", type=click.IntRange(1, 24 * 365), default=24, show_default=True)
def token(role: str, user: str, hours: int) -> None:
    """Mint a development token."""
    click.echo(mint_token(settings_or_warn(), role.upper(), user, utc_now(), hours))


# --- the database ---------------------------------------------------------------------------------


@main.command("migrate")
def migrate_command() -> None:
    """Bring the database to the tables of this version."""
    asyncio.run(migrate(settings_or_warn().database))


@main.command("import")
@click.argument("file", type=click.File("rb"))
def import_command(file: BinaryIO) -> None:
    """Load a world from JSON Lines: all of it or nothing."""
    settings = settings_or_warn()
    try:
        counts = on_database(settings, lambda db: db.write(importing(with_progress(file))))
    except ImportRefused as refusal:
        raise ImportRefused.of_file(file.name, refusal) from None
    click.echo(", ".join(f"{count:,} {kind}" for kind, count in counts.items()) or "nothing to load")


def with_progress(file: BinaryIO) -> Iterator[bytes]:
    """The file's lines; on a terminal with a bar of how much of it is read."""
    size = os.fstat(file.fileno()).st_size if file.seekable() else 0
    with click.progressbar(length=size, label="importing", file=sys.stderr) as bar:
        for line in file:
            yield line
            bar.update(len(line))


@main.command()
def verify() -> None:
    """Recompute the numbers that sessions keep of their assignments, and compare."""
    found = on_database(settings_or_warn(), lambda db: db.read(differences()))
    for one in found:
        click.echo(f"session {one.session_id}: {one.name} is {one.kept}, should be {one.recomputed}")
    click.echo(f"{len(found)} differences")
    if found:
        raise SystemExit(1)


# --- accounts -------------------------------------------------------------------------------------


@main.group()
def account() -> None:
    """Keep the accounts of caregivers and clients."""


def on_accounts(work: Callable[[AsyncSession], Awaitable[Result]]) -> Result:
    settings = settings_or_warn()
    on_database(settings, no_work)

    async def run() -> Result:
        async with transaction(settings.database) as tx:
            return await work(tx)

    return asyncio.run(run())


@account.command("add")
@click.option("--role", type=ROLES, required=True)
@click.option("--user", required=True, metavar="NAME", help="What tokens call the person.")
@click.option("--name", required=True, help="The person's name.")
@click.option("--position", help="A caregiver's professional position.")
@click.option("--oppt-id", help="A client's identifier outside this service.")
def add_account(role: str, user: str, name: str, position: str | None, oppt_id: str | None) -> None:
    """Add a person with an account; prints the person's id."""
    for value in (user, name, position or "-", oppt_id or "-"):
        if not value.strip() or not value.isprintable():
            raise click.UsageError("names and identifiers are not empty, and hold no control characters")
    if role == "caregiver":
        if not position or oppt_id:
            raise click.UsageError("a caregiver has a --position, and no --oppt-id")
        person: Caregiver | Client = Caregiver(name=name, position=position, user_name=user)
    else:
        if not oppt_id or position:
            raise click.UsageError("a client has an --oppt-id, and no --position")
        person = Client(name=name, oppt_id=oppt_id, user_name=user)

    async def add(tx: AsyncSession) -> int:
        return (await add_person(tx, person)).id

    click.echo(on_accounts(add))


@account.command("list")
def list_accounts() -> None:
    """List the accounts: role, id, user name, and whether it is disabled."""

    for person in on_accounts(list_people):
        state = "disabled" if person.is_disabled else "enabled"
        role = type(person).__name__.lower()
        click.echo(f"{role}\t{person.id}\t{person.user_name}\t{state}")


def switch_account(role: str, user: str, is_disabled: bool) -> None:
    on_accounts(lambda tx: set_disabled(tx, TABLES[role], user, is_disabled))


@account.command("disable")
@click.option("--role", type=ROLES, required=True)
@click.option("--user", required=True, metavar="NAME")
def disable_account(role: str, user: str) -> None:
    """Shut an account out; its history stays."""
    switch_account(role, user, is_disabled=True)


@account.command("enable")
@click.option("--role", type=ROLES, required=True)
@click.option("--user", required=True, metavar="NAME")
def enable_account(role: str, user: str) -> None:
    """Let a disabled account in again."""
    switch_account(role, user, is_disabled=False)


# --- about itself ---------------------------------------------------------------------------------


@main.command()
def schema() -> None:
    """Print the GraphQL schema in SDL."""
    click.echo(schema_text(build_schema()), nl=False)


@main.command("settings")
def list_settings() -> None:
    """Print every setting: its variable, default and meaning."""
    for name, field in Settings.model_fields.items():
        default = str(field.default)
        click.echo(f"{variable(name)} (default: {default or 'empty'})\n    {field.description}")
