"""Promise: a recording that lacks something says what, and is imported only where that is allowed by name;
one that cannot be read says where; either way nothing is half done."""

from collections.abc import Callable
from copy import deepcopy
from pathlib import Path
from typing import Any

import orjson
import pytest

from app.db.session_counters import differences
from app.settings import Settings
from tests.callers import load, run_read
from tests.cli.conftest import Command, assert_rejected
from tests.db import raw
from tests.factories import a_book, a_caregiver, a_module
from tests.legacy_migration.conftest import serving
from tests.legacy_migration.recordings import Line, write_lines

pytestmark = pytest.mark.parametrize("kind", ["sqlite"], indirect=True)

Spoil = Callable[[list[Line]], object]
NOT_COMPLETE = (
    "care-gateway: the recording is not complete; nothing was imported (--partial imports what is there)\n"
)
WHOLE = "2 caregivers, 2 clients, 2 modules, 3 books, 5 sessions, 5 assignments, 3 answer sets\n"
BOOKS = "books without questions; add them with `care-gateway books import`:\n"
EMPTY = {"session": 0, "assignment": 0, "answer_set": 0, "caregiver": 0}


def counted(settings: Settings, *names: str) -> dict[str, int]:
    found = raw.row_counts(settings.database)
    return {name: found[name] for name in names or EMPTY}


def in_body(line: int, change: Callable[[Any], object]) -> Spoil:
    """Spoils the answer of one line, counted as messages count."""

    def spoil(lines: list[Line]) -> None:
        body = orjson.loads(lines[line - 1]["answer"])
        change(body)
        lines[line - 1]["answer"] = orjson.dumps(body).decode()

    return spoil


def item(line: int, index: int = 0, **changed: Any) -> Spoil:
    return in_body(line, lambda body: body["content"][index].update(changed))


def without(*gone: int) -> Spoil:
    def spoil(lines: list[Line]) -> None:
        lines[:] = [line for number, line in enumerate(lines, 1) if number not in gone]

    return spoil


def several(*spoils: Spoil) -> Spoil:
    return lambda lines: [spoil(lines) for spoil in spoils]


LIST = "lists that were not recorded to their end"
SESSION = "sessions of which no client's page tells; they are left out, and their assignments"
ASSIGNMENT = "assignments that no caregiver's page shows"
ANSWERS = "answers that were not shown; their assignment was not asked for by itself"
TWO_WAYS = "told in two ways; what came last counts"
NOT_TAKEN = "not taken over"

# What is spoiled; what is said of it, by heading; sessions, assignments and answer sets that --partial loads.
GAPS: dict[str, tuple[Spoil, dict[str, list[str]], tuple[int, int, int]]] = {
    "a list that nobody asked for": (
        without(3),
        {LIST: ["caregiver caregiver-1: FUTURE was not asked for"]},
        (5, 5, 3),
    ),
    "a page in between": (
        without(1),
        {
            LIST: ["caregiver caregiver-1: RUNNING: page 0 of 2"],
            ASSIGNMENT: ["session 1 of caregiver 1: 1 of 2", "session 4 of caregiver 1: 0 of 1"],
        },
        (5, 3, 3),
    ),
    "pages that cannot be counted one by one": (
        in_body(3, lambda body: body.update(totalElements=2**31 - 1, totalPages=2**30)),
        {LIST: ["caregiver caregiver-1: FUTURE: page 1 of 1,073,741,824 and 1,073,741,822 more"]},
        (5, 5, 3),
    ),
    "a caregiver": (
        without(5, 6, 7),
        {ASSIGNMENT: ["session 5 of caregiver 2: 0 of 1"]},
        (5, 4, 2),
    ),
    "a client": (
        without(8, 9, 10),
        {SESSION: ["session 3 of client 1", "session 1 of client 1"]},
        (2, 2, 1),
    ),
    "answers": (
        item(5, answers=[]),
        {ANSWERS: ["assignment 5"]},
        (5, 5, 2),
    ),
    "a list that changed while it was walked": (
        in_body(2, lambda body: body.update(totalElements=4)),
        {LIST: ["caregiver caregiver-1: RUNNING: it changed while it was recorded"]},
        (5, 5, 3),
    ),
    "a title that one role sees and the other does not": (
        item(8, title="Another"),
        {TWO_WAYS: ["session 1: title"]},
        (5, 5, 3),
    ),
    "a number that the assignments do not bear out": (
        item(8, completedAssignmentCount=2, pendingAssignmentCount=0, lastAssignmentScore=71),
        {
            TWO_WAYS: [
                "session 1: completedAssignmentCount",
                "session 1: pendingAssignmentCount",
                "session 1: lastAssignmentScore",
            ]
        },
        (5, 5, 3),
    ),
    "a session in the wrong list": (
        item(9, runningStatus="RUNNING"),
        {TWO_WAYS: ["session 2: in the list of what is FUTURE"]},
        (5, 5, 3),
    ),
    "a name of the same book": (
        item(4, name="Another"),
        {TWO_WAYS: ["book 3: name"]},
        (5, 5, 3),
    ),
    "members that nobody knows": (
        several(item(4, rating=5), item(8, documents=[{"id": 1}], feedbacks=None)),
        {
            NOT_TAKEN: [
                "rating of the assignment, which nobody knows here (1 times)",
                "documents of the session, which are not empty (1 times)",
            ]
        },
        (5, 5, 3),
    ),
    "a submission that was taken back": (
        item(5, status="PENDING", submitDate=None),
        {
            TWO_WAYS: [
                "session 5: completedAssignmentCount",
                "session 5: pendingAssignmentCount",
                "session 5: lastAssignmentScore",
            ],
            NOT_TAKEN: [
                "answers of earlier attempts: kept, but no longer shown on the legacy paths (1 times)"
            ],
        },
        (5, 5, 3),
    ),
    "two people with one token": (
        lambda lines: [line.update(userName="client-1") for line in lines if line["userName"] == "client-2"],
        {TWO_WAYS: ["client client-1: the pages are those of several people"]},
        (5, 5, 3),
    ),
}  # fmt: skip


