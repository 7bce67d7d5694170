"""`import` loads a recording in one transaction; an incomplete one only with --partial."""

from copy import deepcopy
from datetime import UTC, datetime
from pathlib import Path

import orjson
import pytest

from app.db.session_counters import differences
from app.db.statements.switch import SwitchState, reading_switch
from app.settings import Settings
from tests.callers import load, run_read
from tests.cli.conftest import Command, assert_rejected
from tests.database_rows import all_rows, of_other_people
from tests.db import raw
from tests.factories import a_book, a_caregiver, a_client, a_module, a_session, people
from tests.moving_over.conftest import serving
from tests.moving_over.recordings import PATHS, Change, Line, in_body, item, several, without, write_lines
from tests.rest_compat.legacy import homework

pytestmark = pytest.mark.parametrize("kind", ["sqlite"], indirect=True)

INCOMPLETE = "care-gateway: the recording is incomplete; nothing was imported (--partial imports the rest)\n"
COUNTS = "2 caregivers, 2 clients, 2 modules, 3 books, 5 sessions, 5 assignments, 3 answer sets\n"
BOOKS = "books without questions; add them with `care-gateway books import`:\n"
COUNTED = ("session", "assignment", "answer_set", "caregiver")
EMPTY = dict.fromkeys(COUNTED, 0)


def stored(settings: Settings) -> dict[str, int]:
    found = raw.row_counts(settings.database)
    return {name: found[name] for name in COUNTED}


LIST = "incomplete lists"
SESSION = "sessions on no client's page, skipped with their assignments"
ASSIGNMENT = "assignments on no caregiver's page"
ANSWERS = "missing answers: the list omits them, and the assignment was not requested by its id"
CONTRADICTION = "contradictions; the last value is used"

