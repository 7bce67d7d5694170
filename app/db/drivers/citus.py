"""Citus: PostgreSQL whose care tables are distributed by caregiver over several machines."""

from typing import Any

from sqlalchemy import text

from app.db.sql import DATABASE_KIND, Statement, Steps

HAS_CITUS = "SELECT EXISTS (SELECT 1 FROM pg_extension WHERE extname = 'citus')"
HAS_DISTRIBUTED_TABLES = (
    "SELECT EXISTS (SELECT 1 FROM pg_dist_partition WHERE logicalrelid = to_regclass('session'))"
)
ONE_CONNECTION = Statement(text("SET LOCAL citus.multi_shard_modify_mode = 'sequential'"))


async def is_distributed(connection: Any) -> bool:
    """Has `care-gateway distribute` distributed the care tables?"""
    has_citus = await connection.fetchval(HAS_CITUS)
    return has_citus and bool(await connection.fetchval(HAS_DISTRIBUTED_TABLES))


def using_one_connection() -> Steps[None]:
    """For a transaction on rows of many caregivers and on people or books. Citus has copies of those on every
    machine, and changes both only over one connection to each machine."""
    (kind,) = yield DATABASE_KIND
    if kind == "citus":
        yield ONE_CONNECTION, {}
