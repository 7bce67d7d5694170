"""Turns a migrated PostgreSQL database into a distributed one (docs/decisions/0040)."""

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from sqlalchemy import ForeignKey, Table, UniqueConstraint

from app.db.admin.migrate import MIGRATE_LOCK, connect_postgres, newest_version
from app.db.drivers.citus import HAS_CITUS
from app.db.drivers.interface import DatabaseError, is_fault_of_database
from app.db.facts import Place, distribution_key
from app.db.tables import AUDIT_RECORD, SESSION, TABLES

Progress = Callable[[int, int, str], None]  # the number of the step, of all steps, and what it does


class Step(NamedTuple):
    """Runs in one transaction, unless `is_done` returns true."""

    what: str
    is_done: str
    statements: tuple[str, ...]


# Citus copies the triggers of such a table to its only shard, whose name has a number at the end.
FUNCTION_OF_AUDIT = """
DO $$ BEGIN
    EXECUTE replace(
        pg_get_functiondef('refuse_audit_removal'::regproc),
        'CASE TG_TABLE_NAME',
        'CASE regexp_replace(TG_TABLE_NAME, ''_[0-9]+$'', '''')'
    );
END $$
"""

# A trigger for UPDATE and TRUNCATE is not copied, because Citus runs TRUNCATE on the table itself.
TRIGGER_OF_AUDIT = (
    "CREATE OR REPLACE TRIGGER audit_record_update BEFORE UPDATE ON audit_record"
    " FOR EACH STATEMENT EXECUTE FUNCTION refuse_audit_change()"
)


def steps(shards: int) -> Iterator[Step]:
    """Where tables.py says that Citus stores each table."""
    foreign = [key for table in TABLES for column in table.columns for key in column.foreign_keys]
    for name in dict.fromkeys(key.parent.table.name for key in foreign):
        yield step_without_foreign_keys(name)
    for table in TABLES:
        if table.info.get("place") is Place.EVERYWHERE:
            made = f"SELECT create_reference_table('{table}')"
            yield Step(f"copying {table} to every machine", is_known(table), (made, without_copy(table)))
    # First sessions: the rows of other tables are stored beside theirs.
    for table in (SESSION, *(each for each in TABLES if each is not SESSION)):
        if key := distribution_key(table):
            yield step_of_distributed(table, key, shards)
    yield Step("preparing the audit log", is_known(AUDIT_RECORD), (FUNCTION_OF_AUDIT, TRIGGER_OF_AUDIT))
    for table in TABLES:
        if table.info.get("place") is Place.COORDINATOR:
            added = f"SELECT citus_add_local_table_to_metadata('{table}')"
            yield Step(f"adding {table} on the coordinator", is_known(table), (added,))
    for each in foreign:
        yield step_with_foreign_key(each)


def step_of_distributed(table: Table, key: str, shards: int) -> Step:
    """Keys and unique indexes begin with the column that distributes the rows."""
    keys = [key, *(column.name for column in table.primary_key if column.name != key)]
    return Step(
        f"distributing {table}",
        is_known(table),
        (
            f"ALTER TABLE {table} DROP CONSTRAINT {table}_pkey",
            f"ALTER TABLE {table} ADD CONSTRAINT {table}_pkey PRIMARY KEY ({', '.join(keys)})",
            *with_unique_columns(table, key),
            distributed(table, key, shards),
            without_copy(table),
        ),
    )


def with_unique_columns(table: Table, key: str) -> Iterator[str]:
    for index in (each for each in table.indexes if each.unique):
        columns = ", ".join([key, *index.columns.keys()])
        where = index.dialect_options["postgresql"]["where"]
        rows = "" if where is None else f" WHERE {where}"
        yield f"DROP INDEX {index.name}"
        yield f"CREATE UNIQUE INDEX {index.name} ON {table} ({columns}){rows}"
    for constraint in (each for each in table.constraints if isinstance(each, UniqueConstraint)):
        columns = ", ".join([key, *constraint.columns.keys()])
        name = "_".join([table.name, *constraint.columns.keys(), "key"])
        yield f"ALTER TABLE {table} DROP CONSTRAINT {name}"
        yield f"ALTER TABLE {table} ADD CONSTRAINT {name} UNIQUE ({columns})"


