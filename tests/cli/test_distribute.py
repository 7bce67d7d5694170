"""Promise: `distribute` keeps all rows, can be repeated after a failure, and rejects other databases. The
tests on Citus run by `make distributed`."""

import asyncio
from collections.abc import Iterator

import pytest
from sqlalchemy import Table

from app.db.admin.distributing import distribute, run_step, steps
from app.db.admin.migrate import MIGRATE_LOCK, connect_postgres, migrate, newest_version
from app.db.audit.records import recording
from app.db.drivers.interface import location_of
from app.db.facts import distribution_key
from app.db.session_counters import differences
from app.db.sql import CompiledStatement
from app.db.tables import TABLES
from app.settings import Settings
from tests import citus
from tests.audit.test_chain import records
from tests.callers import load, run_read, run_write
from tests.cli.conftest import Command, assert_rejected
from tests.db import raw
from tests.db.everyday import finding_scattered, with_samples
from tests.db.overlapping import uncommitted, until_blocked
from tests.db.small_steps import running
from tests.factories import a_world
from tests.postgres import url_of

on_a_cluster = pytest.mark.skipif(not citus.COORDINATOR, reason="make distributed names a cluster")
ON_COORDINATOR = "SELECT count(*) FROM pg_dist_partition WHERE partmethod = 'h'"


def test_another_database_is_rejected(command: Command, settings: Settings, kind: str) -> None:
    if kind == "citus":
        return
    reasons = {
        "sqlite": "SQLite cannot be distributed; CARE_DATABASE_URL must name a coordinator of Citus",
        "postgresql": "this database has no Citus; run CREATE EXTENSION citus on every machine first",
    }
    assert_rejected(command("distribute"), reasons[kind])


def test_every_table_has_one_place() -> None:
    def place_of(table: Table) -> str:
        return distribution_key(table) or getattr(table.info.get("place"), "name", "")

    places = {table.name: place_of(table) for table in TABLES}

    assert places == {
        **dict.fromkeys(("caregiver", "client", "module", "book", "book_word", "question"), "EVERYWHERE"),
        **dict.fromkeys(("session", "assignment", "reminder", "answer_set", "feedback"), "caregiver_id"),
        **dict.fromkeys(("event", "delivery"), "caregiver_id"),
        "relationship": "client_id",
        **dict.fromkeys(("idempotency_key", "audit_record", "imported_row", "tombstone"), "COORDINATOR"),
        **dict.fromkeys(("audit_seal", "audit_entry", "audit_checkpoint", "event_removal"), ""),
        **dict.fromkeys(("legacy_usage", "legacy_hour"), ""),
    }


OF_CITUS = ("citus", "create_distributed_table", "create_reference_table", "truncate_local_data", "pg_dist")
KEYS = """
    SELECT conrelid::regclass::text, conname, pg_get_constraintdef(oid)
    FROM pg_constraint WHERE contype IN ('p', 'u', 'f') AND connamespace = 'public'::regnamespace
    UNION SELECT tablename, indexname, indexdef FROM pg_indexes
    WHERE schemaname = 'public' AND indexdef LIKE 'CREATE UNIQUE%'
"""


@pytest.mark.parametrize("kind", ["postgresql"], indirect=True)
def test_keys_of_distributed_tables_include_the_column_that_distributes_them(database_url: str) -> None:
    """Runs the statements that any PostgreSQL server understands."""
    before = {(table, name) for table, name, _ in raw.run(database_url, KEYS)}
    statements = [each for step in steps(citus.SHARDS) for each in step.statements]

    raw.run(database_url, *(each for each in statements if not any(one in each for one in OF_CITUS)))

    after = raw.run(database_url, KEYS)
    keys = {table.name: key for table in TABLES if (key := distribution_key(table))}
    without = [
        (table, name)
        for table, name, definition in after
        if table in keys and f"({keys[table]}, " not in definition and refers_to(definition) in ("", *keys)
    ]
    assert without == []
    assert {(table, name) for table, name, _ in after} == before


def refers_to(definition: str) -> str:
    return definition.partition("REFERENCES ")[2].partition("(")[0]


# --- without a cluster ----------------------------------------------------------------------------

