"""Accounts of caregivers and clients, and the clients of a caregiver."""

from sqlalchemy import select
from sqlalchemy.sql.elements import ClauseElement

from app.db.reader.entities import Table, table_of
from app.db.sql import DatabaseKind, Statement, among, id_parameter, text_parameter
from app.db.tables import Caregiver, Client, Relationship


def find_account(table: Table) -> Statement:
    account = table_of(table).c
    return Statement(
        lambda kind: select(account.id, account.is_disabled).where(
            account.user_name == text_parameter("user")
        )
    )


def find_clients_of_caregiver(kind: DatabaseKind) -> ClauseElement:
    """Selects those of `ids` that are clients of the caregiver."""
    relationship = table_of(Relationship).c
    return select(relationship.client_id).where(
        among(relationship.client_id, "ids", kind), relationship.caregiver_id == id_parameter("caregiver")
    )


FIND_CAREGIVER = find_account(Caregiver)
FIND_CLIENT = find_account(Client)
FIND_CLIENTS_OF_CAREGIVER = Statement(find_clients_of_caregiver)
