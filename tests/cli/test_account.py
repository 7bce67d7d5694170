"""Promise: operators add, link, list, disable and enable accounts; a rejected command changes nothing."""

import errno
from pathlib import Path

import pytest

from app.db.drivers.interface import sqlite_path
from tests.callers import load
from tests.cli.conftest import Command, assert_rejected
from tests.factories import a_caregiver, a_client

MARA = ("--role", "caregiver", "--user", "mara.lind@example.test")
JONAS = ("--role", "client", "--user", "jonas.berg@example.test")


def add_both(command: Command) -> list[str]:
    added = [
        command("account", "add", *MARA, "--name", "Mara Lind", "--position", "Psychologist"),
        command("account", "add", *JONAS, "--name", "Jonas Berg", "--oppt-id", "OPPT-1"),
    ]
    assert [(one.exit_code, one.stderr) for one in added] == [(0, "")] * 2
    return [one.stdout for one in added]


def listed(command: Command) -> list[list[str]]:
    result = command("account", "list")
    assert (result.exit_code, result.stderr) == (0, "")
    return [line.split("\t") for line in result.stdout.splitlines()]


def test_adding_an_account_prints_its_id(command: Command) -> None:
    assert add_both(command) == ["1\n", "1\n"]

    assert listed(command) == [
        ["caregiver", "1", "mara.lind@example.test", "enabled"],
        ["client", "1", "jonas.berg@example.test", "enabled"],
    ]


def test_ids_continue_after_imported_ids(command: Command, database_url: str) -> None:
    load(database_url, [a_caregiver(41), a_client(7)])

    assert add_both(command) == ["42\n", "8\n"]


@pytest.mark.sqlite_only
def test_the_list_can_be_empty(command: Command, database_url: str) -> None:
    load(database_url, [a_client(1, userName=None)])

    assert listed(command) == []


def test_a_user_name_controls_no_terminal(command: Command, database_url: str) -> None:
    load(database_url, [a_client(1, userName="a\x1b[2Jb\tc\nd ü")])

    assert command("account", "list").stdout == "client\t1\ta [2Jb c d ü\tenabled\n"


def test_an_imported_account_with_any_user_name_can_be_disabled(command: Command, database_url: str) -> None:
    names = ["a\x1b[2Jb", " "]
    load(database_url, [a_client(number, userName=name) for number, name in enumerate(names, 1)])

    disabled = [command("account", "disable", "--role", "client", "--user", name).output for name in names]

    assert disabled == ["client 1, a [2Jb, is disabled\n", "client 2, , is disabled\n"]
    assert [row[3] for row in listed(command)] == ["disabled", "disabled"]


def test_an_account_is_disabled_and_enabled_again(command: Command) -> None:
    add_both(command)

    disabled = command("account", "disable", *MARA)
    after = listed(command)
    enabled = command("account", "enable", *MARA)

    assert [(one.exit_code, one.output) for one in (disabled, enabled)] == [
        (0, "caregiver 1, mara.lind@example.test, is disabled\n"),
        (0, "caregiver 1, mara.lind@example.test, is enabled\n"),
    ]
    assert [row[3] for row in after] == ["disabled", "enabled"]
    assert [row[3] for row in listed(command)] == ["enabled", "enabled"]


def test_the_list_is_in_the_order_of_the_ids(command: Command, database_url: str) -> None:
    load(database_url, [a_caregiver(3), a_caregiver(1), a_caregiver(2), a_client(4)])
    command("account", "disable", "--role", "caregiver", "--user", "caregiver-1")

    assert [row[:2] for row in listed(command)] == [
        ["caregiver", "1"],
        ["caregiver", "2"],
        ["caregiver", "3"],
        ["client", "4"],
    ]


DUPLICATES = {
    "caregiver": (
        (*MARA, "--name", "Other", "--position", "Therapist"),
        "caregiver 1 has the user name mara.lind@example.test already",
    ),
    "client": (
        (*JONAS, "--name", "Other", "--oppt-id", "OPPT-2"),
        "client 1 has the user name jonas.berg@example.test already",
    ),
    "identifier": (
        ("--role", "client", "--user", "other", "--name", "Other", "--oppt-id", "OPPT-1"),
        "client 1 has the identifier OPPT-1 already",
    ),
    "identifier that client 1 gets by an erasure": (
        ("--role", "client", "--user", "other", "--name", "Other", "--oppt-id", "erased-1"),
        "erased-1 can only be the identifier of an erased client",
    ),
}


@pytest.mark.once_on_postgresql
@pytest.mark.parametrize("name", DUPLICATES)
def test_a_duplicate_user_name_or_identifier_is_rejected(command: Command, name: str) -> None:
    words, sentence = DUPLICATES[name]
    add_both(command)
    before = listed(command)

    rejected = command("account", "add", *words)

    assert_rejected(rejected, sentence)
    assert listed(command) == before


