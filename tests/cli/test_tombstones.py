"""Promise: erased clients stay erased and disabled accounts disabled, whatever is restored or imported after
that, and in whichever order."""

import asyncio
import sqlite3
import uuid
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import pytest

from app.cli import restore
from app.cli.restore import applying, switching_again
from app.db.admin.accounts import switching_account
from app.db.admin.sequences import skipping_ids
from app.db.admin.tombstones import (
    Mark,
    Person,
    merged,
    merging_tombstones,
    reading_tombstones,
    saving_tombstone,
)
from app.db.drivers.interface import Database, sqlite_path
from app.db.moments import moment_as_text
from app.db.sql import Steps
from app.db.tables import TombstoneState
from app.settings import Settings
from tests.callers import load, run_read, run_write
from tests.cli.conftest import Command, assert_rejected
from tests.conftest import fresh_database
from tests.database_rows import all_rows
from tests.db import raw
from tests.db.overlapping import uncommitted, until_blocked
from tests.db.small_steps import with_database
from tests.factories import (
    HOUR,
    NOW,
    Record,
    a_client,
    a_session,
    a_world,
    an_answer_set,
    an_assignment,
    lines,
    people,
    starting_with,
)
from tests.postgres import create_database, drop_database

NOW_TEXT = moment_as_text(NOW)
PEOPLE = "SELECT id, name, is_disabled FROM client ORDER BY id"
CAREGIVERS = "SELECT id, is_disabled FROM caregiver ORDER BY id"
TITLES = "SELECT DISTINCT title FROM session WHERE client_id = 2"


def erase_and_disable(command: Command) -> None:
    assert command("erase", "--id", "2", "--yes").exit_code == 0
    disabled = command("account", "disable", "--role", "caregiver", "--user", "caregiver-2")
    assert disabled.exit_code == 0


def words_of(file: Path) -> list[list[str]]:
    """The lines without their moments."""
    return [line.split("\t")[:3] for line in file.read_text().splitlines()]


SAVED = [["caregiver", "2", "disabled"], ["client", "2", "erased"]]


