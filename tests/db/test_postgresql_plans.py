"""With 50,000 assignments and fresh statistics, PostgreSQL reads by index, and a page reads few more rows.

The plans are generic: PostgreSQL plans a prepared statement once for all values.
"""

import asyncio
import json
from collections.abc import Iterator
from datetime import datetime
from functools import partial
from typing import Any

import pytest

from app.care.answers import SubmissionFilter, list_my_submissions
from app.care.assignments import DUE_SOONEST, AssignmentFilter, list_my_assignments
from app.care.people import list_my_clients
from app.care.sessions import list_my_sessions
from app.db.drivers.factory import open_database
from app.db.reader.selection import Link, PageRequest, Selection
from app.db.tables import CARE_TABLES, AssignmentStatus, TimeState, table_of
from tests.conftest import fresh_database
from tests.db import raw
from tests.db.conftest import OpenWorld
from tests.db.everything import VIEWERS, Ran, ReadFunction, statements_of
from tests.db.random_world import put_random_world

pytestmark = pytest.mark.parametrize("kind", ["postgresql"], indirect=True)

HIDDEN = 10  # withdrawn assignments and drafts that stand between the rows of a page
CARE = {"client"} | {table_of(table).name for table in CARE_TABLES}
# Every caregiver has 20 clients with 2 sessions each, and 500 assignments.
MORE_ROWS = """
INSERT INTO caregiver (id, name, position, is_disabled)
    SELECT n, 'Caregiver', '', false FROM generate_series(1, 100) AS n ON CONFLICT DO NOTHING;
INSERT INTO client (id, name, oppt_id, is_disabled)
    SELECT n, 'Client', 'more-' || n, false FROM generate_series(1, 2000) AS n ON CONFLICT DO NOTHING;
INSERT INTO relationship (caregiver_id, client_id)
    SELECT 1 + n % 100, 1 + n % 2000 FROM generate_series(1, 2000) AS n ON CONFLICT DO NOTHING;
INSERT INTO session (id, caregiver_id, client_id, title, description, chat_id, create_date, start_date,
        is_closed, assignment_count, completed_assignment_count)
    SELECT 1000 + n, 1 + n % 100, 1 + n % 2000, 'Session', '', '', date '2016-01-01' + n,
        date '2016-01-01' + n, n > 3000, 12, 6 FROM generate_series(1, 4000) AS n;
INSERT INTO assignment (id, caregiver_id, client_id, session_id, book_id, assign_date, start_date, end_date,
        status, attempt, score, feedback_status)
    SELECT 1000 + n, caregiver_id, client_id, session.id, 1 + n % 8, start_date, start_date,
        start_date + interval '9 days', CASE n % 2 WHEN 0 THEN 'PENDING' ELSE 'COMPLETE' END, 1, 0, 'WAITING'
    FROM generate_series(1, 50000) AS n JOIN session ON session.id = 1001 + n % 4000;
INSERT INTO answer_set (id, caregiver_id, client_id, assignment_id, save_type, attempt, revision, submit_date)
    SELECT id, caregiver_id, client_id, id, 'FINAL', 1, 1, start_date FROM assignment
    WHERE id > 1000 AND status = 'COMPLETE';
INSERT INTO feedback (caregiver_id, client_id, assignment_id, answer_set_id, text, submit_date)
    SELECT caregiver_id, client_id, assignment_id, id, 'Good', submit_date FROM answer_set WHERE id > 1000;
INSERT INTO reminder (caregiver_id, client_id, assignment_id, remind_date, state)
    SELECT caregiver_id, client_id, id, start_date, 'SCHEDULED' FROM assignment WHERE id > 1000;
INSERT INTO event (id, caregiver_id, client_id, kind, actor, session_id, assignment_id, moment)
    SELECT id, caregiver_id, client_id, 'ASSIGNED', 'CAREGIVER', session_id, id, assign_date FROM assignment
    WHERE id > 1000;
"""


