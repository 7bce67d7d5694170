"""Promise: `import` loads a complete file in one transaction or reports its mistakes and loads nothing."""

import asyncio
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from threading import Event, Thread
from typing import Any

import orjson
import pytest

from app.cli.common import until_cancelled
from app.cli.import_data import is_recording
from app.db.drivers.factory import open_database
from app.db.drivers.interface import Database
from app.db.interchange.load import importing, reading_users
from app.db.sql import Steps
from app.settings import Settings
from tests.callers import load, run_read
from tests.cli.conftest import Command, assert_rejected
from tests.db import raw
from tests.factories import (
    NOW,
    Record,
    a_caregiver,
    a_client,
    a_module,
    a_session,
    a_world,
    an_answer_set,
    an_assignment,
    catalogue,
    lines,
    people,
)
from tests.patience import PATIENCE


def test_import_loads_and_counts_records(command: Command, settings: Settings, tmp_path: Path) -> None:
    file = tmp_path / "world.jsonl"
    file.write_bytes(b"\n".join(lines(a_world())))

    result = command("import", str(file))

    assert (result.exit_code, result.stdout) == (
        0,
        "2 caregivers, 2 clients, 2 modules, 3 books, 5 sessions, 5 assignments, 3 answer sets\n",
    )
    counts = raw.row_counts(settings.database)
    assert (counts["session"], counts["assignment"]) == (5, 5)
    assert command("verify").stdout == "0 differences\n"


@pytest.mark.sqlite_only
def test_standard_input_is_read_from_where_it_is(settings: Settings, tmp_path: Path) -> None:
    """A script may have read the first line."""
    file = tmp_path / "world.jsonl"
    file.write_bytes(b"not for the import\n" + b"\n".join(lines(catalogue())))
    care = {"CARE_ENV": "development", "CARE_DATABASE_URL": settings.database}

    with file.open() as standard_input:
        done = subprocess.run(
            ["sh", "-c", f"read -r first; {sys.executable} -m app import -"],
            stdin=standard_input,
            capture_output=True,
            text=True,
            env={**os.environ, **care},
        )

    assert (done.returncode, done.stdout) == (0, "2 modules, 3 books\n")


def test_an_empty_file_imports_nothing(command: Command, settings: Settings, tmp_path: Path) -> None:
    file = tmp_path / "empty.jsonl"
    file.write_text("\n\n")

    result = command("import", str(file))

    assert (result.exit_code, result.stdout) == (0, "nothing to import\n")
    assert run_read(settings.database, reading_users()) == {}


def test_reminders_of_the_past_are_not_sent(command: Command, settings: Settings, tmp_path: Path) -> None:
    moments = ("2026-11-21T09:00:00Z", "2999-01-01T09:00:00Z")
    reminders = [
        {"remindDate": moments[0]},
        {"remindDate": moments[0], "state": "SCHEDULED"},
        {"remindDate": moments[0], "state": "SENT"},
        {"remindDate": moments[1]},
    ]
    file = tmp_path / "world.jsonl"
    file.write_bytes(b"\n".join(lines([*a_world(), an_assignment(9, session=1, reminders=reminders)])))

    assert command("import", str(file)).exit_code == 0

    states = "SELECT state FROM reminder WHERE assignment_id = 9 ORDER BY id"
    assert raw.run(settings.database, states) == [("SKIPPED",), ("SKIPPED",), ("SENT",), ("SCHEDULED",)]


@pytest.mark.sqlite_only
def test_others_write_while_an_import_waits_for_its_input(
    command: Command, settings: Settings, tmp_path: Path
) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    load(settings.database, [a_module(1)])
    found = []

    def send() -> None:
        with pipe.open("wb", buffering=0) as file:
            for number in range(2, 5):
                file.write(orjson.dumps(a_module(number)) + b"\n" * 100_000)  # more than a pipe holds
                rename = "UPDATE module SET name = name || '+' WHERE id = 1 RETURNING name"
                found.append(raw.run(settings.database, rename))

    sender = Thread(target=send)
    sender.start()
    result = command("import", str(pipe))
    sender.join()

    assert (result.exit_code, result.stdout) == (0, "3 modules\n")
    assert found == [[("Module 1+",)], [("Module 1++",)], [("Module 1+++",)]]


def reading_slowly(wait: Callable[[], None]) -> Steps[Any]:
    def given() -> Iterator[bytes]:
        yield orjson.dumps(a_module(1))
        wait()

    return importing(given())


def ending_slowly(wait: Callable[[], None]) -> Steps[Any]:
    yield from importing([orjson.dumps(a_module(1))])
    wait()


@pytest.mark.sqlite_only
@pytest.mark.parametrize("steps_of", [reading_slowly, ending_slowly])
def test_ctrl_c_imports_nothing(
    database_url: str, steps_of: Callable[[Callable[[], None]], Steps[Any]]
) -> None:
    """The steps stop until the command is cancelled, as in a long import."""
    is_reading, is_cancelled = Event(), Event()

    def wait() -> None:
        is_reading.set()
        assert is_cancelled.wait(PATIENCE)

    async def cancelled() -> None:
        db = await open_database(database_url)
        try:
            work = asyncio.create_task(importing_until_cancelled(db))
            await asyncio.to_thread(is_reading.wait, PATIENCE)
            work.cancel()
            is_cancelled.set()
            with pytest.raises(asyncio.CancelledError):
                await work
        finally:
            await db.close()

    async def importing_until_cancelled(db: Database) -> None:
        await db.write(until_cancelled(steps_of(wait), asyncio.current_task()))

    asyncio.run(cancelled())

    assert raw.run(database_url, "SELECT count(*) FROM module") == [(0,)]


