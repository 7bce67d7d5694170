"""Promise: `export` writes all data of one client, and nothing of another, as JSON or as a CSV table without
formulas (docs/own-data.md). tests/cli/golden has one complete export of each format."""

import csv
import os
import tempfile
from io import StringIO
from pathlib import Path
from typing import Any

import orjson
import pytest

from app.care.own_data import HEADER, as_csv
from app.db.interchange.dump import SESSIONS_AT_ONCE
from app.settings import Settings
from tests.audit.audit_log import audit_rows, audited
from tests.callers import load
from tests.cli.conftest import Command, assert_rejected
from tests.db import raw
from tests.factories import (
    DAY,
    NOW,
    Record,
    a_client,
    a_complete_assignment,
    a_session,
    a_world,
    an_answer_set,
    an_assignment,
    catalogue,
    people,
    starting_with,
)
from tests.lifecycle import load_one_client

GOLDEN = Path(__file__).parent / "golden"
FORMATS = ["json", "csv"]


def exported(command: Command, *words: str) -> bytes:
    result = command("export", *words)
    assert (result.exit_code, result.stderr) == (0, "")
    return result.stdout_bytes


@pytest.mark.once_on_postgresql
@pytest.mark.parametrize("format", FORMATS)
@pytest.mark.parametrize("who", [("--client", "client-1"), ("--id", "1")], ids=["by name", "by id"])
def test_all_data_of_a_client_is_exported(
    command: Command, settings: Settings, format: str, who: tuple[str, str]
) -> None:
    load_one_client(settings.database)

    assert exported(command, *who, "--format", format) == (GOLDEN / f"own_data.{format}").read_bytes()


@pytest.mark.sqlite_only
@pytest.mark.parametrize(("format", "is_new"), [("json", False), ("csv", False), ("csv", True)])
def test_an_output_file_is_private_and_replaces_an_existing_one(
    command: Command,
    settings: Settings,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    format: str,
    is_new: bool,
) -> None:
    """It appears when all of it is written: a full disk may show only when the file is closed."""
    load_one_client(settings.database)
    file, replace, appeared = tmp_path / "own.data", os.replace, list[bytes]()

    def note(source: str, target: Path) -> None:
        appeared.append(Path(source).read_bytes())
        replace(source, target)

    monkeypatch.setattr(os, "replace", note)
    if not is_new:
        file.write_text("an older export")

    result = exported(command, "--client", "client-1", "--format", format, "--output", str(file))

    assert result == b""
    assert [file.read_bytes()] == appeared == [(GOLDEN / f"own_data.{format}").read_bytes()]
    assert file.stat().st_mode & 0o777 == 0o600
    assert not list(tmp_path.glob("*.part"))


@starting_with(a_world)
@pytest.mark.sqlite_only
def test_the_temporary_file_of_another_command_is_left_alone(
    command: Command, settings: Settings, tmp_path: Path
) -> None:
    file, other = tmp_path / "own.json", tmp_path / "own.json.part"
    other.write_text("an unfinished backup")

    exported(command, "--id", "1", "--format", "json", "--output", str(file))
    names = {one.name for one in tmp_path.iterdir()}
    failed = command("export", "--id", "1", "--format", "json", "--output", str(other / "own.json"))

    assert other.read_text() == "an unfinished backup"
    assert names == {one.name for one in tmp_path.iterdir()} >= {"own.json", "own.json.part"}
    assert [name for name in names if name.startswith(".export-")] == []
    assert failed.exit_code == 2


def test_a_client_without_sessions_has_a_short_export(command: Command, settings: Settings) -> None:
    load(settings.database, [a_client(7, userName=None)])

    exported_text = exported(command, "--id", "7", "--format", "json").decode()

    assert exported_text == (
        "{\n"
        '  "client": {\n'
        '    "id": 7,\n'
        '    "name": "Zoë Client 7",\n'
        '    "opptId": "OPPT-7",\n'
        '    "userName": null,\n'
        '    "isDisabled": false,\n'
        '    "eraseDate": null\n'
        "  },\n"
        '  "sessions": [],\n'
        '  "events": []\n'
        "}\n"
    )
    assert exported(command, "--id", "7", "--format", "csv").decode() == ",".join(HEADER) + "\r\n"
    assert audited(settings.database) == [("OPERATOR", None, "export", "DONE", [[None, 7, {}]])] * 2