@pytest.fixture(scope="module")
def large_world(
    kind: str, migrated: str, request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[OpenWorld]:
    with fresh_database(kind, migrated, request, tmp_path_factory.mktemp("large") / "care.db") as url:
        put_random_world(url)
        raw.run(url, *MORE_ROWS.split(";")[:-1], "ANALYZE")
        with asyncio.Runner() as runner:
            db = runner.run(open_database(url))
            yield OpenWorld(url, kind, {}, db, runner)
            runner.run(db.close())


@pytest.fixture(scope="module")
def plans(large_world: OpenWorld) -> list[tuple[Ran, list[dict[str, Any]]]]:
    ran = [
        one
        for name, viewer in VIEWERS.items()
        for one in statements_of(large_world, name, viewer, root_lists(is_caregiver=name == "caregiver"))
    ]
    return large_world.runner.run(explained(large_world.url, ran))


def root_lists(is_caregiver: bool) -> Iterator[tuple[str, ReadFunction]]:
    """The lists of root fields with their usual filters, and one with linked rows."""
    page, with_total = PageRequest(), PageRequest(with_total=True)
    ids = Selection(frozenset({"id"}))
    sets = Selection(frozenset({"id", "answers"}))
    titled, named = Selection(frozenset({"title"})), Selection(frozenset({"name"}))
    links = Link("session", titled), Link("client", named), Link("book", named), Link("answer_sets", sets)
    linked = Selection(ids.columns, links)
    running = TimeState.RUNNING
    for name, filter, request, selection in (
        ("assignments", AssignmentFilter(), page, ids),
        ("assignments with answers", AssignmentFilter(), page, linked),
        ("running assignments", AssignmentFilter(running), with_total, linked),
        ("pending assignments", AssignmentFilter(status=AssignmentStatus.PENDING), with_total, ids),
        ("assignments of a session", AssignmentFilter(session_id=1001), page, ids),
        ("overdue assignments", AssignmentFilter(is_overdue=True), with_total, ids),
        ("assignments by due date", AssignmentFilter(), PageRequest(order=DUE_SOONEST), ids),
    ):
        yield name, partial(list_my_assignments, filter=filter, page_request=request, selection=selection)
    yield "sessions", partial(list_my_sessions, state=None, page_request=page, selection=ids)
    yield "running sessions", partial(list_my_sessions, state=running, page_request=with_total, selection=ids)
    submissions = partial(list_my_submissions, filter=SubmissionFilter())
    yield "submissions", partial(submissions, page_request=page, selection=ids)
    if is_caregiver:
        yield "clients", partial(list_my_clients, page_request=page, selection=ids)


async def explained(url: str, ran: list[Ran]) -> list[tuple[Ran, list[dict[str, Any]]]]:
    """Runs each different statement by its generic plan. Returns the nodes of the plan."""
    import asyncpg  # not installed where the suite runs on SQLite only

    from app.db.drivers.connections import prepare_connection

    found = []
    connection = await asyncpg.connect(url)
    await prepare_connection(connection)
    try:
        for one in {one.statement.for_("postgresql").sql: one for one in ran}.values():
            written = one.statement.for_("postgresql")
            await connection.execute(f"PREPARE one AS {written.sql}")
            values = ", ".join(map(as_literal, written.values(one.values)))
            execute = f"EXECUTE one ({values})" if values else "EXECUTE one"
            (row,) = await connection.fetch(f"EXPLAIN (ANALYZE, FORMAT JSON) {execute}")
            found.append((one, list(nodes_of(json.loads(row[0])[0]["Plan"]))))
            await connection.execute("DEALLOCATE one")
    finally:
        await connection.close()
    return found


def as_literal(value: Any) -> str:
    if isinstance(value, list):
        return f"ARRAY[{', '.join(map(as_literal, value))}]::bigint[]"
    if isinstance(value, str | datetime):
        return "'{}'".format(str(value).replace("'", "''"))
    return "NULL" if value is None else str(value)


def nodes_of(plan: dict[str, Any]) -> Iterator[dict[str, Any]]:
    yield plan
    for inner in plan.get("Plans", ()):
        yield from nodes_of(inner)


def rows_read(node: dict[str, Any]) -> int:
    """The rows of a care table that the node reads, also rows that a filter removes."""
    if node.get("Relation Name") not in CARE:
        return 0
    return int((node["Actual Rows"] + node.get("Rows Removed by Filter", 0)) * node["Actual Loops"])


def test_no_statement_scans_a_care_table(plans: list[tuple[Ran, list[dict[str, Any]]]]) -> None:
    scans = [
        (one.name, node["Relation Name"])
        for one, nodes in plans
        for node in nodes
        if node["Node Type"] == "Seq Scan" and node["Relation Name"] in CARE
    ]

    assert len(plans) == 21
    assert scans == []


@pytest.mark.parametrize(
    ("name", "tables"),
    [
        ("sessions", 1),
        ("assignments", 1),
        ("assignments of a session", 1),
        ("assignments by due date", 1),
        ("submissions", 2),  # their assignments may be withdrawn
        ("assignments with answers", 5),
    ],
)
def test_a_list_of_a_caregiver_reads_no_more_rows_than_its_page(
    plans: list[tuple[Ran, list[dict[str, Any]]]], name: str, tables: int
) -> None:
    """A client has few rows: PostgreSQL may read all of them and sort."""
    (nodes,) = [nodes for one, nodes in plans if one.name == f"caregiver: {name}"]

    assert 0 < sum(map(rows_read, nodes)) <= (PageRequest().first + 1 + HIDDEN) * tables
