"""Lines of an import that are rejected: by their members, and by their references to other lines."""

import json
from collections.abc import Iterator
from copy import deepcopy
from datetime import datetime
from typing import Any

import pytest
from pydantic import ValidationError

from app.db.admin.erasing import erasing
from app.db.interchange.import_format import IMPORT_LINE, AssignmentLine, LineRejected, mistakes_in
from app.db.interchange.load import ImportRejected
from app.db.interchange.rows import ImportRows, ParentRejected
from tests.callers import load, run_write
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
    lines,
)

NEW = 900
UNANSWERED = 800  # a complete assignment without answers
VALID: dict[str, Record] = {
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
    "answer_set": ("id", "assignmentId", "answers"),
}  # fmt: skip
NESTED = {
    "book": ("questions", {"text": "How?", "kind": "TEXT", "options": ["a"], "required": True}),
    "assignment": ("reminders", {"remindDate": NOW, "state": "SENT"}),
    "answer_set": ("answers", {"questionText": "How?", "answer": "Well"}),
}
RANGES = {"attempt": (1, 1_000_000), "score": (0, 2**31 - 1), "revision": (1, 1_000_000)}
ENUMS = {"status", "feedbackStatus", "saveType"}

Case = tuple[Any, str]  # the line, and the beginning of the message


@pytest.fixture(scope="module")
def stored() -> ImportRows:
    collected = ImportRows()
    draft = an_answer_set(9, assignment=4, saveType="DRAFT")
    blank = a_client(UNANSWERED, opptId="")
    for line in lines([*a_world(), a_complete_assignment(UNANSWERED), draft, blank]):
        collected.add_line(line)
    return collected


def rejection(stored: ImportRows, record: Any) -> str | None:
    """None if the line is accepted."""
    line = json.dumps(record, default=datetime.isoformat) if isinstance(record, dict) else record
    try:
        deepcopy(stored).add_line(line)
    except LineRejected as rejected:
        return str(rejected)
    return None


@pytest.mark.parametrize("kind", VALID)
def test_the_lines_that_the_cases_below_change_are_valid(stored: ImportRows, kind: str) -> None:
    assert rejection(stored, VALID[kind]) is None


@pytest.mark.parametrize(
    "record", [a_caregiver(NEW, userName="client-2"), a_client(NEW, userName="caregiver-1")]
)
def test_a_caregiver_and_a_client_may_share_a_user_name(stored: ImportRows, record: Record) -> None:
    assert rejection(stored, record) is None


def test_a_client_may_have_the_identifier_that_its_erasure_has_set(stored: ImportRows) -> None:
    """In another service."""
    assert rejection(stored, a_client(NEW, opptId=f"erased-{NEW}")) is None


@pytest.mark.parametrize(
    "identifier",
    [
        *("erased-7b", "erased-2024-11", "erased-", "erased", "not-erased-7"),
        "erased-\N{ARABIC-INDIC DIGIT ONE}",
    ],
)
def test_other_identifiers_may_begin_like_that_of_an_erased_client(
    stored: ImportRows, identifier: str
) -> None:
    assert rejection(stored, a_client(NEW, opptId=identifier)) is None


def members(kind: str, valid: Record) -> Iterator[Case]:
    for member in REQUIRED[kind]:
        yield {name: value for name, value in valid.items() if name != member}, f"{member}: Field required"
        yield valid | {member: None}, f"{member}: "
    for member, value in valid.items():
        if member != "kind":
            yield valid | {member: {"wrong": [value]}}, f"{member}: "
    yield valid | {"nmae": "x"}, "nmae: Extra inputs are not permitted"


def ids(valid: Record) -> Iterator[Case]:
    for member in (name for name in valid if name == "id" or name.endswith("Id")):
        if member not in ("opptId", "chatId"):
            for wrong in (0, -1):
                yield valid | {member: wrong}, f"{member}: Input should be greater than or equal to 1"
            for wrong in (2**63 - 1, 2**63, 2**64):
                yield valid | {member: wrong}, f"{member}: Input should be less than or equal to {2**63 - 2}"
            for other in (True, 1.0, "1"):
                yield valid | {member: other}, f"{member}: Input should be a valid integer"


