"""Lists are read in the order of their indexes, and an import of books scans no table."""

import re
import sqlite3
from collections.abc import Iterator
from contextlib import closing

import pytest

from app.care.assignments import DUE_SOONEST, has_status, is_in_session
from app.care.sessions import IN_TIME_STATE, ORDERS, SessionOrder
from app.db.drivers.interface import sqlite_path
from app.db.drivers.sqlite import sqlite_values
from app.db.reader import levels
from app.db.reader.entities import is_due
from app.db.reader.queries import CountedBy
from app.db.reader.selection import Order, PageRequest, Selection, ViewerRole, Where
from app.db.sql import CompiledStatement, DatabaseKind, Statement, Values
from app.db.statements.books import FIND_ASSIGNED, FIND_BOOKS_WITHOUT_QUESTIONS, LOCK_BOOKS
from app.db.tables import Assignment, Session, Table, TimeState, table_of
from tests.db.conftest import OpenWorld
from tests.db.everything import Ran
from tests.factories import NOW

IDS = Selection(frozenset({"id"}))
STARTS_SOONEST = ORDERS[SessionOrder.STARTS_SOONEST]

on_sqlite = pytest.mark.parametrize("kind", ["sqlite"], indirect=True)
on_postgresql = pytest.mark.parametrize("kind", ["postgresql"], indirect=True)


def plans(world: OpenWorld, ran: list[Ran]) -> Iterator[tuple[Ran, str, list[str]]]:
    """Each different statement with SQLite's query plan."""
    seen = set()
    with closing(sqlite3.connect(sqlite_path(world.url))) as connection:
        for one in ran:
            written = one.statement.for_("sqlite")
            if written.sql not in seen:
                seen.add(written.sql)
                yield one, written.sql, explain(connection, written, one.values)


def explain(connection: sqlite3.Connection, written: CompiledStatement, values: Values) -> list[str]:
    rows = connection.execute(f"EXPLAIN QUERY PLAN {written.sql}", sqlite_values(written, values))
    return [row[3] for row in rows]


def is_scan(step: str) -> bool:
    """A SCAN of a stored table; parameters, numbered rows and the table of sequences are always scanned."""
    is_small = re.search(r"VIRTUAL TABLE|SCAN \(subquery|SCAN sqlite_sequence", step)
    return "AUTOMATIC" in step or (step.startswith("SCAN") and not is_small)


BOOK_STATEMENTS = [
    Ran("books import", statement, {"books": [1, 2]})
    for statement in (LOCK_BOOKS, FIND_ASSIGNED, FIND_BOOKS_WITHOUT_QUESTIONS)
]


@on_sqlite
def test_an_import_of_books_scans_no_table_of_sqlite(world: OpenWorld) -> None:
    found = [plan for _, _, plan in plans(world, BOOK_STATEMENTS)]

    assert [step for plan in found for step in plan if is_scan(step)] == []
    assert len(found) == 3


@on_postgresql
def test_an_import_of_books_scans_no_table_of_postgresql(world: OpenWorld) -> None:
    found = [plan for _, _, plan in world.runner.run(postgres_plans(world.url, BOOK_STATEMENTS))]

    assert [plan for plan in found if "Seq Scan" in plan] == []


@on_sqlite
def test_a_scan_and_a_sort_are_detected(world: OpenWorld) -> None:
    with closing(sqlite3.connect(sqlite_path(world.url))) as connection:
        plan = explain(
            connection, CompiledStatement("SELECT id FROM session WHERE title > 'a' ORDER BY title", ()), {}
        )

    assert [is_scan(step) for step in plan] == [True, False]
    assert "ORDER BY" in plan[1]


def step_on(plan: list[str], table: Table) -> str:
    """How the rows of the list are found: `SEARCH`, then the index."""
    alias = f"{table_of(table).name}_1"
    step = next(step for step in plan if re.match(rf"(SEARCH|SCAN) {alias}\b", step))
    return step.replace(f" {alias} USING ", " ").replace("COVERING ", "")


@on_sqlite
@pytest.mark.parametrize(
    ("table", "role", "where", "index"),
    [
        (Session, "client", (), "ix_session_client (client_id=? AND id<?)"),
        (Session, "caregiver", (), "ix_session_caregiver (caregiver_id=? AND id<?)"),
        (Assignment, "client", (), "ix_assignment_client (client_id=? AND id<?)"),
        (Assignment, "caregiver", (), "ix_assignment_caregiver (caregiver_id=? AND id<?)"),
        *(
            (Assignment, role, (Where(IN_TIME_STATE[state], via="session"),), index)
            for state in TimeState
            for role, index in (
                ("caregiver", "ix_assignment_caregiver (caregiver_id=? AND id<?)"),
                ("client", "ix_assignment_client (client_id=? AND id<?)"),
            )
        ),
        *(
            (
                Session,
                "caregiver",
                (Where(IN_TIME_STATE[state]),),
                "ix_session_caregiver_open (caregiver_id=? AND is_closed=? AND id<?)",
            )
            for state in TimeState
        ),
        *(
            (Session, "client", (Where(IN_TIME_STATE[state]),), "ix_session_client (client_id=? AND id<?)")
            for state in TimeState
        ),
        (
            Assignment,
            "caregiver",
            (Where(is_in_session, narrows=True),),
            "ix_assignment_session (session_id=? AND id<?)",
        ),
        (
            Assignment,
            "client",
            (Where(is_in_session, narrows=True),),
            "ix_assignment_session (session_id=? AND id<?)",
        ),
    ],
)
def test_a_list_is_read_in_the_order_of_its_index(
    world: OpenWorld,
    table: type[Session] | type[Assignment],
    role: ViewerRole,
    where: tuple[Where, ...],
    index: str,
) -> None:
    written = page_of(table, role, None, where, "sqlite").for_("sqlite")

    with closing(sqlite3.connect(sqlite_path(world.url))) as connection:
        plan = explain(connection, written, dict.fromkeys(name for name, _ in written.parameters))

    assert step_on(plan, table) == f"SEARCH INDEX {index}"
    assert [step for step in plan if "TEMP B-TREE" in step] == []


