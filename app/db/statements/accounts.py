"""Accounts of caregivers and clients."""

from sqlalchemy import select

from app.db.sql import Statement, text_parameter
from app.db.tables import Caregiver, Client, Table, table_of


def find_account(table: Table) -> Statement:
    account = table_of(table).c
    return Statement(
        select(account.id, account.is_disabled).where(account.user_name == text_parameter("user"))
    )


FIND_CAREGIVER = find_account(Caregiver)
FIND_CLIENT = find_account(Client)
