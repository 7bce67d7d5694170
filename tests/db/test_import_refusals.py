"""A line that cannot be taken is refused by its number and member, and the database is as it was."""

import asyncio
import json
from collections.abc import Iterator
from datetime import datetime
from typing import Any

import pytest

from app.db.admin.importing import ImportRefused, importing
from app.db.drivers.factory import open_database
from tests.callers import load
from tests.db import raw
from tests.factories import (
    NOW,
    Record,
    a_book,
    a_caregiver,
    a_client,
    a_complete_assignment,
    a_module,
    a_session,
    a_world,
    an_answer_set,
    an_assignment,
)

NEW = 900
UNANSWERED = 800  # an assignment that is complete, but whose answers are not there yet
KINDS: dict[str, Record] = {
    "caregiver": a_caregiver(NEW),
    "client": a_client(NEW),
    "module": a_module(NEW),
    "book": a_book(NEW, retireDate=NOW),
    "session": a_session(NEW, closeDate=NOW, isClosed=True),
    "assignment": an_assignment(
        NEW, submitDate=NOW, status="COMPLETE", feedbackStatus="SUBMITTED", feedbackSubmitDate=NOW, attempt=1,
        reminders=[{"remindDate": NOW, "state": "SENT"}],
    ),
    "answer_set": an_answer_set(NEW, assignment=UNANSWERED, revision=1),
}  # fmt: skip
REQUIRED = {
    "caregiver": ("id", "name", "position"),
    "client": ("id", "name", "opptId"),
    "module": ("id", "name"),
    "book": ("id", "moduleId", "name"),
    "session": (
        "id", "caregiverId", "clientId", "title", "description", "chatId", "createDate", "startDate",
    ),
    "assignment": ("id", "sessionId", "bookId", "assignDate", "startDate"),
    "answer_set": ("id", "assignmentId", "submitDate", "answers"),
}  # fmt: skip
PARENTS = {
    "book": ("moduleId",),
    "session": ("caregiverId", "clientId"),
    "assignment": ("sessionId", "bookId"),
    "answer_set": ("assignmentId",),
}
MOMENTS = {
    "book": ("retireDate",),
    "session": ("createDate", "startDate", "closeDate"),
    "assignment": ("assignDate", "startDate", "endDate", "submitDate", "feedbackSubmitDate"),
    "answer_set": ("submitDate",),
}
LISTS = {
    "book": ("questions", {"text": "How?", "kind": "TEXT", "options": ["a"], "required": True}),
    "assignment": ("reminders", {"remindDate": NOW, "state": "SENT"}),
    "answer_set": ("answers", {"questionText": "How?", "answer": "Well"}),
}
ENUMS = {
    "assignment": {"status": "PENDING, COMPLETE", "feedbackStatus": "WAITING, SUBMITTED"},
    "answer_set": {"saveType": "FINAL, DRAFT, AUTO_SAVE"},
}
IDS = ("id", *(member for members in PARENTS.values() for member in members))
ALL_KINDS = "caregiver, client, module, book, session, assignment, answer_set"
A_MOMENT = "must be a moment like 2026-11-21T09:00:00Z"

Case = tuple[Any, str, str]  # what the line holds, the member, the reason


def cases() -> Iterator[Case]:
    for kind, good in KINDS.items():
        yield from of_members(kind, good)
        yield from of_ids(kind, good)
        yield from of_values(kind, good)
        yield from of_lists(kind, good)
    yield from of_lines()
    yield from of_pairs()


def of_members(kind: str, good: Record) -> Iterator[Case]:
    for member in REQUIRED[kind]:
        yield {name: value for name, value in good.items() if name != member}, member, "is missing"
        yield good | {member: None}, member, "is missing"
    for member, value in good.items():
        if member != "kind":
            yield good | {member: {"wrong": [value]}}, member, "must be "
    yield good | {"nmae": "x"}, "nmae", "is not known here"


