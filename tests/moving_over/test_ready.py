"""`legacy ready` exits with 0 only if every check passes, and prints what to do for each that fails."""

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo

import orjson
import pytest

from app.care.context import Role
from moving_over.commands.reconcile import checks_of
from moving_over.extraction import Recording
from moving_over.pages import Reading
from moving_over.reconciliation import Reconciliation
from moving_over.recorded_rows import RemainingWork
from tests import keys
from tests.db import raw
from tests.factories import NOW
from tests.moving_over.moves import Move
from tests.moving_over.test_careful_update import rewrite

IMPORTED = ("recording", int(NOW.timestamp()))
CHECKS = (
    "the recording is complete",
    "it is recent",
    "it was imported last",
    "no conflict is open",
    "all rows are equal",
    "all counters are correct",
    "all people have accounts",
    "all books have questions",
    "the shadow compared answers on 7 days, without unexplained differences",
)
LIST = "GET /gateway/profile/caregiver/session/assignment"
DIFFERENT = ["differences", LIST, "mobile", "content[*].score", "value", "different", 1]


def shadowed(move: Move, days: int = 7, *more: list[object]) -> None:
    counts = [["days", f"2026-11-{day:02}", 3] for day in range(1, days + 1)]
    answers = ["answers", LIST, "mobile", "same", 3 * days]
    (move.folder / "shadow.json").write_bytes(orjson.dumps([answers, *counts, *more]))


def add_questions(move: Move) -> None:
    """To every book that was imported."""
    find = "SELECT id, name, module_id, is_test FROM book ORDER BY id"
    question = {"text": "How was it?"}
    lines = [
        {"kind": "book", "id": row[0], "name": row[1], "moduleId": row[2], "isTest": bool(row[3])}
        | {"questions": [question]}
        for row in raw.run(move.database, find)
    ]
    file = move.folder / "books.jsonl"
    file.write_bytes(b"\n".join(map(orjson.dumps, lines)))
    result = move.run("books", "import", str(file))
    assert result.exit_code == 0, result.output


@pytest.fixture
def prepared(move: Move) -> Move:
    imported = move.run("import", move.record())
    assert imported.exit_code == 0, imported.output
    add_questions(move)
    shadowed(move)
    return move


def check(move: Move, *options: str) -> tuple[int, list[str]]:
    folder = str(move.folder / f"recording-{move.count}")
    return move.lines("legacy", "ready", folder, "--state", str(move.folder / "shadow.json"), *options)


def test_everything_is_ready(prepared: Move) -> None:
    assert check(prepared) == (0, [*(f"ok\t{name}" for name in CHECKS), "go: declare the switch"])


@pytest.mark.sqlite_only
def test_other_limits_can_be_given(prepared: Move) -> None:
    shadowed(prepared, 6)
    late(prepared)

    assert check(prepared)[1][-1] == "no go: 2 checks failed"
    assert check(prepared, "--days", "6", "--minutes", "62")[1][-1] == "go: declare the switch"


# --- what prevents it, and the advice -------------------------------------------------------------


def without_a_token(move: Move) -> None:
    tokens = ("--caregivers", "env:CAREGIVERS", "--clients", str(move.folder / "clients"))
    (move.folder / "clients").write_text(keys.token("CLIENT", "client-1"))
    folder = move.record(*tokens)
    assert move.run("import", folder, "--update", "--partial").exit_code == 0


def late(move: Move, lines: int = 0) -> None:
    rewrite(move.record(), (datetime.now(UTC) - timedelta(minutes=61)).isoformat(timespec="seconds"), lines)
    raw.run(move.database, "DELETE FROM imported_row WHERE kind = 'recording'")
    folder = str(move.folder / f"recording-{move.count}")
    assert move.run("import", folder, "--update").exit_code == 0


def not_imported(move: Move) -> None:
    rewrite(move.record(), (datetime.now(UTC) + timedelta(seconds=2)).isoformat(timespec="seconds"))


def in_conflict(move: Move) -> None:
    raw.run(move.database, "UPDATE session SET description = 'Here' WHERE id = 5")
    move.old.values = {"description": "There"}
    token = keys.token("CLIENT", "client-2")
    with move.old.misbehaving("has another value", path="/client/session?time-state=RUNNING", user=token):
        folder = move.record()
    assert move.run("import", folder, "--update").exit_code == 1


def changed(statement: str) -> Callable[[Move], object]:
    return lambda move: raw.run(move.database, statement)


