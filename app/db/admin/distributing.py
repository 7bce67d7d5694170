"""Turns a migrated PostgreSQL database into a distributed one (docs/decisions/0040)."""

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from app.db.admin.migrate import MIGRATE_LOCK, newest_version
from app.db.admin.orm import connect_postgres
from app.db.drivers.citus import HAS_CITUS
from app.db.drivers.interface import DatabaseError, is_fault_of_database

Progress = Callable[[int, int, str], None]  # the number of the step, of all steps, and what it does


class Step(NamedTuple):
    """Runs in one transaction, unless `is_done` returns true."""

    what: str
    is_done: str
    statements: tuple[str, ...]


# Copied to every machine. They are rarely written, and each write needs all machines.
REFERENCE_TABLES = ("module", "book", "question", "book_word", "caregiver", "client")

# The primary keys of the distributed tables. The first column of each distributes its rows.
KEYS = {
    "session": "caregiver_id, id",
    "assignment": "caregiver_id, id",
    "reminder": "caregiver_id, id",
    "answer_set": "caregiver_id, id",
    "feedback": "caregiver_id, id",
    "event": "caregiver_id, id",
    "delivery": "caregiver_id, event_id",
    "relationship": "client_id, caregiver_id",
}
UNIQUE = {
    "answer_set": (
        "DROP INDEX uq_answer_set_submission",
        "CREATE UNIQUE INDEX uq_answer_set_submission ON answer_set (caregiver_id, assignment_id, attempt)"
        " WHERE save_type = 'FINAL'",
        "DROP INDEX uq_answer_set_draft",
        "CREATE UNIQUE INDEX uq_answer_set_draft ON answer_set (caregiver_id, assignment_id)"
        " WHERE save_type <> 'FINAL'",
    ),
    "feedback": (
        "ALTER TABLE feedback DROP CONSTRAINT feedback_answer_set_id_key",
        "ALTER TABLE feedback ADD CONSTRAINT feedback_answer_set_id_key UNIQUE (caregiver_id, answer_set_id)",
    ),
}
# Each with its columns, the table that it refers to, and the columns there.
FOREIGN_KEYS = (
    ("book", "module_id", "module", "id"),
    ("question", "book_id", "book", "id"),
    ("book_word", "book_id", "book", "id"),
    ("relationship", "client_id", "client", "id"),
    ("relationship", "caregiver_id", "caregiver", "id"),
    ("session", "client_id", "client", "id"),
    ("session", "caregiver_id", "caregiver", "id"),
    ("assignment", "book_id", "book", "id"),
    ("assignment", "caregiver_id, session_id", "session", "caregiver_id, id"),
    ("reminder", "caregiver_id, assignment_id", "assignment", "caregiver_id, id"),
    ("answer_set", "caregiver_id, assignment_id", "assignment", "caregiver_id, id"),
    ("feedback", "caregiver_id, assignment_id", "assignment", "caregiver_id, id"),
    ("feedback", "caregiver_id, answer_set_id", "answer_set", "caregiver_id, id"),
    ("delivery", "caregiver_id, event_id", "event", "caregiver_id, id"),
)
# They stay on the coordinator, and Citus knows them: so it commits their rows and the rows of a worker by
# two-phase commit, all or none.
COORDINATOR_TABLES = ("audit_record", "kept_answer", "imported_row", "tombstone")

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
    for table in dict.fromkeys(table for table, *_ in FOREIGN_KEYS):
        yield step_without_foreign_keys(table)
    for table in REFERENCE_TABLES:
        made = f"SELECT create_reference_table('{table}')"
        yield Step(f"copying {table} to every machine", is_known(table), (made, without_copy(table)))
    for table, key in KEYS.items():
        yield Step(
            f"distributing {table}",
            is_known(table),
            (
                f"ALTER TABLE {table} DROP CONSTRAINT {table}_pkey",
                f"ALTER TABLE {table} ADD CONSTRAINT {table}_pkey PRIMARY KEY ({key})",
                *UNIQUE.get(table, ()),
                distributed(table, key.partition(",")[0], shards),
                without_copy(table),
            ),
        )
    yield Step("preparing the audit log", is_known("audit_record"), (FUNCTION_OF_AUDIT, TRIGGER_OF_AUDIT))
    for table in COORDINATOR_TABLES:
        added = f"SELECT citus_add_local_table_to_metadata('{table}')"
        yield Step(f"adding {table} on the coordinator", is_known(table), (added,))
    for table, columns, target, keys in FOREIGN_KEYS:
        name = "_".join([table, columns.rpartition(" ")[2], "fkey"])
        foreign = f"FOREIGN KEY ({columns}) REFERENCES {target} ({keys})"
        added = f"ALTER TABLE {table} ADD CONSTRAINT {name} {foreign}"
        is_done = (
            "SELECT EXISTS (SELECT 1 FROM pg_constraint"
            f" WHERE conrelid = '{table}'::regclass AND conname = '{name}')"
        )
        yield Step(f"adding the foreign key {name}", is_done, (added,))


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


def is_known(table: str) -> str:
    return f"SELECT EXISTS (SELECT 1 FROM pg_dist_partition WHERE logicalrelid = '{table}'::regclass)"


def distributed(table: str, column: str, shards: int) -> str:
    together = f"shard_count := {shards}" if table in ("session", "relationship") else ""
    place = "colocate_with := 'none'" if together else "colocate_with := 'session'"
    options = ", ".join(filter(None, (together, place)))
    return f"SELECT create_distributed_table('{table}', '{column}', {options})"


def without_copy(table: str) -> str:
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
            await connection.execute(
                f"SELECT pg_advisory_lock({MIGRATE_LOCK})"
            )  # until the end of the session
            await refuse_unready(connection)
            planned = list(steps(shards))
            for number, step in enumerate(planned, 1):
                what = f"distributing stopped while {step.what}, and can be run again"
                progress(number, len(planned), step.what)
                await run_step(connection, step)
        finally:
            await connection.close()
    except OSError as error:
        raise DatabaseError(f"{what}: {error}") from None
    except Exception as error:
        if is_fault_of_database(error):
            raise DatabaseError(f"{what}: {error}") from None
        raise


async def run_step(connection: Any, step: Step) -> None:
    if not await connection.fetchval(step.is_done):
        async with connection.transaction():
            for statement in step.statements:
                await connection.execute(statement)


async def refuse_unready(connection: Any) -> None:
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