def of_ids(kind: str, good: Record) -> Iterator[Case]:
    for member in (name for name in IDS if name in good):
        for wrong in (0, -1, 2**63 - 1, 2**63, 2**64, True, 1.0, "1"):
            yield good | {member: wrong}, member, "must be an integer id"
    for member in PARENTS.get(kind, ()):
        yield good | {member: 77}, member, "77 is not known before this line"
    if kind != "answer_set":
        yield good | {"id": 1}, "id", "1 is there already"


def of_values(kind: str, good: Record) -> Iterator[Case]:
    texts = [name for name, value in good.items() if isinstance(value, str)]
    plain = {"kind", *ENUMS.get(kind, ())}
    for member in (name for name in texts if name not in plain):
        wanted = "text that is not empty" if member == "userName" else "text"
        yield good | {member: "a\0b"}, member, f"must be {wanted}"
        yield good | {member: 5}, member, f"must be {wanted}"
    for member in MOMENTS.get(kind, ()):
        for wrong in ("", "soon", "2026-11-21", "2026-11-21T09:00:00", "2026-02-30T09:00:00Z"):
            yield good | {member: wrong}, member, A_MOMENT
        yield good | {member: "0001-01-01T00:00:00+14:00"}, member, A_MOMENT
        yield good | {member: 1_700_000_000}, member, "must be text"
    for member, known in ENUMS.get(kind, {}).items():
        for wrong in ("pending", "", 1, ["FINAL"]):
            yield good | {member: wrong}, member, f"must be one of {known}"
    for member, least in {"attempt": 1, "score": 0, "revision": 1}.items():
        if member in good:
            for wrong in (2**31, least - 1, True, 1.5, "1"):
                yield good | {member: wrong}, member, f"must be an integer of at least {least}"


def of_lists(kind: str, good: Record) -> Iterator[Case]:
    if kind not in LISTS:
        return
    member, item = LISTS[kind]
    yield good | {member: {}}, member, "must be a list of objects"
    yield good | {member: [item, "x"]}, f"{member}[1].", "must be a JSON object"
    yield good | {member: [item, item | {"nmae": 1}]}, f"{member}[1].nmae", "is not known here"
    first = next(iter(item))
    yield good | {member: [{}]}, f"{member}[0].{first}", "is missing"
    for name in item:
        yield good | {member: [item | {name: 5}]}, f"{member}[0].{name}", "must be "


def of_lines() -> Iterator[Case]:
    for wrong in (b"{", b"nonsense", b"{'kind': 1}", b'{"kind": "module"} x', b"\xff\xfe", b"NaN"):
        yield wrong, "the line", "is not JSON"
    for wrong in (b"[]", b"null", b"5", b'"caregiver"'):
        yield wrong, "the line", "must be a JSON object"
    yield {"id": 1}, "kind", "is missing"
    for kind in ("Caregiver", "task", "", 5, ["caregiver"]):
        yield a_caregiver(NEW, kind=kind), "kind", f"must be one of {ALL_KINDS}"


