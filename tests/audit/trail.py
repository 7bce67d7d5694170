"""The audit trail as it is stored, past everything that reads it."""

from typing import Any, NamedTuple

import orjson

from tests.db import raw

COLUMNS = "actor, actor_id, contract, operation, outcome, about, request_id"


class OnRecord(NamedTuple):
    actor: str
    actor_id: int | None
    contract: str
    operation: str
    outcome: str
    about: list[Any]
    request_id: str


def trail(database_url: str) -> list[OnRecord]:
    """Oldest first."""
    rows = raw.run(database_url, f"SELECT {COLUMNS} FROM audit_record ORDER BY id")
    return [OnRecord(*row[:5], orjson.loads(row[5]), row[6]) for row in rows]


def told(database_url: str) -> list[tuple[Any, ...]]:
    """Who did what, to what end, and what it is about."""
    return [(one.actor, one.actor_id, one.operation, one.outcome, one.about) for one in trail(database_url)]
