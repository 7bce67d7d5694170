"""Promise: `migrate` can be repeated, `import` takes a file whole or not at all, `demo` fills an empty
database only, and `verify` finds a kept number that is wrong."""

from pathlib import Path

import orjson
import pytest
from sqlalchemy import func, select, update

from app.db.admin.demo import CAREGIVER, CLIENT
from app.db.admin.importing import is_empty
from app.db.admin.migrate import newest_version, stored_version
from app.db.drivers.interface import location_of, sqlite_path
from app.db.reader.entities import table_of
from app.db.sql import Operation, Statement
from app.db.tables import Assignment, Session
from app.settings import Settings
from tests.callers import load, run_read, run_write
from tests.cli.conftest import Command, assert_sentence
from tests.db import raw
from tests.factories import (
    NOW,
    Record,
    a_caregiver,
    a_client,
    a_session,
    a_world,
    an_answer_set,
    an_assignment,
    catalogue,
    lines,
    people,
)

COUNT = {
    table: Statement(lambda kind, t=table: select(func.count()).select_from(table_of(t)))
    for table in (Session, Assignment)
}  # type: ignore[misc]


def numbers() -> Operation[tuple[int, int]]:
    sessions = yield COUNT[Session], {}
    assignments = yield COUNT[Assignment], {}
    return sessions[0][0], assignments[0][0]