@pytest.mark.parametrize("lacking", GAPS)
def test_what_is_missing_is_said_and_taken_only_by_name(
    settings: Settings, command: Command, tmp_path: Path, whole: list[Line], lacking: str
) -> None:
    spoil, said, loaded = GAPS[lacking]
    lines = deepcopy(whole)
    spoil(lines)
    file = write_lines(tmp_path / "recording.jsonl", lines)
    told = "".join(
        f"{heading}:\n" + "".join(f"  {one}\n" for one in found) for heading, found in said.items()
    )

    refused = command("import", str(file))
    before = counted(settings)
    taken = command("import", str(file), "--partial")

    assert (refused.exit_code, refused.stdout) == (2, "")
    assert refused.stderr == f"reading\n{told}{NOT_COMPLETE}"
    assert before == EMPTY
    assert taken.exit_code == 0
    assert taken.stderr.startswith(f"reading\nimporting\n{told}")
    assert tuple(counted(settings, "session", "assignment", "answer_set").values()) == loaded
    assert run_read(settings.database, differences()) == []


def test_a_recording_is_imported_once(
    settings: Settings, command: Command, tmp_path: Path, whole: list[Line]
) -> None:
    file = write_lines(tmp_path / "recording.jsonl", whole)

    first, second = command("import", str(file)), command("import", str(file), "--partial")

    left = f"{BOOKS}  book 1\n  book 2\n  book 3\n"
    assert (first.exit_code, first.stdout, first.stderr) == (0, WHOLE, f"reading\nimporting\n{left}")
    assert (second.exit_code, second.stdout) == (2, "")
    assert second.stderr == (
        "reading\ncare-gateway: session 1 is in the database already: was this recording imported before? "
        "Nothing was imported\n"
    )


def test_what_the_pages_do_not_carry_stays_unknown(
    settings: Settings, command: Command, tmp_path: Path, whole: list[Line]
) -> None:
    command("import", str(write_lines(tmp_path / "recording.jsonl", whole)))
    query = """{
      assignments { nodes { legacyId endDate lateness { state } reminders { id } feedbacks { id } } }
      sessions(timeState: COMPLETED) { nodes { closeDate } }
    }"""
    extend = """mutation {
      extendAssignment(input: {assignmentId: "2", endDate: "2026-12-24T10:00:00Z"}) {
        assignment { endDate }
        userErrors { code }
      }
    }"""

    with serving(settings) as new:
        found = new.as_caregiver(1).data(query)
        extended = new.as_caregiver(1).data(extend)

    assert found == {
        "assignments": {
            "nodes": [
                {
                    "legacyId": number,
                    "endDate": None,
                    "lateness": {"state": "ON_TIME"},
                    "reminders": [],
                    "feedbacks": [],
                }
                for number in ("4", "3", "2", "1")
            ]
        },
        "sessions": {"nodes": [{"closeDate": None}]},
    }
    assert extended == {
        "extendAssignment": {"assignment": {"endDate": "2026-12-24T10:00:00Z"}, "userErrors": []}
    }


def test_people_and_books_may_be_there_already_and_stay_as_they_are(
    settings: Settings, command: Command, tmp_path: Path, whole: list[Line]
) -> None:
    """The catalogue has questions, which no page tells; it is imported before."""
    load(
        settings.database,
        [
            a_caregiver(1, userName=None), a_caregiver(2), a_module(1),
            a_book(1, name="Sleep diary", questions=[{"text": "How long?", "kind": "NUMBER"}]),
        ],
    )  # fmt: skip

    said = command("import", str(write_lines(tmp_path / "recording.jsonl", whole)))

    assert (said.exit_code, said.stdout) == (
        0,
        "2 clients, 1 module, 2 books, 5 sessions, 5 assignments, 3 answer sets\n",
    )
    assert said.stderr == (
        f"reading\nimporting\n{BOOKS}  book 2\n  book 3\n"
        "people without an account; add it with `care-gateway account link`:\n  caregiver 1\n"
    )
    assert raw.run(settings.database, "SELECT text FROM question") == [("How long?",)]


