"""Parents of a row that never change: a different one means that the id is of another row here. The number of
rows that an update removes without a confirmation."""

from contextlib import nullcontext
from typing import Any

import orjson
import pytest

from app.db.interchange.change import (
    CHANGE_ROW,
    CHANGEABLE,
    DROP_DRAFTS,
    ChangeRejected,
    adding_attempts,
    changing_assignment,
    changing_row,
    event_of,
)
from app.db.interchange.merge import Update
from app.db.interchange.recorded import Members, RecordedRow, StoredRow
from app.db.interchange.rows import COLUMNS, ImportRows
from app.db.sql import Statement
from app.db.statements.assignments import SKIP_REMINDERS
from app.db.tables import AssignmentStatus
from app.telemetry.wording import OperatorError
from tests.factories import NOW, an_answer_set, lines

ROWS: dict[str, dict[str, Any]] = {
    "session": {"caregiverId": 1, "clientId": 1, "isClosed": False},
    "assignment": {"sessionId": 1, "bookId": 1, "answers": None, "status": "PENDING"},
}
CHANGING = {"session": changing_row, "assignment": changing_assignment}


@pytest.mark.parametrize(
    ("kind", "member"),
    [
        ("session", "caregiverId"),
        ("session", "clientId"),
        ("assignment", "sessionId"),
        ("assignment", "bookId"),
    ],
)
def test_a_row_with_another_parent_is_refused(kind: str, member: str) -> None:
    row = RecordedRow(1, kind, 1, 1, ROWS[kind] | {member: 2}, [])

    with pytest.raises(ChangeRejected, match=f"^the id belongs to another row here, {member}$"):
        next(CHANGING[kind](ImportRows(), row, StoredRow(ROWS[kind], caregiver=1)))


@pytest.mark.parametrize(("status", "ending"), [("COMPLETE", [SKIP_REMINDERS, DROP_DRAFTS]), ("PENDING", [])])
def test_a_draft_ends_only_with_a_recorded_submission_whose_answers_may_be_on_no_page(
    status: str, ending: list[Statement]
) -> None:
    members = {**dict.fromkeys(CHANGEABLE["assignment"]), **ROWS["assignment"], "status": status, "score": 0}
    row = RecordedRow(5, "assignment", 4, 2, members, [])
    found = StoredRow({**ROWS["assignment"]}, caregiver=3, has_draft=True)

    (change, values), *others = changing_assignment(ImportRows(), row, found)

    assert (change, values["row"], values["caregiver"]) == (CHANGE_ROW["assignment"], 4, 3)
    assert others == [(statement, {"assignment": 4, "caregiver": 3}) for statement in ending]


OPEN, CLOSED = {"isClosed": False}, {"isClosed": True}


def homework(status: str, answers: int | None = None, feedback: str = "WAITING") -> Members:
    shown = {"id": answers} if answers else None
    return {"status": status, "answers": shown, "feedbackStatus": feedback}


# The row before and after the change, and the event.
EVENTS: list[tuple[str, Members | None, Members, str]] = [
    ("session", None, OPEN, "SESSION_CREATED"),
    ("session", None, CLOSED, "SESSION_CREATED"),
    ("session", OPEN, OPEN, "SESSION_UPDATED"),
    ("session", OPEN, CLOSED, "SESSION_CLOSED"),
    ("session", CLOSED, OPEN, "SESSION_UPDATED"),
    ("session", CLOSED, CLOSED, "SESSION_UPDATED"),
    ("assignment", None, homework("PENDING"), "ASSIGNED"),
    ("assignment", None, homework("COMPLETE", 1), "ASSIGNED"),
    ("assignment", homework("PENDING"), homework("PENDING"), "EXTENDED"),
    ("assignment", homework("PENDING"), homework("COMPLETE", 1), "SUBMITTED"),
    ("assignment", homework("PENDING"), homework("COMPLETE", 1, "SUBMITTED"), "SUBMITTED"),
    ("assignment", homework("COMPLETE", 1), homework("COMPLETE", 1, "SUBMITTED"), "FEEDBACK_GIVEN"),
    ("assignment", homework("COMPLETE", 1), homework("COMPLETE", 2), "SUBMITTED"),
    ("assignment", homework("COMPLETE", 1), homework("PENDING"), "REOPENED"),
    ("assignment", homework("COMPLETE", 1, "SUBMITTED"), homework("PENDING"), "REOPENED"),
]


@pytest.mark.parametrize(("kind", "before", "now", "event"), EVENTS)
def test_the_event_of_a_change_follows_from_the_row_before_and_after(
    kind: str, before: Members | None, now: Members, event: str
) -> None:
    assert event_of(RecordedRow(1, kind, 1, 1, now, []), before) == event


