"""Every statement names the viewer's relationship key for every care table in it (docs/decisions/0006)."""

import pytest

from app.db.reader.reads import get_rows
from app.db.reader.selection import AccessScope, Link, PageRequest, Selection
from app.db.sql import CompiledStatement, Statement
from app.db.statements import answers, assignments, events, sessions
from app.db.tables import Assignment, Session
from tests.callers import load, run_read
from tests.db import raw
from tests.db.conftest import OpenWorld
from tests.db.everything import VIEWERS, Ran, everything_read
from tests.db.everything_written import Written as WrittenStatements
from tests.db.everything_written import everything_written
from tests.db.sql_text import ANY_CARE_TABLE, INSERTED, care_tables, with_names, without_key
from tests.factories import NOW, a_world, an_answer_set, starting_with


@pytest.fixture(scope="module")
def reads(world: OpenWorld) -> list[Ran]:
    return list(everything_read(world))


@pytest.fixture(scope="module")
def changes(world: OpenWorld) -> WrittenStatements:
    return everything_written(world)


def written(sql: str, *names: str) -> CompiledStatement:
    return CompiledStatement(sql, tuple((name, None) for name in names))


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


@pytest.mark.parametrize(
    ("role", "missing", "statement"),
    [
        ("caregiver", ["t"], written("SELECT t.id FROM session AS t WHERE t.id = ?", "ids")),
        ("caregiver", [], written("SELECT t.id FROM session AS t WHERE t.caregiver_id = ?", "caregiver")),
        ("caregiver", ["t"], written("SELECT t.id FROM session AS t WHERE t.caregiver_id = ?", "ids")),
        ("client", ["t"], written("SELECT t.id FROM session AS t WHERE t.caregiver_id = ?", "caregiver")),
        ("client", ["t"], written("SELECT t.id FROM session AS t WHERE t.client_id = $1::BIGINT", "client")),
        (
            "client",
            [],
            written(
                "SELECT t.id FROM session AS t WHERE t.client_id = $1::BIGINT"
                " AND t.caregiver_id = any($2::BIGINT[])",
                "client", "caregivers",
            ),
        ),
        (
            "client",
            ["t"],
            written(
                "SELECT t.id FROM session AS t WHERE t.client_id = ? AND t.caregiver_id IN"
                " (SELECT a.value FROM json_each(?) AS a)",
                "client", "ids",
            ),
        ),
        (
            "caregiver",
            ["j0"],
            written(
                "SELECT t.id FROM session AS t LEFT OUTER JOIN assignment AS j0"
                " ON j0.id = t.latest_assignment_id WHERE t.caregiver_id = ?",
                "caregiver",
            ),
        ),
        (
            "caregiver",
            ["n"],
            written(
                "SELECT t.id FROM assignment AS t WHERE t.id IN (SELECT n.id FROM assignment AS n)"
                " AND (+ t.caregiver_id) = ?",
                "caregiver",
            ),
        ),
        (
            "caregiver",
            ["t"],
            written("SELECT t.id FROM event AS t WHERE (t.caregiver_id = ? OR t.id = ?)", "caregiver", "id"),
        ),
        (
            "caregiver",
            ["session"],
            written("UPDATE session SET is_closed = ? WHERE session.id = ?", "closed", "session"),
        ),
        (
            "caregiver",
            ["event"],
            written("INSERT INTO event (client_id, kind) SELECT ?, ? FROM parents", "client", "kind"),
        ),
        (
            "caregiver",
            ["session"],
            written("INSERT INTO session (caregiver_id, title) VALUES (?, ?)", "caregiver", "title"),
        ),
        (
            "caregiver",
            [],
            written(
                "INSERT INTO event (caregiver_id, client_id) VALUES ($1::BIGINT, $2)", "caregiver", "client"
            ),
        ),
        (
            "caregiver",
            ["answer_set"],
            written("DELETE FROM answer_set WHERE answer_set.id = ?", "answer_set"),
        ),
    ],
)  # fmt: skip
def test_a_statement_without_the_key_is_detected(
    role: str, missing: list[str], statement: CompiledStatement
) -> None:
    assert without_key(statement, role) == missing


# --- rows with inconsistent keys


IDS = Selection(frozenset({"id"}))
IN_PAGES = Link("answer_sets", IDS, PageRequest(with_total=True))
SETS = Selection(frozenset({"id"}), (Link("answer_sets", IDS), IN_PAGES))


@starting_with(a_world)
@pytest.mark.parametrize("access", [AccessScope(NOW, caregiver=1), AccessScope(NOW, client=1)], ids=VIEWERS)
def test_a_row_of_another_client_is_not_read_below_a_wrong_parent(
    database_url: str, access: AccessScope
) -> None:
    raw.run(database_url, "UPDATE answer_set SET assignment_id = 1, attempt = 2 WHERE id = 3")

    (assignment,) = run_read(database_url, get_rows(Assignment, access, [1], SETS))

    assert raw.run(database_url, "SELECT count(*) FROM answer_set WHERE assignment_id = 1") == [(2,)]
    assert [one.id for one in assignment.answer_sets] == [1]
    (page,) = assignment.pages
    assert ([one.id for one in page.rows], page.total) == ([1], 1)


@starting_with(a_world)
@pytest.mark.parametrize("access", [AccessScope(NOW, caregiver=1), AccessScope(NOW, client=1)], ids=VIEWERS)
def test_a_row_of_another_client_is_not_read_through_a_wrong_link(
    database_url: str, access: AccessScope
) -> None:
    raw.run(database_url, "UPDATE session SET latest_assignment_id = 5 WHERE id = 1")
    selection = Selection(frozenset({"id"}), (Link("latest_assignment", IDS),))

    (session,) = run_read(database_url, get_rows(Session, access, [1], selection))

    assert session.latest_assignment is None


@pytest.mark.parametrize(
    ("access", "drafts"),
    [(AccessScope(NOW, caregiver=1), []), (AccessScope(NOW, client=1), [9])],
    ids=VIEWERS,
)
def test_only_the_client_reads_a_page_of_drafts(
    database_url: str, access: AccessScope, drafts: list[int]
) -> None:
    """The condition of a link holds also for its pages."""
    load(database_url, [*a_world(), an_answer_set(9, assignment=2, saveType="DRAFT")])
    selection = Selection(frozenset({"id"}), (Link("draft", IDS, PageRequest(with_total=True)),))

    (assignment,) = run_read(database_url, get_rows(Assignment, access, [2], selection))

    (page,) = assignment.pages
    assert [one.id for one in page.rows] == drafts
    assert page.total == len(drafts)
