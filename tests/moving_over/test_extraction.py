"""Gaps and invalid rows of a recording are reported; an unreadable response is rejected with its line."""

import gc
from contextlib import nullcontext
from copy import deepcopy
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import orjson
import pytest

from app.care.context import Role
from app.db.interchange.recorded import from_local_time
from moving_over import LegacyMigrationError
from moving_over.commands import shared
from moving_over.extraction import Gap, Recording, extract, is_complete
from moving_over.importer import fingerprints_in
from moving_over.pages import Reading, read_values
from moving_over.recorded_calls import read_calls
from moving_over.recorded_rows import recorded_rows
from tests.moving_over.recordings import (
    PATHS,
    Change,
    Line,
    in_body,
    item,
    line,
    several,
    without,
    write_lines,
)


def extracted(file: Path, lines: list[Line], zone: str = "UTC") -> Recording:
    write_lines(file, lines)
    return extract(file, Reading(ZoneInfo(zone)), read_calls(file), lambda: read_calls(file))


def number_from_one(lines: list[Line]) -> None:
    for number in range(1, len(lines) + 1):
        in_body(number, lambda body: "number" in body and body.update(number=body["number"] + 1))(lines)


def in_another_size(first: Line) -> Line:
    """The first page of the same list, with one item."""
    page = orjson.loads(first["answer"])
    page.update(content=page["content"][:1], size=1, totalPages=page["totalElements"])
    return {**first, "path": first["path"].replace("size=2", "size=1"), "answer": orjson.dumps(page).decode()}


def add_set(page: Any, **changed: Any) -> None:
    """A further answer set of the first assignment."""
    sets = page["content"][0]["answers"]
    sets.append({**sets[0], **changed})


def requested(lines: list[Line], answer: str | None = None) -> Line:
    """Assignment 5, which is in line 5, and optionally with another answer."""
    found = orjson.loads(lines[4]["answer"])["content"][0]
    if answer is not None:
        found["answers"][0]["answers"][0]["answer"] = answer
    return {"path": f"{PATHS['caregiver']}/5", "userName": "caregiver-2", "answer": found}