INVALID = {
    "no JSON": (b'{"kind": ', "Invalid JSON: "),
    "member missing": (orjson.dumps({"kind": "module", "id": 9}), "name: "),
    "unknown parent": (
        b'{"kind":"book","id":9,"moduleId":77,"name":"x","isTest":false}',
        "moduleId: 77 does not exist before this line",
    ),
    "there already": (orjson.dumps(a_caregiver(1)), "id: 1 exists already"),
}


@pytest.mark.once_on_postgresql
@pytest.mark.parametrize("name", INVALID)
def test_an_invalid_line_is_reported_and_nothing_is_imported(
    command: Command, settings: Settings, tmp_path: Path, name: str
) -> None:
    line, reason = INVALID[name]
    file = tmp_path / "world.jsonl"
    file.write_bytes(b"\n".join([*lines([a_caregiver(1)]), b"", line]))

    rejected = command("import", str(file))

    assert (rejected.exit_code, rejected.stdout) == (2, "")
    assert rejected.stderr.splitlines()[-1].startswith(f"care-gateway: {file}, line 3: {reason}")
    assert "Traceback" not in rejected.stderr
    assert run_read(settings.database, reading_users()) == {}


def refused_lines(command: Command, tmp_path: Path, *records: Record) -> list[str]:
    file = tmp_path / "world.jsonl"
    file.write_bytes(b"\n".join(lines(records)))
    rejected = command("import", str(file))
    assert (rejected.exit_code, rejected.stdout) == (2, "")
    result = rejected.stderr.splitlines()
    return [one.removeprefix(f"care-gateway: {file}, ") for one in result if one.startswith("care-gateway: ")]


@pytest.mark.sqlite_only
def test_every_mistake_is_reported_but_not_its_consequences(
    command: Command, settings: Settings, tmp_path: Path
) -> None:
    """A session of a caregiver on an invalid line is not a second mistake, nor is its homework."""
    found = refused_lines(
        command,
        tmp_path,
        {"kind": "caregiver", "id": 1, "name": "No position"},
        a_client(1),
        a_session(1),
        *catalogue(),
        an_assignment(1),
        an_answer_set(1, assignment=1),
        a_session(2, caregiver=77),
        a_client(1),
        a_caregiver(2) | {"nmae": "x"},
        a_session(3, caregiver=2),
    )

    assert found == [
        "line 1: position: Field required",
        "line 11: caregiverId: 77 does not exist before this line",
        "line 12: id: 1 exists already",
        "line 13: nmae: Extra inputs are not permitted",
    ]
    assert run_read(settings.database, reading_users()) == {}


@pytest.mark.sqlite_only
def test_an_answer_set_of_an_invalid_assignment_is_not_a_mistake(command: Command, tmp_path: Path) -> None:
    wrong = an_assignment(1, submitDate=NOW)  # found after most members of the line were read

    found = refused_lines(
        command, tmp_path, *people(), *catalogue(), a_session(1), wrong, an_answer_set(1, assignment=1)
    )

    assert found == ["line 11: status COMPLETE requires submitDate and vice versa"]


@pytest.mark.sqlite_only
def test_the_first_twenty_mistakes_are_reported(command: Command, settings: Settings, tmp_path: Path) -> None:
    found = refused_lines(command, tmp_path, *({"kind": "module", "id": number} for number in range(1, 40)))

    assert found == [
        *(f"line {number}: name: Field required" for number in range(1, 21)),
        "care-gateway: reading stopped after 20 mistakes; there may be more",
    ]
    assert run_read(settings.database, reading_users()) == {}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('{"path": "/gateway"}\nno JSON', True),
        ('\n \n{"path": "/gateway"}', True),
        ('{"kind": "module", "path": "x"}', False),
        ('{"kind": "module"}\n{"path": "/gateway"}', False),
        ("[]", False),
        ('["path"]', False),
        ('"path"', False),
        ("1", False),
        ("{}", False),
        ("{", False),
        ("\n", False),
    ],
)
def test_a_recording_has_a_path_in_its_first_line(tmp_path: Path, text: str, expected: bool) -> None:
    file = tmp_path / "given"
    file.write_text(text)

    assert [is_recording(path) for path in (file, tmp_path, tmp_path / "-")] == [expected, True, False]


RECORDINGS_ONLY = "--partial, --update and --map apply to recordings only"


@pytest.mark.sqlite_only
@pytest.mark.parametrize(
    ("option", "message"),
    [
        ("--partial", RECORDINGS_ONLY),
        ("--update", RECORDINGS_ONLY),
        ("--map", RECORDINGS_ONLY),
        ("--remove-gone", "--remove-gone needs --update"),
        ("--update --yes-remove=30", "--yes-remove needs --remove-gone"),
    ],
)
def test_options_of_recordings_are_rejected_with_lines(
    command: Command, settings: Settings, tmp_path: Path, option: str, message: str
) -> None:
    file = tmp_path / "world.jsonl"
    file.write_bytes(b"\n".join(lines(people())))
    values = [str(file)] if option == "--map" else []

    rejected = command("import", str(file), *option.split(), *values)

    assert (rejected.exit_code, rejected.stderr.splitlines()[-1]) == (2, f"Error: {message}")
    assert run_read(settings.database, reading_users()) == {}


@pytest.mark.sqlite_only
def test_import_into_a_missing_database_is_rejected(command: Command, tmp_path: Path) -> None:
    file = tmp_path / "world.jsonl"
    file.write_bytes(b"\n".join(lines(a_world())))

    rejected = command("import", str(file), database_url=f"sqlite:///{tmp_path}/none.db")

    assert_rejected(rejected, f"there is no database at {tmp_path}/none.db; run `care-gateway migrate` first")
