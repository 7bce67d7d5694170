"""Every statement names the viewer's relationship key for every care table in it (docs/decisions/0006), finds
its rows by an index, and reads pages in index order without a sort.

These tests are in one file because it takes seconds to compile all statements.
"""

import re
from collections.abc import Iterator
from typing import Any

import pytest

from app.db.sql import Statement
from app.db.statements import answers, assignments, events, sessions
from tests.db.conftest import OpenWorld
from tests.db.everything import VIEWERS, Ran, everything_read
from tests.db.everything_written import Written as WrittenStatements
from tests.db.everything_written import everything_written
from tests.db.sql_text import ANY_CARE_TABLE, INSERTED, care_tables, with_names, without_key
from tests.db.test_query_plans import is_scan, on_postgresql, on_sqlite, plans, postgres_plans

# The total of the catalogue, or of its tests, counts all rows of the table.
CATALOGUE_TOTALS = re.compile(r"\w+: books\(None, module=None, is_test=(None|True)\): page")

# The assignments of one session or one client are few enough to be sorted (docs/decisions/0011).
SORTED_BY_DUE_DATE = re.compile(
    r"(\w+: assignments\(.*(session=4|client=2), .*\)|client\w*: assignments\(.*\)): (later )?by due date"
)


@pytest.fixture(scope="module")
def looked_up(kind: str) -> Iterator[list[list[int]]]:
    """The types that asyncpg does not know."""
    found: list[list[int]] = []
    if kind == "sqlite":
        yield found
        return
    import asyncpg  # not installed where the suite runs on SQLite only

    look_up = asyncpg.Connection._introspect_types

    async def noted(self: Any, types: list[int], timeout: float | None) -> Any:
        found.append(types)
        return await look_up(self, types, timeout)

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(asyncpg.Connection, "_introspect_types", noted)
        yield found


@pytest.fixture(scope="module")
def reads(looked_up: list[list[int]], world: OpenWorld) -> list[Ran]:
    return list(everything_read(world))


@pytest.fixture(scope="module")
def changes(looked_up: list[list[int]], world: OpenWorld) -> WrittenStatements:
    return everything_written(world)


@pytest.fixture(scope="module")
def everything(reads: list[Ran], changes: WrittenStatements) -> list[Ran]:
    return [*reads, *changes.statements]


def test_every_read_names_the_key_of_the_viewer(world: OpenWorld, reads: list[Ran]) -> None:
    statements = {(one.name.split(":")[0], one.statement.for_(world.kind)): one.name for one in reads}

    found = {
        (name, alias)
        for (role, text), name in statements.items()
        for alias in (without_key(text, role) if role in VIEWERS else care_tables(text))
    }

    assert found == set()
    assert sum(len(care_tables(text)) for _, text in statements) > 100


def test_every_change_names_the_key(world: OpenWorld, changes: WrittenStatements) -> None:
    """A client's change finds its assignment by the key of the client, and other rows by its caregiver."""
    statements = [(one.name, one.statement.for_(world.kind)) for one in changes.statements]

    found = [
        (name, text.sql, alias)
        for name, text in statements
        for alias in without_key(text, "caregiver")
        if name.startswith("caregiver") or alias in without_key(text, "client")
    ]

    assert found == []
    assert {type_of(text.sql) for _, text in statements} == {"SELECT", "INSERT", "UPDATE", "DELETE"}
    assert sum(len(care_tables(text)) for _, text in statements) > 50
    assert changes.bulks == []


def test_the_types_of_all_parameters_are_known(everything: list[Ran], looked_up: list[list[int]]) -> None:
    """Looking them up would take as long as a dozen small statements, in each connection."""
    assert looked_up == []


CHANGES = (answers, assignments, events, sessions)
ONLY_ON_CITUS = {
    answers.TAKE_SET_ID,
    assignments.FIND_CAREGIVER_OF_ASSIGNMENT,
}  # test_distributed_statements.py


