"""The number of statements of an operation, for any page size: on SQLite one per level of the selection, on
PostgreSQL one per root field.

Counted above the drivers, without account lookups. On SQLite a client's read finds their caregivers first.
"""

import pytest

from app.db.sql import changes_of
from tests.answers import FITTING, LATE, REMARK, TEST, a_world_to_answer_in, to_answer
from tests.callers import Gateway, kind_of
from tests.factories import (
    Record,
    a_caregiver,
    a_client,
    a_complete_assignment,
    a_session,
    an_answer_set,
    catalogue,
)
from tests.schema.test_assign_homework import ASSIGN, homework
from tests.schema.worlds import numbers

NESTED = """{ assignments(timeState: RUNNING, first: 100) { totalCount nodes { id name status startDate
    session { id title } client { id name } answerSets { id saveType submitDate
        answers { questionText answer } } } } }"""


def is_on_sqlite(gateway: Gateway) -> bool:
    return kind_of(gateway.settings.database_url) == "sqlite"


def a_page(rows: int) -> list[Record]:
    """Submitted assignments, each with its own session and client."""
    every = range(1, rows + 1)
    return [
        a_caregiver(1),
        *(a_client(n) for n in every),
        *catalogue(),
        *(a_session(n, client=n) for n in every),
        *(a_complete_assignment(n, session=n) for n in every),
        *(an_answer_set(n, assignment=n) for n in every),
    ]


@pytest.mark.parametrize("rows", [0, 1, 20, 100])
def test_a_nested_list_runs_the_same_statements_for_any_page_size(gateway: Gateway, rows: int) -> None:
    gateway.import_records(a_page(rows))

    with gateway.watched() as statements_run:
        page = gateway.as_caregiver(1).data(NESTED)["assignments"]

    assert page["totalCount"] == len(page["nodes"]) == rows
    assert all(len(node["answerSets"][0]["answers"]) == 2 for node in page["nodes"])
    assert len(statements_run) == ((3 if rows else 2) if is_on_sqlite(gateway) else 1)


def test_a_document_that_is_repeated_runs_the_same_statements_with_other_values(gateway: Gateway) -> None:
    gateway.import_records(a_page(3))
    document = NESTED.replace("{", "query($first: Int) {", 1).replace("first: 100", "first: $first")
    runs = []

    for first in (1, 2, 3):
        with gateway.watched() as statements_run:
            gateway.as_caregiver(1).data(document, first=first)
        runs.append([statement for step in statements_run for statement, _ in changes_of(step)])

    # On SQLite one row is found by its id, and several by a list of ids.
    assert runs[1] == runs[2]
    assert all(statement.expression is None for statement in runs[2])