# The change; the report; the sessions, assignments and answer sets that --partial imports.
PARTIAL: dict[str, tuple[Change, str, tuple[int, int, int]]] = {
    "the first page is missing": (
        without(1),
        f"{LIST}:\n  caregiver caregiver-1: RUNNING: page 0 of 2\n"
        f"{ASSIGNMENT}:\n  session 1 of caregiver 1: 1 of 2\n  session 4 of caregiver 1: 0 of 1\n",
        (5, 3, 3),
    ),
    "a caregiver is missing": (
        without(5, 6, 7), f"{ASSIGNMENT}:\n  session 5 of caregiver 2: 0 of 1\n", (5, 4, 2)
    ),
    "a client is missing": (
        without(8, 9, 10), f"{SESSION}:\n  session 3 of client 1\n  session 1 of client 1\n", (2, 2, 1)
    ),
    "answers are missing": (item(5, answers=[]), f"{ANSWERS}:\n  assignment 5\n", (5, 5, 2)),
    "a title differs": (
        item(8, title="Another"), f"{CONTRADICTION}:\n  session 1: title\n", (5, 5, 3)
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", PARTIAL)
def test_an_incomplete_recording_is_imported_only_with_the_option(
    settings: Settings, command: Command, tmp_path: Path, complete: list[Line], case: str
) -> None:
    change, report, imported = PARTIAL[case]
    lines = deepcopy(complete)
    change(lines)
    file = write_lines(tmp_path / "recording.jsonl", lines)

    rejected = command("import", str(file))
    before = stored(settings)
    partial = command("import", str(file), "--partial")

    assert (rejected.exit_code, rejected.stdout) == (2, "")
    assert rejected.stderr == f"reading\n{report}{INCOMPLETE}"
    assert before == EMPTY
    assert partial.exit_code == 0
    assert partial.stderr.startswith(f"reading\nimporting\n{report}")
    assert tuple(stored(settings).values())[:3] == imported
    assert run_read(settings.database, differences()) == []


def test_a_recording_is_imported_once(
    settings: Settings, command: Command, tmp_path: Path, complete: list[Line]
) -> None:
    file = write_lines(tmp_path / "recording.jsonl", complete)

    first, second = command("import", str(file)), command("import", str(file), "--partial")

    report = f"{BOOKS}  book 1\n  book 2\n  book 3\n"
    assert (first.exit_code, first.stdout, first.stderr) == (0, COUNTS, f"reading\nimporting\n{report}")
    assert (second.exit_code, second.stdout) == (2, "")
    assert second.stderr == (
        "reading\ncare-gateway: session 1 is in the database already: was this recording imported before? "
        "Nothing was imported\n"
    )


def test_another_recording_is_imported_if_it_began_later(
    settings: Settings, command: Command, tmp_path: Path, complete: list[Line]
) -> None:
    """Of another client, for example. The database keeps the moment of the newest one."""
    moments = {"client-2": ["10:00:00"], "client-1": ["09:59:59", "10:00:01"]}
    files = [
        str(
            write_lines(
                tmp_path / f"{user} {time}",
                [each | {"moment": f"2026-11-21T{time}Z"} for each in complete if each["userName"] == user],
            )
        )
        for user, times in moments.items()
        for time in times
    ]

    first, rejected, later = (command("import", file, "--partial") for file in files)

    assert [first.exit_code, later.exit_code] == [0, 0]
    assert (rejected.exit_code, rejected.stderr.splitlines()[-1]) == (
        2,
        "care-gateway: this recording began 2026-11-21 09:59:59 UTC, before the end of one that was imported "
        "already; nothing was imported. Record again",
    )
    newest = int(datetime(2026, 11, 21, 10, 0, 1, tzinfo=UTC).timestamp())
    assert raw.run(settings.database, "SELECT id FROM imported_row WHERE kind = 'recording'") == [(newest,)]
    assert raw.run(settings.database, "SELECT id FROM session ORDER BY id") == [(1,), (2,), (3,), (4,), (5,)]


def test_data_that_the_pages_lack_is_null_or_empty(
    settings: Settings, command: Command, tmp_path: Path, complete: list[Line]
) -> None:
    command("import", str(write_lines(tmp_path / "recording.jsonl", complete)))
    command("legacy", "switch")
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


def switch_of(settings: Settings) -> SwitchState | None:
    return run_read(settings.database, reading_switch())


def test_an_import_into_a_database_without_sessions_waits_for_the_switch(
    settings: Settings, command: Command, tmp_path: Path, complete: list[Line]
) -> None:
    file = str(write_lines(tmp_path / "recording.jsonl", complete))
    with serving(settings) as new:
        before = switch_of(settings)
        assert command("import", file).exit_code == 0
        waiting = switch_of(settings)
        rejected = new.as_caregiver(1).put(PATHS["caregiver"], json=homework())

    assert (before, waiting) == (None, SwitchState.WAITING)
    assert (rejected.status_code, rejected.json()["message"]) == (
        503, "nothing was changed: until the switch, make changes in the old service"
    )  # fmt: skip


def test_a_service_in_use_accepts_changes_after_an_import(
    settings: Settings, command: Command, tmp_path: Path, complete: list[Line]
) -> None:
    load(settings.database, [*people(), a_session(50)])

    result = command("import", str(write_lines(tmp_path / "recording.jsonl", complete)), "--partial")

    assert (result.exit_code, switch_of(settings)) == (0, None)


def test_a_service_that_has_been_switched_to_imports_no_recording(
    settings: Settings, command: Command, tmp_path: Path, complete: list[Line]
) -> None:
    command("legacy", "switch")

    rejected = command("import", str(write_lines(tmp_path / "recording.jsonl", complete)))

    assert (rejected.exit_code, rejected.stderr.splitlines()[-1]) == (
        2,
        "care-gateway: the switch was declared, so people use this service; nothing was imported "
        "(legacy switch --back)",
    )
    assert stored(settings) == EMPTY


def test_equal_people_and_books_may_be_stored_already(
    settings: Settings, command: Command, tmp_path: Path, complete: list[Line]
) -> None:
    """A catalogue with questions, which no page contains, can be imported before."""
    load(
        settings.database,
        [
            a_caregiver(1, userName=None), a_caregiver(2), a_client(2), a_module(1),
            a_book(1, name="Sleep diary", questions=[{"text": "How long?", "kind": "NUMBER"}]),
        ],
    )  # fmt: skip

    result = command("import", str(write_lines(tmp_path / "recording.jsonl", complete)))

    assert (result.exit_code, result.stdout) == (
        0,
        "1 client, 1 module, 2 books, 5 sessions, 5 assignments, 3 answer sets\n",
    )
    assert result.stderr == (
        f"reading\nimporting\n{BOOKS}  book 2\n  book 3\n"
        "people without an account; add it with `care-gateway account link`:\n  caregiver 1\n"
    )
    assert raw.run(settings.database, "SELECT text FROM question") == [("How long?",)]
    lines = deepcopy(complete)
    for number, line in enumerate(lines, 1):
        if PATHS["client"] in line["path"]:
            in_body(number, lambda page: [each.update(caregiverPosition="Head") for each in page["content"]])(
                lines
            )
    later = command("import", str(write_lines(tmp_path / "later.jsonl", lines)), "--update")
    assert later.stdout == "2 caregivers changed, 0 conflicts\n"


def test_submissions_are_attempts_in_the_order_of_their_ids(
    settings: Settings, command: Command, tmp_path: Path, complete: list[Line]
) -> None:
    """The old service may show the newest first."""
    lines = deepcopy(complete)
    newest = {"id": 99, "submitDate": "2026/11/20 09:00"}
    in_body(
        2,
        lambda body: body["content"][0]["answers"].insert(0, {**body["content"][0]["answers"][0], **newest}),
    )(lines)
    file = str(write_lines(tmp_path / "recording.jsonl", lines))

    imported, reconciled = command("import", file), command("legacy", "reconcile", file)

    assert imported.exit_code == 0
    sets = "SELECT id, attempt FROM answer_set WHERE assignment_id = 1 ORDER BY attempt"
    assert [tuple(row) for row in raw.run(settings.database, sets)] == [(1, 1), (99, 2)]
    assert reconciled.stdout.splitlines()[-1] == "0 differences"
    earlier = command("import", str(write_lines(tmp_path / "earlier.jsonl", complete)), "--update")
    assert earlier.stdout.splitlines() == ["conflict\tassignment\t1\tanswers", "1 conflict"]


def test_a_stored_name_or_user_that_differs_is_a_contradiction(
    settings: Settings, command: Command, tmp_path: Path, complete: list[Line]
) -> None:
    load(
        settings.database,
        [
            a_caregiver(1, userName="another"), a_caregiver(2, position="Other"), a_client(2, userName=None),
            a_module(1), a_book(1, name="Another"),
        ],
    )  # fmt: skip

    rejected = command("import", str(write_lines(tmp_path / "recording.jsonl", complete)))

    gaps = [
        f"  {which} is different in the database, which keeps its value\n"
        for which in ("caregiver 1: userName", "caregiver 2: position", "book 1: name")
    ]
    assert rejected.stderr == f"reading\n{CONTRADICTION}:\n{''.join(gaps)}{INCOMPLETE}"


@pytest.mark.parametrize("name", ["client-1", "caregiver-1"])
def test_a_user_name_on_the_pages_of_two_people_is_the_account_of_neither(
    command: Command, tmp_path: Path, complete: list[Line], name: str
) -> None:
    """A caregiver may have the same one."""
    lines = deepcopy(complete)
    for each in lines:
        each["userName"] = each["userName"].replace("client-2", name).replace("client-1", name)

    file = str(write_lines(tmp_path / "recording.jsonl", lines))
    result = command("import", file, "--partial")
    as_json = orjson.loads(command("legacy", "reconcile", file, "--json").stdout)

    assert result.stdout == COUNTS
    assert result.stderr.partition("people without")[1:] == (
        "people without",
        " an account; add it with `care-gateway account link`:\n  client 1\n  client 2\n"
        "user names that match no person; use `care-gateway account link` or `add`:\n"
        f"  client {name}\n",
    )
    assert as_json["peopleWithoutAccount"] == [{"role": "CLIENT", "id": number} for number in (1, 2)]
    assert as_json["usersWithoutPerson"] == [{"role": "CLIENT", "userName": name}]


def test_an_erased_client_contradicts_nothing(
    settings: Settings, command: Command, tmp_path: Path, complete: list[Line]
) -> None:
    load(settings.database, [a_client(1)])
    assert command("erase", "--id", "1", "--yes").exit_code == 0

    result = command("import", str(write_lines(tmp_path / "recording.jsonl", complete)))

    assert (result.exit_code, result.stdout) == (
        0, "2 caregivers, 1 client, 2 modules, 3 books, 2 sessions, 2 assignments, 1 answer set\n"
    )  # fmt: skip
    assert result.stderr.startswith(
        "reading\nimporting\nerased clients, whose rows were skipped:\n  client 1\n"
    )
    assert [row[0] for row in raw.run(settings.database, "SELECT id FROM session")] == [4, 5]


def test_an_imported_row_belongs_to_its_caregiver_and_client(
    settings: Settings, command: Command, tmp_path: Path, complete: list[Line]
) -> None:
    """Caregiver 1 has sessions with both clients, and client 2 with both caregivers."""
    file = str(write_lines(tmp_path / "recording.jsonl", complete))
    assert command("import", file).exit_code == 0

    reconciled = command("legacy", "reconcile", file, "--json")

    clients = "SELECT kind, id, client_id FROM imported_row WHERE kind IN ('session', 'assignment')"
    rows = run_read(settings.database, all_rows())
    assert of_other_people(rows) == []
    assert {tuple(row) for row in raw.run(settings.database, clients)} == {
        (kind, row["id"], row["client_id"]) for kind in ("session", "assignment") for row in rows[kind]
    }
    of_caregivers = {"1": (4, 4, 2), "2": (1, 1, 1)}
    assert orjson.loads(reconciled.stdout)["caregivers"] == {
        caregiver: {
            kind: {"recorded": number, "here": number}
            for kind, number in zip(("session", "assignment", "answer_set"), numbers, strict=True)
        }
        for caregiver, numbers in of_caregivers.items()
    }


INVALID: dict[str, tuple[Change, str]] = {
    "one identifier of two clients": (
        several(*(item(line, clientOpptId="OPPT-2") for line in (8, 9, 10))),
        "line 1: opptId: exists already",
    ),
    "one id of two answer sets": (
        in_body(5, lambda body: body["content"][0]["answers"][0].update(id=1)),
        "line 5: id: 1 exists already",
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", INVALID)
def test_an_invalid_recording_is_rejected_even_with_partial(
    settings: Settings, command: Command, tmp_path: Path, complete: list[Line], case: str
) -> None:
    change, sentence = INVALID[case]
    lines = deepcopy(complete)
    change(lines)
    file = write_lines(tmp_path / "recording.jsonl", lines)

    rejected = command("import", str(file), "--partial")

    assert (rejected.exit_code, rejected.stdout) == (2, "")
    assert rejected.stderr.splitlines()[-1] == f"care-gateway: {file}, {sentence}"
    assert stored(settings) == EMPTY


def test_a_folder_without_an_index_and_another_file_with_partial_are_rejected(
    command: Command, tmp_path: Path
) -> None:
    file = tmp_path / "world.jsonl"
    file.write_bytes(orjson.dumps(a_module(1)))

    no_index, no_recording = command("import", str(tmp_path)), command("import", str(file), "--partial")

    assert_rejected(no_index, f"{tmp_path}/index.jsonl cannot be read: No such file or directory")
    assert (
        no_recording.stderr.splitlines()[-1]
        == "Error: --partial, --update and --map apply to recordings only"
    )
    assert no_recording.exit_code == 2
