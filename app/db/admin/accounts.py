"""Reads and changes of the accounts of caregivers and clients. A role is CAREGIVER or CLIENT."""

from datetime import datetime
from typing import NamedTuple

from sqlalchemy import Boolean, literal, select, update

from app.db.admin.tombstones import ROLES, SWITCH_ACCOUNT, Mark, saving_tombstone
from app.db.sql import Statement, Steps, id_parameter, insert_if_absent, text_parameter
from app.db.tables import TombstoneState
from app.telemetry.wording import OperatorError

UNIQUE = {"user_name": "user name", "oppt_id": "identifier"}  # columns, as messages name them
NEW = {"CAREGIVER": ("name", "position", "user_name"), "CLIENT": ("name", "oppt_id", "user_name")}


def add_person(role: str) -> Statement:
    values = {name: text_parameter(name) for name in NEW[role]}
    table = ROLES[role]
    return insert_if_absent(table, {**values, "is_disabled": literal(False, Boolean)}, [table.c.id])


# By role.
FIND_BY = {
    (role, column): Statement(select(table.c.id).where(table.c[column] == text_parameter(column)))
    for role, table in ROLES.items()
    for column in UNIQUE
    if column in table.c
}
LIST_ACCOUNTS = {
    role: Statement(
        select(*table.c["id", "user_name", "is_disabled"])
        .where(table.c.user_name.is_not(None))
        .order_by(table.c.id)
    )
    for role, table in ROLES.items()
}
FIND_PERSON = {
    role: Statement(
        select(table.c.user_name, *([table.c.erase_date] if role == "CLIENT" else [])).where(
            table.c.id == id_parameter("person")
        )
    )
    for role, table in ROLES.items()
}
ADD_PERSON = {role: add_person(role) for role in ROLES}
LINK_PERSON = {
    role: Statement(
        update(table).where(table.c.id == id_parameter("person")).values(user_name=text_parameter("user"))
    )
    for role, table in ROLES.items()
}


class AccountRejected(OperatorError):
    """The account cannot be added or changed."""


class Account(NamedTuple):
    role: str
    id: int
    user: str
    is_disabled: bool


def adding_person(role: str, **values: str) -> Steps[int]:
    """Adds a person with these column values. Returns the new id."""
    for column, name in UNIQUE.items():
        if column in values and (owner := (yield FIND_BY[role, column], values)):
            raise AccountRejected(f"{role.lower()} {owner[0][0]} has the {name} {values[column]} already")
    added = yield ADD_PERSON[role], values
    if not added:  # a concurrent command was faster
        raise AccountRejected("this user name or client identifier is taken")
    return int(added[0][0])


def listing_accounts() -> Steps[list[Account]]:
    """The accounts of caregivers, then those of clients."""
    found: list[Account] = []
    for role in ROLES:
        rows = yield LIST_ACCOUNTS[role], {}
        found += [Account(role, id, user, bool(is_disabled)) for id, user, is_disabled in rows]
    return found


def switching_account(role: str, user: str, is_disabled: bool, now: datetime) -> Steps[int]:
    """Disables or enables an account. Returns the id of the person."""
    found = yield FIND_BY[role, "user_name"], {"user_name": user}
    if not found:
        raise AccountRejected("there is no such account in this role")
    person: int = found[0][0]
    yield SWITCH_ACCOUNT[role], {"person": person, "is_disabled": is_disabled}
    state = TombstoneState.DISABLED if is_disabled else TombstoneState.ENABLED
    yield from saving_tombstone(role, person, Mark(state, now))
    return person


def linking_person(role: str, person: int, user: str) -> Steps[int]:
    """Adds an account to an existing person, as after the legacy migration. Returns the id of the person."""
    found = yield FIND_PERSON[role], {"person": person}
    if not found:
        raise AccountRejected("there is no person with this id in this role")
    known_user, *erase_date = found[0]
    if any(erase_date):
        raise AccountRejected("this client is erased")
    if known_user is not None:
        raise AccountRejected("this person has an account already")
    if (yield FIND_BY[role, "user_name"], {"user_name": user}):
        raise AccountRejected("this user name is taken")
    yield LINK_PERSON[role], {"person": person, "user": user}
    return person