@pytest.mark.once_on_postgresql
@pytest.mark.parametrize("name", ["disable", "enable"])
@pytest.mark.parametrize(
    "who", [("--role", "caregiver", "--user", "nobody"), ("--role", "client", *MARA[2:])]
)
def test_a_missing_account_is_rejected(command: Command, name: str, who: tuple[str, ...]) -> None:
    add_both(command)
    before = listed(command)

    assert_rejected(command("account", name, *who), "there is no such account in this role")

    assert listed(command) == before


@pytest.mark.sqlite_only
def test_a_reader_that_leaves_is_no_error(command: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    """For example `care-gateway account list | head -1`."""
    add_both(command)
    errors = []

    def write_to_closed_pipe(message: object = None, err: bool = False) -> None:
        if not err:
            raise BrokenPipeError(errno.EPIPE, "Broken pipe")
        errors.append(message)

    monkeypatch.setattr("click.echo", write_to_closed_pipe)
    result = command("account", "list")

    assert (result.exit_code, result.output, errors) == (1, "", [])


@pytest.mark.parametrize("kind", ["sqlite"], indirect=True)
@pytest.mark.parametrize("words", [("account", "list"), ("account", "disable", *MARA), ("doctor",)])
def test_a_command_closes_the_database(command: Command, database_url: str, words: tuple[str, ...]) -> None:
    """SQLite removes the files beside it when the last connection ends, also after an error."""
    path = sqlite_path(database_url)

    command(*words)

    assert sorted(each.name for each in path.parent.glob(f"{path.name}*")) == [path.name]


@pytest.mark.parametrize("kind", ["postgresql"], indirect=True)
def test_a_command_waits_longer_for_locks_than_a_request(
    command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("app.db.drivers.postgres.LIMITED_CHANGE", "SELECT 1 / 0")  # of a request

    assert add_both(command) == ["1\n", "1\n"]


# --- link ---


def test_an_account_is_added_to_an_existing_person(command: Command, database_url: str) -> None:
    load(
        database_url, [a_caregiver(7, userName=None), *(a_client(each, userName=None) for each in (6, 7, 8))]
    )

    result = command("account", "link", "--id", "7", *JONAS)

    assert (result.exit_code, result.output) == (0, "client 7 signs in as jonas.berg@example.test\n")
    assert listed(command) == [["client", "7", "jonas.berg@example.test", "enabled"]]


IMPOSSIBLE = {
    "unknown id": (("--id", "9", *JONAS), "there is no person with this id in this role"),
    "has an account": (("--id", "1", *JONAS), "this person has an account already"),
    "taken user name": (("--id", "2", "--role", "client", "--user", "client-1"), "this user name is taken"),
    "an erased client": (("--id", "3", *JONAS), "this client is erased"),
}


@pytest.mark.once_on_postgresql
@pytest.mark.parametrize("name", IMPOSSIBLE)
def test_an_impossible_link_is_rejected(command: Command, database_url: str, name: str) -> None:
    words, sentence = IMPOSSIBLE[name]
    load(database_url, [a_client(1), a_client(2, userName=None), a_client(3)])
    assert command("erase", "--id", "3", "--yes").exit_code == 0
    before = listed(command)

    assert_rejected(command("account", "link", *words), sentence)

    assert listed(command) == before


COMMANDS = {
    "add": ("account", "add", *MARA, "--name", "x", "--position", "y"),
    "link": ("account", "link", "--id", "1", *MARA),
    "list": ("account", "list"),
    "disable": ("account", "disable", *MARA),
    "enable": ("account", "enable", *MARA),
    "verify": ("verify",),
}


@pytest.mark.sqlite_only
@pytest.mark.parametrize("name", COMMANDS)
def test_a_missing_database_is_not_created(command: Command, tmp_path: Path, name: str) -> None:
    path = tmp_path / "none.db"

    rejected = command(*COMMANDS[name], database_url=f"sqlite:///{path}")

    assert_rejected(rejected, f"there is no database at {path}; run `care-gateway migrate` first")
    assert not path.exists()


@pytest.mark.sqlite_only
@pytest.mark.parametrize("name", COMMANDS)
def test_an_unreachable_database_is_reported_in_one_line(command: Command, name: str) -> None:
    rejected = command(*COMMANDS[name], database_url="postgresql://care@127.0.0.1:1/care")

    assert (rejected.exit_code, rejected.stdout, len(rejected.stderr.splitlines())) == (2, "", 1)
    assert rejected.stderr.startswith("care-gateway: the PostgreSQL database cannot be opened: ")