# The tables and functions of Citus that `distribute` uses. These only note their calls.
LIKE_CITUS = [
    "CREATE TABLE pg_dist_node (groupid int, isactive boolean, shouldhaveshards boolean)",
    "INSERT INTO pg_dist_node VALUES (0, true, false), (1, true, true), (2, false, true)",
    "CREATE TABLE pg_dist_partition (logicalrelid regclass, made text, key text, shards int, beside text)",
    "CREATE TABLE emptied (name text)",
    "CREATE FUNCTION create_reference_table(given text) RETURNS void LANGUAGE sql AS"
    " $$ INSERT INTO pg_dist_partition VALUES (given::regclass, 'reference') $$",
    "CREATE FUNCTION create_distributed_table("
    "given text, key text, shard_count int DEFAULT NULL, colocate_with text DEFAULT 'default')"
    " RETURNS void LANGUAGE sql AS $$"
    " INSERT INTO pg_dist_partition VALUES (given::regclass, 'distributed', key, shard_count, colocate_with)"
    " $$",
    "CREATE FUNCTION truncate_local_data_after_distributing_table(given text) RETURNS void LANGUAGE sql AS"
    " $$ INSERT INTO emptied VALUES (given) $$",
    "CREATE FUNCTION citus_add_local_table_to_metadata(given text) RETURNS void LANGUAGE sql AS"
    " $$ INSERT INTO pg_dist_partition SELECT given::regclass, 'local', max(tgname::text) FROM pg_trigger"
    " WHERE tgrelid = given::regclass AND tgname = 'audit_record_update' $$",
]
PLACED = "SELECT logicalrelid::text, made, key, shards, beside FROM pg_dist_partition"
UNIQUE_ROWS = """
    SELECT indexname, split_part(indexdef, ' WHERE ', 2) FROM pg_indexes
    WHERE indexdef LIKE 'CREATE UNIQUE%' ORDER BY 1
"""
FOREIGN_KEYS = """
    SELECT conrelid::regclass::text, conname, pg_get_constraintdef(oid) FROM pg_constraint
    WHERE contype = 'f' ORDER BY 1, 2
"""


