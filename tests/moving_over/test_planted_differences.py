"""`reconcile` finds every planted difference, or its report names the kind as not compared."""

import shutil
from pathlib import Path

import pytest

from app.db.drivers.interface import sqlite_path
from tests.db import raw
from tests.moving_over.moves import Move

pytestmark = pytest.mark.parametrize("kind", ["sqlite"], indirect=True)

MOMENT = "'2026-11-01T08:00:00.000000Z'"
ANSWERS = "(assignment_id, caregiver_id, client_id, save_type, attempt, revision, submit_date, answers)"
ASSIGNMENT = (
    "INSERT INTO assignment (caregiver_id, client_id, session_id, book_id, assign_date, start_date, status, "
    f"attempt, score, feedback_status) VALUES (1, 1, 1, 1, {MOMENT}, {MOMENT}, 'PENDING', 1, 0, 'WAITING')"
)


def of(table: str, number: int, **changed: str) -> str:
    """Sets columns to SQL values."""
    values = ", ".join(f"{name} = {value}" for name, value in changed.items())
    return f"UPDATE {table} SET {values} WHERE id = {number}"


def different(kind: str, number: int, member: str) -> str:
    return f"different\t{kind}\t{number}\t{member}"


def verify(number: int, name: str) -> str:
    return f"verify\tsession\t{number}\t{name}"