# The role, the query, and the statements on SQLite and on PostgreSQL.
COUNTS = {
    "a caregiver's sessions with their total": (
        "caregiver",
        "{ sessions(timeState: RUNNING) { totalCount nodes { id title caregiver { name } client { name }"
        " latestAssignment { name book { name module { name } } } pendingAssignmentCount } } }",
        2,
        1,
    ),
    "a caregiver's sessions": ("caregiver", "{ sessions { nodes { title } pageInfo { endCursor } } }", 1, 1),
    "a total alone": ("caregiver", "{ sessions { totalCount } }", 1, 1),
    "a type name alone": ("caregiver", "{ sessions { __typename } }", 0, 0),
    "a client's sessions with their total": (
        "client",
        "{ sessions(timeState: RUNNING) { totalCount nodes { id title caregiver { name } client { name }"
        " latestAssignment { name book { name module { name } } } pendingAssignmentCount } } }",
        3,
        1,
    ),
    "a client's nested list": ("client", NESTED, 4, 1),
    "one session with the lists of two statuses": (
        "caregiver",
        """{ session(id: 1) { title a: assignments(status: PENDING) { totalCount nodes { name } }
            b: assignments(status: COMPLETE) { nodes { name } }
            c: assignments(status: COMPLETE) { nodes { id } } } }""",
        4,
        1,
    ),
    "nodes of three kinds, each twice": (
        "caregiver",
        """{ nodes(ids: ["U2Vzc2lvbjox", "U2Vzc2lvbjoy", "Qm9vazox", "Qm9vazoy", "QXNzaWdubWVudDox",
            "QXNzaWdubWVudDoy"]) { id } }""",
        3,
        3,
    ),
    "the viewer": ("client", "{ viewer { role timeZone } }", 0, 0),
    "the catalogue": (
        "client",
        "{ books { totalCount nodes { name module { name } questions { text } } } }",
        3,
        1,
    ),
    "a caregiver's clients with their total": (
        "caregiver",
        "{ clients { totalCount nodes { name } } }",
        2,
        1,
    ),
    "how far clients are": (
        "caregiver",
        "{ clients { nodes { name progress { assignmentCount completion { week } } } } }",
        2,
        1,
    ),
    "how far sessions are, and their clients": (
        "caregiver",
        "{ sessions { nodes { progress { lateAssignmentCount } client { progress { assignmentCount } } } } }",
        3,
        1,
    ),
    "how far oneself is": ("client", "{ viewer { client { progress { assignmentCount } } } }", 3, 1),
    "oneself": ("client", "{ viewer { client { name } } }", 1, 1),
    "scores of two books": (
        "caregiver",
        """{ clients { nodes { a: scoreHistory(bookId: 1) { score assignment { name } }
            b: scoreHistory(bookId: 2) { score } c: scoreHistory(bookId: "1") { attempt } } } }""",
        5,
        1,
    ),
    "scores of an unknown book": (
        "caregiver",
        '{ clients { nodes { scoreHistory(bookId: "999") { score } } } }',
        2,
        1,
    ),
    "submissions with feedback": (
        "caregiver",
        """{ submissions(since: "2026-11-01T00:00:00Z") { totalCount nodes { score assignment { name }
            feedback { text author { name } } answers { answer } } } }""",
        3,
        1,
    ),
    "what is overdue": (
        "caregiver",
        "{ assignments(isOverdue: true) { totalCount nodes { name client { name } session { title } } } }",
        2,
        1,
    ),
    "what names nothing": ("caregiver", '{ session(id: "x") { title } }', 0, 0),
}


@pytest.mark.parametrize(("role", "query", "on_sqlite", "on_postgresql"), COUNTS.values(), ids=COUNTS.keys())
def test_a_query_runs_the_fewest_statements(
    standing: Gateway, role: str, query: str, on_sqlite: int, on_postgresql: int
) -> None:
    caller = standing.as_caregiver(1) if role == "caregiver" else standing.as_client(1)

    with standing.watched() as statements_run:
        caller.graphql(query)

    assert len(statements_run) == (on_sqlite if is_on_sqlite(standing) else on_postgresql)


PROGRESS = """{ clients(first: 100) { nodes { name
    progress { assignmentCount overdueAssignmentCount completion { week assigned completed } }
    scoreHistory(bookId: 1) { submitDate score assignment { name session { title } } } } } }"""


@pytest.mark.parametrize("rows", [1, 20, 100])
def test_progress_runs_the_same_statements_for_any_page_size(gateway: Gateway, rows: int) -> None:
    """Clients; their assignments; those of the book; their submissions."""
    gateway.import_records(a_page(rows))

    with gateway.watched() as statements_run:
        clients = gateway.as_caregiver(1).data(PROGRESS)["clients"]["nodes"]

    assert [client["progress"]["assignmentCount"] for client in clients] == [1] * rows
    assert len(statements_run) == (4 if is_on_sqlite(gateway) else 1)