def many_sessions(sessions: int) -> list[Record]:
    """More sessions than one page, each begun before the one with the previous id, alternating between two
    caregivers; client 2 has one beside each."""
    world = [*people(), *catalogue()]
    for number in range(1, sessions + 1):
        caregiver, own, other = 1 + number % 2, 3 * number, 3 * number + 1
        world += [
            a_session(own, caregiver, startDate=NOW - number * DAY),
            a_session(other, caregiver, client=2),
            an_assignment(number, own, book=2),
            an_assignment(1000 + number, other),
            an_answer_set(number, number, saveType="DRAFT", answers=[an_answer(number)]),
            an_answer_set(1000 + number, 1000 + number, saveType="DRAFT", answers=[an_answer(1000 + number)]),
        ]
    return world


def an_answer(number: int) -> Record:
    return {"questionText": "Which?", "answer": f"Number {number}"}


@pytest.mark.parametrize("sessions", [SESSIONS_AT_ONCE, SESSIONS_AT_ONCE + 1, 3 * SESSIONS_AT_ONCE - 1])
def test_all_pages_of_sessions_are_exported(command: Command, settings: Settings, sessions: int) -> None:
    load(settings.database, many_sessions(sessions))

    exported_text = orjson.loads(exported(command, "--client", "client-1", "--format", "json"))
    rows = table_of(exported(command, "--client", "client-1", "--format", "csv"))

    expected = [(1 + number % 2, 3 * number, 2, f"Number {number}") for number in range(1, sessions + 1)]
    assert [shown(one) for one in exported_text["sessions"]] == expected
    ids = ("caregiverId", "sessionId", "bookId")
    assert [(*(int(row[name]) for name in ids), row["answer"]) for row in rows] == expected


def shown(session: dict[str, Any]) -> tuple[int, int, int, str]:
    [assignment] = session["assignments"]
    answer = assignment["answerSets"][0]["answers"][0]["answer"]
    return session["caregiver"]["id"], session["id"], assignment["book"]["id"], answer


def test_an_assignment_and_an_answer_set_without_answers_have_a_row_each(
    command: Command, settings: Settings
) -> None:
    """The row of a submission has its feedback too."""
    assignments = [an_assignment(1, 1), an_assignment(2, 1), a_complete_assignment(3, 1)]
    answer_sets = [an_answer_set(1, 2, saveType="DRAFT", answers=[]), an_answer_set(2, 3, answers=[])]
    load(settings.database, [*people(), *catalogue(), a_session(1), *assignments, *answer_sets])
    raw.run(
        settings.database,
        "INSERT INTO feedback (caregiver_id, client_id, assignment_id, answer_set_id, text, submit_date)"
        " VALUES (1, 1, 3, 2, 'Call me', '2026-11-20T09:00:00.000000Z')",
    )

    rows = table_of(exported(command, "--client", "client-1", "--format", "csv"))

    shown = ("assignmentId", "answerSetId", "saveType", "position", "questionText", "answer", "feedbackText")
    assert [[row[name] for name in shown] for row in rows] == [
        ["1", "", "", "", "", "", ""],
        ["2", "1", "DRAFT", "", "", "", ""],
        ["3", "2", "FINAL", "", "", "", "Call me"],
    ]


def table_of(csv_bytes: bytes) -> list[dict[str, str]]:
    return list(csv.DictReader(StringIO(csv_bytes.decode(), newline="")))


