"""Promise: `erase` asks before it erases, and leaves nothing of what was said in any file of the database."""

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
from tests.cli.conftest import Command, assert_sentence
from tests.database_rows import all_rows
from tests.db import raw
from tests.factories import a_world
from tests.lifecycle import PRIVATE, load_one_client, one_client

ERASED = "client 1 is erased: 3 sessions, 4 answers, 1 feedback, 1 draft"
on_sqlite = pytest.mark.parametrize("kind", ["sqlite"], indirect=True)
on_postgresql = pytest.mark.parametrize("kind", ["postgresql"], indirect=True)


def typed(settings: Settings, typed: str, *words: str) -> Result:
    """The command, and what somebody types when it asks."""
    return CliRunner().invoke(
        main, ["erase", *words], input=typed, env={"CARE_DATABASE_URL": settings.database}
    )


def name_of(settings: Settings) -> str:
    return str(raw.run(settings.database, "SELECT name FROM client WHERE id = 1")[0][0])


# --- asking ---


@pytest.mark.parametrize(("option", "called"), [("--client", "client-1"), ("--id", "1")])
def test_who_types_the_name_again_erases(settings: Settings, option: str, called: str) -> None:
    load_one_client(settings.database)

    said = typed(settings, f"{called}\n", option, called)

    assert (said.exit_code, said.stderr) == (0, "")
    assert said.stdout.splitlines() == [
        "Client 1, Zoë Client 1: erasing cannot be undone.",
        f"Type {called} to erase: {called}",
        ERASED,
    ]
    assert name_of(settings) == "erased"


@pytest.mark.parametrize("answer", ["client-2\n", "yes\n", "Client-1\n"])
def test_who_types_something_else_erases_nothing(settings: Settings, answer: str) -> None:
    load_one_client(settings.database)
    before = run_read(settings.database, all_rows())

    said = typed(settings, answer, "--client", "client-1")

    assert (said.exit_code, said.stderr) == (
        2,
        "care-gateway: the input does not match; nothing was erased\n",
    )
    assert run_read(settings.database, all_rows()) == before


def test_who_says_nothing_erases_nothing(settings: Settings) -> None:
    load_one_client(settings.database)
    before = run_read(settings.database, all_rows())

    said = typed(settings, "", "--client", "client-1")

    assert said.exit_code == 1
    assert said.stderr.endswith("Aborted!\n")
    assert run_read(settings.database, all_rows()) == before


def test_it_may_be_told_to_ask_nothing_and_be_repeated_by_the_number(
    command: Command, settings: Settings
) -> None:
    load_one_client(settings.database)

    first = command("erase", "--client", "client-1", "--yes")
    after = run_read(settings.database, all_rows())
    by_name = command("erase", "--client", "client-1", "--yes")
    by_number = command("erase", "--id", "1", "--yes")

    assert (first.exit_code, first.output) == (0, f"{ERASED}\n")
    assert_sentence(by_name, "there is no such client")
    repeated = "client 1 is erased: 3 sessions, 0 answers, 0 feedbacks, 0 drafts\n"
    assert (by_number.exit_code, by_number.output) == (0, repeated)
    assert run_read(settings.database, all_rows()) == after
    assert command("verify").output == "0 differences\n"


@pytest.mark.parametrize("words", [("--yes",), ("--client", "client-1", "--id", "1", "--yes")])
def test_one_client_is_named(command: Command, words: tuple[str, ...]) -> None:
    refused = command("erase", *words)

    assert (refused.exit_code, refused.stdout) == (2, "")
    assert refused.stderr.splitlines()[-1] == "Error: give either --client or --id"


@pytest.mark.parametrize("who", [("--client", "caregiver-1"), ("--id", "9")])
def test_a_client_that_is_not_there_is_refused(
    command: Command, settings: Settings, who: tuple[str, str]
) -> None:
    load(settings.database, a_world())

    assert_sentence(command("erase", *who, "--yes"), "there is no such client")


# --- the files ---


def files_of(settings: Settings) -> Iterator[Path]:
    path = sqlite_path(settings.database)
    yield from (file for file in path.parent.glob(f"{path.name}*") if file.is_file())


