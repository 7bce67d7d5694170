"""Citus: PostgreSQL whose care tables are distributed by caregiver over several machines."""

from collections.abc import Sequence
from typing import Any, TypeVar

from app.db.sql import (
    DATABASE_KIND,
    CompiledStatement,
    DatabaseKind,
    OnlyStatement,
    Operation,
    Statement,
    Step,
    Together,
    Values,
)

Result = TypeVar("Result")

HAS_CITUS = "SELECT EXISTS (SELECT 1 FROM pg_extension WHERE extname = 'citus')"
HAS_DISTRIBUTED_TABLES = (
    "SELECT EXISTS (SELECT 1 FROM pg_dist_partition WHERE logicalrelid = to_regclass('session'))"
)


async def is_distributed(connection: Any) -> bool:
    """Has `care-gateway distribute` distributed the care tables?"""
    has_citus = await connection.fetchval(HAS_CITUS)
    return has_citus and bool(await connection.fetchval(HAS_DISTRIBUTED_TABLES))


class OnCitus(Statement):
    """A statement in its form for Citus."""

    def __init__(self, statement: Statement) -> None:
        self.statement = statement
        self.reads_after_lock = statement.reads_after_lock

    def for_(self, kind: DatabaseKind) -> CompiledStatement:
        return self.statement.for_("citus")


def steps_on_citus(operation: Operation[Result]) -> Operation[Result]:
    """The same operation with statements for Citus. It refuses an INSERT in a common table expression, so
    changes that are made together run one after the other, in the same transaction."""
    rows: Sequence[Any] | None = None
    try:
        while True:
            step: Step = next(operation) if rows is None else operation.send(list(rows))
            if step is DATABASE_KIND:
                rows = ["citus"]
            elif isinstance(step, Together):
                rows = []
                for change in step.changes:
                    yield on_citus(change)
            elif isinstance(step, OnlyStatement):
                rows = yield OnlyStatement(OnCitus(step.statement), step.values)
            elif isinstance(step, tuple):
                rows = yield on_citus(step)
            else:
                rows = yield step
    except StopIteration as done:
        return done.value  # type: ignore[no-any-return]
    finally:
        operation.close()


def on_citus(change: tuple[Statement, Values]) -> tuple[Statement, Values]:
    statement, values = change
    return OnCitus(statement), values