def step_with_foreign_key(key: ForeignKey) -> Step:
    """A reference to a distributed table includes the column that distributes the rows."""
    table, column, target = key.parent.table, key.parent.name, key.column.table
    name = f"{table}_{column}_fkey"
    both = f"{distribution_key(target)}, " if distribution_key(target) else ""
    foreign = f"FOREIGN KEY ({both}{column}) REFERENCES {target} ({both}{key.column.name})"
    is_done = (
        "SELECT EXISTS (SELECT 1 FROM pg_constraint"
        f" WHERE conrelid = '{table}'::regclass AND conname = '{name}')"
    )
    added = f"ALTER TABLE {table} ADD CONSTRAINT {name} {foreign}"
    return Step(f"adding the foreign key {name}", is_done, (added,))


def step_without_foreign_keys(table: str) -> Step:
    """The last steps add them again, with the columns that distribute the rows."""
    dropped = f"""
    DO $$ DECLARE one text; BEGIN
        FOR one IN
            SELECT conname FROM pg_constraint WHERE conrelid = '{table}'::regclass AND contype = 'f'
        LOOP
            EXECUTE format('ALTER TABLE {table} DROP CONSTRAINT %I', one);
        END LOOP;
    END $$
    """
    return Step(f"removing the foreign keys of {table}", is_known(table), (dropped,))


def is_known(table: Table | str) -> str:
    return f"SELECT EXISTS (SELECT 1 FROM pg_dist_partition WHERE logicalrelid = '{table}'::regclass)"


def distributed(table: Table, key: str, shards: int) -> str:
    beside = f"shard_count := {shards}, colocate_with := 'none'"
    if table is not SESSION and key == distribution_key(SESSION):
        beside = "colocate_with := 'session'"
    return f"SELECT create_distributed_table('{table}', '{key}', {beside})"


def without_copy(table: Table) -> str:
    """Citus copies the rows to the shards, and keeps them unreachable in the table itself."""
    return f"SELECT truncate_local_data_after_distributing_table('{table}')"


# --- running --------------------------------------------------------------------------------------


async def distribute(url: str, shards: int, progress: Progress) -> None:
    """Skips the steps that an earlier run has done."""
    if url.startswith("sqlite:"):
        raise DatabaseError(
            "SQLite cannot be distributed; CARE_DATABASE_URL must name a coordinator of Citus"
        )
    what = "the database cannot be distributed"
    try:
        connection = await connect_postgres(url)
        try:
            # The lock lasts until the end of the session.
            await connection.execute(f"SELECT pg_advisory_lock({MIGRATE_LOCK})")
            await reject_unready(connection)
            planned = list(steps(shards))
            for number, step in enumerate(planned, 1):
                what = f"distributing stopped while {step.what}, and can be run again"
                progress(number, len(planned), step.what)
                await run_step(connection, step)
        finally:
            await connection.close()
    except Exception as error:
        if isinstance(error, OSError) or is_fault_of_database(error):
            raise DatabaseError(f"{what}: {error}") from None
        raise


async def run_step(connection: Any, step: Step) -> None:
    if not await connection.fetchval(step.is_done):
        async with connection.transaction():
            for statement in step.statements:
                await connection.execute(statement)


async def reject_unready(connection: Any) -> None:
    if not await connection.fetchval(HAS_CITUS):
        raise DatabaseError("this database has no Citus; run CREATE EXTENSION citus on every machine first")
    has_tables = await connection.fetchval("SELECT to_regclass('alembic_version') IS NOT NULL")
    version = await connection.fetchval("SELECT version_num FROM alembic_version") if has_tables else None
    if version != newest_version():
        found = f"are of version {version}" if version else "do not exist"
        raise DatabaseError(
            f"the tables {found}, and this version needs {newest_version()}; run `care-gateway migrate` first"
        )
    nodes = await connection.fetch("SELECT groupid, shouldhaveshards FROM pg_dist_node WHERE isactive")
    if not any(group == 0 for group, _ in nodes):
        raise DatabaseError(
            "the coordinator has no address; run SELECT citus_set_coordinator_host(...) first"
        )
    if not any(has_shards for group, has_shards in nodes if group != 0):
        raise DatabaseError(
            "no worker is registered; run SELECT citus_add_node(...) on the coordinator first"
        )
