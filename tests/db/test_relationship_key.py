"""A statement without the relationship key is detected, and rows with inconsistent keys are not read."""

import pytest

from app.db.reader.reads import get_rows
from app.db.reader.selection import AccessScope, Link, PageRequest, Selection
from app.db.sql import CompiledStatement
from app.db.tables import Assignment, Session
from tests.callers import load, run_read
from tests.db import raw
from tests.db.everything import VIEWERS
from tests.db.sql_text import without_key
from tests.factories import NOW, a_world_with_other_clients, an_answer_set, starting_with


def written(sql: str, *names: str) -> CompiledStatement:
    return CompiledStatement(sql, tuple((name, None) for name in names))


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


@starting_with(a_world_with_other_clients)
@pytest.mark.parametrize("access", [AccessScope(NOW, caregiver=1), AccessScope(NOW, client=101)], ids=VIEWERS)
def test_a_row_of_another_client_is_not_read_below_a_wrong_parent(
    database_url: str, access: AccessScope
) -> None:
    raw.run(database_url, "UPDATE answer_set SET assignment_id = 1, attempt = 2 WHERE id = 3")

    (assignment,) = run_read(database_url, get_rows(Assignment, access, [1], SETS))

    assert raw.run(database_url, "SELECT count(*) FROM answer_set WHERE assignment_id = 1") == [(2,)]
    assert [one.id for one in assignment.answer_sets] == [1]
    (page,) = assignment.pages
    assert ([one.id for one in page.rows], page.total) == ([1], 1)


@starting_with(a_world_with_other_clients)
@pytest.mark.parametrize("access", [AccessScope(NOW, caregiver=1), AccessScope(NOW, client=101)], ids=VIEWERS)
def test_a_row_of_another_client_is_not_read_through_a_wrong_link(
    database_url: str, access: AccessScope
) -> None:
    raw.run(database_url, "UPDATE session SET latest_assignment_id = 5 WHERE id = 1")
    selection = Selection(frozenset({"id"}), (Link("latest_assignment", IDS),))

    (session,) = run_read(database_url, get_rows(Session, access, [1], selection))

    assert session.latest_assignment is None


@pytest.mark.parametrize(
    ("access", "drafts"),
    [(AccessScope(NOW, caregiver=1), []), (AccessScope(NOW, client=101), [9])],
    ids=VIEWERS,
)
def test_only_the_client_reads_a_page_of_drafts(
    database_url: str, access: AccessScope, drafts: list[int]
) -> None:
    """The condition of a link holds also for its pages."""
    load(database_url, [*a_world_with_other_clients(), an_answer_set(9, assignment=2, saveType="DRAFT")])
    selection = Selection(frozenset({"id"}), (Link("draft", IDS, PageRequest(with_total=True)),))

    (assignment,) = run_read(database_url, get_rows(Assignment, access, [2], selection))

    (page,) = assignment.pages
    assert [one.id for one in page.rows] == drafts
    assert page.total == len(drafts)
