"""Accounts of caregivers and clients, and the clients of a caregiver."""

from sqlalchemy import select

from app.db.reader.access import is_of_caregiver
from app.db.sql import Statement, among, text_parameter
from app.db.tables import Caregiver, Client, Relationship, Table, table_of


def find_account(table: Table) -> Statement:
    account = table_of(table).c
    return Statement(
        select(account.id, account.is_disabled).where(account.user_name == text_parameter("user"))
    )


FIND_CAREGIVER = find_account(Caregiver)
FIND_CLIENT = find_account(Client)

RELATIONSHIP = table_of(Relationship)

# Selects those of `ids` that are clients of the caregiver.
FIND_CLIENTS_OF_CAREGIVER = Statement(
    select(RELATIONSHIP.c.client_id).where(
        among(RELATIONSHIP.c.client_id, "ids"), is_of_caregiver(RELATIONSHIP)
    )
)