def values(valid: Record) -> Iterator[Case]:
    for member, value in valid.items():
        if member in ENUMS:
            for wrong in ("pending", "", 1, ["FINAL"]):
                yield valid | {member: wrong}, f"{member}: Input should be '"
        elif isinstance(value, datetime):
            for wrong in (
                "", "soon", "2026-11-21", "2026-11-21T09:00:00", "2026-02-30T09:00:00Z",
                "0001-01-01T00:00:00+14:00", "1899-12-31T23:59:59Z", "2999-12-31T23:00:00-01:00",
                "1700000000", 1_700_000_000, True,
            ):  # fmt: skip
                yield valid | {member: wrong}, f"{member}: must be a moment like 2026-11-21T09:00:00Z"
        elif isinstance(value, str) and member != "kind":
            yield valid | {member: "a\0b"}, f"{member}: must not contain NUL"
            yield valid | {member: 5}, f"{member}: Input should be a valid string"
    for member, (least, most) in RANGES.items():
        if member in valid:
            for number in (most + 1, least - 1, True, 1.5, "1"):
                yield valid | {member: number}, f"{member}: Input should be "


def nested(kind: str, valid: Record) -> Iterator[Case]:
    if kind not in NESTED:
        return
    member, item = NESTED[kind]
    first = next(iter(item))
    yield valid | {member: {}}, f"{member}: Input should be a valid "
    yield valid | {member: [item, "x"]}, f"{member}[1]: Input should be an object"
    yield valid | {member: [item, item | {"nmae": 1}]}, f"{member}[1].nmae: Extra inputs are not permitted"
    yield valid | {member: [{}]}, f"{member}[0].{first}: Field required"
    for name in item:
        yield valid | {member: [item | {name: 5}]}, f"{member}[0].{name}: "
    for name in item.keys() & {"text", "questionText", "answer"}:
        yield valid | {member: [item | {name: "a\0b"}]}, f"{member}[0].{name}: must not contain NUL"


@pytest.mark.parametrize("kind", VALID)
def test_a_line_with_an_invalid_member_is_rejected_by_its_name(stored: ImportRows, kind: str) -> None:
    valid = VALID[kind]
    cases = [*members(kind, valid), *ids(valid), *values(valid), *nested(kind, valid)]

    messages = [(record, expected, rejection(stored, record)) for record, expected in cases]

    assert [one for one in messages if not (one[2] or "").startswith(one[1])] == []


OPTIONAL = {
    "caregiver": ("userName",),
    "client": ("userName",),
    "book": ("isTest", "retireDate", "questions"),
    "session": ("isClosed", "closeDate"),
    "assignment": (
        "endDate", "submitDate", "status", "attempt", "score", "feedbackStatus", "feedbackSubmitDate",
        "reminders",
    ),
    "answer_set": ("saveType", "submitDate", "attempt", "revision"),
    "questions": ("kind", "options", "required", "minimum", "maximum", "weights"),
    "reminders": ("state",),
}  # fmt: skip


PARTS: dict[str, tuple[str, Record]] = {
    "questions": ("book", {"text": "Why?"}),
    "reminders": ("assignment", {"remindDate": NOW}),
}


@pytest.mark.parametrize("kind", OPTIONAL)
def test_null_means_the_same_as_an_optional_member_that_is_missing(kind: str) -> None:
    for member in OPTIONAL[kind]:
        if kind in PARTS:
            parent, part = PARTS[kind]
            missing, null = (VALID[parent] | {kind: [each]} for each in (part, part | {member: None}))
        else:
            missing = {name: value for name, value in VALID[kind].items() if name != member}
            null = missing | {member: None}
        assert read_line(null) == read_line(missing), member


def read_line(record: Record) -> Any:
    """The line, or the message of its rejection."""
    try:
        return IMPORT_LINE.validate_json(json.dumps(record, default=datetime.isoformat))
    except ValidationError as error:
        return str(LineRejected.of(error))


@pytest.mark.parametrize(
    "line",
    [b"{", b"nonsense", b"{'kind': 1}", b'{"kind": "module"} x', b"\xff\xfe", b'"\\ud800"', b"[" * 999],
)
def test_a_line_that_is_not_json_is_rejected(stored: ImportRows, line: bytes) -> None:
    assert (rejection(stored, line) or "").startswith("Invalid JSON: ")


@pytest.mark.parametrize("line", [b"[]", b"null", b"5", b"NaN", b'"caregiver"'])
def test_a_line_that_is_not_an_object_is_rejected(stored: ImportRows, line: bytes) -> None:
    assert rejection(stored, line) == "Input should be an object"


@pytest.mark.parametrize("kind", [None, "Caregiver", "task", "", 5, ["caregiver"]])
def test_a_line_of_an_unknown_kind_is_rejected(stored: ImportRows, kind: Any) -> None:
    sentence = "kind is missing, or is not a kind of this file"
    assert rejection(stored, a_caregiver(NEW, kind=kind)) == sentence
    assert rejection(stored, {"id": 1}) == sentence