ASSIGNMENTS_BY_DUE_DATE = [
    ((), " AND <expr>>?"),
    ((Where(has_status),), " AND <expr>>?"),
    ((Where(has_status), Where(is_due)), " AND <expr>>? AND <expr><?"),
    *(
        ((Where(IN_TIME_STATE[state], via="session"), Where(is_due)), " AND <expr>>? AND <expr><?")
        for state in TimeState
    ),
]
SESSIONS_BY_START = [
    ((), " AND start_date>?"),
    ((Where(IN_TIME_STATE[TimeState.FUTURE]),), " AND start_date>?"),
    ((Where(IN_TIME_STATE[TimeState.RUNNING]),), " AND start_date>? AND start_date<?"),
]


@on_sqlite
@pytest.mark.parametrize(
    ("table", "role", "order", "where", "index", "bounds"),
    [
        *(
            (Assignment, "caregiver", DUE_SOONEST, where, "ix_assignment_caregiver_due", bounds)
            for where, bounds in ASSIGNMENTS_BY_DUE_DATE
        ),
        *(
            (Session, role, STARTS_SOONEST, where, f"ix_session_{role}_start", bounds)
            for role in ("caregiver", "client")
            for where, bounds in SESSIONS_BY_START
        ),
    ],
)
def test_a_list_in_another_order_is_read_in_the_order_of_its_index(
    world: OpenWorld,
    table: type[Session] | type[Assignment],
    role: ViewerRole,
    order: Order,
    where: tuple[Where, ...],
    index: str,
    bounds: str,
) -> None:
    plan = plan_of_page(world, table, role, order, where)

    assert step_on(plan, table) == f"SEARCH INDEX {index} ({role}_id=?{bounds})"
    assert [step for step in plan if "TEMP B-TREE" in step] == []


@on_sqlite
@pytest.mark.parametrize("where", [where for where, _ in ASSIGNMENTS_BY_DUE_DATE])
def test_the_assignments_of_one_client_are_sorted_by_due_date(
    world: OpenWorld, where: tuple[Where, ...]
) -> None:
    plan = plan_of_page(world, Assignment, "client", DUE_SOONEST, where)

    assert step_on(plan, Assignment) == "SEARCH INDEX ix_assignment_client (client_id=?)"


def page_of(
    table: type[Session] | type[Assignment],
    role: ViewerRole,
    order: Order | None,
    where: tuple[Where, ...],
    kind: DatabaseKind,
) -> Statement:
    request = PageRequest(order=order, where=where)
    plan = levels.plan_of_page(table, IDS, role, request, CountedBy(table, None, where), kind)
    (statement,) = plan.statements()
    return statement


def plan_of_page(
    world: OpenWorld,
    table: type[Session] | type[Assignment],
    role: ViewerRole,
    order: Order,
    where: tuple[Where, ...],
) -> list[str]:
    written = page_of(table, role, order, where, "sqlite").for_("sqlite")
    with closing(sqlite3.connect(sqlite_path(world.url))) as connection:
        return explain(connection, written, dict.fromkeys(name for name, _ in written.parameters))


@on_postgresql
@pytest.mark.parametrize(
    ("table", "role", "order", "where", "index"),
    [
        (Assignment, "caregiver", DUE_SOONEST, (), "ix_assignment_caregiver_due"),
        (
            Assignment,
            "caregiver",
            DUE_SOONEST,
            (Where(has_status), Where(is_due)),
            "ix_assignment_caregiver_due",
        ),
        (Session, "caregiver", STARTS_SOONEST, (), "ix_session_caregiver_start"),
    ],
)
def test_postgresql_can_read_a_page_in_another_order_without_a_sort(
    world: OpenWorld,
    table: type[Session] | type[Assignment],
    role: ViewerRole,
    order: Order,
    where: tuple[Where, ...],
    index: str,
) -> None:
    """With sorts disabled, as a sort is cheaper for a table of a few rows."""
    statement = page_of(table, role, order, where, "postgresql")
    values = {
        "caregiver": 1,
        "status": "PENDING",
        "after": NOW,
        "after_id": 7,
        "limit": 21,
        "offset": 0,
    }
    one = Ran("a list", statement, values)

    [(_, _, plan)] = world.runner.run(postgres_plans(world.url, [one], enable_sort="off"))

    assert f"using {index}" in plan
    assert "Sort" not in plan


async def postgres_plans(url: str, ran: list[Ran], **settings: str) -> list[tuple[Ran, str, str]]:
    """The plans of PostgreSQL with table scans disabled where an index can be used."""
    import asyncpg  # not installed where the suite runs on SQLite only

    written = {one.statement.for_("postgresql").sql: one for one in ran}
    connection = await asyncpg.connect(url, server_settings={"enable_seqscan": "off", **settings})
    try:
        return [
            (one, sql, "\n".join(row[0] for row in await connection.fetch(f"EXPLAIN {sql}", *values)))
            for sql, one in written.items()
            for values in [one.statement.for_("postgresql").values({**one.values, "is_locked": True})]
        ]
    finally:
        await connection.close()