@pytest.fixture
def other_url(kind: str, migrated: str, request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    """A second database, which is empty."""
    with fresh_database(kind, migrated, request, tmp_path / "other.db") as url:
        yield url


# --- in a file ---


@starting_with(a_world)
def test_a_file_never_loses_a_person(command: Command, other_url: str, tmp_path: Path) -> None:
    file = tmp_path / "erased"
    older = "caregiver\t2\tenabled\t2026-11-20T09:00:00Z"
    file.write_text(f"77\n78\t2026-11-20T09:00:00Z\n{older}\n")  # the first two from `erase --list`
    erase_and_disable(command)

    first = command("tombstones", "save", str(file))
    content = file.read_bytes()
    again = command("tombstones", "save", str(file))
    of_other = command("tombstones", "save", str(file), database_url=other_url)

    assert [(one.exit_code, one.output) for one in (first, again, of_other)] == [
        (0, f"{file}: 4 tombstones, 1 new\n"),
        (0, f"{file}: 4 tombstones, 0 new\n"),
        (0, f"{file}: 4 tombstones, 0 new\n"),
    ]
    assert words_of(file) == [*SAVED, ["client", "77", "erased"], ["client", "78", "erased"]]
    assert file.read_text().splitlines()[-1].split("\t")[3] == "2026-11-20T09:00:00.000000Z"
    assert content == file.read_bytes()
    assert file.stat().st_mode & 0o777 == 0o600
    assert not list(tmp_path.glob("*.part"))


@starting_with(a_world)
@pytest.mark.sqlite_only
def test_a_tombstone_that_another_command_saves_just_before_stays(
    command: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file, replacing = tmp_path / "tombstones", restore.replacing
    erase_and_disable(command)
    other = f"client\t77\terased\t{NOW_TEXT}\n"

    def replacing_afterwards(target: Path) -> AbstractContextManager[Path]:
        target.write_text(other)
        return replacing(target)

    monkeypatch.setattr(restore, "replacing", replacing_afterwards)
    assert command("tombstones", "save", str(file)).exit_code == 0

    assert words_of(file) == [*SAVED, ["client", "77", "erased"]]


@starting_with(a_world)
@pytest.mark.sqlite_only
def test_a_file_has_the_last_decision_on_an_account(command: Command, tmp_path: Path) -> None:
    file = tmp_path / "erased"
    erase_and_disable(command)
    command("tombstones", "save", str(file))
    command("account", "enable", "--role", "caregiver", "--user", "caregiver-2")

    command("tombstones", "save", str(file))

    assert words_of(file) == [["caregiver", "2", "enabled"], ["client", "2", "erased"]]


@dataclass(frozen=True)
class BesideAnOperator:
    """A database in which an operator disables an account after each read."""

    db: Database

    async def read(self, steps: Steps[Any]) -> Any:
        result = await self.db.read(steps)
        await self.db.write(switching_account("CAREGIVER", "caregiver-2", True, NOW + HOUR))
        return result

    async def write(self, steps: Steps[Any]) -> Any:
        return await self.db.write(steps)


@starting_with(a_world)
def test_an_account_that_is_disabled_while_tombstones_are_applied_stays_disabled(database_url: str) -> None:
    enabled = {("CAREGIVER", 2): Mark(TombstoneState.ENABLED, NOW)}
    raw.run(database_url, "UPDATE caregiver SET is_disabled = true")  # as in the restored database

    async def use(db: Database) -> dict[str, list[int]]:
        return await applying(cast(Database, BesideAnOperator(db)), enabled, NOW)

    assert with_database(database_url, use) == {"clients erased": []}
    assert [(number, bool(off)) for number, off in raw.run(database_url, CAREGIVERS)] == [
        (1, True),
        (2, True),
    ]
    assert run_read(database_url, reading_tombstones()) == {
        ("CAREGIVER", 2): Mark(TombstoneState.DISABLED, NOW + HOUR)
    }


@starting_with(a_world)
@pytest.mark.parametrize("kind", ["postgresql"], indirect=True)
def test_a_decision_that_is_not_committed_yet_is_waited_for(database_url: str) -> None:
    run_write(database_url, saving_tombstone("CAREGIVER", 2, Mark(TombstoneState.ENABLED, NOW)))
    raw.run(database_url, "UPDATE caregiver SET is_disabled = true WHERE id = 2")

    async def use(db: Database) -> tuple[bool, dict[str, list[int]]]:
        decision = switching_account("CAREGIVER", "caregiver-2", True, NOW + HOUR)
        async with uncommitted(database_url, decision):
            switched = asyncio.create_task(db.write(switching_again()))
            is_waiting = await until_blocked(database_url, switched)
        return is_waiting, await switched

    assert with_database(database_url, use) == (True, {})
    assert raw.run(database_url, CAREGIVERS) == [(1, False), (2, True)]


@starting_with(a_world)
@pytest.mark.parametrize("kind", ["postgresql"], indirect=True)
def test_a_list_does_not_replace_a_later_decision_that_is_not_committed_yet(database_url: str) -> None:
    person, later = ("CAREGIVER", 2), Mark(TombstoneState.DISABLED, NOW + HOUR)

    async def use(db: Database) -> dict[Person, Mark]:
        async with uncommitted(database_url, switching_account("CAREGIVER", "caregiver-2", True, NOW + HOUR)):
            given = {person: Mark(TombstoneState.ENABLED, NOW)}
            applied = asyncio.create_task(db.write(merging_tombstones(given)))
            assert await until_blocked(database_url, applied)
        return await applied

    assert with_database(database_url, use) == {person: later}
    assert run_read(database_url, reading_tombstones()) == {person: later}


INVALID = (
    "client-2",
    "client\t2",
    "client\t2\terased",
    "client\t2\terased\tyesterday",
    "client\t2\terased\t2026-11-21T09:00:00",
    "client\t2\terased\t0001-01-01T00:00:00+05:00",
    f"client\t2\tgone\t{NOW_TEXT}",
    f"caregiver\t2\terased\t{NOW_TEXT}",
    f"CAREGIVER\t2\terased\t{NOW_TEXT}",
    f"friend\t2\tdisabled\t{NOW_TEXT}",
    f"client\t{2**63 - 1}\terased\t{NOW_TEXT}",  # after which there is no id
    f"client\t-2\terased\t{NOW_TEXT}",
    f"client\t٢\terased\t{NOW_TEXT}",
)


@starting_with(a_world)
@pytest.mark.sqlite_only
@pytest.mark.parametrize("line", INVALID)
def test_an_invalid_line_is_rejected_and_the_file_stays(
    command: Command, settings: Settings, tmp_path: Path, line: str
) -> None:
    file = tmp_path / "erased"
    file.write_text(f"7\n{line}\n")
    before = run_read(settings.database, all_rows())

    for words in (("save", str(file)), ("apply", str(file))):
        rejected = command("tombstones", *words)

        sentence = "must be a client id, or a line of `tombstones save`"
        assert_rejected(rejected, f"{file}, line 2: {sentence}")
    assert file.read_text() == f"7\n{line}\n"
    assert run_read(settings.database, all_rows()) == before


@pytest.mark.sqlite_only
def test_a_file_that_cannot_be_written_is_reported(command: Command, tmp_path: Path) -> None:
    file = tmp_path / "none" / "erased"

    assert_rejected(
        command("tombstones", "save", str(file)), f"{file} cannot be written: No such file or directory"
    )


# --- after a restore of PostgreSQL ---


@pytest.fixture
def postgresql_copies(postgres: str) -> Iterator[Callable[[str], str]]:
    """Copies a database, as a dump and its restore do."""
    names = []

    def copy(url: str) -> str:
        names.append(f"copy_{uuid.uuid4().hex}")
        return create_database(postgres, names[-1], url.rpartition("/")[2])

    yield copy
    for name in names:
        drop_database(postgres, name)


@pytest.mark.parametrize("kind", ["postgresql"], indirect=True)
@pytest.mark.parametrize("saves_between", [True, False])
def test_the_wrong_backup_and_then_the_right_one_bring_nobody_back(
    command: Command,
    settings: Settings,
    postgresql_copies: Callable[[str], str],
    tmp_path: Path,
    saves_between: bool,
) -> None:
    """The steps of docs/operations.md, twice. The wrong backup contains none of these people."""
    file = tmp_path / "erased"
    wrong = postgresql_copies(settings.database)
    load(settings.database, a_world())
    right = postgresql_copies(settings.database)
    erase_and_disable(command)

    command("tombstones", "save", str(file))
    first = command("tombstones", "apply", str(file), database_url=wrong)
    if saves_between:
        command("tombstones", "save", str(file), database_url=wrong)
    second = command("tombstones", "apply", str(file), database_url=right)
    again = command("tombstones", "apply", str(file), database_url=right)

    assert [one.stdout for one in (first, second, again)] == [
        "clients erased again: none\n",
        "clients erased again: 2\ncaregiver accounts disabled again: 2\n",
        "clients erased again: none\n",
    ]
    assert raw.run(right, PEOPLE) == [(1, "Zoë Client 1", False), (2, "erased", True)]
    assert raw.run(right, CAREGIVERS) == [(1, False), (2, True)]
    assert raw.run(right, TITLES) == [("",)]
    assert raw.run(wrong, PEOPLE) == []
    listed = command("erase", "--list", database_url=wrong).stdout
    assert [line.split("\t")[0] for line in listed.splitlines()] == ["2"]
    assert command("verify", database_url=right).stdout == "0 differences\n"


@starting_with(a_world)
def test_lists_of_erased_clients_are_applied_and_audited(
    command: Command, settings: Settings, tmp_path: Path
) -> None:
    """An operator may have edited them: blanks and blank lines do not matter."""
    file, other = tmp_path / "erased", tmp_path / "later"
    file.write_bytes(b"2 \r\n\r\n  99\n")
    other.write_text("98\n")

    result = command("tombstones", "apply", str(file), str(other))

    assert (result.exit_code, result.output) == (0, "clients erased again: 2\n")
    assert [tuple(row) for row in raw.run(settings.database, TITLES)] == [("",)]
    operations = "SELECT operation FROM audit_record ORDER BY id"
    assert [row[0] for row in raw.run(settings.database, operations)] == ["erase", "restore"]


@pytest.mark.parametrize(("role", "are_apart"), [("caregiver", True), ("client", False)])
@starting_with(a_world)
def test_of_two_lines_about_one_account_the_later_decision_is_applied(
    command: Command, settings: Settings, tmp_path: Path, role: str, are_apart: bool
) -> None:
    """The lines may be in one file or in several. People of the other role have the same ids."""
    later = moment_as_text(NOW + HOUR)
    lines = (f"2\tdisabled\t{later}", f"2\tenabled\t{NOW_TEXT}", f"1\tdisabled\t{NOW_TEXT}")
    files = [tmp_path / (str(number) if are_apart else "all") for number in range(len(lines))]
    for file, line in zip(files, lines, strict=True):
        with file.open("a") as opened:
            opened.write(f"{role}\t{line}\n")
    raw.run(settings.database, f"UPDATE {role} SET name = 'Changed last' WHERE id = 1")

    result = command("tombstones", "apply", *map(str, dict.fromkeys(files)))

    assert (result.exit_code, result.stdout.splitlines()[1:]) == (
        0,
        [f"{role} accounts disabled again: 1, 2"],
    )
    disabled = {
        each: [row[0] for row in raw.run(settings.database, f"SELECT id FROM {each} WHERE is_disabled")]
        for each in ("caregiver", "client")
    }
    assert {each: sorted(ids) for each, ids in disabled.items()} == {"caregiver": [], "client": []} | {
        role: [1, 2]
    }


@pytest.mark.sqlite_only
@starting_with(a_world)
def test_a_repeated_decision_counts_from_its_last_moment(
    command: Command, settings: Settings, tmp_path: Path
) -> None:
    file = tmp_path / "list"
    for state, hours in (("disabled", 0), ("disabled", 2), ("enabled", 1)):
        file.write_text(f"caregiver\t2\t{state}\t{moment_as_text(NOW + hours * HOUR)}\n")
        assert command("tombstones", "apply", str(file)).exit_code == 0

    assert raw.run(settings.database, CAREGIVERS) == [(1, 0), (2, 1)]


@pytest.mark.sqlite_only
@starting_with(a_world)
def test_a_list_that_is_applied_again_cleans_the_database_file(
    command: Command, settings: Settings, tmp_path: Path
) -> None:
    """The first run may have ended after the erasure and before the cleaning."""
    list_file, path = tmp_path / "erased", sqlite_path(settings.database)
    list_file.write_text("2\n")
    command("tombstones", "apply", str(list_file))
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute("PRAGMA secure_delete = OFF")
        connection.execute(f"UPDATE session SET description = '{'Geheim ' * 2000}' WHERE id = 1")
        connection.execute("UPDATE session SET description = ''")
    before = path.read_bytes()

    again = command("tombstones", "apply", str(list_file))

    assert (again.exit_code, again.output) == (0, "clients erased again: none\n")
    assert (b"Geheim" in before, b"Geheim" in path.read_bytes()) == (True, False)


OF_CAREGIVER_7 = f"caregiver\t7\tdisabled\t{NOW_TEXT}\n"


@pytest.mark.parametrize(
    ("role", "tombstones"),
    [
        (("client", "--oppt-id", "O-1"), "2\n1\n"),
        (("client", "--oppt-id", "O-1"), f"client\t2\tdisabled\t{NOW_TEXT}\n1\n{OF_CAREGIVER_7}"),
        (("caregiver", "--position", "P"), f"caregiver\t2\tenabled\t{NOW_TEXT}\n9\n"),
    ],
    ids=["erased", "disabled", "enabled"],
)
def test_no_new_person_gets_the_id_of_a_tombstone(
    command: Command, tmp_path: Path, role: tuple[str, ...], tombstones: str
) -> None:
    file = tmp_path / "erased"
    file.write_text(tombstones)

    command("tombstones", "apply", str(file))
    added = command("account", "add", "--user", "new", "--name", "New", "--role", *role)

    assert (added.exit_code, added.stdout) == (0, "3\n")


@starting_with(a_world)
def test_an_older_tombstone_gives_no_id_twice(command: Command, settings: Settings, tmp_path: Path) -> None:
    """Ids up to 900 were given, to clients who are gone."""
    run_write(settings.database, skipping_ids("client", 900))
    file = tmp_path / "erased"
    file.write_text("1\n")

    command("tombstones", "apply", str(file))
    added = command(
        "account", "add", "--role", "client", "--user", "new", "--name", "New", "--oppt-id", "O-1"
    )

    assert (added.exit_code, added.stdout) == (0, "901\n")


@pytest.mark.parametrize("first", [TombstoneState.DISABLED, TombstoneState.ENABLED])
def test_of_two_decisions_at_one_moment_disabled_wins(first: TombstoneState) -> None:
    person = ("CAREGIVER", 2)
    states = sorted([TombstoneState.DISABLED, TombstoneState.ENABLED], key=lambda state: state is not first)

    found = merged(*({person: Mark(state, NOW)} for state in states))

    assert found == {person: Mark(TombstoneState.DISABLED, NOW)}


@pytest.mark.parametrize("order", [1, -1])
def test_of_two_erasures_the_first_has_the_moment(order: int) -> None:
    first, second = (Mark(TombstoneState.ERASED, moment) for moment in (NOW, NOW + HOUR))
    given = [{("CLIENT", 1): mark} for mark in (first, second)][::order]

    assert merged(*given) == {("CLIENT", 1): first}


def test_a_decision_after_one_of_a_clock_that_was_ahead_wins(database_url: str) -> None:
    """In the database, and when a restore merges it with that of the backup."""
    person, ahead = ("CAREGIVER", 2), Mark(TombstoneState.ENABLED, NOW + HOUR)
    for mark in (ahead, Mark(TombstoneState.DISABLED, NOW)):
        run_write(database_url, saving_tombstone(*person, mark))

    found = run_read(database_url, reading_tombstones())

    assert found[person].state is TombstoneState.DISABLED
    assert merged({person: ahead}, found)[person].state is TombstoneState.DISABLED


def test_an_erasure_is_not_overwritten(database_url: str) -> None:
    """Two commands may save a tombstone of the same client at once."""
    for state in (TombstoneState.ERASED, TombstoneState.DISABLED):
        run_write(database_url, saving_tombstone("CLIENT", 2, Mark(state, NOW)))

    assert run_read(database_url, reading_tombstones()) == {("CLIENT", 2): Mark(TombstoneState.ERASED, NOW)}


# --- imports ---


def import_lines(command: Command, tmp_path: Path, *records: Record) -> list[str]:
    file = tmp_path / "more.jsonl"
    file.write_bytes(b"\n".join(lines(records)))
    result = command("import", str(file))
    found = result.stderr.splitlines()
    return [one.removeprefix(f"care-gateway: {file}, ") for one in found if one.startswith("care-gateway: ")]


@starting_with(a_world)
def test_rows_of_an_erased_client_are_not_imported(
    command: Command, settings: Settings, tmp_path: Path
) -> None:
    erase_and_disable(command)
    before = run_read(settings.database, all_rows())

    mistakes = import_lines(
        command,
        tmp_path,
        a_client(2, opptId="OPPT-9", userName="back"),
        a_session(9, client=2, title="Very private"),
        an_assignment(9, session=9),
        an_assignment(8, session=4),
        an_answer_set(9, assignment=4, saveType="DRAFT"),
        a_session(10, caregiver=2, client=1),  # the caregiver with the id of the client
    )

    assert mistakes[1:] == [
        "line 2: clientId: client 2 is erased",
        "line 4: sessionId: client 2 is erased",
        "line 5: assignmentId: client 2 is erased",
    ]
    assert run_read(settings.database, all_rows()) == before


@pytest.mark.parametrize(("number_of_people", "member"), [(4, "id"), (3, "clientId")])
def test_an_erased_client_who_is_missing_after_a_restore_is_not_imported(
    command: Command, settings: Settings, tmp_path: Path, number_of_people: int, member: str
) -> None:
    file = tmp_path / "erased"
    file.write_text("2\n9\n")
    command("tombstones", "apply", str(file))
    before = run_read(settings.database, all_rows())
    sessions = [a_session(number, client=client) for number, client in ((9, 2), (8, 9))]

    mistakes = import_lines(command, tmp_path, *people()[:number_of_people], *sessions)

    assert mistakes == [
        f"line 4: {member}: client 2 is erased",
        f"line {number_of_people + 2}: clientId: client 9 is erased",
    ]
    assert run_read(settings.database, all_rows()) == before


def test_a_disabled_person_who_is_missing_after_a_restore_is_imported_disabled(
    command: Command, settings: Settings, tmp_path: Path
) -> None:
    file = tmp_path / "disabled"
    file.write_text(f"caregiver\t2\tdisabled\t{NOW_TEXT}\nclient\t1\tdisabled\t{NOW_TEXT}\n")
    command("tombstones", "apply", str(file))

    assert import_lines(command, tmp_path, *people()) == []

    disabled = [tuple(map(bool, row)) for row in raw.run(settings.database, CAREGIVERS)]
    assert [row[1] for row in disabled] == [False, True]
    states = raw.run(settings.database, "SELECT is_disabled FROM client ORDER BY id")
    assert [bool(row[0]) for row in states] == [True, False]