COMPLETE = {"status": "'COMPLETE'", "submit_date": MOMENT}
FOUND: list[tuple[str, str]] = [  # a change of the database, and what is printed
    # people
    (of("caregiver", 1, name="'Other'"), different("caregiver", 1, "name")),
    (of("caregiver", 2, position="'Other'"), different("caregiver", 2, "position")),
    (of("caregiver", 2, user_name="'other'"), different("caregiver", 2, "userName")),
    (of("caregiver", 1, user_name="NULL"), different("caregiver", 1, "userName")),
    (of("client", 1, name="'Other'"), different("client", 1, "name")),
    (of("client", 2, oppt_id="'other'"), different("client", 2, "opptId")),
    (of("client", 2, user_name="'other'"), different("client", 2, "userName")),
    (of("client", 1, user_name="NULL"), different("client", 1, "userName")),
    # the catalogue
    (of("module", 1, name="'Other'"), different("module", 1, "name")),
    (of("book", 1, name="'Other'"), different("book", 1, "name")),
    (of("book", 1, module_id="2"), different("book", 1, "moduleId")),
    (of("book", 1, is_test="1"), different("book", 1, "isTest")),
    (of("book", 3, is_test="0"), different("book", 3, "isTest")),
    # sessions
    (of("session", 1, title="'Other'"), different("session", 1, "title")),
    (of("session", 2, title="title || ' '"), different("session", 2, "title")),
    (of("session", 1, description="'Other'"), different("session", 1, "description")),
    (of("session", 5, chat_id="'other'"), different("session", 5, "chatId")),
    (of("session", 1, create_date=MOMENT), different("session", 1, "createDate")),
    (of("session", 4, start_date=MOMENT), different("session", 4, "startDate")),
    (of("session", 1, is_closed="1"), different("session", 1, "isClosed")),
    (of("session", 3, is_closed="0"), different("session", 3, "isClosed")),
    (of("session", 4, caregiver_id="2"), different("session", 4, "caregiverId")),
    (of("session", 2, client_id="2"), different("session", 2, "clientId")),
    (of("session", 2, create_date=MOMENT, title="''"), different("session", 2, "title, createDate")),
    (of("session", 1, assignment_count="7"), verify(1, "assignment_count")),
    (of("session", 1, completed_assignment_count="0"), verify(1, "completed_assignment_count")),
    (of("session", 4, latest_assignment_id="1"), verify(4, "latest_assignment_id")),
    (of("session", 5, last_assignment_score="9"), verify(5, "last_assignment_score")),
    ("DELETE FROM session WHERE id = 2", "missing here\tsession\t2"),
    (
        "INSERT INTO session (caregiver_id, client_id, title, description, chat_id, create_date, start_date, "
        f"is_closed, assignment_count, completed_assignment_count) VALUES (1, 2, '', '', '', {MOMENT}, "
        f"{MOMENT}, 0, 0, 0)",
        "only here\tsession\t6",
    ),
    # assignments
    (of("assignment", 2, session_id="2"), different("assignment", 2, "sessionId")),
    (of("assignment", 4, book_id="2"), different("assignment", 4, "bookId")),
    (of("assignment", 2, assign_date=MOMENT), different("assignment", 2, "assignDate")),
    (of("assignment", 2, start_date=MOMENT), different("assignment", 2, "startDate")),
    (of("assignment", 1, submit_date=MOMENT), different("assignment", 1, "submitDate")),
    (of("assignment", 2, **COMPLETE), different("assignment", 2, "submitDate, status")),
    (of("assignment", 1, status="'PENDING'"), different("assignment", 1, "status, answers")),
    (of("assignment", 3, score="5"), different("assignment", 3, "score")),
    (of("assignment", 4, score="5"), different("assignment", 4, "score")),
    (of("assignment", 1, feedback_status="'SUBMITTED'"), different("assignment", 1, "feedbackStatus")),
    (of("assignment", 1, feedback_submit_date=MOMENT), different("assignment", 1, "feedbackSubmitDate")),
    (of("assignment", 4, withdraw_date=MOMENT), "missing here\tassignment\t4"),
    ("DELETE FROM assignment WHERE id = 4", "missing here\tassignment\t4"),
    (ASSIGNMENT, "only here\tassignment\t6"),
    # answers
    (
        of("answer_set", 1, answers="""replace(answers, '"]]', ' more"]]')"""),
        different("assignment", 1, "answers"),
    ),
    (of("answer_set", 1, answers="'[]'"), different("assignment", 1, "answers")),
    (of("answer_set", 2, submit_date=MOMENT), different("assignment", 3, "answers")),
    (of("answer_set", 3, id="9"), different("assignment", 5, "answers")),
    (of("answer_set", 1, attempt="2"), different("assignment", 1, "answers")),
    ("DELETE FROM answer_set WHERE id = 3", different("assignment", 5, "answers")),
    (of("answer_set", 3, assignment_id="4"), different("assignment", 5, "answers")),
]
NAMED: list[tuple[str, str]] = [  # and the kind that the report names
    (of("assignment", 2, end_date=MOMENT), "end dates"),
    (of("session", 3, close_date=MOMENT), "close dates"),
    (
        "INSERT INTO reminder (caregiver_id, client_id, assignment_id, remind_date, state) "
        f"VALUES (1, 1, 2, {MOMENT}, 'SCHEDULED')",
        "reminders",
    ),
    (f"INSERT INTO answer_set {ANSWERS} VALUES (2, 1, 1, 'DRAFT', 1, 1, NULL, '[]')", "drafts"),
    (
        "INSERT INTO feedback (caregiver_id, client_id, assignment_id, answer_set_id, text, submit_date) "
        f"VALUES (1, 1, 1, 1, 'Well done', {MOMENT})",
        "feedback texts",
    ),
    (of("assignment", 2, attempt="2"), "earlier attempts"),
    (of("answer_set", 2, own_score="7"), "scores of answer sets"),
    (of("answer_set", 2, score="7"), "scores of answer sets"),
    (of("assignment", 1, assign_date="replace(assign_date, ':00.0', ':07.0')"), "seconds"),
    (of("book", 1, retire_date=MOMENT), "retired books"),
    (of("caregiver", 1, is_disabled="1"), "disabled accounts"),
    ("INSERT INTO question (book_id, position, text, kind, options, is_required) "
     "VALUES (1, 1, 'How?', 'TEXT', '[]', 0)", "questions"),
]  # fmt: skip


@pytest.fixture
def moved(move: Move) -> Move:
    assert move.run("import", move.record()).exit_code == 0
    return move


def reconcile(move: Move) -> tuple[int, list[str]]:
    return move.lines("legacy", "reconcile", str(move.folder / "recording-1"))


def test_every_planted_difference_is_found_or_named(moved: Move) -> None:
    file = Path(sqlite_path(moved.database))
    copy = Path(shutil.copyfile(file, moved.folder / "copy.db"))
    unnoticed = []
    for statement, expected in [*FOUND, *NAMED]:
        shutil.copyfile(copy, file)
        raw.run(moved.database, "PRAGMA foreign_keys = OFF", statement)
        code, lines = reconcile(moved)
        named = lines[0].removeprefix("not compared: ").split(", ")
        is_noticed = expected in lines if (statement, expected) in FOUND else expected in named
        if not is_noticed:
            unnoticed.append((statement, expected, code, lines))
    assert unnoticed == []


def test_an_equal_database_has_no_differences(moved: Move) -> None:
    assert reconcile(moved)[0] == 0
