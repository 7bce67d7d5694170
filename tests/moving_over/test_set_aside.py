"""`--partial` sets invalid rows aside and imports the rest, and the next recording takes them up."""

import re

import orjson
import pytest

from tests import keys
from tests.moving_over.moves import Move

pytestmark = pytest.mark.parametrize("kind", ["sqlite"], indirect=True)

ASIDE = "invalid rows, set aside with their assignments; map their values (--map) or correct them there:"


DATE = "must be a date like 2026/11/21 09:00, of the years 1900 to 2999"
INVALID = {  # by misbehaviour: what is reported of a row
    "has an unknown status": "status is EXPIRED: Input should be 'PENDING' or 'COMPLETE'",
    "has a null title": "title is null: Input should be a valid string",
    "writes 85.0": "score is a decimal number: Input should be a valid integer",
    "writes ids as text": "id is text: Input should be a valid integer",
    "writes seconds": f"startDate is text: {DATE}",
    "writes NUL": "clientName is text: must not contain NUL, because PostgreSQL cannot store it",
    "writes a lone surrogate": "clientName is text: must not contain a lone surrogate",
}


@pytest.mark.parametrize("name", INVALID)
def test_invalid_rows_are_set_aside_and_taken_up_later(move: Move, name: str) -> None:
    with move.old.misbehaving(name):
        folder = move.record()

    refused = move.run("import", folder)
    partial = move.run("import", folder, "--partial")
    update = move.run("import", move.record(), "--update")
    reconciled = move.run("legacy", "reconcile", str(move.folder / "recording-2"))

    lines = refused.stderr.splitlines()
    assert (refused.exit_code, refused.stdout) == (2, "")
    row = lines[lines.index(ASIDE) + 1]
    assert re.match(r"  (session|assignment) [1-5], line \d+, item 1: ", row), row
    assert INVALID[name] in row.partition("item 1: ")[2].split("; ")
    assert partial.exit_code == 0, partial.output
    assert (update.exit_code, reconciled.exit_code) == (0, 0), update.output + reconciled.output
    assert reconciled.stdout.splitlines()[-1] == "0 differences"


def test_an_update_neither_removes_nor_changes_a_row_that_is_set_aside(move: Move) -> None:
    assert move.run("import", move.record()).exit_code == 0
    with move.old.misbehaving("has an unknown status"):
        folder = move.record()

    updated = move.run("import", folder, "--update", "--partial", "--remove-gone")
    code, reconciled = move.lines("legacy", "reconcile", folder)
    as_json = orjson.loads(move.run("legacy", "reconcile", folder, "--json").stdout)

    assert (updated.exit_code, updated.stdout) == (0, "0 conflicts\n")
    aside = [f"set aside\tassignment\t{number}" for number in (3, 4, 5)]
    assert (code, reconciled[7:]) == (1, ["answer_set\t1 recorded\t1 here", *aside, "3 differences"])
    assert as_json["setAside"] == [{"kind": "assignment", "id": number} for number in (3, 4, 5)]


def test_values_of_the_old_service_are_mapped(move: Move) -> None:
    file = move.folder / "values.json"
    file.write_bytes(orjson.dumps({"status": {"EXPIRED": "PENDING"}, "title": {"null": ""}}))
    running = {
        "path": "RUNNING",
        "user": keys.token("CAREGIVER", "caregiver-1"),
    }  # whose first is not complete
    with (
        move.old.misbehaving("has an unknown status", **running),
        move.old.misbehaving("has a null title"),
    ):
        folder = move.record()

    imported = move.run("import", folder, "--map", str(file), "--partial")
    reconciled = move.run("legacy", "reconcile", folder, "--map", str(file))
    ready = move.run("legacy", "ready", folder, "--map", str(file))
    rows = [f"session:{number}" for number in range(1, 6)]
    resolved = move.run("legacy", "resolve", "take-old", folder, "--map", str(file), *rows)
    file.write_text("[]")
    unusable = move.run("import", folder, "--map", str(file))

    assert ASIDE not in imported.stderr.splitlines()
    assert "5 sessions" in imported.stdout, imported.output
    assert reconciled.stdout.splitlines()[-1] == "0 differences"
    assert "ok\tall rows are equal" in ready.stdout.splitlines()
    assert resolved.stdout == "5 conflicts resolved\n", resolved.stderr
    assert unusable.stderr.splitlines()[-1] == (
        f"care-gateway: {file} cannot be read: it must be like "
        '{"status": {"EXPIRED": "PENDING"}, "title": {"null": ""}}'
    )


@pytest.mark.parametrize("name", ["has a new member", "shows feedbacks", "counts wrong"])
def test_what_is_not_imported_does_not_make_a_recording_incomplete(move: Move, name: str) -> None:
    with move.old.misbehaving(name):
        first, second = move.record(), move.record()

    imported = move.run("import", first)
    updated = move.run("import", second, "--update", "--remove-gone")

    heading = "wrong counters; the recorded rows count:" if name == "counts wrong" else "not imported:"
    assert (imported.exit_code, updated.exit_code) == (0, 0), imported.output + updated.output
    assert heading in imported.stderr.splitlines()
    assert updated.stdout == "0 conflicts\n"
