"""Promise: `erase` asks for confirmation, and leaves no private text in any file of the database."""

import asyncio
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from app.cli import main
from app.db.admin.erasing import clean
from app.db.drivers.interface import DatabaseError, sqlite_path
from app.settings import Settings
from tests.callers import load, run_read
from tests.cli.conftest import Command, assert_rejected
from tests.database_rows import all_rows
from tests.db import raw
from tests.factories import a_world, starting_with
from tests.lifecycle import PRIVATE, load_one_client, one_client

ERASED = "client 1 is erased: 3 sessions, 4 answers, 1 feedback, 1 draft"
on_sqlite = pytest.mark.parametrize("kind", ["sqlite"], indirect=True)
on_postgresql = pytest.mark.parametrize("kind", ["postgresql"], indirect=True)


def erase_with_input(settings: Settings, text: str, *words: str) -> Result:
    """Runs the command with this input."""
    return CliRunner().invoke(
        main, ["erase", *words], input=text, env={"CARE_DATABASE_URL": settings.database}
    )


def name_of(settings: Settings) -> str:
    return str(raw.run(settings.database, "SELECT name FROM client WHERE id = 1")[0][0])


def reminder(settings: Settings) -> str:
    """On SQLite `restore` reads the erased clients from the replaced database."""
    if settings.database.startswith("sqlite:"):
        return ""
    return "now run care-gateway tombstones save FILE: a restore needs it\n"


# --- confirmation ---


@pytest.mark.once_on_postgresql
@pytest.mark.parametrize(
    ("option", "name"), [("--client", "client-1"), ("--client", " of an import "), ("--id", "1")]
)
def test_typing_the_name_or_id_confirms(settings: Settings, option: str, name: str) -> None:
    load_one_client(settings.database)
    if option == "--client":
        raw.run(settings.database, f"UPDATE client SET user_name = '{name}' WHERE id = 1")

    result = erase_with_input(settings, f"{name}\n", option, name)

    assert (result.exit_code, result.stderr) == (0, reminder(settings))
    assert result.stdout.splitlines() == [
        "Client 1, Zoë Client 1: erasing cannot be undone.",
        f"Type {name} to erase: {name}",
        ERASED,
    ]
    assert name_of(settings) == "erased"


@pytest.mark.sqlite_only
@pytest.mark.parametrize("answer", ["client-2\n", "yes\n", "Client-1\n", "client-1 \n"])
def test_another_input_erases_nothing(settings: Settings, answer: str) -> None:
    load_one_client(settings.database)
    before = run_read(settings.database, all_rows())

    result = erase_with_input(settings, answer, "--client", "client-1")

    assert (result.exit_code, result.stderr) == (
        2,
        "care-gateway: the input does not match; nothing was erased\n",
    )
    assert run_read(settings.database, all_rows()) == before


@pytest.mark.sqlite_only
def test_the_name_in_the_question_controls_no_terminal(settings: Settings) -> None:
    load_one_client(settings.database)
    raw.run(settings.database, "UPDATE client SET name = 'Zoë\x1b[2J\nClient' WHERE id = 1")

    result = erase_with_input(settings, "no\n", "--id", "1")

    assert result.stdout.splitlines()[0] == "Client 1, Zoë [2J Client: erasing cannot be undone."


@pytest.mark.sqlite_only
def test_no_input_erases_nothing(settings: Settings) -> None:
    load_one_client(settings.database)
    before = run_read(settings.database, all_rows())

    result = erase_with_input(settings, "", "--client", "client-1")

    assert (result.exit_code, result.stderr) == (2, "\ncare-gateway: aborted\n")
    assert run_read(settings.database, all_rows()) == before


def test_yes_skips_the_confirmation_and_the_id_erases_again(command: Command, settings: Settings) -> None:
    load_one_client(settings.database)

    first = command("erase", "--client", "client-1", "--yes")
    after = run_read(settings.database, all_rows())
    by_name = command("erase", "--client", "client-1", "--yes")
    by_id = command("erase", "--id", "1", "--yes")

    assert (first.exit_code, first.output) == (0, f"{ERASED}\n{reminder(settings)}")
    assert_rejected(by_name, "there is no client with this user name (--id takes an id)")
    repeated = "client 1 is erased: 3 sessions, 0 answers, 0 feedbacks, 0 drafts\n"
    assert (by_id.exit_code, by_id.output) == (0, repeated + reminder(settings))
    assert run_read(settings.database, all_rows()) == after
    assert command("verify").output == "0 differences\n"


@starting_with(a_world)
@pytest.mark.once_on_postgresql
@pytest.mark.parametrize(
    ("who", "message"),
    [
        (("--client", "caregiver-1"), "there is no client with this user name (--id takes an id)"),
        (("--id", "9"), "there is no client with this id"),
    ],
)
def test_an_unknown_client_is_rejected(
    command: Command, settings: Settings, who: tuple[str, str], message: str
) -> None:
    assert_rejected(command("erase", *who, "--yes"), message)


