"""Accounts of caregivers and clients."""

from sqlalchemy import Table, select

from app.db.sql import Statement, text_parameter
from app.db.tables import CAREGIVER, CLIENT


def find_account(table: Table) -> Statement:
    return Statement(select(*table.c["id", "is_disabled"]).where(table.c.user_name == text_parameter("user")))


FIND_CAREGIVER = find_account(CAREGIVER)
FIND_CLIENT = find_account(CLIENT)
