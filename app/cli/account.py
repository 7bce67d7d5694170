"""The `account` commands."""

import click

from app.care.context import Role, utc_now
from app.cli.common import (
    ID,
    ROLE,
    Group,
    about_person,
    audited,
    main,
    read_database,
    settings_or_warn,
    write_database,
)
from app.db.admin.accounts import adding_person, linking_person, listing_accounts, switching_account
from app.db.sql import Steps
from app.telemetry.wording import printable


def text(value: str) -> str:
    """An option type. The help shows its name."""
    if not value.strip():
        raise click.BadParameter("must not be blank")
    if not value.isprintable():
        raise click.BadParameter("must not contain control characters")
    return value


role_option = click.option("--role", type=ROLE, required=True)
new_user_option = click.option(
    "--user", type=text, required=True, metavar="NAME", help="The user name in the person's tokens."
)
user_option = click.option("--user", required=True, metavar="NAME")  # imports may have added any text


@main.group(cls=Group)
def account() -> None:
    """Manage the accounts of caregivers and clients."""


def change_account(command: str, role: Role, steps: Steps[int]) -> int:
    """Runs the steps with their audit record. Returns the id of the person."""
    steps = audited(f"account {command}", steps, lambda person: about_person(role, person))
    return write_database(settings_or_warn(), steps)


@account.command("add")
@role_option
@new_user_option
@click.option("--name", type=text, required=True, help="The person's name.")
@click.option("--position", type=text, help="A caregiver's professional position.")
@click.option("--oppt-id", type=text, help="A client's external identifier.")
def add_account(role: Role, user: str, name: str, position: str | None, oppt_id: str | None) -> None:
    """Add a person with an account and print the person's id."""
    if role is Role.CAREGIVER:
        if not position or oppt_id:
            raise click.UsageError("a caregiver needs --position and must not have --oppt-id")
        own = {"position": position}
    else:
        if not oppt_id or position:
            raise click.UsageError("a client needs --oppt-id and must not have --position")
        own = {"oppt_id": oppt_id}
    steps = adding_person(role, name=name, user_name=user, **own)
    click.echo(change_account("add", role, steps))


@account.command("link")
@role_option
@click.option("--id", "person_id", type=ID, required=True, metavar="N", help="The person's id.")
@new_user_option
def link_account(role: Role, person_id: int, user: str) -> None:
    """Add an account to an existing person, for example after an import."""
    change_account("link", role, linking_person(role, person_id, user))
    click.echo(f"{role.lower()} {person_id} signs in as {user}")


@account.command("list")
def list_accounts() -> None:
    """List the accounts: role, id, user name, state."""
    for one in read_database(settings_or_warn(), listing_accounts()):
        state = "disabled" if one.is_disabled else "enabled"
        click.echo(f"{one.role.lower()}\t{one.id}\t{printable(one.user)}\t{state}")


@account.command("disable")
@role_option
@user_option
def disable_account(role: Role, user: str) -> None:
    """Disable an account; its data stays."""
    switch_account(role, user, "disable")


@account.command("enable")
@role_option
@user_option
def enable_account(role: Role, user: str) -> None:
    """Enable a disabled account."""
    switch_account(role, user, "enable")


def switch_account(role: Role, user: str, command: str) -> None:
    steps = switching_account(role, user, command == "disable", utc_now())
    click.echo(f"{role.lower()} {change_account(command, role, steps)}, {printable(user)}, is {command}d")
