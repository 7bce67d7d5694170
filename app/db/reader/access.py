"""The access conditions: which rows of the care tables a statement may read.

The relationship key limits rows to the viewer's relationships. Two rules hold for every viewer besides: reads
skip withdrawn assignments, and only the client may see a draft.
"""

from typing import Any, NamedTuple

from sqlalchemy import (
    BigInteger,
    ColumnElement,
    FromClause,
    and_,
    bindparam,
    exists,
    func,
    literal_column,
    select,
)
from sqlalchemy.sql import operators
from sqlalchemy.sql.elements import UnaryExpression

from app.db.reader.selection import AccessScope, ReaderRole, Shown
from app.db.sql import DatabaseKind, PerDatabase, Statement, Steps, Values, among, id_parameter, literal_text
from app.db.tables import RELATIONSHIP, SESSION, SaveType


def relationship_key(row: FromClause, role: ReaderRole, uses_index: bool = False) -> ColumnElement[bool]:
    """Every statement names the key for each of its care tables (docs/decisions/0006).

    With `uses_index` the database finds the rows by the key alone. In all other statements SQLite, which has
    no statistics, must not choose an index on the key: it would read all rows of a caregiver to find the rows
    of one session.
    """
    caregiver: ColumnElement[Any] = row.c.caregiver_id
    client: ColumnElement[Any] = row.c.client_id
    if not (uses_index and role == "caregiver"):
        caregiver = without_index(caregiver)
    if not uses_index:
        client = without_index(client)
    if role == "caregiver":
        return caregiver == id_parameter("caregiver")
    if role == "anonymous":
        raise PermissionError(f"{row.description} is read without a viewer")
    is_listed = among(caregiver, "caregivers")
    if role == "client in a document":
        is_listed = PerDatabase(
            sqlite=is_listed,
            postgresql=caregiver == func.any(CAREGIVERS),
            citus=caregiver == id_parameter("caregivers"),  # the only one
        )
    return and_(client == id_parameter("client"), is_listed)


def client_key(row: FromClause) -> ColumnElement[bool]:
    """The relationship key of a client, with the caregivers in a sub-query, for statements on few rows."""
    caregiver = PerDatabase(
        sqlite=without_index(row.c.caregiver_id).in_(SELECT_CAREGIVERS),
        postgresql=row.c.caregiver_id == func.any(CAREGIVERS),
        citus=among(row.c.caregiver_id, "caregivers"),
    )
    return and_(without_index(row.c.client_id) == id_parameter("client"), caregiver)


def without_index(column: ColumnElement[Any]) -> ColumnElement[Any]:
    """Adds the unary plus with which SQLite does not search an index on the column."""
    plus = UnaryExpression(column, operator=operators.custom_op("+"), type_=column.type)
    return PerDatabase(sqlite=plus.self_group(against=operators.eq), postgresql=column)


def is_of_caregiver(row: FromClause) -> ColumnElement[bool]:
    """For rows of one caregiver, which an earlier statement has found or locked."""
    return row.c.caregiver_id == id_parameter("caregiver")


def has_caregiver_of(row: FromClause, other: FromClause) -> ColumnElement[bool]:
    """For joins of rows of many caregivers, which Citus runs on the machine of each caregiver."""
    return without_index(row.c.caregiver_id) == without_index(other.c.caregiver_id)


def is_not_withdrawn(assignment: FromClause) -> ColumnElement[bool]:
    """Withdrawn assignments stay in the table for the audit log."""
    return assignment.c.withdraw_date.is_(None)


# --- people ---------------------------------------------------------------------------------------

# Relationships are distributed by client. A caregiver has a session with every client, so the sessions of the
# caregiver, which one machine has, name the same clients.


def is_my_client(client: FromClause) -> ColumnElement[bool]:
    is_with_me = RELATIONSHIP.c.caregiver_id == id_parameter("caregiver")
    is_mine = client.c.id.in_(select(RELATIONSHIP.c.client_id).where(is_with_me))
    return PerDatabase(
        sqlite=is_mine,
        postgresql=is_mine,
        citus=client.c.id.in_(select(SESSION.c.client_id).where(is_of_caregiver(SESSION))),
    )


def is_known_client(client: FromClause) -> ColumnElement[bool]:
    """The same for clients that are found by their ids, without reading all clients of the caregiver."""
    is_related = is_relationship(id_parameter("caregiver"), client.c.id)
    return PerDatabase(
        sqlite=is_related,
        postgresql=is_related,
        citus=exists().where(is_of_caregiver(SESSION), SESSION.c.client_id == client.c.id),
    )


def is_known_caregiver(caregiver: FromClause) -> ColumnElement[bool]:
    return is_relationship(caregiver.c.id, id_parameter("client"))


def is_relationship(caregiver_id: ColumnElement[int], client_id: ColumnElement[int]) -> ColumnElement[bool]:
    return exists().where(RELATIONSHIP.c.caregiver_id == caregiver_id, RELATIONSHIP.c.client_id == client_id)


# --- the parameters of the conditions -------------------------------------------------------------

SELECT_CAREGIVERS = select(RELATIONSHIP.c.caregiver_id).where(
    RELATIONSHIP.c.client_id == id_parameter("client")
)
CAREGIVERS_OF_CLIENT = Statement(SELECT_CAREGIVERS)
CAREGIVERS = func.array(SELECT_CAREGIVERS.scalar_subquery())  # on PostgreSQL


SCOPE_PARAMETERS = frozenset({"now", "time_zone", "client", "caregiver", "caregivers"})


def scope_values(access: AccessScope) -> Values:
    return {
        "now": access.now,
        "time_zone": access.time_zone,
        "client": access.client,  # None for a caregiver, who sees no drafts (is_own_draft)
        "caregiver": access.caregiver,
    }


class ReaderScope(NamedTuple):
    """For whom statements are written, their parameters, and the answer sets that they have shown so far."""

    kind: DatabaseKind
    role: ReaderRole
    values: Values
    shown: dict[int, Shown]


def reading_scope_values(access: AccessScope) -> Steps[Values]:
    """Reads the caregivers of a client first."""
    values = scope_values(access)
    if access.client is not None:
        values["caregivers"] = [row[0] for row in (yield CAREGIVERS_OF_CLIENT, {"client": access.client})]
    return values


# --- who may see an answer set --------------------------------------------------------------------
#
# Both parties see a submission, and only the client sees a draft. The events of drafts follow the same rule:
# `add_deliveries` in statements/dispatch.py leaves them out, and care/subscriptions.py sends them to clients.

FINAL = literal_text(SaveType.FINAL)


def is_final(answer_set: FromClause) -> ColumnElement[bool]:
    return answer_set.c.save_type == FINAL


def is_own_draft(answer_set: FromClause) -> ColumnElement[bool]:
    """A draft of the viewer: a caregiver's `:client` is NULL, which equals nothing."""
    # Plus 0, so that the database searches by the assignment and not by the client.
    is_own = answer_set.c.client_id + literal_column("0") == bindparam("client", type_=BigInteger)
    return (answer_set.c.save_type != FINAL) & is_own