CASES: dict[str, tuple[Callable[[Move], object], dict[str, str]]] = {
    "a client's token is missing": (
        without_a_token,
        {
            CHECKS[0]: "`import` lists the gaps; record again",
            CHECKS[4]: "4 are not; `legacy reconcile`, `legacy resolve`",
        },
    ),
    "the recording is old": (late, {CHECKS[1]: "record and `import --update` again"}),
    "the recording was continued": (
        lambda move: late(move, 1),
        {CHECKS[1]: "record and `import --update` again"},
    ),
    "the recording is not imported": (not_imported, {CHECKS[2]: "`import RECORDING --update`"}),
    "a conflict": (
        in_conflict,
        {
            CHECKS[3]: "1; `legacy resolve`",
            CHECKS[4]: "1 are not; `legacy reconcile`, `legacy resolve`",
        },
    ),
    "another title": (
        changed("UPDATE session SET title = 'Here' WHERE id = 5"),
        {CHECKS[4]: "1 are not; `legacy reconcile`, `legacy resolve`"},
    ),
    "a wrong counter": (
        changed("UPDATE session SET assignment_count = 7 WHERE id = 1"),
        {CHECKS[5]: "1 are not; `verify`"},
    ),
    "a person without an account": (
        changed("UPDATE client SET user_name = NULL WHERE id = 2"),
        {
            CHECKS[4]: "1 are not; `legacy reconcile`, `legacy resolve`",
            CHECKS[6]: "1 have none; `account link`",
        },
    ),
    "a book without questions": (
        changed("DELETE FROM question WHERE book_id = 1"),
        {CHECKS[7]: "1 have none; `books import`"},
    ),
    "a day of the shadow is missing": (
        lambda move: shadowed(move, 6),
        {
            CHECKS[8]: "18 answers of 6 days, 0 unexplained differences, 0 dropped, 0 failed, 0 old failed; "
            "`legacy shadow report`"
        },
    ),
    "the shadow found a difference": (
        lambda move: shadowed(move, 7, DIFFERENT),
        {
            CHECKS[8]: "21 answers of 7 days, 1 unexplained difference, 0 dropped, 0 failed, 0 old failed; "
            "`legacy shadow report`"
        },
    ),
    "no shadow": (
        lambda move: (move.folder / "shadow.json").unlink(),
        {
            CHECKS[8]: "0 answers of 0 days, 0 unexplained differences, 0 dropped, 0 failed, 0 old failed; "
            "`legacy shadow report`"
        },
    ),
}


@pytest.mark.once_on_postgresql
@pytest.mark.parametrize("case", CASES)
def test_what_is_missing_is_named_with_its_remedy(prepared: Move, case: str) -> None:
    prepare, failed = CASES[case]
    prepare(prepared)

    code, lines = check(prepared)

    checks = [f"NO\t{name}\t{failed[name]}" if name in failed else f"ok\t{name}" for name in CHECKS]
    count = f"{len(failed)} check{'s' * (len(failed) > 1)}"
    assert (code, lines) == (1, [*checks, f"no go: {count} failed"])


WORK: dict[str, tuple[dict[str, Any], dict[str, str]]] = {
    "nothing": ({}, {}),
    "rows of every kind, and two counters": (
        {
            "missing_here": [("client", 1)], "only_here": [("session", 2)], "aside": [("session", 4)],
            "different": {("book", 3): ["name"]}, "counters": [None, None],
        },
        {
            CHECKS[4]: "4 are not; `legacy reconcile`, `legacy resolve`",
            CHECKS[5]: "2 are not; `verify`",
        },
    ),
    "conflicts of every kind": (
        {"imported": dict.fromkeys([IMPORTED, ("conflict book", 1), ("conflict session", 1)], "")},
        {CHECKS[3]: "2; `legacy resolve`"},
    ),
    "people and users": (
        {"remaining": RemainingWork([(Role.CLIENT, 1)], [(role, "a") for role in Role], [], [7])},
        {CHECKS[6]: "3 have none; `account link`"},
    ),
    "many books": (
        {"remaining": RemainingWork([], [], [*range(1000)], [])},
        {CHECKS[7]: "1,000 have none; `books import`"},
    ),
    "another recording": (
        {"imported": {("recording", IMPORTED[1] - 1): ""}}, {CHECKS[2]: "`import RECORDING --update`"}
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", WORK)
def test_each_check_counts_all_of_its_work(case: str) -> None:
    """The recording began exactly at the oldest moment."""
    values, failed = WORK[case]
    recording = Recording(Reading(ZoneInfo("UTC")), list)
    recording.moments = [NOW, NOW]
    found = Reconciliation()
    found.imported, found.remaining = {IMPORTED: ""}, RemainingWork([], [], [], [])
    for name, value in values.items():
        setattr(found, name, value)

    assert {name: fix for name, fix in checks_of(recording, found, NOW).items() if fix} == failed


def test_a_recording_without_moments_is_not_recent() -> None:
    found = Reconciliation()
    found.remaining = RemainingWork([], [], [], [])

    checks = checks_of(Recording(Reading(ZoneInfo("UTC")), list), found, NOW)

    assert [name for name, fix in checks.items() if fix] == ["it is recent"]


def test_a_resolved_conflict_is_ready(prepared: Move) -> None:
    in_conflict(prepared)
    folder = str(prepared.folder / f"recording-{prepared.count}")

    resolved = prepared.lines("legacy", "resolve", "keep-here", folder, "session:5")

    assert resolved == (0, ["1 conflict resolved"])
    assert check(prepared)[1][-1] == "go: declare the switch"