def test_assigning_runs_the_same_statements_for_one_book_and_for_many(
    gateway: Gateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Lock and books; rows, reminders, counters, event and audit record, which are one round trip to
    PostgreSQL; then one per level of the payload. One more marks books that are assigned for the first time.
    """
    monkeypatch.setattr("app.care.homework.MAX_FAST_PATH_ROWS", 0)
    gateway.import_records(a_page(1))
    moments = ["2026-11-22T10:00:00Z", "2026-11-23T10:00:00Z"]
    counted = {}

    for what, selected, given in (
        ("for the first time", "{ message }", homework(bookIds=["1", "2", "3"])),
        ("nothing read", "{ message }", homework(bookIds=["1"])),
        ("with reminders", "{ message }", homework(bookIds=["1"], remindDates=moments)),
        ("three books", "{ message }", homework(bookIds=["1", "2", "3"], remindDates=moments)),
        ("ids alone", "{ assignments { id legacyId } }", homework(bookIds=["1", "2"])),
        ("rows read", "{ assignments { id name session { title } } }", homework(bookIds=["1", "2"])),
        ("refused", "{ userErrors { code } }", homework(bookIds=["99"])),
        ("refused at once", "{ userErrors { code } }", homework(bookIds=[])),
    ):
        query = f"mutation($input: AssignHomeworkInput!) {{ assignHomework(input: $input) {selected} }}"
        with gateway.watched() as statements_run:
            gateway.as_caregiver(1).data(query, input=given)
        statements = sum(len(changes_of(step)) for step in statements_run)
        counted[what] = statements, len(statements_run)

    assert counted == {
        "for the first time": (6, 3),
        "nothing read": (5, 2),
        "with reminders": (6, 2),
        "three books": (6, 2),
        "ids alone": (5, 2),
        "rows read": (6, 3),
        "refused": (1, 1),
        "refused at once": (0, 0),
    }


def test_saving_and_submitting_run_few_statements(gateway: Gateway) -> None:
    """Lock and read; answer set, event and audit record; of a submission also assignment, reminders, counters
    and the deletion of the draft. PostgreSQL makes these changes on the fast path, which is not counted."""
    gateway.import_records(a_world_to_answer_in())
    client = gateway.as_client(1)
    save, submit = (
        f"mutation($input: {name[0].upper()}{name[1:]}Input!)"
        f" {{ {name}(input: $input) {{ userErrors {{ code }} }} }}"
        for name in ("saveAnswers", "submitAnswers")
    )
    counted = {}

    for what, query, given in (
        ("first draft", save, to_answer(TEST, {4: "Better"})),
        ("the same again", save, to_answer(TEST, {4: "Better"})),
        ("next draft", save, to_answer(TEST, {4: "Good"}, revision=1)),
        ("stale draft", save, to_answer(TEST, {4: "Bad"}, revision=1)),
        ("submission of a draft", submit, to_answer(TEST, FITTING, revision=2)),
        ("submission without a draft", submit, to_answer(LATE, {REMARK: "None"})),
        ("the same submission again", submit, to_answer(LATE, {REMARK: "None"})),
    ):
        with gateway.watched() as statements_run:
            client.data(query, input=given)
        counted[what] = sum(len(changes_of(step)) for step in statements_run), len(statements_run)

    changes = {
        "first draft": (4, 2),
        "next draft": (4, 2),
        "submission of a draft": (8, 2),
        "submission without a draft": (7, 2),
    }
    if not gateway.settings.database.startswith("sqlite:"):
        changes = dict.fromkeys(changes, (0, 0))
    rest = {"the same again": (1, 1), "stale draft": (1, 1), "the same submission again": (2, 2)}
    assert counted == changes | rest


def test_the_statement_counter_sees_real_statements(gateway: Gateway) -> None:
    """The counter sees a statement that is really executed."""
    gateway.import_records(a_page(1))

    with gateway.watched() as statements_run:
        page = gateway.as_caregiver(1).data("{ sessions { nodes { legacyId } } }")["sessions"]
        gateway.as_caregiver(1).data(ASSIGN, input=homework())

    assert numbers(page) == [1]
    assert len(statements_run) >= 1 + 3