def found_in_files(settings: Settings) -> set[str]:
    """The private words that stand anywhere in the database's files, whatever part of them is in use."""
    held = b"".join(file.read_bytes() for file in files_of(settings))
    return {word for word in PRIVATE if word.encode() in held}


@on_sqlite
def test_no_file_of_the_database_holds_a_word_of_it(command: Command, settings: Settings) -> None:
    load_one_client(settings.database)
    assert found_in_files(settings) == set(PRIVATE)

    command("erase", "--client", "client-1", "--yes")

    assert found_in_files(settings) == set()
    assert run_read(settings.database, all_rows())["client"][1]["name"] == "Zoë Client 2"


@on_sqlite
def test_copies_on_pages_that_were_left_long_ago_go_too(command: Command, settings: Settings) -> None:
    """A database of the time when what was deleted stayed in its page."""
    load(settings.database, one_client())
    answers = [f"({n}, 1, 1, 1, 'How?', '{'Blue-bicycle ' * 40}')" for n in range(1000, 1200)]
    with closing(sqlite3.connect(sqlite_path(settings.database), isolation_level=None)) as connection:
        connection.execute("PRAGMA secure_delete = OFF")
        connection.execute(
            "INSERT INTO answer (answer_set_id, position, caregiver_id, client_id, question_text, answer)"
            f" VALUES {', '.join(answers)}"
        )
        connection.execute("DELETE FROM answer WHERE answer_set_id >= 1000")
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    before = b"".join(file.read_bytes() for file in files_of(settings)).count(b"Blue-bicycle")
    assert before > 1000

    command("erase", "--client", "client-1", "--yes")

    assert found_in_files(settings) == set()


@on_sqlite
def test_the_log_is_emptied_while_others_have_the_database_open(command: Command, settings: Settings) -> None:
    load_one_client(settings.database)
    with closing(sqlite3.connect(sqlite_path(settings.database))) as connection:
        assert connection.execute("SELECT name FROM client WHERE id = 1").fetchall() == [("Zoë Client 1",)]

        said = command("erase", "--client", "client-1", "--yes")

        assert (said.exit_code, said.output) == (0, f"{ERASED}\n")
        assert {file.name for file in files_of(settings)} == {"care.db", "care.db-wal", "care.db-shm"}
        assert found_in_files(settings) == set()
        assert connection.execute("SELECT name FROM client WHERE id = 1").fetchall() == [("erased",)]


@on_sqlite
def test_a_read_that_still_sees_it_is_told(
    command: Command, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The client is erased for everybody who asks from now on; the files are cleaned by the next time."""
    monkeypatch.setattr("app.db.drivers.sqlite.BUSY_SECONDS", 0)
    load_one_client(settings.database)
    with closing(sqlite3.connect(sqlite_path(settings.database), isolation_level=None)) as connection:
        connection.execute("BEGIN")
        connection.execute("SELECT name FROM client").fetchall()

        said = command("erase", "--client", "client-1", "--yes")

        assert_sentence(
            said,
            "the client is erased, but the database files still contain the old data (a long read holds the "
            "write-ahead log); run `care-gateway erase --id 1` again",
        )
        assert name_of(settings) == "erased"

    again = command("erase", "--id", "1", "--yes")

    assert again.exit_code == 0
    assert found_in_files(settings) == set()


@on_postgresql
def test_on_postgresql_old_versions_of_rows_are_vacuumed(command: Command, settings: Settings) -> None:
    """PostgreSQL does not know how many rows a table has that nobody vacuumed yet."""
    load_one_client(settings.database)

    command("erase", "--client", "client-1", "--yes")

    counted = "SELECT relname FROM pg_class WHERE relkind = 'r' AND reltuples >= 0"
    assert {row[0] for row in raw.run(settings.database, counted)} >= {
        "client", "session", "reminder", "answer_set", "answer", "feedback", "delivery", "kept_answer",
    }  # fmt: skip


def test_a_database_that_goes_away_before_its_files_are_clean_is_told() -> None:
    with pytest.raises(DatabaseError) as told:
        asyncio.run(clean("postgresql://care@127.0.0.1:1/care", 7))

    assert str(told.value).startswith(
        "the client is erased, but the database files still contain the old data ("
    )
    assert str(told.value).endswith("); run `care-gateway erase --id 7` again")