CELLS = {
    "=1+1": "'=1+1",
    "+49 30 1": "'+49 30 1",
    "-": "'-",
    "-cmd|' /C calc'!A0": "'-cmd|' /C calc'!A0",
    "@SUM(A1)": "'@SUM(A1)",
    "  =1": "'  =1",
    "\u00a0=1": "'\u00a0=1",
    "＝1": "'＝1",
    "＋1": "'＋1",
    "－1": "'－1",
    "＠SUM(A1)": "'＠SUM(A1)",
    "\tx": "'\tx",
    "\r=1": "'\r'=1",
    "\nx": "'\nx",
    "-7": "-7",
    "+7,25": "+7,25",
    "-7.5": "-7.5",
    " -7 ": " -7 ",
    "-7-": "'-7-",
    "7=7": "7=7",
    "a\n=1": "a\n'=1",
    "a\t@x": "a\t'@x",
    "x;=1+cmd|' /C calc'!A0": "x;'=1+cmd|' /C calc'!A0",
    "x; +1+1;-2;a-b": "x;' +1+1;-2;a-b",
    'x;"=1+1"': 'x;\'"=1+1"',
    "a, =1": "a, =1",
    "'=1": "'=1",
    "": "",
    'say "hi", twice': 'say "hi", twice',
    "Größe – 大": "Größe – 大",
}


def test_no_cell_is_a_formula_and_every_cell_can_be_read_back() -> None:
    exported_text = as_csv([(text, None, True, 7) for text in CELLS])

    rows = list(csv.reader(StringIO(exported_text, newline="")))
    assert rows == [[cell, "", "true", "7"] for cell in CELLS.values()]
    assert as_csv([('a"b', "c,d", "e\nf", "g")]) == '"a""b","c,d","e\nf",g\r\n'


@starting_with(a_world)
def test_events_are_sorted_by_id_also_after_the_dispatcher_has_changed_some(
    command: Command, settings: Settings
) -> None:
    event = "(1, 1, 'SESSION_UPDATED', 1, '2026-11-21T08:30:00.000000Z')"
    columns = "caregiver_id, client_id, kind, session_id, moment"
    raw.run(
        settings.database,
        f"INSERT INTO event ({columns}) VALUES {event}, {event}, {event}",
        "UPDATE event SET hand_over_date = moment WHERE id = 1",
    )

    events = orjson.loads(exported(command, "--client", "client-1", "--format", "json"))["events"]

    assert [each["id"] for each in events] == [1, 2, 3]


@starting_with(a_world)
def test_reminders_are_sorted_by_date_and_answer_sets_by_attempt(
    command: Command, settings: Settings
) -> None:
    """Their ids are in another order after an import."""
    reminders = [{"remindDate": NOW + days * DAY} for days in (3, 1, 2)]
    load(
        settings.database,
        [
            a_complete_assignment(9, attempt=2, reminders=reminders),
            an_answer_set(11, 9, attempt=2),
            an_answer_set(12, 9, attempt=1),
        ],
    )

    data = orjson.loads(exported(command, "--id", "1", "--format", "json"))

    [found] = [each for each in data["sessions"][0]["assignments"] if each["id"] == 9]
    assert [each["remindDate"][:10] for each in found["reminders"]] == [
        f"{NOW + days * DAY:%Y-%m-%d}" for days in (1, 2, 3)
    ]
    assert [(each["id"], each["attempt"]) for each in found["answerSets"]] == [(12, 1), (11, 2)]


# --- rejected ---


@starting_with(a_world)
@pytest.mark.once_on_postgresql
@pytest.mark.parametrize(
    ("who", "reference"),
    [
        (("--client", "client-9"), "this user name (--id takes an id)"),
        (("--client", "caregiver-1"), "this user name (--id takes an id)"),
        (("--id", "9"), "this id"),
    ],
)
def test_an_unknown_client_is_rejected(
    command: Command, settings: Settings, tmp_path: Path, who: tuple[str, str], reference: str
) -> None:
    file = tmp_path / "own.json"

    assert_rejected(command("export", *who, "--format", "json"), f"there is no client with {reference}")
    rejected = command("export", *who, "--format", "json", "--output", str(file))

    assert_rejected(rejected, f"there is no client with {reference}")
    assert not list(tmp_path.glob("own*"))