STATUS = "Input should be 'PENDING' or 'COMPLETE'"
MISTAKES: dict[str, tuple[Record, str]] = {
    "classes": (
        {"id": "JONAS", "endDate": None, "status": 1, "attempt": 1.5, "score": True, "reminders": {}},
        "id is text: Input should be a valid integer; "
        f"status is a number: {STATUS}; "
        "attempt is a decimal number: Input should be a valid integer; "
        "score is a flag: Input should be a valid integer; "
        "reminders is an object or a list: Input should be a valid array",
    ),
    "nothing": ({"bookId": None}, "bookId is null: Input should be a valid integer"),
    "a state": ({"status": "EXPIRED"}, f"status is EXPIRED: {STATUS}"),
    "a long state": (
        {"status": "NOT_YET_ANSWERED_BY_THE_CLIENT_"},
        f"status is NOT_YET_ANSWERED_BY_THE_CLIENT_: {STATUS}",
    ),
    "a longer state": ({"status": "A" * 32}, f"status is text: {STATUS}"),
    "a number after a state": ({"status": "OPPT_1"}, f"status is text: {STATUS}"),
    "a text after a state": ({"status": "EXPIRED for Jonas"}, f"status is text: {STATUS}"),
    "a part": ({"reminders": [{}]}, "reminders[0].remindDate is missing: Field required"),
    "several members": (
        {"submitDate": NOW.isoformat()},
        "status COMPLETE requires submitDate and vice versa",
    ),
}


@pytest.mark.parametrize("case", MISTAKES)
def test_all_mistakes_are_named_without_the_values(case: str) -> None:
    """The values may be personal data."""
    changed, expected = MISTAKES[case]
    moments = {name: NOW.isoformat() for name in ("assignDate", "startDate")}
    line = {"kind": "assignment", "id": 1, "sessionId": 1, "bookId": 1, **moments, **changed}

    with pytest.raises(ValidationError) as invalid:
        AssignmentLine.model_validate_json(json.dumps(line))

    assert mistakes_in(invalid.value) == expected


COMPLETE = "status COMPLETE requires submitDate and vice versa"
SUBMITTED = "feedbackStatus SUBMITTED requires feedbackSubmitDate and vice versa"
FINAL = "saveType FINAL requires submitDate and vice versa"
RELATED: list[tuple[Record, str]] = [
    (a_session(NEW, closeDate=NOW), "closeDate requires isClosed"),
    (an_assignment(NEW, status="COMPLETE"), COMPLETE),
    (an_assignment(NEW, submitDate=NOW), COMPLETE),
    (an_assignment(NEW, feedbackStatus="SUBMITTED"), SUBMITTED),
    (an_assignment(NEW, feedbackSubmitDate=NOW), SUBMITTED),
    (an_answer_set(NEW, submitDate=None), FINAL),
    (an_answer_set(NEW, saveType="DRAFT", submitDate=NOW), FINAL),
    (a_caregiver(NEW, userName=""), "userName: String should have at least 1 character"),
    *((record | {"id": 1}, "id: 1 exists already") for record in VALID.values()),
    (a_caregiver(NEW, userName="caregiver-1"), "userName: exists already"),
    (a_client(NEW, userName="client-2"), "userName: exists already"),
    (a_client(NEW, opptId="OPPT-2"), "opptId: exists already"),
    (a_client(NEW, opptId=""), "opptId: exists already"),
    (a_client(NEW, opptId="erased-1"), "opptId: can only be that of an erased client"),
    (a_book(NEW, moduleId=77), "moduleId: 77 does not exist before this line"),
    (a_session(NEW, caregiver=77), "caregiverId: 77 does not exist before this line"),
    (a_session(NEW, client=77), "clientId: 77 does not exist before this line"),
    (an_assignment(NEW, session=77), "sessionId: 77 does not exist before this line"),
    (an_assignment(NEW, book=77), "bookId: 77 does not exist before this line"),
    (an_answer_set(NEW, assignment=77), "assignmentId: 77 does not exist before this line"),
    (an_answer_set(NEW, assignment=1), "attempt: 1 of the assignment exists already"),
    (an_answer_set(NEW, assignment=1, attempt=2), "attempt: 2 of the assignment is not submitted"),
    (an_answer_set(NEW, assignment=2), "attempt: 1 of the assignment is not submitted"),
    (an_answer_set(NEW, assignment=4, saveType="AUTO_SAVE"), "saveType: assignment 4 has a draft already"),
]


@pytest.mark.parametrize(("record", "sentence"), RELATED)
def test_a_line_that_contradicts_itself_or_an_earlier_line_is_rejected(
    stored: ImportRows, record: Record, sentence: str
) -> None:
    assert rejection(stored, record) == sentence


