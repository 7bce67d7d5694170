"""Reads the stored audit log by plain SQL, without the code under test."""

from typing import Any, NamedTuple

import orjson

from tests.db import raw

COLUMNS = "actor, actor_id, contract, operation, outcome, about, request_id"


class AuditRow(NamedTuple):
    actor: str
    actor_id: int | None
    contract: str
    operation: str
    outcome: str
    about: list[Any]
    request_id: str


def audit_rows(database_url: str) -> list[AuditRow]:
    """Oldest first."""
    rows = raw.run(database_url, f"SELECT {COLUMNS} FROM audit_record ORDER BY id")
    return [AuditRow(*row[:5], orjson.loads(row[5]), row[6]) for row in rows]


def audited(database_url: str) -> list[tuple[Any, ...]]:
    """Actor, actor id, operation, outcome and content of each record."""
    return [
        (one.actor, one.actor_id, one.operation, one.outcome, one.about) for one in audit_rows(database_url)
    ]