def test_every_statement_of_a_change_is_checked(changes: WrittenStatements) -> None:
    run = {one.statement for one in changes.statements} | ONLY_ON_CITUS

    found = {
        (module.__name__, name)
        for module in CHANGES
        for name, value in vars(module).items()
        for statement in (value.values() if isinstance(value, dict) else [value])
        if isinstance(statement, Statement) and statement not in run
    }

    assert found == set()


def type_of(sql: str) -> str:
    return sql.split(" ", 1)[0].strip()


def test_every_care_table_in_a_statement_is_found(
    world: OpenWorld, reads: list[Ran], changes: WrittenStatements
) -> None:
    """Every care table in a statement has an alias that was found, or is the target of an insert."""
    for one in (*reads, *changes.statements):
        compiled = one.statement.for_(world.kind)
        text = with_names(compiled)
        care_inserts = text.count("INSERT") - text.count("INSERT INTO relationship")
        assert len(INSERTED.findall(text)) == care_inserts
        read = text.replace("INSERT INTO ", "INSERT:")
        assert len(ANY_CARE_TABLE.findall(read)) == len(care_tables(compiled)), read


# --- query plans


def is_catalogue_total(one: Ran, sql: str) -> bool:
    return CATALOGUE_TOTALS.fullmatch(one.name) is not None and "count(*)" in sql


@on_sqlite
def test_no_statement_scans_a_table(world: OpenWorld, everything: list[Ran]) -> None:
    found = [
        (one.name, sql, plan)
        for one, sql, plan in plans(world, everything)
        if any(map(is_scan, plan)) and not is_catalogue_total(one, sql)
    ]

    assert found == []


@on_sqlite
def test_no_parameter_decides_whether_a_partial_index_is_used(everything: list[Ran]) -> None:
    """SQLite would prepare such a statement again whenever its parameters change."""
    texts = {one.statement.for_("sqlite").sql for one in everything}

    assert len(texts) > 50
    assert [sql for sql in texts if re.search(r"save_type \S+ \?", sql)] == []


@on_sqlite
def test_no_page_is_sorted(world: OpenWorld, everything: list[Ran]) -> None:
    pages = [
        (one.name, sql, plan) for one, sql, plan in plans(world, everything) if "LIMIT ? OFFSET ?" in sql
    ]
    found = [page for page in pages if any("ORDER BY" in step for step in page[2]) and " AS n" not in page[1]]

    assert len(pages) > 50
    assert [page for page in found if not SORTED_BY_DUE_DATE.fullmatch(page[0])] == []


@on_sqlite
def test_rows_are_found_by_a_known_id_or_parent(world: OpenWorld, everything: list[Ran]) -> None:
    """Not by all rows of the relationship, unless the client is the parent."""
    by_relationship = re.compile(
        r"SEARCH \w+ USING (COVERING )?INDEX ix_\w+_(caregiver|client|open)(_due|_start)?\b"
        r"(?! \(caregiver_id=\? AND client_id=\?\))"  # both columns identify one row
    )
    of_clients = re.compile(r"\b(\w+_1|n)\.client_id (IN \(|= parents\.value)|ORDER BY \w+_1\.client_id\b")
    known = {
        "ids",
        "parents",
        "in_session",
        "session",
        "sessions",
        "assignment",
        "assignments",
        "answer_set",
    }
    checked = [
        (one.name, sql, plan)
        for one, sql, plan in plans(world, everything)
        if known & {name for name, _ in one.statement.for_("sqlite").parameters}
    ]

    found = [
        (name, sql, step)
        for name, sql, plan in checked
        for step in plan
        if by_relationship.match(step) and not ("_client" in step and of_clients.search(sql))
    ]

    assert len(checked) > 30
    assert found == []


@on_postgresql
def test_postgresql_can_read_without_scanning_a_table(world: OpenWorld, everything: list[Ran]) -> None:
    found = [
        (one.name, plan)
        for one, sql, plan in world.runner.run(postgres_plans(world.url, everything))
        if "Seq Scan" in plan and not is_catalogue_total(one, sql)
    ]

    assert found == []