@starting_with(a_world)
@pytest.mark.sqlite_only
def test_an_export_that_is_interrupted_leaves_no_part_of_it(
    command: Command, settings: Settings, tmp_path: Path
) -> None:
    raw.run(settings.database, "ALTER TABLE event RENAME TO events")  # which the export reads last
    file = tmp_path / "own.json"
    file.write_text("an older export")
    names = {one.name for one in tmp_path.iterdir()}

    interrupted = command("export", "--id", "1", "--format", "json", "--output", str(file))

    assert interrupted.exit_code != 0
    assert file.read_text() == "an older export"
    assert {one.name for one in tmp_path.iterdir()} == names


@pytest.mark.sqlite_only
def test_an_argument_that_is_no_text_is_rejected(command: Command) -> None:
    rejected = command("export", "--client", b"\xff".decode(errors="surrogateescape"), "--format", "json")

    assert_rejected(rejected, "an argument is not valid UTF-8")


@pytest.mark.sqlite_only
def test_an_output_that_cannot_show_a_name_is_no_invalid_argument(
    command: Command, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    def write_to_terminal(text: str) -> None:
        text.encode("ascii")

    load(settings.database, [a_client(1, userName="zoë")])
    monkeypatch.setattr("click.echo", write_to_terminal)

    assert isinstance(command("account", "list").exception, UnicodeEncodeError)


@starting_with(a_world)
@pytest.mark.sqlite_only
def test_an_output_file_that_cannot_be_written_is_reported(
    command: Command, settings: Settings, tmp_path: Path
) -> None:
    file = tmp_path / "none" / "own.json"

    rejected = command("export", "--id", "1", "--format", "json", "--output", str(file))

    assert_rejected(rejected, f"{file} cannot be written: No such file or directory")
    assert [one.operation for one in audit_rows(settings.database)] == ["export"]  # before any output


@starting_with(a_world)
@pytest.mark.sqlite_only
def test_a_pipe_receives_the_export_and_is_not_replaced(command: Command, tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    expected = exported(command, "--id", "2", "--format", "json")

    result = command("export", "--id", "2", "--format", "json", "--output", str(pipe))

    received = os.read(reader, len(expected) + 1)
    os.close(reader)
    assert (result.exit_code, result.output, received) == (0, "", expected)
    assert pipe.is_fifo()


@starting_with(a_world)
@pytest.mark.sqlite_only
def test_a_link_to_a_device_is_not_replaced(command: Command, tmp_path: Path) -> None:
    link = tmp_path / "device"
    link.symlink_to("/dev/full")

    rejected = command("export", "--id", "2", "--format", "json", "--output", str(link))

    assert_rejected(rejected, f"{link} cannot be written: No space left on device")
    assert link.is_symlink()


@starting_with(a_world)
@pytest.mark.sqlite_only
@pytest.mark.parametrize("length", [1, 100_000], ids=["at the end", "while rows are read"])
def test_an_export_that_finds_no_space_replaces_nothing(
    command: Command, settings: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, length: int
) -> None:
    raw.run(settings.database, f"UPDATE session SET description = '{'x' * length}'")

    def on_full_disk(suffix: str, prefix: str, folder: Path) -> tuple[int, str]:
        path = folder / f"{prefix}{suffix}"
        path.touch()
        return os.open("/dev/full", os.O_WRONLY), str(path)

    monkeypatch.setattr(tempfile, "mkstemp", on_full_disk)
    file = tmp_path / "own.json"
    file.write_text("an older export")
    names = {one.name for one in tmp_path.iterdir()}

    rejected = command("export", "--id", "1", "--format", "json", "--output", str(file))

    assert_rejected(rejected, f"{file} cannot be written: No space left on device")
    assert file.read_text() == "an older export"
    assert {one.name for one in tmp_path.iterdir()} == names