def test_lines_that_refer_to_a_stored_row_are_checked_although_a_line_with_its_id_is_invalid(
    stored: ImportRows,
) -> None:
    """Lines that refer to the row of an invalid line, or to a row of such a line, are not reported."""
    collected = deepcopy(stored)
    for record, reported in (
        (a_caregiver(1, name=None), "name: "),
        (a_session(NEW, caregiver=1, client=77), "clientId: 77 does not exist before this line"),
        (a_caregiver(NEW, name=None), "name: "),
        (a_session(NEW + 1, caregiver=NEW, client=77), ""),
        (an_assignment(NEW, session=NEW + 1, book=77), ""),
        (an_answer_set(NEW, assignment=NEW), ""),
    ):
        with pytest.raises(LineRejected, match=f"^{reported}") as rejected:
            collected.add_line(next(lines([record])))
        assert (type(rejected.value) is ParentRejected) == (reported == "")


# --- through the database -------------------------------------------------------------------------

AGAINST_THE_DATABASE: list[tuple[Record, str]] = [
    (a_caregiver(NEW, position=None), "position: Input should be a valid string"),
    (a_caregiver(1), "id: 1 exists already"),
    (an_answer_set(3, UNANSWERED), "id: 3 exists already"),
    (a_caregiver(NEW, userName="caregiver-1"), "userName: exists already"),
    (a_client(NEW, userName="client-2"), "userName: exists already"),
    (a_client(NEW, opptId="OPPT-2"), "opptId: exists already"),
    (an_assignment(NEW, book=77), "bookId: 77 does not exist before this line"),
    (an_answer_set(NEW, assignment=3), "attempt: 1 of the assignment exists already"),
    (an_answer_set(NEW, assignment=2), "attempt: 1 of the assignment is not submitted"),
    (an_answer_set(NEW, assignment=4, saveType="DRAFT"), "saveType: assignment 4 has a draft already"),
]


def test_an_import_with_a_rejected_line_stores_nothing(database_url: str) -> None:
    """One database for all cases, because every refusal must leave it unchanged."""
    draft = an_answer_set(9, assignment=4, saveType="DRAFT")
    load(database_url, [*a_world(), a_complete_assignment(UNANSWERED), draft])
    before = raw.row_counts(database_url)

    for record, sentence in AGAINST_THE_DATABASE:
        with pytest.raises(ImportRejected) as refused:
            load(database_url, [a_module(NEW + 1), record])
        assert str(refused.value) == f"line 2: {sentence}"

    assert raw.row_counts(database_url) == before


@pytest.mark.sqlite_only
@pytest.mark.parametrize("record", VALID.values(), ids=VALID)
def test_a_line_may_refer_to_the_database(database_url: str, record: Record) -> None:
    load(database_url, [*a_world(), a_complete_assignment(UNANSWERED)])

    load(database_url, [record])


@pytest.mark.parametrize("first", ["FINAL", "DRAFT"])
def test_a_draft_follows_a_submission_in_another_import_or_precedes_it(database_url: str, first: str) -> None:
    sets = {"FINAL": an_answer_set(8, 9), "DRAFT": an_answer_set(9, 9, saveType="DRAFT")}
    load(database_url, [*a_world(), an_assignment(9, session=1, attempt=2), sets.pop(first)])

    load(database_url, [*sets.values()])

    found = raw.run(database_url, "SELECT id, attempt FROM answer_set WHERE assignment_id = 9 ORDER BY id")
    assert found == [(8, 1), (9, 1)]


@pytest.mark.parametrize(
    ("record", "member"),
    [
        (a_session(NEW, client=2), "clientId"),
        (an_assignment(NEW, session=4), "sessionId"),
        (an_answer_set(NEW, UNANSWERED), "assignmentId"),
    ],
)
def test_nothing_is_imported_about_an_erased_client(database_url: str, record: Record, member: str) -> None:
    """The care of other clients by the caregiver with the same id goes on."""
    load(database_url, [*a_world(), a_complete_assignment(UNANSWERED, session=4)])
    run_write(database_url, erasing(2, NOW))

    with pytest.raises(ImportRejected, match=f"^line 1: {member}: client 2 is erased$"):
        load(database_url, [record])
    load(database_url, [a_session(NEW, caregiver=2), an_assignment(NEW, session=NEW)])


def test_a_line_may_not_refer_to_a_later_line(database_url: str) -> None:
    with pytest.raises(ImportRejected, match=r"^line 1: moduleId: 1 does not exist before this line$"):
        load(database_url, [a_book(1), a_module(1)])

    assert set(raw.row_counts(database_url).values()) == {0}