def test_migrate_makes_a_database_and_may_be_repeated(command: Command, tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/some/folder/care.db"

    said = [command("migrate", database_url=url) for _ in range(2)]

    newest = newest_version()
    place = f"{tmp_path}/some/folder/care.db"
    assert [(one.exit_code, one.output) for one in said] == [
        (0, f"{place}: migrated from an empty database to version {newest}\n"),
        (0, f"{place}: the schema is already at version {newest}\n"),
    ]
    assert run_read(url, stored_version()) == newest
    assert (tmp_path / "some/folder/care.db").stat().st_mode & 0o777 == 0o600


def test_migrate_leaves_what_is_there(command: Command, settings: Settings) -> None:
    load(settings.database, a_world())
    before = run_read(settings.database, numbers())

    said = command("migrate")

    assert (said.exit_code, said.stderr) == (0, "")
    assert said.stdout.startswith(f"{location_of(settings.database)}: the schema is already at version ")
    assert run_read(settings.database, numbers()) == before == (5, 5)


def test_migrate_tells_in_a_sentence_that_the_server_is_away(command: Command) -> None:
    refused = command("migrate", database_url="postgresql://care@127.0.0.1:1/care")

    assert (refused.exit_code, refused.stdout, len(refused.stderr.splitlines())) == (2, "", 1)
    assert refused.stderr.startswith("care-gateway: the PostgreSQL database cannot be opened: ")


def test_migrate_touches_no_file_of_another_kind(command: Command, tmp_path: Path) -> None:
    path = tmp_path / "letter.txt"
    path.write_text("Dear all, this is not a database." * 50)

    refused = command("migrate", database_url=f"sqlite:///{path}")

    assert_sentence(refused, f"the database at {path} cannot be made: file is not a database")
    assert path.read_text() == "Dear all, this is not a database." * 50


@pytest.mark.parametrize(
    ("url", "place"),
    [
        (
            "postgresql://care:secret@db.example.test:5433/care?sslmode=require&password=secret",
            "db.example.test:5433/care",
        ),
        ("postgresql://care:se%2Fcret@db.example.test/care", "db.example.test/care"),
        ("sqlite:////srv/care/care.db", "/srv/care/care.db"),
    ],
)
def test_a_database_is_named_without_who_opens_it(url: str, place: str) -> None:
    assert location_of(url) == place


# --- import ---


def test_import_loads_a_world_and_counts_it(command: Command, settings: Settings, tmp_path: Path) -> None:
    file = tmp_path / "world.jsonl"
    file.write_bytes(b"\n".join(lines(a_world())))

    said = command("import", str(file))

    assert (said.exit_code, said.stdout) == (
        0,
        "2 caregivers, 2 clients, 2 modules, 3 books, 5 sessions, 5 assignments, 3 answer sets\n",
    )
    assert run_read(settings.database, numbers()) == (5, 5)
    assert command("verify").stdout == "0 differences\n"


def test_an_empty_file_loads_nothing(command: Command, settings: Settings, tmp_path: Path) -> None:
    file = tmp_path / "empty.jsonl"
    file.write_text("\n\n")

    said = command("import", str(file))

    assert (said.exit_code, said.stdout) == (0, "nothing to load\n")
    assert run_read(settings.database, is_empty())


REFUSED = {
    "no JSON": (b'{"kind": ', "the line is not JSON"),
    "member missing": (orjson.dumps({"kind": "module", "id": 9}), "name "),
    "unknown parent": (
        b'{"kind":"book","id":9,"moduleId":77,"name":"x","isTest":false}',
        "moduleId 77 is not known before this line",
    ),
    "there already": (orjson.dumps(a_caregiver(1)), "id 1 is there already"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_a_line_that_cannot_be_taken_names_file_line_and_member_and_loads_nothing(
    command: Command, settings: Settings, tmp_path: Path, name: str
) -> None:
    line, reason = REFUSED[name]
    file = tmp_path / "world.jsonl"
    file.write_bytes(b"\n".join([*lines([a_caregiver(1)]), b"", line]))

    refused = command("import", str(file))

    assert (refused.exit_code, refused.stdout) == (2, "")
    assert refused.stderr.splitlines()[-1].startswith(f"care-gateway: {file}, line 3: {reason}")
    assert "Traceback" not in refused.stderr
    assert run_read(settings.database, is_empty())


def refused_lines(command: Command, tmp_path: Path, *records: Record) -> list[str]:
    file = tmp_path / "world.jsonl"
    file.write_bytes(b"\n".join(lines(records)))
    refused = command("import", str(file))
    assert (refused.exit_code, refused.stdout) == (2, "")
    said = refused.stderr.splitlines()
    return [one.removeprefix(f"care-gateway: {file}, ") for one in said if one.startswith("care-gateway: ")]


def test_every_mistake_is_reported_and_none_that_follows_from_another(
    command: Command, settings: Settings, tmp_path: Path
) -> None:
    """A session of a caregiver whose own line is refused is no second mistake, nor is its homework."""
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
        "line 1: position is missing",
        "line 11: caregiverId 77 is not known before this line",
        "line 12: id 1 is there already",
        "line 13: nmae is not known here",
    ]
    assert run_read(settings.database, is_empty())


def test_homework_of_a_refused_line_may_be_answered_below_it(command: Command, tmp_path: Path) -> None:
    wrong = an_assignment(1, submitDate=NOW)  # noticed when most of the line is read already

    found = refused_lines(
        command, tmp_path, *people(), *catalogue(), a_session(1), wrong, an_answer_set(1, assignment=1)
    )

    assert found == ["line 11: submitDate belongs to a COMPLETE assignment, and to no other"]


def test_the_first_twenty_mistakes_are_reported(command: Command, settings: Settings, tmp_path: Path) -> None:
    found = refused_lines(command, tmp_path, *({"kind": "module", "id": number} for number in range(1, 40)))

    assert found == [
        *(f"line {number}: name is missing" for number in range(1, 21)),
        "care-gateway: there may be more than these 20 mistakes",
    ]
    assert run_read(settings.database, is_empty())


def test_a_file_that_is_not_there_is_refused(command: Command, tmp_path: Path) -> None:
    refused = command("import", str(tmp_path / "none.jsonl"))

    assert refused.exit_code == 2
    sentence = f"Error: Invalid value for 'FILE': Path '{tmp_path}/none.jsonl' does not exist."
    assert refused.stderr.splitlines()[-1] == sentence


def test_import_into_a_database_without_tables_is_refused(command: Command, tmp_path: Path) -> None:
    file = tmp_path / "world.jsonl"
    file.write_bytes(b"\n".join(lines(a_world())))

    refused = command("import", str(file), database_url=f"sqlite:///{tmp_path}/none.db")

    assert_sentence(refused, f"there is no database at {tmp_path}/none.db; run `care-gateway migrate` first")


# --- demo ---


def test_demo_loads_its_world_once(command: Command, settings: Settings) -> None:
    first = command("demo")
    before = run_read(settings.database, numbers())
    second = command("demo")

    assert [(one.exit_code, one.stderr) for one in (first, second)] == [(0, "")] * 2
    assert run_read(settings.database, numbers()) == before
    accounts = command("account", "list").stdout
    assert f"caregiver\t1\t{CAREGIVER}\tenabled" in accounts
    assert f"client\t1\t{CLIENT}\tenabled" in accounts
    assert command("verify").stdout == "0 differences\n"


def test_demo_migrates_a_new_database(command: Command, tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/new/care.db"

    said = command("demo", database_url=url, host="127.0.0.9", port="8123")

    assert (said.exit_code, said.stderr) == (0, "")
    assert "http://127.0.0.9:8123/graphql" in said.stdout.split()
    assert run_read(url, stored_version()) == newest_version()
    assert not run_read(url, is_empty())


def test_demo_loads_nothing_where_somebody_is(command: Command, settings: Settings) -> None:
    load(settings.database, [a_caregiver(1)])

    said = command("demo")

    assert (said.exit_code, said.stderr) == (0, "")
    assert run_read(settings.database, numbers()) == (0, 0)


@pytest.mark.parametrize(
    "changed", [{"env": "production"}, {"token_key": "issuer.pem"}, {"token_jwks": "keys.json"}]
)
def test_demo_makes_nothing_where_it_is_refused(
    command: Command, tmp_path: Path, changed: dict[str, str]
) -> None:
    var = tmp_path / "var"

    refused = command("demo", database_url="", var=str(var), **changed)

    assert_sentence(
        refused,
        "`care-gateway demo` creates demo users and tokens, so it needs CARE_ENV=development and no "
        "CARE_TOKEN_KEY or CARE_TOKEN_JWKS; for production see docs/guides/operator.md",
    )
    assert not var.exists()


# --- verify ---


def test_verify_finds_a_kept_number_that_is_wrong(command: Command, settings: Settings) -> None:
    load(settings.database, a_world())
    session = table_of(Session)
    wrong = Statement(
        lambda kind: (
            update(session).where(session.c.id == 4).values(assignment_count=9, last_assignment_score=3)
        )
    )

    def plant() -> Operation[None]:
        yield wrong, {}

    run_write(settings.database, plant())

    said = command("verify")

    assert said.exit_code == 1
    assert said.stdout.splitlines() == [
        "session 4: assignment_count is 9, should be 1",
        "session 4: last_assignment_score is 3, should be None",
        "2 differences",
    ]


def test_verify_finds_nothing_where_nothing_is_wrong(command: Command, settings: Settings) -> None:
    load(settings.database, a_world())

    said = command("verify")

    assert (said.exit_code, said.output) == (0, "0 differences\n")


@pytest.mark.parametrize("kind", ["sqlite"], indirect=True)
def test_verify_tells_in_a_sentence_that_the_file_is_damaged(command: Command, settings: Settings) -> None:
    load(settings.database, a_world())
    [(page, size)] = raw.run(
        settings.database,
        "PRAGMA wal_checkpoint(TRUNCATE)",
        "SELECT rootpage, page_size FROM sqlite_schema, pragma_page_size WHERE name = 'assignment'",
    )
    with sqlite_path(settings.database).open("r+b") as file:
        file.seek((page - 1) * size)
        file.write(b"\xff" * size)

    assert_sentence(command("verify"), "database error: database disk image is malformed")
