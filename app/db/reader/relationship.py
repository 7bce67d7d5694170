"""The relationship key: the condition that limits the rows of a care table to the viewer's relationships."""

from typing import Any

from sqlalchemy import ColumnElement, FromClause, and_
from sqlalchemy.sql import operators
from sqlalchemy.sql.elements import UnaryExpression

from app.db.reader.selection import ReaderRole
from app.db.sql import DatabaseKind, among, id_parameter, the_one


def relationship_key(
    row: FromClause, role: ReaderRole, kind: DatabaseKind, leads: bool = False
) -> ColumnElement[bool]:
    """Every statement names the key for each of its care tables (docs/decisions/0006).

    The key leads if the database finds the rows by the key alone. In all other statements SQLite, which has
    no statistics, must not choose an index on the key: it would read all rows of a caregiver to find the rows
    of one session.
    """
    caregiver: ColumnElement[Any] = row.c.caregiver_id
    client: ColumnElement[Any] = row.c.client_id
    if kind == "sqlite":
        if not (leads and role == "caregiver"):
            caregiver = without_index(caregiver)
        if not leads:
            client = without_index(client)
    if role == "caregiver":
        return caregiver == id_parameter("caregiver")
    if role in ("client", "client of one"):
        matches = the_one if role == "client of one" else among
        return and_(client == id_parameter("client"), matches(caregiver, "caregivers", kind))
    raise PermissionError(f"{row.description} is read without a viewer")


def without_index(column: ColumnElement[Any]) -> ColumnElement[Any]:
    """Adds the unary plus with which SQLite does not search an index on the column."""
    return UnaryExpression(column, operator=operators.custom_op("+"), type_=column.type)
