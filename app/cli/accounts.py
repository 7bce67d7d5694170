"""The `account` commands."""

import asyncio
from collections.abc import Awaitable, Callable

import click
from sqlmodel.ext.asyncio.session import AsyncSession

from app.care.context import utc_now
from app.cli.common import NUMBER, ROLES, Group, Result, no_work, on_database, settings_or_warn
from app.db.admin.accounts import Person, add_person, link_person, list_people, set_disabled
from app.db.admin.orm import transaction
from app.db.audit.records import About, operator_record
from app.db.tables import AuditRecord, Caregiver, Client

TABLES: dict[str, type[Caregiver] | type[Client]] = {"caregiver": Caregiver, "client": Client}


@click.group(cls=Group)
def account() -> None:
    """Manage the accounts of caregivers and clients."""


def on_accounts(work: Callable[[AsyncSession], Awaitable[Result]]) -> Result:
    settings = settings_or_warn()
    on_database(settings, no_work)

    async def run() -> Result:
        async with transaction(settings.database) as tx:
            return await work(tx)

    return asyncio.run(run())


@account.command("add")
@click.option("--role", type=ROLES, required=True)
@click.option("--user", required=True, metavar="NAME", help="The user name in the person's tokens.")
@click.option("--name", required=True, help="The person's name.")
@click.option("--position", help="A caregiver's professional position.")
@click.option("--oppt-id", help="A client's external identifier.")
def add_account(role: str, user: str, name: str, position: str | None, oppt_id: str | None) -> None:
    """Add a person with an account and print the person's id."""
    refuse_unusable({"--user": user, "--name": name, "--position": position, "--oppt-id": oppt_id})
    if role == "caregiver":
        if not position or oppt_id:
            raise click.UsageError("a caregiver needs --position and must not have --oppt-id")
        person: Caregiver | Client = Caregiver(name=name, position=position, user_name=user)
    else:
        if not oppt_id or position:
            raise click.UsageError("a client needs --oppt-id and must not have --position")
        person = Client(name=name, oppt_id=oppt_id, user_name=user)

    async def add(tx: AsyncSession) -> int:
        added = await add_person(tx, person)
        note(tx, "account add", added)
        return added.id

    click.echo(on_accounts(add))


def note(tx: AsyncSession, what: str, person: Person) -> None:
    """Writes the audit record in the transaction of the change."""
    about: About = [(person.id, None, {}) if isinstance(person, Caregiver) else (None, person.id, {})]
    tx.add(AuditRecord(**operator_record(utc_now(), what, about)._asdict()))


@account.command("link")
@click.option("--role", type=ROLES, required=True)
@click.option("--id", "person_id", type=NUMBER, required=True, metavar="N", help="The person's id.")
@click.option("--user", required=True, metavar="NAME", help="The user name in the person's tokens.")
def link_account(role: str, person_id: int, user: str) -> None:
    """Add an account to an existing person, for example after an import."""
    refuse_unusable({"--user": user})

    async def link(tx: AsyncSession) -> None:
        note(tx, "account link", await link_person(tx, TABLES[role], person_id, user))

    on_accounts(link)
    click.echo(f"{role} {person_id} signs in as {user}")


def refuse_unusable(options: dict[str, str | None]) -> None:
    for option, value in options.items():
        if value is not None and not value.strip():
            raise click.BadParameter("must not be blank", param_hint=f"'{option}'")
        if value is not None and not value.isprintable():
            raise click.BadParameter("must not contain control characters", param_hint=f"'{option}'")


@account.command("list")
def list_accounts() -> None:
    """List the accounts: role, id, user name, state."""

    for person in on_accounts(list_people):
        state = "disabled" if person.is_disabled else "enabled"
        role = type(person).__name__.lower()
        click.echo(f"{role}\t{person.id}\t{person.user_name}\t{state}")


def switch_account(role: str, user: str, is_disabled: bool) -> None:
    async def switch(tx: AsyncSession) -> int:
        person = await set_disabled(tx, TABLES[role], user, is_disabled)
        note(tx, "account disable" if is_disabled else "account enable", person)
        return person.id

    click.echo(f"{role} {on_accounts(switch)}, {user}, is {'disabled' if is_disabled else 'enabled'}")


@account.command("disable")
@click.option("--role", type=ROLES, required=True)
@click.option("--user", required=True, metavar="NAME")
def disable_account(role: str, user: str) -> None:
    """Disable an account; its data stays."""
    switch_account(role, user, is_disabled=True)


@account.command("enable")
@click.option("--role", type=ROLES, required=True)
@click.option("--user", required=True, metavar="NAME")
def enable_account(role: str, user: str) -> None:
    """Enable a disabled account."""
    switch_account(role, user, is_disabled=False)
