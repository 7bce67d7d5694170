"""The dispatcher finds waiting rows by an index, and changes them by statements that name their caregiver on
every level (docs/decisions/0006)."""

import asyncio
import re
import sqlite3
from contextlib import closing

import pytest

from app.db.drivers.interface import sqlite_path
from app.db.sql import REQUIRED, CompiledStatement, Statement, Values
from app.db.statements import deliveries, dispatch, idempotency_keys
from tests.db.sql_text import CARE, care_tables, keyless, queries_of, with_names
from tests.db.test_query_plans import explain, is_scan
from tests.events.conftest import Care
from tests.factories import NOW

TAKING = {
    name: statement
    for name, statement in {**vars(dispatch), **vars(deliveries)}.items()
    if isinstance(statement, Statement) and not name.startswith("FIND")
} | {"REMOVE_IDEMPOTENCY_KEYS": idempotency_keys.REMOVE_IDEMPOTENCY_KEYS}
ACROSS = {
    name: statement
    for name, statement in {**vars(dispatch), **vars(deliveries)}.items()
    if isinstance(statement, Statement) and name.startswith("FIND")
}
ALL_THAT_WAITS = "SCAN event USING INDEX ix_event_waiting"  # and nothing else is in it
OF_NOBODY = {"REMOVE_IDEMPOTENCY_KEYS"}  # they belong to a viewer, not to a care relationship
INSERTED = re.compile(
    rf"INSERT INTO ({CARE}) \(caregiver_id, client_id, .*?\) SELECT :caregiver( AS \w+)?, (\w+)\.client_id, "
)


def test_every_write_names_the_caregiver(kind: str) -> None:
    for name, statement in TAKING.items():
        sql = with_names(statement.for_(kind))  # type: ignore[arg-type]

        assert keyless(queries_of(sql), "caregiver") == []
        assert sql.count("INSERT INTO") == len(INSERTED.findall(sql))
        assert name in OF_NOBODY or care_tables(statement.for_(kind)) != []  # type: ignore[arg-type]


def test_a_search_across_caregivers_reads_only_ids() -> None:
    for statement in ACROSS.values():
        sql = with_names(statement.for_("sqlite"))
        assert re.match(r"SELECT (\w+)\.caregiver_id, \1\.(id|event_id) FROM \1 WHERE ", sql)


@pytest.mark.parametrize("kind", ["sqlite"], indirect=True)
def test_no_statement_scans_or_sorts_a_table_on_sqlite(care: Care) -> None:
    found = []
    with closing(sqlite3.connect(sqlite_path(care.settings.database))) as connection:
        for name, statement in {**TAKING, **ACROSS}.items():
            written = statement.for_("sqlite")
            plan = explain(connection, written, given_for(written))
            found += [(name, step) for step in plan if is_scan(step) and step != ALL_THAT_WAITS]
            if name in ACROSS:
                found += [(name, step) for step in plan if "TEMP B-TREE" in step]

    assert found == []


@pytest.mark.parametrize("kind", ["postgresql"], indirect=True)
def test_no_statement_scans_a_table_on_postgresql(care: Care) -> None:
    async def plans() -> dict[str, str]:
        import asyncpg  # here, because the suite on SQLite does without the driver

        connection = await asyncpg.connect(care.settings.database, server_settings={"enable_seqscan": "off"})
        try:
            found = {}
            for name, statement in {**TAKING, **ACROSS}.items():
                written = statement.for_("postgresql")
                plan = await connection.fetch(f"EXPLAIN {written.sql}", *written.values(given_for(written)))
                found[name] = "\n".join(row[0] for row in plan)
            return found
        finally:
            await connection.close()

    found = {name: plan for name, plan in asyncio.run(plans()).items() if "Seq Scan" in plan}

    assert found == {}


GIVEN = {
    "caregiver": 1,
    "reminders": [1, 2],
    "events": [1, 2],
    "event": 1,
    "attempt": 1,
    "limit": 8,
    "now": NOW,
    "until": NOW,
    "next": NOW,
    "before": NOW,
    "after": 0,
    "to": "SENT",
    "outcome": "200",
}


def given_for(written: CompiledStatement) -> Values:
    assert {name for name, own in written.parameters if own is REQUIRED} <= GIVEN.keys()
    return GIVEN