GAPS: dict[str, tuple[Change, dict[Gap, list[str]]]] = {
    "a list": (without(3), {Gap.LIST: ["caregiver caregiver-1: FUTURE was not requested"]}),
    "the first page": (
        without(1),
        {
            Gap.LIST: ["caregiver caregiver-1: RUNNING: page 0 of 2"],
            Gap.ASSIGNMENT: ["session 1 of caregiver 1: 1 of 2", "session 4 of caregiver 1: 0 of 1"],
        },
    ),
    "the last page of lists that are numbered from 1": (
        several(number_from_one, without(2)),
        {
            Gap.LIST: ["caregiver caregiver-1: RUNNING: page 2 of 2"],
            Gap.ASSIGNMENT: ["session 1 of caregiver 1: 1 of 2"],
        },
    ),
    "a size of an empty list": (in_body(3, lambda body: body.update(size=0, content=None)), {}),
    "a mistake in a row with a long id": (
        item(1, 1, id=2**63 - 2, status="EXPIRED"),
        {
            Gap.ASIDE: [
                "assignment 9223372036854775806, line 1, item 2: status is EXPIRED: Input should be "
                "'PENDING' or 'COMPLETE'"
            ]
        },
    ),
    "valid rows of a page": (
        several(item(1, status="EXPIRED"), item(1, 1, score="5")),
        {
            Gap.ASIDE: [
                "assignment 4, line 1, item 1: status is EXPIRED: Input should be 'PENDING' or 'COMPLETE'",
                "assignment 2, line 1, item 2: score is text: Input should be a valid integer",
            ]
        },
    ),
    "an id above the largest": (
        item(1, 1, id=2**63 - 1),
        {
            Gap.ASIDE: [
                "assignment without a valid id, line 1, item 2: id is a number: Input should be less than or "
                "equal to 9223372036854775806"
            ],
            Gap.LIST: ["caregiver caregiver-1: RUNNING: an item has no valid id"],
            Gap.ASSIGNMENT: ["session 1 of caregiver 1: 1 of 2"],
        },
    ),
    "too many pages to enumerate": (
        in_body(3, lambda body: body.update(totalElements=2**31 - 1, totalPages=2**30)),
        {Gap.LIST: ["caregiver caregiver-1: FUTURE: page 1 of 1,073,741,824 and 1,073,741,822 more"]},
    ),
    "an item of a list without pages": (
        in_body(3, lambda body: body.update(totalElements=1)),
        {Gap.LIST: ["caregiver caregiver-1: FUTURE: it changed while it was recorded"]},
    ),
    "two pages": (
        in_body(3, lambda body: body.update(totalElements=5, totalPages=3)),
        {Gap.LIST: ["caregiver caregiver-1: FUTURE: page 1 of 3 and 1 more"]},
    ),
    "a page in each of two sizes": (
        several(lambda lines: lines.append(in_another_size(lines[0])), without(2)),
        {
            Gap.LIST: ["caregiver caregiver-1: RUNNING: page 1 of 3 and 1 more"],
            Gap.ASSIGNMENT: ["session 1 of caregiver 1: 1 of 2"],
        },
    ),
    "an id that is a number": (
        item(1, 1, id="2"),
        {Gap.ASIDE: ["assignment 2, line 1, item 2: id is text: Input should be a valid integer"]},
    ),
    "an id of thousands of digits": (
        item(1, 1, id="1" * 5000),
        {
            Gap.ASIDE: [
                "assignment without a valid id, line 1, item 2: id is text: Input should be a valid integer"
            ],
            Gap.LIST: ["caregiver caregiver-1: RUNNING: an item has no valid id"],
            Gap.ASSIGNMENT: ["session 1 of caregiver 1: 1 of 2"],
        },
    ),
    "an id of ASCII digits": (
        item(1, 1, id="٢"),
        {
            Gap.ASIDE: [
                "assignment without a valid id, line 1, item 2: id is text: Input should be a valid integer"
            ],
            Gap.LIST: ["caregiver caregiver-1: RUNNING: an item has no valid id"],
            Gap.ASSIGNMENT: ["session 1 of caregiver 1: 1 of 2"],
        },
    ),
    "a caregiver": (without(5, 6, 7), {Gap.ASSIGNMENT: ["session 5 of caregiver 2: 0 of 1"]}),
    "a client": (without(8, 9, 10), {Gap.SESSION: ["session 3 of client 1", "session 1 of client 1"]}),
    "a client of two caregivers": (
        without(11, 12, 13), {Gap.SESSION: ["session 5 of client 2", "session 4 of client 2"]}
    ),
    "answers": (item(5, answers=[]), {Gap.ANSWERS: ["assignment 5"]}),
    "items of a list that changed": (
        in_body(2, lambda body: body.update(totalElements=4)),
        {Gap.LIST: ["caregiver caregiver-1: RUNNING: it changed while it was recorded"]},
    ),
    "items of a list that grew": (
        in_body(1, lambda body: body.update(totalElements=2)),
        {Gap.LIST: ["caregiver caregiver-1: RUNNING: it changed while it was recorded"]},
    ),
    "a total of as many items as its pages have": (
        several(*(in_body(line, lambda body: body.update(totalElements=2)) for line in (1, 2))),
        {Gap.LIST: ["caregiver caregiver-1: RUNNING: it changed while it was recorded"]},
    ),
    "different items on its pages": (
        lambda lines: in_body(
            2, lambda body: body.update(content=orjson.loads(lines[0]["answer"])["content"][:1])
        )(lines),
        {
            Gap.LIST: ["caregiver caregiver-1: RUNNING: it changed while it was recorded"],
            Gap.ASSIGNMENT: ["session 1 of caregiver 1: 1 of 2"],
        },
    ),
    "the number of assignments and the newest one": (
        several(item(8, assignmentCount=1, assignmentId=1), item(9, assignmentId=1)),
        {
            Gap.COUNTERS: [
                "session 1: assignmentCount", "session 1: assignmentId", "session 2: assignmentId",
            ]
        },
    ),
    "answers of the newest of two complete assignments, which counts": (
        several(
            item(1, 1, status="COMPLETE", submitDate="2026/11/21 09:00", score=50),
            item(8, completedAssignmentCount=2, pendingAssignmentCount=0, lastAssignmentScore=50),
        ),
        {Gap.ANSWERS: ["assignment 2"]},
    ),
    "one title for both roles": (item(8, title="Another"), {Gap.CONTRADICTION: ["session 1: title"]}),
    "correct counters": (
        item(8, completedAssignmentCount=2, pendingAssignmentCount=0, lastAssignmentScore=71),
        {
            Gap.COUNTERS: [
                "session 1: completedAssignmentCount",
                "session 1: pendingAssignmentCount",
                "session 1: lastAssignmentScore",
            ]
        },
    ),
    "the right list of a session": (
        item(9, runningStatus="RUNNING"),
        {Gap.CONTRADICTION: ["session 2: in the list of FUTURE sessions"]},
    ),
    "one name of a book": (item(4, name="Another"), {Gap.CONTRADICTION: ["book 3: name"]}),
    "one start of an assignment": (
        lambda lines: lines.append({
            "path": f"{PATHS['caregiver']}/5", "userName": "caregiver-2",
            "answer": {**orjson.loads(lines[4]["answer"])["content"][0], "startDate": "2026/11/21 09:00"},
        }),
        {Gap.CONTRADICTION: ["assignment 5: content"]},
    ),
    "known members": (
        several(
            item(4, rating=5), item(5, rating=5),
            item(4, drafts=[1], autoSaveAnswers=[1], feedbacks=[1]),
            in_body(4, lambda body: body["content"][0]["answers"][0].update(metadata=0)),
            in_body(4, lambda body: body["content"][0]["answers"][0]["answers"][0].update(
                metadata={}, highlights="",
            )),
            item(8, documents=[{"id": 1}], assignments=[1], feedbacks=None),
            item(9, documents=[{"id": 1}], assignments=[], feedbacks=[1]),
        ),
        {
            Gap.IGNORED: [
                "autoSaveAnswers of the assignment: not empty (1 times)",
                "drafts of the assignment: not empty (1 times)",
                "feedbacks of the assignment: not empty (1 times)",
                "rating of the assignment: unknown member (2 times)",
                "metadata of the answer set: not empty (1 times)",
                "highlights of the answer: not empty (1 times)",
                "metadata of the answer: not empty (1 times)",
                "assignments of the session: not empty (1 times)",
                "documents of the session: not empty (2 times)",
                "feedbacks of the session: not empty (1 times)",
            ]
        },
    ),
    "a current attempt": (
        several(
            item(5, status="PENDING", submitDate=None), in_body(2, lambda body: add_set(body, id=99))
        ),
        {
            Gap.COUNTERS: [
                "session 5: completedAssignmentCount",
                "session 5: pendingAssignmentCount",
                "session 5: lastAssignmentScore",
            ],
            Gap.IGNORED: ["earlier attempts: imported, but only GraphQL shows them (2 times)"],
        },
    ),
    "objects": (
        several(
            in_body(1, lambda body: body["content"].append(7)),
            in_body(2, lambda body: body["content"][0].update(answers=[7])),
        ),
        {
            Gap.ASIDE: [
                "assignment without a valid id, line 1, item 3: Input should be a valid dictionary or "
                "instance of AssignmentItem",
                "assignment 1, line 2, item 1: answers[0] is a number: Input should be a valid dictionary or "
                "instance of RecordedAnswerSet",
            ],
            Gap.LIST: ["caregiver caregiver-1: RUNNING: an item has no valid id"],
        },
    ),
    "one person per user name": (
        lambda lines: [each.update(userName="client-1") for each in lines if each["userName"] == "client-2"],
        {Gap.CONTRADICTION: ["client client-1: pages of several people"]},
    ),
    "one user name per person": (
        lambda lines: lines.append({**lines[7], "userName": "client-3"}),
        {
            Gap.LIST: [
                "client client-3: FUTURE was not requested",
                "client client-3: COMPLETED was not requested",
            ],
            Gap.CONTRADICTION: ["client 1: two user names"],
        },
    ),
    "a date in another format": (
        item(1, 1, assignDate="2026-11-21", status="DONE"),
        {
            Gap.ASIDE: [
                "assignment 2, line 1, item 2: assignDate is text: must be a date like 2026/11/21 09:00, of "
                "the years 1900 to 2999; status is DONE: Input should be 'PENDING' or 'COMPLETE'"
            ]
        },
    ),
    "a submission without a date": (
        item(2, submitDate=None),
        {Gap.ASIDE: ["assignment 1, line 2, item 1: status COMPLETE requires submitDate and vice versa"]},
    ),
    "a submitted answer set without a date": (
        in_body(2, lambda body: add_set(body, id=99, submitDate=None)),
        {Gap.ASIDE: ["assignment 1, line 2, item 1: answers contains a submission without submitDate"]},
    ),
    "a submitted answer set twice": (
        in_body(2, lambda body: body["content"][0].update(answers=body["content"][0]["answers"] * 2)),
        {Gap.ASIDE: ["assignment 1, line 2, item 1: answers contains two submissions with one id"]},
    ),
    "an answer without NUL": (
        in_body(2, lambda body: body["content"][0]["answers"][0]["answers"][1].update(answer="a\0b")),
        {
            Gap.ASIDE: [
                "assignment 1, line 2, item 1: answers[0].answers[1].answer is text: must not contain NUL, "
                "because PostgreSQL cannot store it"
            ]
        },
    ),
    **{
        f"answers of another assignment: {case}": (
            in_body(2, lambda body, changed=changed: add_set(body, id=99, assignmentId=4, **changed)),
            {
                Gap.ASIDE: [
                    "assignment 1, line 2, item 1: answers contains the assignmentId of another assignment"
                ]
            },
        )
        for case, changed in {
            "a submission": {}, "a draft": {"saveType": "DRAFT", "submitDate": None},
        }.items()
    },
    "valid ids": (
        item(1, 1, id="2nd", sessionId=None),
        {
            Gap.ASIDE: [
                "assignment without a valid id, line 1, item 2: id is text: Input should be a valid integer; "
                "sessionId is null: Input should be a valid integer"
            ],
            Gap.LIST: ["caregiver caregiver-1: RUNNING: an item has no valid id"],
            Gap.ASSIGNMENT: ["session 1 of caregiver 1: 1 of 2"],
        },
    ),
    "a valid id of its person": (
        item(1, 1, caregiverId=None),
        {
            Gap.ASIDE: [
                "assignment 2, line 1, item 2: caregiverId is null: Input should be a valid integer"
            ],
        },
    ),
    "one name of each person and module": (
        item(1, caregiverName="Another", clientName="Another", moduleName="Another"),
        {Gap.CONTRADICTION: ["caregiver 1: name", "module 1: name", "client 2: name"]},
    ),
    "one position and one identifier": (
        item(8, caregiverPosition="Another", clientOpptId="Another"),
        {Gap.CONTRADICTION: ["caregiver 1: position", "client 1: opptId"]},
    ),
    "an invalid session": (
        item(9, title=None),
        {
            Gap.ASIDE: ["session 2, line 9, item 1: title is null: Input should be a valid string"],
        },
    ),
    "an invalid session whose assignments are valid": (
        item(8, title=None),
        {
            Gap.ASIDE: ["session 1, line 8, item 1: title is null: Input should be a valid string"],
        },
    ),
    "correct numbers of items and pages": (
        in_body(2, lambda body: body.update(numberOfElements=9, totalPages=9)), {}
    ),
    "a correct total": (
        several(
            *(in_body(each, lambda body: body.update(totalElements=7)) for each in (1, 2)),
            lambda lines: lines.append({
                "path": f"{PATHS['caregiver']}?time-state=RUNNING&page=2&size=2", "userName": "caregiver-1",
                "answer": orjson.loads(lines[1]["answer"]) | {"number": 2, "totalElements": 7, "content": []},
            }),
        ),
        {Gap.COUNTERS: ["caregiver caregiver-1: RUNNING: totalElements is 7"]},
    ),
    "an assignment that was deleted meanwhile": (
        several(
            item(5, answers=[]),
            lambda lines: lines.append(
                {"path": f"{PATHS['caregiver']}/5", "userName": "caregiver-2", "status": 404}
            ),
        ),
        {Gap.ANSWERS: ["assignment 5"]},
    ),
    "the answers of a list after its assignment was requested": (
        several(lambda lines: lines.insert(0, requested(lines)), item(6, answers=[])), {}
    ),
    "the answers of a list before its assignment was requested": (
        several(lambda lines: lines.append(requested(lines)), item(5, answers=[])), {}
    ),
    "answers, although the assignment was requested before": (
        several(item(5, answers=[]), lambda lines: lines.insert(0, requested(lines))), {}
    ),
    "answers, although the assignment was requested": (
        several(item(5, answers=[]), lambda lines: lines.append(requested(lines))), {}
    ),
    "one text of the answers": (
        lambda lines: lines.append(requested(lines, "Another")),
        {Gap.CONTRADICTION: ["assignment 5: answers"]},
    ),
    "every first page": (
        several(number_from_one, without(1, *range(3, 14))),
        {
            Gap.LIST: [
                "caregiver caregiver-1: RUNNING: page 1 of 2",
                "caregiver caregiver-1: FUTURE was not requested",
                "caregiver caregiver-1: COMPLETED was not requested",
            ],
            Gap.SESSION: ["session 1 of client 1"],
        },
    ),
    "the name of a session's newest homework": (
        several(*(item(line, assignmentName=None) for line in (8, 9, 10))), {}
    ),
    "submitted answers only": (
        several(*[in_body(2, lambda body: add_set(body, saveType="DRAFT", submitDate=None))] * 2),
        {Gap.IGNORED: ["answer sets with saveType DRAFT (2 times)"]},
    ),
    "only reads of lists and assignments": (
        lambda lines: lines.extend(
            {"path": path, "method": method, "status": status, "answer": "?"}
            for path, method, status in (
                (f"{PATHS['caregiver']}/5/answers", "GET", 500), (PATHS["caregiver"], "PUT", 200),
                (f"{PATHS['client']}?time-state=RUNNING", "HEAD", 200), (f"{PATHS['client']}/5", "GET", 200),
                ("/gateway/profile/other/session?time-state=RUNNING", "GET", 401),
            )
        ),
        {},
    ),
    **{
        f"paths without the prefix {prefix}": (
            lambda lines, prefix=prefix: [each.update(path=prefix + each["path"]) for each in lines[7:]], {}
        )
        for prefix in ("/old", "/gateway")
    },
    "a page that was read again": (
        lambda lines: lines.insert(0, {**lines[1], "answer": lines[1]["answer"].replace(
            '"totalElements":3', '"totalElements":5'
        )}),
        {},
    ),
    "one size of the pages": (
        lambda lines: lines.append(in_another_size(lines[0])), {}
    ),
    "pages between the first and an empty one": (
        several(
            in_body(2, lambda body: body.update(number=2, content=[])),
            line(2, path=f"{PATHS['caregiver']}?time-state=RUNNING&page=2&size=2"),
        ),
        {
            Gap.LIST: ["caregiver caregiver-1: RUNNING: page 1 of 2"],
            Gap.ASSIGNMENT: ["session 1 of caregiver 1: 1 of 2"],
        },
    ),
    "an open session in the list of open ones": (
        item(10, isClosed=False), {Gap.CONTRADICTION: ["session 3: isClosed"]}
    ),
    "the newest homework of a session": (
        several(*(item(line, bookId=None) for line in (8, 9, 10))), {}
    ),
    "values that are null instead of the usual ones": (
        several(
            item(8, runningStatus=None, isClosed=None),
            item(1, 1, status=None, feedbackStatus=None, score=None, isTest=None, answers=None),
            in_body(2, lambda body: body["content"][0]["answers"][0].update(saveType=None)),
            in_body(3, lambda body: body.update(totalElements=None, totalPages=None, size=None, number=None)),
        ),
        {},
    ),
    "nothing": (lambda lines: None, {}),
}  # fmt: skip


