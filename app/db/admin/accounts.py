"""Accounts of caregivers and clients. They change rarely, so these functions use SQLModel."""

from datetime import datetime
from typing import Any, cast

from sqlalchemy.exc import IntegrityError
from sqlmodel import col, select
from sqlmodel.ext.asyncio.session import AsyncSession

from app.db.admin.tombstones import save_tombstone
from app.db.sql import DatabaseKind
from app.db.tables import Caregiver, Client, TombstoneState

Person = Caregiver | Client


class AccountRefused(Exception):
    """The account cannot be added or changed; the message is one sentence for the operator."""


async def find_person(tx: AsyncSession, table: type[Person], **values: Any) -> Any:
    """The person with these column values, or None."""
    return (await tx.exec(select(table).filter_by(**values))).one_or_none()


async def add_person(tx: AsyncSession, person: Person) -> Person:
    await check_for_duplicate(tx, person)
    tx.add(person)
    try:
        await tx.flush()
    except IntegrityError:  # a concurrent command was faster
        raise AccountRefused("this user name or client identifier is taken") from None
    return person


async def check_for_duplicate(tx: AsyncSession, person: Person) -> None:
    """Raises AccountRefused with the duplicate value and its owner."""
    role, user = type(person).__name__.lower(), person.user_name
    if user is not None and (owner := await find_person(tx, type(person), user_name=user)):
        raise AccountRefused(f"{role} {owner.id} has the user name {user} already")
    if isinstance(person, Client) and (owner := await find_person(tx, Client, oppt_id=person.oppt_id)):
        raise AccountRefused(f"client {owner.id} has the identifier {person.oppt_id} already")


async def list_people(tx: AsyncSession) -> list[Person]:
    """All people with an account: caregivers, then clients."""
    caregivers = select(Caregiver).where(col(Caregiver.user_name).is_not(None)).order_by(col(Caregiver.id))
    clients = select(Client).where(col(Client.user_name).is_not(None)).order_by(col(Client.id))
    return [*(await tx.exec(caregivers)).all(), *(await tx.exec(clients)).all()]


async def set_disabled(
    tx: AsyncSession, table: type[Person], user: str, is_disabled: bool, now: datetime
) -> Person:
    person: Person | None = await find_person(tx, table, user_name=user)
    if person is None:
        raise AccountRefused("there is no such account in this role")
    person.is_disabled = is_disabled
    state = TombstoneState.DISABLED if is_disabled else TombstoneState.ENABLED
    values = {"role": table.__name__.upper(), "person": person.id, "state": state, "moment": now}
    connection = await tx.connection()
    await connection.execute(save_tombstone(cast(DatabaseKind, connection.dialect.name)), values)
    return person


async def link_person(tx: AsyncSession, table: type[Person], person_id: int, user: str) -> Person:
    """Adds an account to an existing person, as after the legacy migration."""
    person: Person | None = await find_person(tx, table, id=person_id)
    if person is None:
        raise AccountRefused("there is no person with this id in this role")
    if isinstance(person, Client) and person.erase_date is not None:
        raise AccountRefused("this client is erased")
    if person.user_name is not None:
        raise AccountRefused("this person has an account already")
    person.user_name = user
    try:
        await tx.flush()
    except IntegrityError:
        raise AccountRefused("this user name is taken") from None
    return person