@starting_with(a_world)
def test_erased_clients_are_listed_in_the_order_of_their_ids(command: Command) -> None:
    for client in ("2", "1"):
        command("erase", "--id", client, "--yes")

    listed = command("erase", "--list")

    assert [line.partition("\t")[0] for line in listed.output.splitlines()] == ["1", "2"]


# --- the files ---


def files_of(settings: Settings) -> Iterator[Path]:
    path = sqlite_path(settings.database)
    yield from (file for file in path.parent.glob(f"{path.name}*") if file.is_file())


def found_in_files(settings: Settings) -> set[str]:
    """The private words in the files of the database, including unused pages."""
    content = b"".join(file.read_bytes() for file in files_of(settings))
    return {word for word in PRIVATE if word.encode() in content}


@on_sqlite
def test_no_file_of_the_database_contains_an_erased_word(command: Command, settings: Settings) -> None:
    load_one_client(settings.database)
    assert found_in_files(settings) == set(PRIVATE)

    command("erase", "--client", "client-1", "--yes")

    assert found_in_files(settings) == set()
    assert run_read(settings.database, all_rows())["client"][1]["name"] == "Zoë Client 2"


@on_sqlite
def test_copies_on_unused_pages_are_erased(command: Command, settings: Settings) -> None:
    """Deleted rows of a database without secure_delete stay in their pages. Another process has the database
    open, so the end of the command does not copy the log to the file."""
    load(settings.database, one_client())
    with closing(sqlite3.connect(sqlite_path(settings.database), isolation_level=None)) as connection:
        connection.execute("PRAGMA secure_delete = OFF")
        connection.execute(f"UPDATE answer_set SET answers = '{'Blue-bicycle ' * 8000}'")
        connection.execute("UPDATE answer_set SET answers = '[]'")
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        before = b"".join(file.read_bytes() for file in files_of(settings)).count(b"Blue-bicycle")
        assert before > 1000

        command("erase", "--client", "client-1", "--yes")

        assert found_in_files(settings) == set()


@on_sqlite
def test_the_write_ahead_log_is_emptied_while_the_database_is_open_elsewhere(
    command: Command, settings: Settings
) -> None:
    load_one_client(settings.database)
    with closing(sqlite3.connect(sqlite_path(settings.database))) as connection:
        assert connection.execute("SELECT name FROM client WHERE id = 1").fetchall() == [("Zoë Client 1",)]

        result = command("erase", "--client", "client-1", "--yes")

        assert (result.exit_code, result.output) == (0, f"{ERASED}\n")
        assert {file.name for file in files_of(settings)} == {"care.db", "care.db-wal", "care.db-shm"}
        assert found_in_files(settings) == set()
        assert connection.execute("SELECT name FROM client WHERE id = 1").fetchall() == [("erased",)]


@on_sqlite
def test_a_read_that_keeps_the_old_pages_is_reported(
    command: Command, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    """New reads find the client erased; the next run cleans the files."""
    monkeypatch.setattr("app.db.drivers.sqlite.BUSY_SECONDS", 0)
    load_one_client(settings.database)
    with closing(sqlite3.connect(sqlite_path(settings.database), isolation_level=None)) as connection:
        connection.execute("BEGIN")
        connection.execute("SELECT name FROM client").fetchall()

        result = command("erase", "--client", "client-1", "--yes")

        assert_rejected(
            result,
            "the client is erased, but the database files still contain the old data (a long read holds the "
            "write-ahead log); run `care-gateway erase --id 1` again",
        )
        assert name_of(settings) == "erased"

    again = command("erase", "--id", "1", "--yes")

    assert again.exit_code == 0
    assert found_in_files(settings) == set()


@on_postgresql
def test_on_postgresql_old_versions_of_rows_are_vacuumed(command: Command, settings: Settings) -> None:
    """PostgreSQL estimates the rows of a table only after it was vacuumed. Its scheme has two names."""
    load_one_client(settings.database)
    url = settings.database_url.replace("postgresql://", "postgres://")

    result = command("erase", "--client", "client-1", "--yes", database_url=url)

    assert result.stderr == reminder(settings)
    counted = "SELECT relname FROM pg_class WHERE relkind = 'r' AND reltuples >= 0"
    assert {row[0] for row in raw.run(settings.database, counted)} >= {
        "client", "session", "reminder", "answer_set", "feedback", "delivery", "idempotency_key",
    }  # fmt: skip


def test_a_database_that_fails_before_its_files_are_cleaned_is_reported() -> None:
    with pytest.raises(DatabaseError) as raised:
        asyncio.run(clean("postgresql://care@127.0.0.1:1/care", 7))

    assert str(raised.value).startswith(
        "the client is erased, but the database files still contain the old data ("
    )
    assert str(raised.value).endswith("); run `care-gateway erase --id 7` again")