def of_pairs() -> Iterator[Case]:
    """Values that are good alone, and wrong beside each other or beside what is there."""
    yield a_caregiver(NEW, userName="caregiver-1"), "userName", "is there already"
    yield a_client(NEW, userName="client-2"), "userName", "is there already"
    yield a_client(NEW, opptId="OPPT-2"), "opptId", "is there already"
    yield an_answer_set(3), "id", "3 is there already"
    yield a_caregiver(NEW, userName=""), "userName", "must be text that is not empty"
    yield a_session(NEW, closeDate=NOW), "closeDate", "belongs to a closed session only"
    belongs = "belongs to a COMPLETE assignment, and to no other"
    yield an_assignment(NEW, status="COMPLETE"), "submitDate", belongs
    yield an_assignment(NEW, submitDate=NOW), "submitDate", belongs
    belongs = "belongs to a SUBMITTED feedbackStatus, and to no other"
    yield an_assignment(NEW, feedbackStatus="SUBMITTED"), "feedbackSubmitDate", belongs
    yield an_assignment(NEW, feedbackSubmitDate=NOW), "feedbackSubmitDate", belongs
    yield an_answer_set(NEW, assignment=1), "attempt", "1 of the assignment is there already"
    yield an_answer_set(NEW, assignment=1, attempt=2), "attempt", "2 of the assignment is not submitted"
    yield an_answer_set(NEW, assignment=2), "attempt", "1 of the assignment is not submitted"
    belongs = "belongs to a FINAL answer set only"
    yield an_answer_set(NEW, assignment=2, saveType="DRAFT", submitDate=NOW), "submitDate", belongs
    second = "AUTO_SAVE is a second draft of assignment 4"
    yield an_answer_set(NEW, assignment=4, saveType="AUTO_SAVE"), "saveType", second
    yield a_book(NEW, questions=[{"text": "?", "options": ["a\0"]}]), "questions[0].options", "must be "


def as_line(record: Any) -> bytes:
    """By the standard library, which also writes integers that orjson does not."""
    return record if isinstance(record, bytes) else json.dumps(record, default=datetime.isoformat).encode()


async def refusals(url: str) -> list[tuple[Case, tuple[int, str, str] | None]]:
    """How each case is refused as the third line of a file; None where it is not."""
    db = await open_database(url)
    found: list[tuple[Case, tuple[int, str, str] | None]] = []
    try:
        for case in cases():
            try:
                await db.write(importing([as_line(a_module(NEW + 1)), b"", as_line(case[0])]))
            except ImportRefused as refusal:
                [mistake] = refusal.mistakes
                found.append((case, (mistake.line, mistake.member, str(refusal))))
            else:
                found.append((case, None))
    finally:
        await db.close()
    return found


def test_every_wrong_line_is_refused_and_nothing_is_stored(database_url: str) -> None:
    """One database for the whole table: each refusal must leave it as it was."""
    draft = an_answer_set(9, assignment=4, saveType="DRAFT")
    load(database_url, [*a_world(), a_complete_assignment(UNANSWERED), draft])
    before = raw.row_counts(database_url)

    found = asyncio.run(refusals(database_url))

    wrong = [
        (record, said)
        for (record, member, reason), said in found
        if said is None or said[:2] != (3, member) or not said[2].startswith(f"line 3: {member} {reason}")
    ]
    assert wrong == []
    assert len(found) > 300
    assert raw.row_counts(database_url) == before


@pytest.mark.sqlite_only
@pytest.mark.parametrize("record", KINDS.values(), ids=KINDS)
def test_the_lines_that_the_table_spoils_are_good_themselves(database_url: str, record: Record) -> None:
    load(database_url, [*a_world(), a_complete_assignment(UNANSWERED), record])


def test_a_line_may_not_refer_to_one_below_it(database_url: str) -> None:
    with pytest.raises(ImportRefused, match=r"^line 1: moduleId 1 is not known before this line$"):
        load(database_url, [a_book(1), a_module(1)])

    assert set(raw.row_counts(database_url).values()) == {0}


def test_two_lines_of_one_file_may_not_draft_the_same_assignment(database_url: str) -> None:
    drafts = [an_answer_set(number, assignment=2, saveType="DRAFT") for number in (8, 9)]

    with pytest.raises(ImportRefused, match=r"^line 24: saveType DRAFT is a second draft of assignment 2$"):
        load(database_url, [*a_world(), *drafts])

    assert set(raw.row_counts(database_url).values()) == {0}


def test_two_lines_of_one_file_may_not_be_the_same(database_url: str) -> None:
    with pytest.raises(ImportRefused, match=r"^line 2: opptId is there already$"):
        load(database_url, [a_client(1), a_client(2, opptId="OPPT-1")])

    assert set(raw.row_counts(database_url).values()) == {0}