@pytest.fixture
def like_citus(database_url: str, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setattr("app.db.admin.distributing.HAS_CITUS", "SELECT true")
    raw.run(database_url, *LIKE_CITUS)
    return database_url


@pytest.mark.parametrize("kind", ["postgresql"], indirect=True)
def test_a_stopped_command_goes_on_where_it_stopped(command: Command, like_citus: str) -> None:
    """The first one stops at the last statement for the assignments."""
    keys_before = {row[:2] for row in raw.run(like_citus, FOREIGN_KEYS)}
    unique_before = raw.run(like_citus, UNIQUE_ROWS)
    raw.run(like_citus, "ALTER TABLE emptied ADD CHECK (name <> 'assignment')")

    stopped = command("distribute", "--shards", "7")
    placed = raw.run(like_citus, PLACED)
    raw.run(like_citus, "ALTER TABLE emptied DROP CONSTRAINT emptied_name_check")
    results = [command("distribute", "--shards", "7") for _ in range(2)]

    message = "care-gateway: distributing stopped while distributing assignment, and can be run again: "
    assert (stopped.exit_code, stopped.stdout) == (2, "")
    assert message in stopped.stderr
    everywhere = ("caregiver", "client", "module", "book", "book_word", "question")
    beside = ("assignment", "reminder", "answer_set", "feedback", "event", "delivery")
    distributed = [
        *((name, "reference", None, None, None) for name in everywhere),
        ("session", "distributed", "caregiver_id", 7, "none"),
        ("relationship", "distributed", "client_id", 7, "none"),
        *((name, "distributed", "caregiver_id", None, "session") for name in beside),
    ]
    assert placed == distributed[:8]
    said = f"{location_of(like_citus)} is distributed by caregiver\n"
    assert [(one.exit_code, one.stdout) for one in results] == [(0, said)] * 2
    local = ("idempotency_key", "audit_record", "imported_row", "tombstone")
    copied = {"audit_record": "audit_record_update"}  # the trigger that Citus copies
    added = [(name, "local", copied.get(name), None, None) for name in local]
    assert raw.run(like_citus, PLACED) == [*distributed, *added]
    assert raw.run(like_citus, "SELECT name FROM emptied") == [(row[0],) for row in distributed]
    keys = raw.run(like_citus, FOREIGN_KEYS)
    assert raw.run(like_citus, UNIQUE_ROWS) == unique_before
    assert {row[:2] for row in keys} == keys_before
    assert ("assignment", "assignment_session_id_fkey") in keys_before
    assert {definition for table, _, definition in keys if table == "assignment"} == {
        "FOREIGN KEY (book_id) REFERENCES book(id)",
        "FOREIGN KEY (caregiver_id, session_id) REFERENCES session(caregiver_id, id)",
    }


@pytest.mark.parametrize("kind", ["postgresql"], indirect=True)
def test_the_shard_of_the_audit_log_rejects_changes(command: Command, like_citus: str) -> None:
    """Its name has a number at the end, and it has no trigger for TRUNCATE."""
    assert command("distribute").exit_code == 0
    run_write(like_citus, recording(records(1)))
    raw.run(
        like_citus,
        "DROP TRIGGER audit_record_change ON audit_record",
        "ALTER TABLE audit_record RENAME TO audit_record_102008",
    )

    for change in ("UPDATE audit_record_102008 SET actor_id = 2", "DELETE FROM audit_record_102008"):
        with pytest.raises(Exception, match="the audit trail is only added to"):
            raw.run(like_citus, change)


UNREADY = {
    "the tables do not exist, and this version needs {0}; run `care-gateway migrate` first": (
        "DROP TABLE alembic_version"
    ),
    "the tables are of version 0008, and this version needs {0}; run `care-gateway migrate` first": (
        "UPDATE alembic_version SET version_num = '0008'"
    ),
    "the coordinator has no address; run SELECT citus_set_coordinator_host(...) first": (
        "DELETE FROM pg_dist_node WHERE groupid = 0"
    ),
    "no worker is registered; run SELECT citus_add_node(...) on the coordinator first": (
        "UPDATE pg_dist_node SET shouldhaveshards = (groupid <> 1)"
    ),
}


@pytest.mark.parametrize("kind", ["postgresql"], indirect=True)
def test_a_database_that_is_not_ready_is_not_distributed(command: Command, like_citus: str) -> None:
    keys_before = raw.run(like_citus, FOREIGN_KEYS)

    for message, change in reversed(UNREADY.items()):
        raw.run(like_citus, change)
        assert_rejected(command("distribute"), message.format(newest_version()))

    assert (raw.run(like_citus, PLACED), raw.run(like_citus, FOREIGN_KEYS)) == ([], keys_before)


@pytest.mark.parametrize("kind", ["postgresql"], indirect=True)
def test_distributing_waits_for_a_migration(like_citus: str) -> None:
    seen = []

    async def run() -> None:
        lock = f"SELECT pg_advisory_xact_lock({MIGRATE_LOCK})"
        async with uncommitted(like_citus, running(lock)):
            waiting = asyncio.create_task(distribute(like_citus, 4, lambda *step: seen.append(step)))
            assert await until_blocked(like_citus, waiting)
            assert seen == []
        await waiting

    asyncio.run(run())
    assert [number for number, *_ in seen] == [*range(1, seen[0][1] + 1)]


@pytest.mark.sqlite_only
def test_a_server_that_does_not_respond_is_reported(command: Command) -> None:
    rejected = command("distribute", database_url="postgresql://care@127.0.0.1:1/care")

    assert (rejected.exit_code, rejected.stdout, rejected.stderr.count("\n")) == (2, "", 1)
    assert rejected.stderr.startswith("care-gateway: the PostgreSQL database cannot be opened: ")


# --- on a cluster ---------------------------------------------------------------------------------


@pytest.fixture
def empty() -> Iterator[str]:
    urls = citus.servers()
    name = citus.create_database(urls)
    yield url_of(urls[0], name)
    citus.drop_database(urls, name)


async def run_steps(url: str, count: int) -> None:
    connection = await connect_postgres(url)
    try:
        for step in list(steps(citus.SHARDS))[:count]:
            await run_step(connection, step)
    finally:
        await connection.close()


@on_a_cluster
@pytest.mark.parametrize("done", [0, 5, 14, 19, 26, 33])
def test_all_rows_are_kept_also_after_an_interruption(command: Command, empty: str, done: int) -> None:
    asyncio.run(migrate(empty))
    load(empty, a_world())
    before = raw.row_counts(empty)
    asyncio.run(run_steps(empty, done))

    results = [command("distribute", "--shards", "4", database_url=empty) for _ in range(2)]

    said = f"{location_of(empty)} is distributed by caregiver\n"
    assert [(one.exit_code, one.stdout) for one in results] == [(0, said)] * 2
    assert raw.row_counts(empty) == before
    assert raw.run(empty, ON_COORDINATOR) == [(8,)]
    assert run_read(empty, differences()) == []
    assert run_read(empty, finding_scattered()) == []


def test_parameters_are_replaced_by_samples_of_their_type() -> None:
    written = CompiledStatement(
        "SELECT $1::BIGINT, $2::BIGINT[], $3::TIMESTAMP WITH TIME ZONE, $4::VARCHAR, $5::BOOLEAN",
        tuple((name, None) for name in ("caregiver", "caregivers", "now", "name", "is_test")),
    )

    assert with_samples(written, (1, 2)) == (
        "SELECT '1'::BIGINT, '{1, 2}'::BIGINT[], '2026-11-21'::TIMESTAMP WITH TIME ZONE, '1'::VARCHAR,"
        " 'true'::BOOLEAN"
    )


@on_a_cluster
def test_nothing_is_copied_to_a_distributed_database(
    command: Command, database_url: str, migrated_sqlite: str
) -> None:
    assert_rejected(
        command("copy", "--from", migrated_sqlite, "--to", database_url),
        "nothing was copied: the target is distributed; copy first, then distribute",
    )


@on_a_cluster
def test_tables_of_another_version_are_rejected(command: Command, empty: str) -> None:
    needed = f"and this version needs {newest_version()}; run `care-gateway migrate` first"
    assert_rejected(command("distribute", database_url=empty), f"the tables do not exist, {needed}")
    asyncio.run(migrate(empty))
    raw.run(empty, "UPDATE alembic_version SET version_num = '0008'")

    assert_rejected(command("distribute", database_url=empty), f"the tables are of version 0008, {needed}")


@on_a_cluster
def test_a_coordinator_without_workers_is_rejected(command: Command) -> None:
    urls = citus.servers()
    name = citus.create_database(urls, has_workers=False)
    asyncio.run(migrate(url_of(urls[0], name)))

    rejected = command("distribute", database_url=url_of(urls[0], name))

    citus.drop_database(urls, name)
    assert_rejected(
        rejected, "no worker is registered; run SELECT citus_add_node(...) on the coordinator first"
    )
