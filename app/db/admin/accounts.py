"""Reads and changes of the accounts of caregivers and clients. A role is CAREGIVER or CLIENT."""

from datetime import datetime
from typing import NamedTuple

from sqlalchemy import Boolean, literal, null, select, update

from app.db.admin.tombstones import LOCK_TOMBSTONES, ROLES, Mark, saving_tombstone, switching
from app.db.facts import is_erased_text
from app.db.sql import Statement, Steps, id_parameter, insert_if_absent, text_parameter
from app.db.tables import TombstoneState
from app.telemetry.wording import OperatorError

UNIQUE = {"user_name": "user name", "oppt_id": "identifier"}  # columns, as messages name them


class AccountRejected(OperatorError):
    """The account cannot be added or changed."""


class Account(NamedTuple):
    role: str
    id: int
    user: str
    is_disabled: bool


def finding_owner(role: str, column: str, value: str) -> Steps[int | None]:
    """The id of the person with this value in a unique column."""
    table = ROLES[role]
    find = Statement(select(table.c.id).where(table.c[column] == text_parameter("value")))
    found = yield find, {"value": value}
    return found[0][0] if found else None


def adding_person(role: str, **values: str) -> Steps[int]:
    """Adds a person with these column values. Returns the new id."""
    table = ROLES[role]
    for column, name in UNIQUE.items():
        if column in values and (owner := (yield from finding_owner(role, column, values[column]))):
            raise AccountRejected(f"{role.lower()} {owner} has the {name} {values[column]} already")
    if is_erased_text(values.get("oppt_id", "")):
        raise AccountRejected(f"{values['oppt_id']} can only be the identifier of an erased client")
    row = {**{name: text_parameter(name) for name in values}, "is_disabled": literal(False, Boolean)}
    added = yield insert_if_absent(table, row, [table.c.id]), values
    if not added:  # a concurrent command was faster
        raise AccountRejected("this user name or client identifier is taken")
    return int(added[0][0])


def listing_accounts() -> Steps[list[Account]]:
    """The accounts of caregivers, then those of clients."""
    found: list[Account] = []
    for role, table in ROLES.items():
        accounts = select(*table.c["id", "user_name", "is_disabled"]).where(table.c.user_name.is_not(None))
        rows = yield Statement(accounts.order_by(table.c.id)), {}
        found += [Account(role, id, user, bool(is_disabled)) for id, user, is_disabled in rows]
    return found


def switching_account(role: str, user: str, is_disabled: bool, now: datetime) -> Steps[int]:
    """Disables or enables an account. Returns the id of the person."""
    yield LOCK_TOMBSTONES, {}
    person = yield from finding_owner(role, "user_name", user)
    if person is None:
        raise AccountRejected("there is no such account in this role")
    yield from switching(role, person, is_disabled)
    state = TombstoneState.DISABLED if is_disabled else TombstoneState.ENABLED
    yield from saving_tombstone(role, person, Mark(state, now))
    return person


def linking_person(role: str, person: int, user: str) -> Steps[int]:
    """Adds an account to an existing person, as after the legacy migration. Returns the id of the person."""
    table = ROLES[role]
    is_person = table.c.id == id_parameter("person")
    find = select(table.c.user_name, table.c.get("erase_date", null())).where(is_person)
    found = yield Statement(find.with_for_update()), {"person": person}  # waits for an erasure
    if not found:
        raise AccountRejected("there is no person with this id in this role")
    [[known_user, erase_date]] = found
    if erase_date is not None:
        raise AccountRejected("this client is erased")
    if known_user is not None:
        raise AccountRejected("this person has an account already")
    if (yield from finding_owner(role, "user_name", user)):
        raise AccountRejected("this user name is taken")
    link = update(table).where(is_person).values(user_name=text_parameter("user"))
    yield Statement(link), {"person": person, "user": user}
    return person