@pytest.mark.parametrize("case", GAPS)
def test_a_recording_that_lacks_something_is_reported(
    tmp_path: Path, complete: list[Line], case: str
) -> None:
    change, gaps = GAPS[case]
    lines = deepcopy(complete)
    change(lines)

    recording = extracted(tmp_path / "recording.jsonl", lines)

    assert {gap: list(texts) for gap, texts in recording.gaps.items() if texts} == gaps
    assert None not in recording.facts["book"]


ONE_ROW: dict[str, tuple[Change, str]] = {  # what is added to a recording, and the answer that counts
    "the last answers": (
        several(
            lambda lines: lines.append(requested(lines, "Second")),
            lambda lines: lines.append(requested(lines, "Third")),
        ),
        "Third",
    ),
    "answers that the last page omits": (
        several(
            lambda lines: lines.append(requested(lines, "Second")),
            lambda lines: lines.append({**lines[4]}),
            item(15, answers=[]),
        ),
        "Second",
    ),
    "answers beside a change and an assignment that was deleted": (
        lambda lines: lines.extend(
            {"path": path, "method": method, "status": status, "userName": "caregiver-2"}
            for path, method, status in (
                (PATHS["caregiver"], "PUT", 200), (f"{PATHS['caregiver']}/5", "GET", 404)
            )
        ),
        "Better – über Nacht",
    ),
    "answers that the first page omits": (
        several(lambda lines: lines.append(requested(lines, "Second")), item(5, answers=[])), "Second"
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", ONE_ROW)
def test_an_assignment_on_several_pages_is_one_row(tmp_path: Path, complete: list[Line], case: str) -> None:
    """Its fingerprint is the same before and after its answers are read again."""
    change, answer = ONE_ROW[case]
    lines = deepcopy(complete)
    change(lines)

    recording = extracted(tmp_path / "recording.jsonl", lines)
    rows = [row for row in recorded_rows(recording) if row.kind == "assignment"]

    assert sorted(row.id for row in rows) == [1, 2, 3, 4, 5]
    found = fingerprints_in(recording)
    assert {row.key: row.fingerprint[3] for row in rows} == {
        key: found[key] for key in found if key[0] == "assignment"
    }
    (row,) = (row for row in rows if row.id == 5)
    assert row.members["answers"]["answers"][0]["answer"] == answer
    assert row.records[1]["answers"][0]["answer"] == answer


def test_rows_that_are_invalid_on_one_of_two_pages_are_left_out(tmp_path: Path, complete: list[Line]) -> None:
    """A later page shows other values. They lack nothing else, such as answers."""
    lines = deepcopy(complete)
    item(1, status="COMPLETE", submitDate="2026/11/20 09:00")(lines)
    lines += [in_another_size(lines[number - 1]) for number in (1, 9)]
    item(14, status="DONE")(lines)
    item(15, title=None)(lines)

    recording = extracted(tmp_path / "recording.jsonl", lines)

    assert recording.aside == {("assignment", 4): 4, ("session", 2): None}
    assert [gap for gap, texts in recording.gaps.items() if texts] == [Gap.ASIDE]
    assert sorted(recording.facts["assignment"]) == [1, 2, 3, 5]
    rows = [row.key for row in recorded_rows(recording) if row.kind in ("session", "assignment")]
    assert sorted(rows) == sorted(
        [
            *(("assignment", number) for number in (1, 2, 3, 5)),
            *(("session", number) for number in (1, 3, 4, 5)),
        ]
    )
    assert [number for number, row in recording.facts["session"].items() if not is_complete(row)] == [2]


def test_an_invalid_row_shows_whose_page_it_is_on(tmp_path: Path, complete: list[Line]) -> None:
    """Caregiver 2 and client 2 have no other row. A row of theirs that is missing is gone."""
    lines = deepcopy(complete)
    others = {"caregiver-2": {"clientId": 1}, "client-2": {"caregiverId": 1}}
    for number in range(1, len(lines) + 1):
        if other := others.get(lines[number - 1]["userName"]):
            change = {"id": "x", **other}
            in_body(number, lambda body, by=change: [each.update(by) for each in body["content"]])(lines)

    recording = extracted(tmp_path / "recording.jsonl", lines)

    assert [recording.user_names(role) for role in Role] == [
        {1: f"{each}-1", 2: f"{each}-2"} for each in ("caregiver", "client")
    ]


def test_a_recording_begins_and_ends_with_its_first_and_last_moment(
    tmp_path: Path, complete: list[Line]
) -> None:
    """The lines are in the order of the users, who are recorded at the same time."""
    lines = deepcopy(complete)
    for each, hour in zip(lines, (11, 10, 13, 12), strict=False):
        each["moment"] = f"2026-11-21T{hour}:00:00Z"

    recording = extracted(tmp_path / "recording.jsonl", lines)

    assert [moment.hour for moment in recording.moments] == [10, 13]


UNREADABLE: dict[str, tuple[Change, str]] = {
    "text in another encoding": (line(2, file="body"), "line 2: the response is not UTF-8 (byte 1)"),
    "not JSON": (
        line(2, answer="<html>"), "line 2: the response is not JSON"
    ),
    "nested too deeply": (
        # Garbage that is collected at the limit of recursion would report errors of its own.
        several(line(2, answer="[" * 100_000), lambda lines: gc.collect()),
        "line 2: the response is not JSON",
    ),
    "a byte order mark": (line(2, answer="\ufeff{}"), "line 2: the response begins with a byte order mark"),
    "not a page": (line(2, answer={"message": "no"}), "line 2: in the response, content: Field required"),
    "another status": (line(2, status=401), "line 2: status is 401: only responses with 200 can be imported"),
    "an assignment with a long id": (
        line(2, path=f"{PATHS['caregiver']}/{2**63 - 2}", status=401),
        "line 2: status is 401: only responses with 200 can be imported",
    ),
    "a list that is gone": (
        line(2, status=404),
        "line 2: status is 404: only responses with 200 can be imported",
    ),
    "no user": (line(2, userName=None), "line 2: userName is missing: whose token was used?"),
    "no response": (line(2, answer=None), "line 2: answer and file are missing"),
    "two time states": (
        line(2, path="/gateway/profile/client/session?time-state=RUNNING&time-state=FUTURE"),
        "line 2: path must have one valid time-state",
    ),
    "an unknown time state": (
        line(2, path="/gateway/profile/client/session?time-state=running"),
        "line 2: path must have one valid time-state",
    ),
    "no time state": (
        line(2, path="/gateway/profile/client/session"), "line 2: path must have one valid time-state"
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", UNREADABLE)
def test_an_unreadable_response_is_rejected_with_line_and_member(
    tmp_path: Path, complete: list[Line], case: str
) -> None:
    change, sentence = UNREADABLE[case]
    lines, file = deepcopy(complete), tmp_path / "recording.jsonl"
    (tmp_path / "body").write_bytes("[ü]".encode("latin-1"))
    change(lines)

    with pytest.raises(LegacyMigrationError) as error:
        extracted(file, lines)

    assert str(error.value) == f"{file}, {sentence}"


@pytest.mark.parametrize(
    ("zone", "moment"),
    [("Europe/Berlin", "2026/03/29 02:30"), ("Australia/Lord_Howe", "2026/10/04 02:15")],
    ids=["an hour", "half an hour"],
)
def test_a_local_time_that_a_clock_change_skips_is_invalid(
    tmp_path: Path, complete: list[Line], zone: str, moment: str
) -> None:
    lines, file = deepcopy(complete), tmp_path / "recording.jsonl"
    item(1, startDate=moment)(lines)

    found = [extracted(file, lines, name).gaps[Gap.ASIDE] for name in ("UTC", zone)]

    assert [list(texts) for texts in found] == [
        [],
        [
            f"assignment 4, line 1, item 1: startDate is text: is skipped by a clock change in {zone}: "
            "is CARE_TIME_ZONE that of the old service?"
        ],
    ]


DATES = {
    "1900/01/01 00:00": "1900-01-01T00:00:00+00:00",
    "2999/12/31 23:59": "2999-12-31T23:59:00+00:00",
    **dict.fromkeys(
        ["1899/12/31 23:59", "3000/01/01 00:00", "2026/13/01 09:00", "2026/11/21 09:00:00", "2026/11/21"]
    ),
}


@pytest.mark.parametrize("text", DATES)
def test_a_local_time_is_a_date_of_the_years_that_can_be_stored(text: str) -> None:
    utc = DATES[text]
    with nullcontext() if utc else pytest.raises(ValueError, match=r"of the years 1900 to 2999$"):
        assert from_local_time(text, ZoneInfo("UTC")) == utc


@pytest.mark.parametrize(
    ("zone", "text"), [("Asia/Tokyo", "0001/01/01 00:00"), ("America/New_York", "9999/12/31 23:59")]
)
def test_a_local_time_at_the_ends_of_the_calendar_is_rejected(zone: str, text: str) -> None:
    with pytest.raises(ValueError, match=r"of the years 1900 to 2999$"):
        from_local_time(text, ZoneInfo(zone))


def test_values_of_every_type_are_mapped_by_their_json() -> None:
    reading = Reading(ZoneInfo("UTC"), {"a": {"null": 0, "true": "yes", "7": 2, "x": 3, "[1]": None}})

    assert [reading.replaced("a", value) for value in (None, True, 7, "x", [1], "y", 8)] == [
        0, "yes", 2, 3, None, "y", 8,
    ]  # fmt: skip
    assert reading.replaced("b", None) is None


def test_a_missing_file_of_values_is_rejected(tmp_path: Path) -> None:
    with pytest.raises(LegacyMigrationError, match=r"/none cannot be read: it must be like "):
        read_values(tmp_path / "none")


def test_a_list_is_shown_without_control_characters(capsys: pytest.CaptureFixture[str]) -> None:
    shared.print_list("title:", ["client \x1b[31m"])

    assert capsys.readouterr().err == "title:\n  client \\u001b[31m\n"


@pytest.mark.parametrize(("number", "last"), [(0, []), (10, ["  9"]), (11, ["  9", "  and 1 more"])])
def test_no_more_lines_of_a_list_are_shown_than_can_be_read(
    capsys: pytest.CaptureFixture[str], number: int, last: list[str]
) -> None:
    shared.print_list("title:", map(str, range(number)))

    shown = capsys.readouterr().err.splitlines()
    assert (shown[:1], shown[10:]) == (["title:"][:number], last)