def test_a_book_that_is_another_in_the_database_is_a_contradiction(
    settings: Settings, command: Command, tmp_path: Path, whole: list[Line]
) -> None:
    load(settings.database, [a_module(1), a_book(1, name="Another")])

    refused = command("import", str(write_lines(tmp_path / "recording.jsonl", whole)))

    assert refused.stderr == (
        f"reading\n{TWO_WAYS}:\n  book 1: name is different in the database, and is kept\n{NOT_COMPLETE}"
    )


def line(number: int, **changed: Any) -> Spoil:
    return lambda lines: lines[number - 1].update(changed)


REFUSED: dict[str, tuple[Spoil, str]] = {
    "not JSON": (line(2, answer="<html>"), "line 2: the answer is not JSON"),
    "no page": (line(2, answer={"message": "no"}), "line 2: content is missing"),
    "another status": (line(2, status=401), "line 2: status is 401: there is nothing to take over"),
    "nobody's": (line(2, userName=None), "line 2: userName is missing: whose token was it?"),
    "no answer": (line(2, answer=None), "line 2: answer is missing, and so is file"),
    "a file that is not there": (line(2, file="7.json"), "line 2: file 7.json is not there"),
    "a file elsewhere": (
        line(2, file="../7.json"),
        "line 2: file must lie beside the file that names it, or in a folder there",
    ),
    "a member too many": (line(2, paht="x"), "line 2: paht is not known here"),
    "no list": (
        line(2, path="/gateway/profile/client/session"),
        "line 2: path does not say which time-state was asked for",
    ),
    "a date": (
        item(1, 1, assignDate="2026-11-21"),
        "line 1: content[1].assignDate must be a date like 2026/11/21 09:00, of the years 1900 to 2999",
    ),
    "a status that nobody knows": (
        item(1, 1, status="DONE"),
        "line 1: content[1].status must be one of PENDING, COMPLETE",
    ),
    "half of a submission": (
        item(2, submitDate=None),
        "line 2: content[0].submitDate belongs to a COMPLETE assignment, and to no other",
    ),
    "answers of another assignment": (
        in_body(2, lambda body: body["content"][0]["answers"][0].update(assignmentId=4)),
        "line 2: content[0].answers[0].assignmentId is that of another assignment",
    ),
    "one identifier for two clients": (
        several(*(item(line, clientOpptId="OPPT-2") for line in (8, 9, 10))),
        "line 1: opptId is there already",
    ),
    "an id that two answer sets have": (
        in_body(5, lambda body: body["content"][0]["answers"][0].update(id=1)),
        "line 5: id 1 is there already",
    ),
}  # fmt: skip


@pytest.mark.parametrize("what", REFUSED)
def test_what_cannot_be_read_is_told_with_its_place(
    settings: Settings, command: Command, tmp_path: Path, whole: list[Line], what: str
) -> None:
    spoil, sentence = REFUSED[what]
    lines = deepcopy(whole)
    spoil(lines)
    file = write_lines(tmp_path / "recording.jsonl", lines)

    refused = command("import", str(file), "--partial")

    assert (refused.exit_code, refused.stdout) == (2, "")
    assert refused.stderr.splitlines()[-1] == f"care-gateway: {file}, {sentence}"
    assert counted(settings) == EMPTY


def test_a_wall_time_that_clocks_skip_makes_the_zone_doubtful(
    command: Command, tmp_path: Path, whole: list[Line]
) -> None:
    lines = deepcopy(whole)
    item(1, startDate="2026/03/29 02:30")(lines)
    file = write_lines(tmp_path / "recording.jsonl", lines)

    assert command("import", str(file), time_zone="UTC").exit_code == 0
    refused = command("import", str(file), time_zone="Europe/Berlin")

    assert refused.stderr.splitlines()[-1] == (
        f"care-gateway: {file}, line 1: content[0].startDate is skipped by a clock change in Europe/Berlin: "
        "is CARE_TIME_ZONE that of the old service?"
    )


def test_a_folder_without_an_index_and_a_world_with_partial_are_refused(
    command: Command, tmp_path: Path
) -> None:
    world = tmp_path / "world.jsonl"
    world.write_bytes(orjson.dumps(a_module(1)))

    no_index, no_recording = command("import", str(tmp_path)), command("import", str(world), "--partial")

    assert_rejected(no_index, f"{tmp_path}/index.jsonl cannot be read: No such file or directory")
    assert no_recording.stderr.splitlines()[-1] == "Error: --partial applies to recordings only"
    assert no_recording.exit_code == 2
