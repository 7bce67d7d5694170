"""Promise: `migrate` can be repeated, and `verify` finds wrong counters."""

from pathlib import Path

import pytest

from app.db.admin.migrate import newest_version, stored_version
from app.db.drivers.interface import location_of, sqlite_path
from app.settings import Settings
from tests.callers import run_read
from tests.cli.conftest import Command, assert_rejected
from tests.db import raw
from tests.factories import a_world, starting_with


@pytest.mark.sqlite_only
def test_migrate_creates_a_database_and_can_be_repeated(command: Command, tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/some/folder/care.db"

    result = [command("migrate", database_url=url) for _ in range(2)]

    newest = newest_version()
    place = f"{tmp_path}/some/folder/care.db"
    assert [(one.exit_code, one.output) for one in result] == [
        (0, f"{place}: migrated from an empty database to version {newest}\n"),
        (0, f"{place}: the schema is already at version {newest}\n"),
    ]
    assert run_read(url, stored_version()) == newest
    assert (tmp_path / "some/folder/care.db").stat().st_mode & 0o777 == 0o600


@pytest.mark.sqlite_only
def test_a_path_is_no_uri(command: Command, tmp_path: Path) -> None:
    """Characters with a meaning in a URI are part of the name."""
    folder = tmp_path / "care #1 %41"
    url, copy, empty = f"sqlite:///{folder}/care.db", folder / "copy #1?.db", tmp_path / "empty"
    empty.touch()
    client = ("--role", "client", "--user", "new", "--name", "New", "--oppt-id", "O-1")

    for words in (
        ("migrate",),
        ("account", "add", *client),
        ("backup", str(copy)),
        ("restore", str(copy), "--erased", str(empty)),
        ("verify",),
    ):
        result = command(*words, database_url=url)
        assert (result.exit_code, result.stderr) == (0, ""), words

    assert raw.run(url, "SELECT name FROM client") == [("New",)]
    assert [each.name for each in tmp_path.iterdir() if each.name.startswith("care ")] == ["care #1 %41"]


@starting_with(a_world)
def test_migrate_keeps_existing_rows(command: Command, settings: Settings) -> None:
    before = raw.row_counts(settings.database)

    result = command("migrate")

    assert (result.exit_code, result.stderr) == (0, "")
    assert result.stdout.startswith(f"{location_of(settings.database)}: the schema is already at version ")
    assert raw.row_counts(settings.database) == before
    assert (before["session"], before["assignment"]) == (5, 5)


@pytest.mark.sqlite_only
def test_migrate_reports_an_unreachable_server_in_one_line(command: Command) -> None:
    rejected = command("migrate", database_url="postgresql://care@127.0.0.1:1/care")

    assert (rejected.exit_code, rejected.stdout, len(rejected.stderr.splitlines())) == (2, "", 1)
    assert rejected.stderr.startswith("care-gateway: the PostgreSQL database cannot be opened: ")


@pytest.mark.sqlite_only
def test_migrate_does_not_change_a_file_that_is_no_database(command: Command, tmp_path: Path) -> None:
    path = tmp_path / "letter.txt"
    path.write_text("Dear all, this is not a database." * 50)

    rejected = command("migrate", database_url=f"sqlite:///{path}")

    assert_rejected(rejected, f"the database at {path} cannot be created: file is not a database")
    assert path.read_text() == "Dear all, this is not a database." * 50


@pytest.mark.parametrize(
    ("url", "place"),
    [
        (
            "postgresql://care:secret@db.example.test:5433/care?sslmode=require&password=secret",
            "db.example.test:5433/care",
        ),
        ("postgresql://care:se%2Fcret@db.example.test/care", "db.example.test/care"),
        ("postgresql://care:se@cret@db.example.test/care", "db.example.test/care"),
        ("postgresql://care@db.example.test/our%20care", "db.example.test/our care"),
        *(
            (f"postgresql://care:5{unescaped}s=cret@db.example.test/care", "PostgreSQL")
            for unescaped in "/?#"
        ),
        ("sqlite:////srv/care/care.db", "/srv/care/care.db"),
        ("sqlite:///var/care.db", str(Path("var/care.db").absolute())),
    ],
)
def test_the_location_of_a_database_has_no_user_and_password(url: str, place: str) -> None:
    assert location_of(url) == place


# --- verify ---


@starting_with(a_world)
def test_verify_prints_wrong_counters(command: Command, settings: Settings) -> None:
    wrong = "UPDATE session SET assignment_count = 9, last_assignment_score = 3 WHERE id = 4"
    raw.run(settings.database, wrong)

    result = command("verify")

    assert result.exit_code == 1
    assert result.stdout.splitlines() == [
        "session 4: assignment_count is 9, should be 1",
        "session 4: last_assignment_score is 3, should be None",
        "2 differences",
    ]


@starting_with(a_world)
def test_verify_finds_no_differences_in_correct_counters(command: Command, settings: Settings) -> None:

    result = command("verify")

    assert (result.exit_code, result.output) == (0, "0 differences\n")


@starting_with(a_world)
@pytest.mark.parametrize("kind", ["sqlite"], indirect=True)
@pytest.mark.parametrize("table", ["alembic_version", "assignment"])
def test_verify_reports_a_damaged_file_in_one_line(command: Command, settings: Settings, table: str) -> None:
    [(page, size)] = raw.run(
        settings.database,
        "PRAGMA wal_checkpoint(TRUNCATE)",
        f"SELECT rootpage, page_size FROM sqlite_schema, pragma_page_size WHERE name = '{table}'",
    )
    with sqlite_path(settings.database).open("r+b") as file:
        file.seek((page - 1) * size)
        file.write(b"\xff" * size)

    assert_rejected(command("verify"), "database error: database disk image is malformed")
