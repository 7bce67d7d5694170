"""The `account` commands."""

import asyncio
from collections.abc import Awaitable, Callable

import click
from sqlmodel.ext.asyncio.session import AsyncSession

from app.care.context import utc_now
from app.cli.common import ID, ROLES, Group, check_database, settings_or_warn
from app.db.admin.accounts import Person, add_person, link_person, list_people, set_disabled
from app.db.admin.orm import transaction
from app.db.audit.records import About, operator_record
from app.db.drivers.interface import Result
from app.db.tables import AuditRecord, Caregiver, Client

TABLES: dict[str, type[Caregiver] | type[Client]] = {"caregiver": Caregiver, "client": Client}


class PrintableText(click.ParamType[str]):
    name = "text"

    def convert(self, value: str, param: click.Parameter | None, ctx: click.Context | None) -> str:
        if not value.strip():
            self.fail("must not be blank", param, ctx)
        if not value.isprintable():
            self.fail("must not contain control characters", param, ctx)
        return value


TEXT = PrintableText()
role_option = click.option("--role", type=ROLES, required=True)
new_user_option = click.option(
    "--user", type=TEXT, required=True, metavar="NAME", help="The user name in the person's tokens."
)
user_option = click.option("--user", required=True, metavar="NAME")  # imports may have added any text


@click.group(cls=Group)
def account() -> None:
    """Manage the accounts of caregivers and clients."""


def on_accounts(work: Callable[[AsyncSession], Awaitable[Result]]) -> Result:
    settings = settings_or_warn()
    check_database(settings)

    async def run() -> Result:
        async with transaction(settings.database) as tx:
            return await work(tx)

    return asyncio.run(run())


def record_change(tx: AsyncSession, name: str, person: Person) -> None:
    """Writes the audit record in the transaction of the change."""
    about: About = [(person.id, None, {}) if isinstance(person, Caregiver) else (None, person.id, {})]
    tx.add(AuditRecord(**operator_record(utc_now(), name, about)._asdict()))


@account.command("add")
@role_option
@new_user_option
@click.option("--name", type=TEXT, required=True, help="The person's name.")
@click.option("--position", type=TEXT, help="A caregiver's professional position.")
@click.option("--oppt-id", type=TEXT, help="A client's external identifier.")
def add_account(role: str, user: str, name: str, position: str | None, oppt_id: str | None) -> None:
    """Add a person with an account and print the person's id."""
    if role == "caregiver":
        if not position or oppt_id:
            raise click.UsageError("a caregiver needs --position and must not have --oppt-id")
        person: Person = Caregiver(name=name, position=position, user_name=user)
    else:
        if not oppt_id or position:
            raise click.UsageError("a client needs --oppt-id and must not have --position")
        person = Client(name=name, oppt_id=oppt_id, user_name=user)

    async def add(tx: AsyncSession) -> int:
        added = await add_person(tx, person)
        record_change(tx, "account add", added)
        return added.id

    click.echo(on_accounts(add))


@account.command("link")
@role_option
@click.option("--id", "person_id", type=ID, required=True, metavar="N", help="The person's id.")
@new_user_option
def link_account(role: str, person_id: int, user: str) -> None:
    """Add an account to an existing person, for example after an import."""

    async def link(tx: AsyncSession) -> None:
        record_change(tx, "account link", await link_person(tx, TABLES[role], person_id, user))

    on_accounts(link)
    click.echo(f"{role} {person_id} signs in as {user}")


@account.command("list")
def list_accounts() -> None:
    """List the accounts: role, id, user name, state."""
    for person in on_accounts(list_people):
        state = "disabled" if person.is_disabled else "enabled"
        click.echo(f"{type(person).__name__.lower()}\t{person.id}\t{person.user_name}\t{state}")


@account.command("disable")
@role_option
@user_option
def disable_account(role: str, user: str) -> None:
    """Disable an account; its data stays."""
    switch_account(role, user, "disable")


@account.command("enable")
@role_option
@user_option
def enable_account(role: str, user: str) -> None:
    """Enable a disabled account."""
    switch_account(role, user, "enable")


def switch_account(role: str, user: str, command: str) -> None:
    async def switch(tx: AsyncSession) -> int:
        person = await set_disabled(tx, TABLES[role], user, command == "disable", utc_now())
        record_change(tx, f"account {command}", person)
        return person.id

    click.echo(f"{role} {on_accounts(switch)}, {user}, is {command}d")