def test_the_members_of_a_recording_have_columns() -> None:
    """Members that never change are compared but not written."""
    dates = {"assignDate": "assign_date", "startDate": "start_date", "submitDate": "submit_date"}
    feedback = {"feedbackStatus": "feedback_status", "feedbackSubmitDate": "feedback_submit_date"}
    assert {
        "caregiver": {"name": "name", "position": "position"},
        "client": {"name": "name", "opptId": "oppt_id"},
        "module": {"name": "name"},
        "book": {"name": "name", "moduleId": "module_id", "isTest": "is_test"},
        "session": {
            "title": "title", "description": "description", "chatId": "chat_id",
            "createDate": "create_date", "startDate": "start_date", "isClosed": "is_closed",
        },
        "assignment": {**dates, "status": "status", "score": "score", **feedback},
    } == CHANGEABLE  # fmt: skip


@pytest.mark.parametrize(
    ("counts", "is_rejected"),
    [
        ([(20, 1000)], False),
        ([(21, 2000)], True),
        ([(1, 50), (1, 50)], False),
        ([(1, 49), (0, 1000)], True),
        ([(10, 500), (11, 500)], True),
    ],
    ids=str,
)
def test_more_than_20_rows_or_2_percent_of_a_caregiver_need_a_confirmation(
    counts: list[tuple[int, int]], is_rejected: bool
) -> None:
    """Each pair has the rows of a caregiver that are gone, and all of them. Every second one is a session."""
    update = Update(NOW, {}, ImportRows())
    for caregiver, (gone, total) in enumerate(counts, 1):
        keys = [(("session", "assignment")[each % 2], caregiver * 10_000 + each) for each in range(total)]
        for kind, number in keys:
            update.rows.known[kind][number] = (caregiver, 1)
        update.gone += keys[:gone]

    of_all = f"{sum(one for one, _ in counts)} of {sum(all for _, all in counts):,} rows are gone"
    with pytest.raises(OperatorError, match=of_all) if is_rejected else nullcontext():
        update.check_limit()


# The submissions here with their attempts, the one that is shown here; the recorded ones, the shown one of
# these, and the status; and the attempt afterwards or the reason of the rejection.
COMPLETE, PENDING = AssignmentStatus.COMPLETE, AssignmentStatus.PENDING
ATTEMPTS: dict[str, tuple[dict[int, int], int | None, list[int], int | None, str, int | str]] = {
    "nothing": ({}, None, [], None, PENDING, 1),
    "complete without answers": ({}, None, [], None, COMPLETE, 1),
    "the first": ({}, None, [5], 5, COMPLETE, 1),
    "the first, reopened": ({}, None, [5], None, PENDING, 2),
    "the known one": ({5: 1}, 5, [5], 5, COMPLETE, 1),
    "the known one, reopened": ({5: 1}, 5, [5], None, PENDING, 2),
    "several after earlier attempts": ({5: 3}, 5, [5, 7, 8], 8, COMPLETE, 5),
    "no answers any more": ({5: 1}, 5, [], None, COMPLETE, "answers"),
    "no answers, reopened here": ({5: 1}, None, [], None, COMPLETE, 1),
    "an older one is shown": ({5: 1, 6: 2}, 6, [5], 5, COMPLETE, "answers"),
    "a new one before a known one": ({5: 1}, 5, [4, 5], 5, COMPLETE, "answers"),
    "new ones before and after a known one": ({5: 1}, 5, [4, 6], 6, COMPLETE, "answers"),
    "one of another assignment": (
        {},
        None,
        [99],
        99,
        COMPLETE,
        "the id belongs to another row here, answers",
    ),
}


@pytest.mark.parametrize("case", ATTEMPTS)
def test_recorded_submissions_continue_those_that_are_here(case: str) -> None:
    here, shown, recorded, newest, status, expected = ATTEMPTS[case]
    collected = ImportRows()
    collected.known["assignment"][1] = (1, 2)
    collected.known["answer_set"] |= dict.fromkeys((*here, 99), (1, 2))
    members = {"bookId": 1, "score": 7, "status": status, "answers": newest and {"id": newest}}
    records = [orjson.loads(line) for line in lines(an_answer_set(each) for each in recorded)]
    row = RecordedRow(1, "assignment", 1, 2, members, records)
    found = StoredRow({"answers": shown and {"id": shown}}, caregiver=1, sets=here)

    if isinstance(expected, str):
        with pytest.raises(ChangeRejected, match=f"^{expected}$"):
            adding_attempts(collected, row, found)
        return

    new = [each for each in recorded if each not in here]
    last = max(here.values(), default=0)
    assert adding_attempts(collected, row, found) == expected
    added = [dict(zip(COLUMNS["answer_set"], each, strict=True)) for each in collected.rows["answer_set"]]
    assert collected.attempts[1] == (expected, status, 7)
    assert [(each["id"], each["attempt"]) for each in added] == [
        (number, last + place) for place, number in enumerate(new, 1)
    ]
